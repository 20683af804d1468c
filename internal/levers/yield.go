package levers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// yield is a lever that was held and that someone else has moved. Its entry has left the journal; the Bank keeps what was
// in it as long as it lives, so that force can still put the original back. A yield ends when the lever is taken, when
// its value is the original again, or with the Bank.
type yield struct {
	why   string // as it was said
	entry entry  // what the journal had
	// undone is true of a lever whose original someone else had put back themselves, which began the yield and so does
	// not end it: what a person has undone is not done again at the next tick. A letting go of all levers ends it.
	undone bool
}

// over reports whether a value ends the yield.
func (y yield) over(l Lever, now Value) bool { return !y.undone && l.Same(y.entry.Original, now) }

// stands reports whether someone else has a lever, and why.
func (b *Bank) stands(l Lever, now Value) (why string) {
	if y, ok := b.yielded[l.Name()]; ok && !y.over(l, now) {
		return y.why
	}
	return ""
}

// giveUp ends the holding of a lever that reads as nobody here has set it.
func (b *Bank) giveUp(s *step) {
	e := *b.journal.find(s.name)
	e.Ours = slices.Clone(e.Ours)
	b.yielded[s.name] = yield{why: s.note, entry: e, undone: s.lever.Same(e.Original, s.from)}
	b.forget(s.name)
}

// yieldedNames are the levers that are yielded and not held.
func (b *Bank) yieldedNames() []string {
	names := slices.Sorted(maps.Keys(b.yielded))
	return slices.DeleteFunc(names, func(n string) bool { return b.journal.find(n) != nil })
}

// planYielded is the step of a yielded lever when all levers are let go: it is left, with a remark, or with force put
// back. Nothing is woken but to be put back.
func (b *Bank) planYielded(ctx context.Context, name string, y yield, in intent) step {
	s := b.look(ctx, name, in.wake && in.force)
	s.kind, s.yielded = y.entry.Kind, true
	original := y.entry.Original
	switch {
	case s.err != nil && in.force:
		s.wait()
	case s.err != nil:
		s.note = fmt.Sprintf("someone else has it, and it is not read: %v; it was found as %s", s.err, quantity(original, y.entry.Unit))
		s.err, s.gone = nil, false
	case s.from == original:
		s.move = toFree
	case in.force:
		s.move, s.to, s.fresh = toOriginal, original, true
	case s.lever.Same(s.from, original):
		s.move = toFree
	default:
		s.note = leftNote(s.from, y.entry)
	}
	return s
}

// leftNote says of a lever that is not put back what it has, what it had, and the line for a shell that brings that back.
// While this Bank lives, force does it too; the line holds with no Bank at all.
func leftNote(now Value, e entry) string {
	note := fmt.Sprintf("someone else has set %s; it was found as %s", quantity(now, e.Unit), quantity(e.Original, e.Unit))
	if lines := linesOf(e); len(lines) == 1 {
		note += "; to put it back: " + lines[0]
	}
	return note
}

func quantity(v Value, unit string) string { return strings.TrimSpace(fmt.Sprintf("%q %s", v, unit)) }

// announceForced puts the originals that are about to be forced back on disk: they had left the journal. Those that
// cannot be journalled are not moved.
func (b *Bank) announceForced(steps []step) {
	forced := func(s step) bool { return s.yielded && s.move == toOriginal }
	if !slices.ContainsFunc(steps, forced) {
		return
	}
	was, dirty := b.journal.clone(), b.dirty
	for i := range steps {
		if forced(steps[i]) {
			b.record(&steps[i])
		}
	}
	err := b.save(true)
	if err == nil {
		return
	}
	b.journal, b.dirty = was, dirty
	for i := range steps {
		if forced(steps[i]) {
			steps[i].move, steps[i].to, steps[i].err = toNothing, steps[i].from, err
		}
	}
}

// recordForced takes the entry of a yielded lever back into the journal. What is there now is nobody's here: only the
// original is to be ours.
func (b *Bank) recordForced(s *step) {
	if b.journal.find(s.name) != nil {
		return
	}
	e := b.yielded[s.name].entry
	e.Ours = []Value{s.to}
	b.journal.entries = append(b.journal.entries, e)
	b.touch(b.journal.find(s.name))
}

// between reports whether what is read after a write is somebody else's, who has written in between. The kernel takes a
// choice or does not, so any third one is. Numbers are another matter; see ranged.lands.
func between(ctx context.Context, s *step, now Value) bool {
	switch l := s.lever.(type) {
	case interface {
		lands(from, asked, now Value) bool
	}:
		return !l.lands(s.from, s.to, now)
	default:
		return now != s.to && now != s.from && implied(ctx, l) == ""
	}
}

// overtaken leaves a lever to who has written in between. One that was on its way back keeps its original in the journal,
// for that is not reached; what it reads is not ours, so a further restore leaves it, and says so.
func (b *Bank) overtaken(s *step, now Value, err error) {
	asked, e := s.to, b.journal.find(s.name)
	if s.move == toOriginal {
		s.to, s.err = s.from, err
		b.complain(s, asked, now)
		if s.fresh {
			b.forget(s.name)
		} else {
			b.own(e, s.was)
		}
		return
	}
	s.note = fmt.Sprintf("yielded: someone else has set %q while quner set %q", now, asked)
	s.from, s.to, s.err = now, now, nil
	b.giveUp(s)
	b.log.Warn("lever yielded", "lever", s.name, "note", s.note)
}
