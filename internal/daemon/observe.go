package daemon

import (
	"context"
	"fmt"
	"slices"

	"github.com/qunerd/quner/internal/levers"
)

// observing is why levers are not moved by anybody at present, as a refusal; nil if they are.
func (d *Daemon) observing() error {
	if d.opts.Observe == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrRefused, d.opts.Observe)
}

// observe logs what bringing a point into force would write, once until that is something else, and writes nothing.
func (d *Daemon) observe(ctx context.Context, s *state, p levers.Point) error {
	writes, err := s.bank.Plan(ctx, p)
	writes = slices.DeleteFunc(writes, func(w levers.Write) bool { return !w.Moved() })
	if slices.Equal(writes, s.wouldDo) {
		return err
	}
	s.wouldDo = writes
	for _, w := range writes {
		d.log.Info("would move a lever", "lever", w.Lever, "from", w.From, "to", w.To, "unit", w.Unit)
	}
	if len(writes) == 0 {
		d.log.Info("would move no lever")
	}
	return err
}
