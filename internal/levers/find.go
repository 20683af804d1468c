package levers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/qunerd/quner/internal/host"
)

// discover looks for levers. Those that are known stay the same ones, for they know which of their calls are still out
// and what they were found with. It returns the new ones.
func (b *Bank) discover(ctx context.Context) []Lever {
	found, missing := Discover(ctx, b.host)
	var fresh []Lever
	for _, l := range found {
		if _, retired := b.retired[l.Name()]; retired || b.lever(l.Name()) != nil {
			continue
		}
		if r, ok := l.(interface{ allowRaise() }); ok && b.opts.AllowRaise {
			r.allowRaise()
		}
		fresh = append(fresh, l)
	}
	b.levers = append(b.levers, fresh...)
	slices.SortStableFunc(b.levers, inOrder)
	b.missing = slices.DeleteFunc(missing, func(m Missing) bool {
		_, retired := b.retired[m.Name]
		return retired || b.lever(m.Name) != nil
	})
	for _, m := range b.retired {
		b.missing = append(b.missing, m)
	}
	slices.SortStableFunc(b.missing, func(x, y Missing) int { return before(x.Kind, x.Name, y.Kind, y.Name) })
	return fresh
}

// Refresh looks for levers that have appeared since the Bank was opened, such as those of a board that has woken or of a
// CPU that is online again, and reports whether there are any.
func (b *Bank) Refresh(ctx context.Context) bool {
	fresh := b.discover(ctx)
	for _, l := range fresh {
		b.rebase(l)
	}
	return len(fresh) > 0
}

// refresh looks anew for the levers that are asked for and were not there.
func (b *Bank) refresh(ctx context.Context, names []string) {
	if slices.ContainsFunc(names, func(n string) bool { return b.lever(n) == nil }) {
		b.Refresh(ctx)
	}
}

// retire takes a lever out of use until the next boot.
func (b *Bank) retire(l Lever, r host.Reason, err error) {
	m := Missing{l.Name(), l.Kind(), r, err.Error()}
	b.retired[m.Name] = m
	b.levers = slices.DeleteFunc(b.levers, func(l Lever) bool { return l.Name() == m.Name })
	b.missing = append(b.missing, m)
}

func (b *Bank) lever(name string) Lever {
	i := slices.IndexFunc(b.levers, func(l Lever) bool { return l.Name() == name })
	if i < 0 {
		return nil
	}
	return b.levers[i]
}

// unknown says why a lever is not there, as far as discovery knew. While boards sleep, none is known by its name.
func (b *Bank) unknown(name string) error {
	for _, m := range b.missing {
		switch {
		case m.Reason == host.Suspended && (m.Name == name || m.Kind == GPUCap && strings.HasPrefix(name, boardPrefix)):
			return fmt.Errorf("%s: %w: %w (%s)", name, ErrUnknown, host.ErrSuspended, m.Detail)
		case m.Name == name:
			return fmt.Errorf("%s: %w: %s (%s)", name, ErrUnknown, m.Reason, m.Detail)
		}
	}
	return fmt.Errorf("%s: %w", name, ErrUnknown)
}

// Due reports whether a device has woken by itself for which the last Apply had a value waiting. Apply the point again
// then. It wakes nothing, and costs little.
func (b *Bank) Due(ctx context.Context) bool {
	for name := range b.waiting {
		switch l := b.lever(name).(type) {
		case *amdCap:
			if l.asleep(ctx) == nil {
				return true
			}
		case nil:
			awake := strings.HasPrefix(name, cardPrefix) && !cardAsleep(b.host, name) ||
				strings.HasPrefix(name, boardPrefix) && len(b.host.GPUs.Waiting()) == 0
			if awake && b.Refresh(ctx) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// wakeForOriginals wakes the sleeping devices that have an original in the journal and are no levers because they sleep.
// When the host is put back for good an original outranks sleep.
func (b *Bank) wakeForOriginals(ctx context.Context) {
	for _, e := range b.journal.entries {
		if b.lever(e.Lever) != nil || !errors.Is(b.unknown(e.Lever), host.ErrSuspended) {
			continue
		}
		var err error
		switch {
		case e.Kind == AMDCap:
			err = wakeAMDCard(ctx, b.host, e.Lever)
		case len(b.host.GPUs.Waiting()) > 0:
			err = b.host.GPUs.Wake(ctx)
		}
		b.log.Info("a sleeping device is woken to get its original back", "lever", e.Lever, "err", err)
	}
}
