package levers

import (
	"context"
	"fmt"
	"slices"

	"github.com/qunerd/quner/internal/host"
)

// dependent is a lever that another one, its master, decides while that has a certain value: an energy preference under
// the governor performance. Then a write is refused, and what is read is the master's doing and nobody's choice. A master
// that lets go may leave that value behind. So
//
//   - it is left, with a remark, while its master decides it and goes on to;
//   - it is looked at and moved only after a master that lets go of it;
//   - when a choice of quner's for the master takes hold of it, it goes back to its original before, since it could not
//     afterwards, and the original is journalled even if the lever was never moved.
type dependent interface {
	Lever
	master() string                           // the master's name
	masterNow(context.Context) (Value, error) // what the master has, which may be no lever here
	impliedBy(master Value) bool              // whether the master decides at this value
}

// depend brings the steps of dependent levers in line with their masters'. Those that have to wait for their masters come
// back apart.
func (b *Bank) depend(ctx context.Context, p Point, all []step, in intent) (steps, late []step) {
	masters := map[string]step{}
	for _, s := range all {
		masters[s.name] = s
	}
	for _, s := range b.withCaught(ctx, all) {
		d, ok := s.lever.(dependent)
		if !ok || s.err != nil {
			steps = append(steps, s)
			continue
		}
		master := masters[d.master()]
		now, err := d.masterNow(ctx)
		if err != nil {
			s.move, s.to, s.err = toNothing, s.from, err
			steps = append(steps, s)
			continue
		}
		then := now
		if master.moves() {
			then = master.to
		}
		_, wanted := p.Value(s.name)
		switch {
		case s.yielded && s.move != toOriginal:
		case s.yielded && d.impliedBy(now) && d.impliedBy(then):
			s.imply(then)
		case s.yielded && !d.impliedBy(now):
			s.early = d.impliedBy(then)
		case d.impliedBy(now) && d.impliedBy(then):
			b.stayImplied(&s, master, then, wanted)
		case d.impliedBy(now):
			late = append(late, b.predict(ctx, p, s, in))
			continue
		case d.impliedBy(then):
			s = b.planCaught(ctx, s, master, in)
			if wanted {
				s.note, s.implied = impliedNote(then), true
			}
		}
		steps = append(steps, s)
	}
	return steps, late
}

// moves reports whether the step gives its lever another value.
func (s *step) moves() bool { return s.err == nil && (s.move == toChosen || s.move == toOriginal) }

// withCaught adds the dependent levers that no step is about and that a master's step takes hold of.
func (b *Bank) withCaught(ctx context.Context, all []step) []step {
	caught := slices.Clone(all)
	for _, l := range b.levers {
		d, ok := l.(dependent)
		if !ok || slices.ContainsFunc(all, func(s step) bool { return s.name == l.Name() }) {
			continue
		}
		takes := func(s step) bool {
			return s.name == d.master() && s.move == toChosen && s.err == nil && d.impliedBy(s.to) && !d.impliedBy(s.from)
		}
		if slices.ContainsFunc(all, takes) {
			caught = append(caught, b.look(ctx, l.Name(), false))
		}
	}
	return caught
}

// planCaught is the step of a lever that its master is about to take hold of. After the master has gone back to an
// original there is nothing to hold the lever for.
func (b *Bank) planCaught(ctx context.Context, s step, master step, in intent) step {
	e := b.journal.find(s.name)
	if e == nil {
		s.move, s.to, s.fresh = toHold, s.from, true
	} else {
		s = b.planBack(ctx, *e, in)
	}
	s.early, s.hold = true, master.move == toChosen
	switch {
	case s.err != nil:
	case !s.hold && e == nil:
		s.move = toNothing
	case s.hold && s.move == toFree:
		s.move = toHold
	case s.hold && s.move == toOther:
		s.move, s.fresh, s.note = toHold, true, ""
	}
	return s
}

// stayImplied is the step of a lever that its master decides before and after. A held one that has nothing but its
// original to go back to is let go with its master.
func (b *Bank) stayImplied(s *step, master step, then Value, wanted bool) {
	e := b.journal.find(s.name)
	untouched := e != nil && !slices.ContainsFunc(e.Ours, func(v Value) bool { return v != e.Original && v != fastest })
	kept := b.journal.find(master.name) != nil && (master.move == toNothing || master.move == toChosen)
	switch {
	case wanted || !kept && !untouched:
		s.imply(then)
	case kept:
		s.move, s.to, s.note = toNothing, s.from, ""
	default:
		s.move, s.to, s.note = toFree, s.from, ""
	}
}

func impliedNote(master Value) string { return fmt.Sprintf("implied by the governor %q", master) }

// imply makes the step one that leaves its lever to the master.
func (s *step) imply(master Value) {
	s.move, s.to, s.stays, s.implied = toNothing, s.from, true, true
	s.note = impliedNote(master)
}

// predict is the step of a lever whose master will have let go of it. What it reads now is not someone else's choice.
func (b *Bank) predict(ctx context.Context, p Point, s step, in intent) step {
	e := b.journal.find(s.name)
	if e == nil || s.move != toOther {
		return s
	}
	in.behind = true
	if _, wanted := p.Value(s.name); !wanted {
		return b.planBack(ctx, *e, in)
	}
	was := e.Ours
	e.Ours = append(slices.Clone(was), s.from)
	defer func() { e.Ours = was }()
	return b.planOne(ctx, p, s.name, in)
}

// replan looks at the levers of late steps again, once their masters have been moved. What is read of one that is held is
// what its master has left behind.
func (b *Bank) replan(ctx context.Context, p Point, late []step, in intent) []step {
	in.behind = true
	steps := make([]step, 0, len(late))
	for _, s := range late {
		if e := b.journal.find(s.name); e != nil {
			if now, err := s.lever.Get(ctx); err == nil && !b.stillOurs(s.lever, *e, now) {
				b.own(e, append(slices.Clone(e.Ours), now))
			}
		}
		steps = append(steps, b.planOne(ctx, p, s.name, in))
	}
	steps, again := b.depend(ctx, p, steps, in)
	for _, s := range again { // a master that was not moved after all
		s.imply(fastest)
		steps = append(steps, s)
	}
	return steps
}

// excuse turns an error that says that the lever is not to be moved at present into a remark.
func (s *step) excuse() bool {
	switch host.ReasonOf(s.err) {
	case host.Suspended:
		s.wait()
	case host.ImpliedByOther:
		s.note, s.err, s.stays, s.implied = s.err.Error(), nil, true, true
	default:
		return false
	}
	return true
}

// implied returns what the master of a lever has, while that decides the lever; else "".
func implied(ctx context.Context, l Lever) Value {
	d, ok := l.(dependent)
	if !ok {
		return ""
	}
	if now, err := d.masterNow(ctx); err == nil && d.impliedBy(now) {
		return now
	}
	return ""
}
