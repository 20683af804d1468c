package levers

import (
	"context"
	"fmt"
	"slices"
)

// move is what is to be done with one lever.
type move uint8

const (
	toNothing  move = iota // it is as it should be, or left; a note or an error says why
	toChosen               // it is given a chosen value
	toOriginal             // it is given back what was found
	toFree                 // it has its original already: the entry goes
	toOther                // someone else has moved it: it is left, the entry goes
)

// step is one lever on its way. Its fields are filled by planning and corrected by running.
type step struct {
	lever    Lever // nil if it is not there
	name     string
	kind     Kind
	move     move
	from, to Value
	note     string
	err      error
	gone     bool // the lever is not there: an entry stays
	fresh    bool // no entry stood before
	was      []Value
}

func (s *step) unit() string {
	if s.lever == nil {
		return ""
	}
	return s.lever.Span().Unit
}

// told reports whether people want to hear of the step: it moves something, or has a remark.
func (s *step) told() bool {
	return s.note != "" || s.from != s.to && (s.move == toChosen || s.move == toOriginal)
}

func (s *step) write() Write {
	return Write{Lever: s.name, From: s.from, To: s.to, Unit: s.unit(), Note: s.note}
}

// plan looks at every lever that is in the point or held, in the order of writing. It changes nothing. force
// is for those that go back to their originals.
func (b *Bank) plan(ctx context.Context, p Point, force bool) []step {
	var names []string
	for _, s := range p {
		if !slices.Contains(names, s.Lever) {
			names = append(names, s.Lever)
		}
	}
	for _, e := range b.journal.entries {
		if !slices.Contains(names, e.Lever) {
			names = append(names, e.Lever)
		}
	}
	b.refresh(ctx, names)
	steps := make([]step, 0, len(names))
	for _, name := range names {
		v, wanted := p.Value(name)
		held := b.journal.find(name)
		switch left := b.others[name]; {
		case left != "" && held == nil:
			s := b.look(ctx, name)
			s.note = left
			steps = append(steps, s)
		case wanted && left == "":
			steps = append(steps, b.planChosen(ctx, name, v))
		default:
			steps = append(steps, b.planBack(ctx, *held, force))
		}
	}
	slices.SortStableFunc(steps, func(x, y step) int { return before(x.kind, x.name, y.kind, y.name) })
	return steps
}

// look begins a step: the lever, and what it has now.
func (b *Bank) look(ctx context.Context, name string) step {
	s := step{lever: b.lever(name), name: name}
	if s.lever == nil {
		s.gone, s.err = true, b.unknown(name)
		return s
	}
	s.kind = s.lever.Kind()
	s.from, s.err = s.lever.Get(ctx)
	s.to = s.from
	return s
}

func (b *Bank) planChosen(ctx context.Context, name string, v Value) step {
	s := b.look(ctx, name)
	if s.err != nil {
		return s
	}
	if why := b.yielded[name]; why != "" {
		s.note = why
		return s
	}
	e := b.journal.find(name)
	s.fresh = e == nil
	found := s.from
	if e != nil {
		if !b.stillOurs(s.lever, *e, s.from) {
			return leave(s, *e)
		}
		s.was, found = slices.Clone(e.Ours), e.Original
	}
	rebase(s.lever, found)
	want, note, err := s.lever.Span().Clamp(v)
	if err != nil {
		s.err = fmt.Errorf("%s: %w", name, err)
		return s
	}
	s.note = note
	if !s.lever.Same(s.from, want) {
		s.move, s.to = toChosen, want
	}
	return s
}

// stillOurs reports whether a held lever has a value of quner's. An entry that this process found on disk may be of one
// that ended between the journal and the write, or in the midst of restoring: then the original is as good.
func (b *Bank) stillOurs(l Lever, e entry, now Value) bool {
	if slices.ContainsFunc(e.Ours, func(v Value) bool { return l.Same(v, now) }) {
		return true
	}
	return !b.settled[e.Lever] && l.Same(e.Original, now)
}

// leave makes the step one that leaves a lever to who has moved it.
func leave(s step, e entry) step {
	s.move, s.to = toOther, s.from
	s.note = fmt.Sprintf("yielded: someone else has set %q", s.from)
	if n := len(e.Ours); n > 0 {
		s.note += fmt.Sprintf(" where quner had %q", e.Ours[n-1])
	}
	return s
}

// planBack puts one held lever back to its original, with force even if someone else has moved it.
func (b *Bank) planBack(ctx context.Context, e entry, force bool) step {
	s := b.look(ctx, e.Lever)
	s.kind, s.was = e.Kind, slices.Clone(e.Ours)
	switch {
	case s.err != nil:
	case s.from == e.Original:
		s.move = toFree
	case force || b.stillOurs(s.lever, e, s.from) || s.lever.Same(e.Original, s.from):
		s.move, s.to = toOriginal, e.Original
	default:
		s = leave(s, e)
	}
	return s
}

// record brings the journal up to what a step is about to do.
func (b *Bank) record(s *step) {
	switch s.move {
	case toChosen:
		if s.fresh {
			b.journal.entries = append(b.journal.entries, b.newEntry(s))
		}
		e := b.journal.find(s.name)
		e.Ours = append(slices.DeleteFunc(e.Ours, func(v Value) bool { return v == s.to }), s.to)
		b.touch(e)
	case toFree:
		b.forget(s.name)
	case toOther:
		b.forget(s.name)
		b.yielded[s.name] = s.note
	}
}

func (b *Bank) newEntry(s *step) entry {
	e := entry{Lever: s.name, Kind: s.kind, Original: s.from, Boot: b.host.BootID(), Unit: s.unit()}
	if a, ok := s.lever.(addressed); ok {
		e.address = a.address()
	}
	if c, ok := classOf(s.kind); ok && c.load != nil {
		e.Load = c.load(b.host)
	}
	return e
}

func (b *Bank) touch(e *entry) {
	e.Generation = b.journal.generation + 1
	b.dirty = true
}

// forget ends the holding of a lever.
func (b *Bank) forget(lever string) {
	b.journal.drop(lever)
	delete(b.settled, lever)
	b.dirty = true
}
