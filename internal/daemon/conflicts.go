package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/qunerd/quner/internal/doctor"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/profiles"
)

// lookEvery is how many ticks there are to a look for other power daemons: they come and go with an installation, and
// the levers they move are guarded by the journal meanwhile.
const lookEvery = 10

// rivals is what the loop knows of services that do what quner does.
type rivals struct {
	watch *doctor.Watch
	now   []doctor.Conflict
	left  map[string]string // levers left to a service, by name: which
	ticks int               // since the last look
}

func newRivals(h *host.Host) rivals {
	return rivals{watch: doctor.NewWatch(h), left: map[string]string{}, ticks: lookEvery}
}

// noticeConflicts looks, at every tenth tick, which other power daemons run, and reports whether a lever has changed
// hands by that. Nobody's levers change while a sweep holds them.
func (d *Daemon) noticeConflicts(s *state) (changed bool) {
	if s.rivals.ticks++; s.rivals.ticks < lookEvery || s.sweep != nil {
		return false
	}
	s.rivals.ticks = 0
	before, now := s.rivals.now, s.rivals.watch.Look()
	s.rivals.now = now
	changed = s.share()
	for _, c := range now {
		if len(c.Contests) > 0 && !among(before, c) {
			d.log.Info("another power daemon runs", "daemon", c.Daemon, "unit", c.Unit, "pid", c.PID,
				"levers", c.Contests, "left_to_it", c.Certain(), "to_end_it", c.Remedy)
		}
	}
	for _, c := range before {
		if len(c.Contests) > 0 && !among(now, c) {
			d.log.Info("another power daemon has gone; its levers are quner's again", "daemon", c.Daemon, "levers", c.Contests)
		}
	}
	return changed
}

// among reports whether a service is in a list, be it as another process.
func among(all []doctor.Conflict, c doctor.Conflict) bool {
	return slices.ContainsFunc(all, func(o doctor.Conflict) bool { return o.Daemon == c.Daemon && o.Unit == c.Unit })
}

// share leaves the levers that another power daemon moves to it, and takes back those of one that has gone. What a person
// has decided stands. It reports whether anything changed hands; the next Apply makes it so.
func (s *state) share() (changed bool) {
	decided := s.modes.Owners()
	for _, l := range s.bank.Levers() {
		by, contested := doctor.Contested(s.rivals.now, l.Kind())
		was, name := s.rivals.left[l.Name()], l.Name()
		switch {
		case decided[name] != "":
			delete(s.rivals.left, name)
		case contested && was != by.Daemon:
			_ = s.bank.Leave(name, leftTo(by, l.Kind())) // the name comes from the bank
			s.rivals.left[name], changed = by.Daemon, true
		case !contested && was != "":
			_ = s.bank.Take(name)
			delete(s.rivals.left, name)
			changed = true
		}
	}
	return changed
}

// leftTo is what a lever says that is left to a service.
func leftTo(c doctor.Conflict, k levers.Kind) string {
	return fmt.Sprintf("left to %s, which runs as %s; sudo qunerctl levers take %s makes it quner's", c.Daemon, c.Unit, k)
}

// others reports whether a lever is somebody else's by decision or by who runs, rather than by having been moved.
func (s *state) others(lever string) bool {
	return s.rivals.left[lever] != "" || s.modes.Owners()[lever] == profiles.OwnerOthers
}

// Doctor examines the host: what it exposes, with reasons. It runs on the loop, which owns the levers.
func (d *Daemon) Doctor(ctx context.Context) (doctor.Report, error) {
	var report doctor.Report
	err := d.do(ctx, func(ctx context.Context, s *state) error {
		decided := map[string]string{}
		for name, o := range s.modes.Owners() {
			decided[name] = string(o)
		}
		report = doctor.Examine(ctx, d.host, doctor.View{
			Levers: s.bank.Levers(), States: s.bank.States(ctx), Missing: s.bank.Missing(), Conflicts: s.rivals.watch.Look(),
			Decided: decided, Served: true, Frozen: s.bank.Frozen(),
		}, d.meter)
		return nil
	})
	return report, err
}

// LeaveOthers leaves to others, for a command that runs with no daemon, the levers that a daemon would leave to them: by
// the owner's decision, or because another power daemon runs.
func LeaveOthers(h *host.Host, bank *levers.Bank, log *slog.Logger) error {
	s := &state{bank: bank, modes: profiles.NewModeStore(h.Var, log), rivals: newRivals(h)}
	if _, err := s.modes.Load(); err != nil {
		return fmt.Errorf("owners of levers: %w", err)
	}
	s.recallOwners()
	s.rivals.now = s.rivals.watch.Look()
	s.share()
	return nil
}
