package levers

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/qunerd/quner/internal/host"
)

// Verdict is what became of one lever in a self-test.
type Verdict string

// The verdicts.
const (
	Moved   Verdict = "moved"   // it moved, and is back
	Skipped Verdict = "skipped" // there is nowhere to move it to, or it is not quner's to move
	Refused Verdict = "refused" // the host did not take the value; the lever is as it was
	Stuck   Verdict = "stuck"   // it moved and did not go back; its original is in the journal
	Planned Verdict = "planned" // a dry run
)

// Test is one lever's self-test.
type Test struct {
	Lever   string  `json:"lever"`
	Kind    Kind    `json:"kind"`
	From    Value   `json:"from"`
	To      Value   `json:"to,omitempty"` // what it was moved to for a moment
	Unit    string  `json:"unit,omitempty"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail,omitempty"` // the fact behind a verdict other than Moved
}

// Failed reports whether the lever does not do what discovery promised.
func (t Test) Failed() bool { return t.Verdict == Refused || t.Verdict == Stuck }

// Selftest moves each lever a little, reads it back, and brings the point in force back, which it is given. The move goes
// through the journal like any other, so that a crash in its midst is put back like any other. What an earlier process
// has left away from the point is brought to it first, unless it is a dry run. The error is the context's or the
// journal's; what became of a lever is in its Test.
func (b *Bank) Selftest(ctx context.Context, inForce Point, dryRun bool) ([]Test, error) {
	if b.frozen != nil && !dryRun {
		return nil, b.frozen
	}
	if !dryRun {
		if _, err := b.Apply(ctx, inForce); errors.Is(err, ErrJournal) {
			return nil, err
		}
	}
	var tests []Test
	for _, s := range b.States(ctx) {
		t := Test{Lever: s.Name, Kind: s.Kind, From: s.Value, Unit: s.Unit}
		to, why := s.elsewhere()
		switch {
		case why != "":
			t.Verdict, t.Detail = Skipped, why
		case dryRun:
			t.To, t.Verdict = to, Planned
		default:
			t.To = to
			b.try(ctx, inForce, &t)
		}
		tests = append(tests, t)
		if err := context.Cause(ctx); err != nil {
			return tests, err
		}
	}
	return tests, nil
}

// try is the move and the way back. The lever is kept for both, since a refusal may take it out of use.
func (b *Bank) try(ctx context.Context, inForce Point, t *Test) {
	l := b.lever(t.Lever)
	if l == nil {
		t.Verdict, t.Detail = Skipped, b.unknown(t.Lever).Error()
		return
	}
	_, err := b.Apply(ctx, NewPoint(append(inForce[:len(inForce):len(inForce)], Setting{t.Lever, t.To})...))
	moved, unread := l.Get(ctx)
	// The way back is gone whatever has become of the caller.
	_, back := b.Apply(context.WithoutCancel(ctx), inForce)
	now, lost := l.Get(context.WithoutCancel(ctx))
	switch {
	case lost != nil || !l.Same(now, t.From):
		t.Verdict, t.Detail = Stuck, fmt.Sprintf("reads %q, was %q", now, t.From)
		if err := errors.Join(back, lost); err != nil {
			t.Detail += ": " + err.Error()
		}
	case err != nil && host.ReasonOf(err) == host.ImpliedByOther:
		t.Verdict, t.Detail = Skipped, err.Error()
	case err != nil:
		t.Verdict, t.Detail = Refused, err.Error()
	case unread != nil:
		t.Verdict, t.Detail = Refused, unread.Error()
	case !l.Same(moved, t.To):
		t.Verdict, t.Detail = Refused, fmt.Sprintf("wrote %q, reads %q", t.To, moved)
	default:
		t.Verdict = Moved
	}
}

// elsewhere returns a value beside the present one that does little for a moment: another choice, or one step inside.
func (s State) elsewhere() (to Value, why string) {
	switch {
	case s.Err != nil:
		return "", s.Note
	case s.State == Yielded, s.State == Lost:
		return "", s.Note
	}
	// performance decides other settings too, so it is the last resort.
	for _, c := range s.Span.Choices {
		if c != s.Value && (to == "" || to == "performance") {
			to = c
		}
	}
	if len(s.Span.Choices) > 0 {
		if to == "" {
			return "", fmt.Sprintf("%s is its only choice", s.Value)
		}
		return to, ""
	}
	now, err := strconv.ParseInt(string(s.Value), 10, 64)
	if err != nil {
		return "", fmt.Sprintf("reads %q, not a number", s.Value)
	}
	step := max(s.Span.Step, 1)
	for _, v := range []int64{now - step, now + step} {
		if v >= s.Span.Lo && v <= s.Span.Hi {
			return Value(strconv.FormatInt(v, 10)), ""
		}
	}
	return "", fmt.Sprintf("its range %d … %d %s leaves no step beside %d", s.Span.Lo, s.Span.Hi, s.Unit, now)
}
