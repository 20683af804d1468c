package levers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/qunerd/quner/internal/host"
)

// move is what is to be done with one lever.
type move uint8

const (
	toNothing  move = iota // it is as it should be, or left; a note or an error says why
	toChosen               // it is given a chosen value
	toOriginal             // it is given back what was found
	toFree                 // it has its original already: the entry goes
	toHold                 // it is only journalled: another lever is about to decide it
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
	gone     bool   // the lever is not there: an entry stays
	stays    bool   // the lever is not to be moved at present, for a reason in note: an entry stays
	implied  bool   // another lever decides it
	early    bool   // it goes before its master
	hold     bool   // it stays journalled once it has its original
	fresh    bool   // no entry stood before
	yielded  bool   // someone else has moved it before
	regained bool   // and they have put its original back since
	left     string // what people are told of a lever that someone else has and that is not put back
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

// intent is what a plan may do beside what its point says.
type intent struct {
	force bool // originals are put back even where someone else has moved the lever
	wake  bool // a sleeping device is woken for its original
	// behind is true once the masters have been moved: what a held lever reads is what they have left behind.
	behind bool
}

// plan looks at every lever that is in the point or held, in the order of writing. It changes nothing. The late steps are
// predictions: of levers that cannot be looked at before the others are made, see dependent.
func (b *Bank) plan(ctx context.Context, p Point, in intent) (steps, late []step) {
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
	if len(p) == 0 { // all levers are let go, and who asks for that wants to hear what is not as found
		names = append(names, b.yieldedNames()...)
	}
	b.refresh(ctx, names)
	for _, name := range names {
		steps = append(steps, b.planOne(ctx, p, name, in))
	}
	steps, late = b.depend(ctx, p, steps, in)
	slices.SortStableFunc(steps, func(x, y step) int {
		return cmp.Or(first(x.early, y.early), before(x.kind, x.name, y.kind, y.name))
	})
	return steps, late
}

func (b *Bank) planOne(ctx context.Context, p Point, name string, in intent) step {
	v, wanted := p.Value(name)
	held := b.journal.find(name)
	y, yielded := b.yielded[name]
	switch left := b.others[name]; {
	case yielded && held == nil && !wanted:
		return b.planYielded(ctx, name, y, in)
	case left != "" && held == nil:
		s := b.look(ctx, name, false)
		s.note = left
		return s
	case wanted && left == "":
		return b.planChosen(ctx, name, v)
	}
	return b.planBack(ctx, *held, in)
}

// look begins a step: the lever, and what it has now.
func (b *Bank) look(ctx context.Context, name string, wake bool) step {
	s := step{lever: b.lever(name), name: name}
	if s.lever == nil {
		s.gone, s.err = true, b.unknown(name)
		return s
	}
	s.kind = s.lever.Kind()
	if w, ok := s.lever.(interface {
		wake(context.Context) (Value, error)
	}); ok && wake {
		s.from, s.err = w.wake(ctx)
	} else {
		s.from, s.err = s.lever.Get(ctx)
	}
	s.to, s.gone = s.from, gone(s.err)
	return s
}

// wait turns the error of a device that sleeps into a remark: what was wanted of it waits.
func (s *step) wait() {
	if errors.Is(s.err, host.ErrSuspended) {
		s.note, s.err, s.gone, s.stays = "waits: "+s.err.Error(), nil, false, true
	}
}

func (b *Bank) planChosen(ctx context.Context, name string, v Value) step {
	s := b.look(ctx, name, false)
	if s.err != nil {
		s.wait()
		return s
	}
	if why := b.stands(s.lever, s.from); why != "" {
		s.note = why
		return s
	}
	s.regained = true
	e := b.journal.find(name)
	s.fresh = e == nil
	found := s.from
	switch {
	case e == nil:
	case b.stillOurs(s.lever, *e, s.from):
		s.was, found = slices.Clone(e.Ours), e.Original
	case b.taken[name] && !s.lever.Same(s.from, v):
		s.fresh = true // what is found now is someone else's, and is what this lever goes back to
	default:
		return leave(s, *e)
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
	s.move, s.to, s.left = toOther, s.from, leftNote(s.from, e)
	s.note = fmt.Sprintf("yielded: someone else has set %q", s.from)
	if n := len(e.Ours); n > 0 {
		s.note += fmt.Sprintf(" where quner had %q", e.Ours[n-1])
	}
	return s
}

// planBack puts one held lever back to its original, with force even if someone else has moved it.
func (b *Bank) planBack(ctx context.Context, e entry, in intent) step {
	s := b.look(ctx, e.Lever, in.wake)
	s.kind, s.was = e.Kind, slices.Clone(e.Ours)
	switch {
	case s.err != nil:
		s.wait()
	case s.from == e.Original:
		s.move = toFree
	case in.force || in.behind || b.stillOurs(s.lever, e, s.from) || s.lever.Same(e.Original, s.from):
		s.move, s.to = toOriginal, e.Original
	default:
		s = leave(s, e)
	}
	return s
}

// record brings the journal up to what a step is about to do.
func (b *Bank) record(s *step) {
	if s.stays && !s.implied {
		b.waiting[s.name] = true
	}
	if s.regained {
		delete(b.yielded, s.name)
	}
	switch s.move {
	case toChosen:
		if s.fresh {
			b.forget(s.name)
			b.journal.entries = append(b.journal.entries, b.newEntry(s))
		}
		e := b.journal.find(s.name)
		if i, ok := s.lever.(interface{ instead(Value) (Value, bool) }); ok {
			if v, ok := i.instead(s.to); ok {
				e.Ours = append(e.Ours, v)
			}
		}
		e.Ours = append(slices.DeleteFunc(e.Ours, func(v Value) bool { return v == s.to }), s.to)
		b.touch(e)
	case toHold:
		b.recordHold(s)
	case toOriginal:
		if s.yielded {
			b.recordForced(s)
		}
		b.recordHold(s)
	case toFree:
		b.forget(s.name)
		if s.yielded {
			delete(b.yielded, s.name)
		}
	case toOther:
		b.giveUp(s)
	}
}

// recordHold journals a lever that its master is about to decide: whatever that leaves behind is quner's doing.
func (b *Bank) recordHold(s *step) {
	if !s.hold {
		return
	}
	if s.fresh {
		b.forget(s.name)
		b.journal.entries = append(b.journal.entries, b.newEntry(s))
	}
	e := b.journal.find(s.name)
	for _, v := range []Value{e.Original, fastest} {
		if !slices.Contains(e.Ours, v) {
			b.own(e, append(slices.Clone(e.Ours), v))
		}
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

// forget ends the holding of a lever, if it is held.
func (b *Bank) forget(lever string) {
	if b.journal.find(lever) == nil {
		return
	}
	b.journal.drop(lever)
	delete(b.settled, lever)
	b.dirty = true
}
