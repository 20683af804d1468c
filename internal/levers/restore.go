package levers

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Restored is what putting the host back came to, or from a plan would come to.
type Restored struct {
	Writes []Write `json:"writes"`
	Left   []Left  `json:"left"`
}

// Left is a lever that was not put back.
type Left struct {
	Lever string `json:"lever"`
	Why   string `json:"why"`
	Kept  bool   `json:"kept"` // the journal still has its original; else it is another's now
}

// PlanRestore returns what Restore would do, and writes nothing.
func (b *Bank) PlanRestore(ctx context.Context, force bool) (Restored, error) {
	if b.frozen != nil {
		return Restored{}, b.frozen
	}
	var r Restored
	steps, late := b.plan(ctx, nil, intent{force: force})
	for _, s := range slices.Concat(steps, late) {
		r.add(s)
	}
	return r, nil
}

// Restore puts every held lever back to its original, in the order of writing, and reads it back. A sleeping device is
// woken for that, and counted. What someone else has moved since, or had moved and was yielded to before, is left and let
// go, unless force says to override; a lever that is not there, is decided by another one at present, or does not take its original, keeps its journal entry.
// Nothing to put back is success. The error joins what the host refused and what the journal did; levers that are gone,
// decided by others or another's are in Left alone. At shutdown the context must be one that has not ended.
func (b *Bank) Restore(ctx context.Context, force bool) (Restored, error) {
	if b.frozen != nil {
		return Restored{}, b.frozen
	}
	in := intent{force: force, wake: true}
	b.wakeForOriginals(ctx)
	var r Restored
	steps, late := b.plan(ctx, nil, in)
	errs := []error{b.putBack(ctx, steps, &r)}
	if len(late) > 0 {
		errs = append(errs, b.putBack(ctx, b.replan(ctx, nil, late, in), &r))
	}
	clear(b.taken)
	clear(b.waiting)
	return r, errors.Join(append(errs, b.save(true))...)
}

func (b *Bank) putBack(ctx context.Context, steps []step, r *Restored) error {
	b.announceForced(steps)
	var errs []error
	for i := range steps {
		s := &steps[i]
		b.record(s)
		b.run(ctx, s)
		r.add(*s)
		if !s.gone {
			errs = append(errs, s.err)
		}
	}
	return errors.Join(errs...)
}

// add files a step under what was done or what was left.
func (r *Restored) add(s step) {
	switch {
	case s.gone && s.yielded:
		r.Left = append(r.Left, Left{s.name, s.err.Error(), false})
	case s.gone:
		r.Left = append(r.Left, Left{s.name, fmt.Sprintf("it is not there; the journal keeps its original: %v", s.err), true})
	case s.err != nil:
		r.Left = append(r.Left, Left{s.name, s.err.Error(), !s.yielded})
	case s.stays:
		r.Left = append(r.Left, Left{s.name, s.note, !s.yielded})
	case s.move == toOther:
		r.Left = append(r.Left, Left{s.name, s.left, false})
	case s.yielded && s.note != "":
		r.Left = append(r.Left, Left{s.name, s.note, false})
	case s.move == toOriginal:
		r.Writes = append(r.Writes, s.write())
	}
}
