package levers

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// run makes the step's write, if it has one, and brings the journal in memory up to what came of it.
func (b *Bank) run(ctx context.Context, s *step) {
	switch s.move {
	case toOther:
		b.log.Warn("lever yielded", "lever", s.name, "note", s.note)
	case toChosen:
		err := s.lever.Set(ctx, s.to)
		now, unread := s.lever.Get(ctx)
		b.settle(s, now, errors.Join(err, unread), unread == nil)
	case toOriginal:
		err := s.lever.Restore(ctx, s.to)
		if err == nil {
			b.log.Info("lever restored", "lever", s.name, "from", s.from, "to", s.to)
			b.forget(s.name)
			return
		}
		now, unread := s.lever.Get(ctx)
		b.settle(s, now, err, unread == nil)
	}
}

// settle notes what a lever has after a write. What is read back is ours, whatever was asked for; what nobody can read
// may be any value that was ours or was to be; and a lever that a refused write has left alone is held no more than it
// was before.
func (b *Bank) settle(s *step, now Value, err error, read bool) {
	e, asked := b.journal.find(s.name), s.to
	s.err = err
	if err != nil {
		s.to = s.from
		b.log.Error("lever not moved as wanted", "lever", s.name, "from", s.from, "to", asked, "reads", now, "err", err)
	}
	switch {
	case !read:
		return
	case err != nil && now == s.from && s.fresh:
		b.forget(s.name)
		return
	case err != nil && now == s.from:
		b.own(e, s.was)
		return
	}
	b.own(e, []Value{now})
	b.settled[s.name] = true
	s.to = now
	if err != nil {
		s.note = fmt.Sprintf("wanted %q", asked)
		return
	}
	b.log.Info("lever moved", "lever", s.name, "from", s.from, "to", now)
}

// own makes the given values those of quner.
func (b *Bank) own(e *entry, values []Value) {
	if !slices.Equal(e.Ours, values) {
		e.Ours = slices.Clone(values)
		b.touch(e)
	}
}
