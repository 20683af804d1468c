package levers

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Allows returns nil for a value within the span and an error that wraps ErrOutOfSpan, with what is allowed, for another.
func (s Span) Allows(v Value) error {
	if s.Choices != nil {
		if slices.Contains(s.Choices, v) {
			return nil
		}
		return fmt.Errorf("%q: %w (offered: %q)", v, ErrOutOfSpan, s.Choices)
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a whole number: %w", v, ErrOutOfSpan)
	}
	if n < s.Lo || n > s.Hi {
		return fmt.Errorf("%d %s: %w (%d to %d %s)", n, s.Unit, ErrOutOfSpan, s.Lo, s.Hi, s.Unit)
	}
	return nil
}

// Clamp returns the value of a range that is nearest to v, and a note if that is another. A choice has no nearest one:
// what is not offered is ErrOutOfSpan.
func (s Span) Clamp(v Value) (Value, string, error) {
	if s.Choices != nil {
		return v, "", s.Allows(v)
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return v, "", s.Allows(v)
	}
	near := max(s.Lo, min(s.Hi, n))
	if near == n {
		return v, "", nil
	}
	note := fmt.Sprintf("clamped from %d to today's span %d to %d %s", n, s.Lo, s.Hi, s.Unit)
	return Value(strconv.FormatInt(near, 10)), note, nil
}

// ranged is the span of a lever whose value is a number. The upper end is the value found, for no power is set above it
// unless the owner says so.
type ranged struct {
	lo, max int64 // what the device says it takes
	found   int64 // what it had before quner
	step    int64 // what it resolves
	unit    string
	raise   bool // values above the one found may be chosen
}

// Span is Lo to the value found. Where that lies below the device's own minimum, nothing else can be chosen.
func (r *ranged) Span() Span {
	lo, hi := r.lo, r.max
	if !r.raise {
		hi = min(hi, r.found)
	}
	if hi < lo {
		lo, hi = r.found, r.found
	}
	return Span{Lo: lo, Hi: hi, Step: r.step, Unit: r.unit}
}

func (r *ranged) allowRaise() { r.raise = true }

// Same reports whether two values differ by less than the device resolves.
func (r *ranged) Same(a, b Value) bool {
	if a == b {
		return true
	}
	x, errX := strconv.ParseInt(string(a), 10, 64)
	y, errY := strconv.ParseInt(string(b), 10, 64)
	return errX == nil && errY == nil && max(x, y)-min(x, y) < r.step
}

// lands reports whether a number read back can have come of the one that was asked for. Within the unit it is that one.
// Beyond it, it stays ours: devices clamp, and round more coarsely than they state, to either side, and a restore that took
// such a number for somebody else's would leave the host where quner has brought it. Only what lies above all that was
// asked, before and at first can be no rounding of a wish for less: somebody else has written in between.
func (r *ranged) lands(from, asked, now Value) bool {
	top := r.found
	for _, v := range []Value{from, asked} {
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			return true // what cannot be compared cannot be told from ours
		}
		top = max(top, n)
	}
	n, err := strconv.ParseInt(string(now), 10, 64)
	return err != nil || n < top+r.step
}

// rebase moves the upper end to another value found: the journal's original after a crash, or today's value when a lever
// is taken over again.
func (r *ranged) rebase(found Value) {
	if n, err := strconv.ParseInt(string(found), 10, 64); err == nil {
		r.found = n
	}
}

// edge writes a value. A device may refuse the very ends of the range that it states: then the next step inside is tried,
// once, and the range is believed to end there.
func (r *ranged) edge(v Value, refusal error, write func(Value) error) error {
	err := write(v)
	inside, ok := r.instead(v)
	if !ok || !errors.Is(err, refusal) || write(inside) != nil {
		return err
	}
	n, _ := strconv.ParseInt(string(inside), 10, 64)
	if v == Value(strconv.FormatInt(r.lo, 10)) {
		r.lo = n
	} else {
		r.max = n
	}
	return nil
}

// instead is what edge writes where a value at an end of the range is refused.
func (r *ranged) instead(v Value) (Value, bool) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	switch {
	case err != nil:
		return "", false
	case n == r.lo:
		n += r.step
	case n == r.max:
		n -= r.step
	default:
		return "", false
	}
	return Value(strconv.FormatInt(n, 10)), true
}

// leastPart is the part of a power limit's upper end below which none is chosen where the hardware states no minimum: a
// quarter. Under less, processors and boards run at their lowest clock already and can only skip cycles.
const leastPart = 4

// roundUp returns the smallest multiple of step that is not below n.
func roundUp(n, step int64) int64 { return (n + step - 1) / step * step }
