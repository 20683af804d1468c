package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/profiles"
)

// leftByOwner is what a lever says that its owner has given to others.
const leftByOwner = "left to others by its owner; qunerctl levers take gives it back to quner"

// SetLeverOwner takes levers for quner, or leaves them to others: then the value found is put back and left alone. name
// is a lever's, the beginning of one, a range of them, or a kind's for all of its levers. What is decided survives the
// daemon.
func (d *Daemon) SetLeverOwner(ctx context.Context, c Caller, name string, o profiles.Owner, dryRun bool) ([]string, []levers.Write, error) {
	var names []string
	var writes []levers.Write
	err := d.do(ctx, func(ctx context.Context, s *state) error {
		var err error
		if names, err = s.named(name); err != nil {
			return err
		}
		if s.sweep != nil {
			return ErrBusy
		}
		bringBack := s.owners()
		s.assign(names, o)
		if dryRun {
			writes, err = s.planOwners(ctx, d)
			bringBack()
			return err
		}
		if err := s.modes.SetOwner(o, names...); err != nil {
			bringBack()
			return fmt.Errorf("owner of %s: not on disk, so nothing is changed: %w", name, err)
		}
		a := c.author(fmt.Sprintf("levers: %s is for %s", name, o))
		writes, err = d.apply(ctx, s, a)
		s.remember(a, err)
		d.publish(s)
		return err
	})
	return names, writes, err
}

// planOwners works out the writes that follow from who owns what now.
func (s *state) planOwners(ctx context.Context, d *Daemon) ([]levers.Write, error) {
	point, _ := d.target(ctx, s)
	return s.bank.Plan(ctx, point)
}

// assign tells the bank who owns levers.
func (s *state) assign(names []string, o profiles.Owner) {
	for _, name := range names {
		delete(s.rivals.left, name)
		if o == profiles.OwnerOthers {
			_ = s.bank.Leave(name, leftByOwner) // the name is a lever's: it comes from the bank
		} else {
			_ = s.bank.Take(name)
		}
	}
}

// owners notes whose each lever is and returns what brings that back.
func (s *state) owners() (bringBack func()) {
	bank, left := s.bank.Owners(), maps.Clone(s.rivals.left)
	return func() {
		bank()
		s.rivals.left = left
	}
}

// recallOwners tells a new bank which levers were left to others before this daemon. To the bank the rest is quner's; what
// was moved while no daemon ran is not taken by that, since nobody asks for it now.
func (s *state) recallOwners() {
	known := s.bank.Levers()
	for name, o := range s.modes.Owners() {
		if o == profiles.OwnerOthers && slices.ContainsFunc(known, func(l levers.Lever) bool { return l.Name() == name }) {
			s.assign([]string{name}, o)
		}
	}
}
