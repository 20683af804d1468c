package levers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/qunerd/quner/internal/host"
)

// run makes the step's write, if it has one, and brings the journal in memory up to what came of it.
func (b *Bank) run(ctx context.Context, s *step) {
	switch s.move {
	case toOther:
		b.log.Warn("lever yielded", "lever", s.name, "note", s.note)
	case toChosen:
		err := s.lever.Set(ctx, s.to)
		now, unread := s.lever.Get(ctx)
		b.settle(ctx, s, now, errors.Join(err, unread), unread == nil)
		if errors.Is(err, errLocked) && b.journal.find(s.name) == nil {
			b.retire(s.lever, host.BIOSLocked, err)
		}
	case toOriginal:
		err := s.lever.Restore(ctx, s.to)
		if err == nil {
			b.content(s)
			b.log.Info("lever restored", "lever", s.name, "from", s.from, "to", s.to)
			if s.hold {
				b.own(b.journal.find(s.name), []Value{s.to, fastest})
				return
			}
			b.forget(s.name)
			if s.yielded {
				delete(b.yielded, s.name)
			}
			return
		}
		now, unread := s.lever.Get(ctx)
		b.settle(ctx, s, now, err, unread == nil)
	}
}

// settle notes what a lever has after a write. What is read back is ours where it can come of what was asked for; what nobody can read
// may be any value that was ours or was to be; and a lever that a refused write has left alone is held no more than it
// was before.
func (b *Bank) settle(ctx context.Context, s *step, now Value, err error, read bool) {
	if read && between(ctx, s, now) {
		b.overtaken(s, now, err)
		return
	}
	e, asked := b.journal.find(s.name), s.to
	s.err = err
	if err != nil {
		s.to = s.from
		b.complain(s, asked, now)
	} else {
		b.content(s)
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
	if !s.lever.Same(now, asked) {
		s.note = fmt.Sprintf("%q is refused, although it is in the range; the next value inside is not", asked)
	}
	b.log.Info("lever moved", "lever", s.name, "from", s.from, "to", now)
}

// complain says that a lever is not moved as wanted: once when that begins, not each time, and for a read-only /sys once
// for all levers. What is to be expected of a lever at present is a remark and no error.
func (b *Bank) complain(s *step, asked, now Value) {
	reason, err, subject := host.ReasonOf(s.err), s.err, s.name
	if reason == host.ReadOnlySysfs {
		subject = ""
	}
	level := slog.LevelError
	if s.excuse() {
		level = slog.LevelInfo
		if !s.implied {
			b.waiting[s.name] = true
		}
	}
	if said, ok := b.trouble[subject]; ok && said == reason {
		return
	}
	b.trouble[subject] = reason
	b.log.Log(context.Background(), level, "lever not moved as wanted",
		"lever", s.name, "from", s.from, "to", asked, "reads", now, "reason", reason, "err", err)
}

// content ends what was complained of.
func (b *Bank) content(s *step) {
	for _, subject := range []string{s.name, ""} {
		if reason, ok := b.trouble[subject]; ok {
			delete(b.trouble, subject)
			b.log.Info("lever is moved again", "lever", s.name, "was", reason)
		}
	}
}

// own makes the given values those of quner.
func (b *Bank) own(e *entry, values []Value) {
	if !slices.Equal(e.Ours, values) {
		e.Ours = slices.Clone(values)
		b.touch(e)
	}
}
