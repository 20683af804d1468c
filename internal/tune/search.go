package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// search is the search along one axis. It knows combinations of states by numbers: those below len(axis.States) are the
// axis's states with the other axes held, and only 0…top of them are ever set anew; those above are what else the sweep
// has measured, which tells of the spread and the drift.
type search struct {
	*sweep
	axis   Axis
	pos    int // which of the sweep's axes this is
	top    int // highest state that may be set
	combos [][]int
	ref    int           // the combination that speed is held against: the one found, if it is known
	floor  float64       // ln of the least work/s allowed ÷ that of ref
	limit  int           // windows of the whole sweep at which this search must end
	until  time.Duration // time of the whole sweep at which it must

	phase    Phase
	ws       []window
	carried  int      // how many of them were there before this search
	decided  int      // how many were taken when the choice was made, for the saving
	voids    []int    // voided windows per state
	rep      []int    // the combination that stands for a combination's group of the same measured power
	skipped  []string // why a state was not measured
	flat     bool
	noEnergy bool
	stopped  string // why the axis was left alone after the pre-check, "" if it was not
	from     int    // the state that an earlier sweep has chosen and this one has started from, or Nothing
	moved    string // why what that sweep has left is of no use any more, "" if it is
	held     bool   // the states looked at again are what they were, and no other needs to be
	device   bool   // windows tell the device's watts
	fit      fit
}

// newSearch prepares the search along the axis at pos, with what was measured so far.
func newSearch(s *sweep, a Axis, pos int) *search {
	x := &search{sweep: s, axis: a, pos: pos, top: a.Found, from: Nothing}
	if s.opts.AllowRaise {
		x.top = len(a.States) - 1
	}
	x.voids, x.skipped = make([]int, len(a.States)), make([]string, len(a.States))
	for i := range a.States {
		at := slices.Clone(s.held)
		at[pos] = i
		x.combos = append(x.combos, at)
		if i > x.top {
			x.skipped[i] = "above the state found"
		}
	}
	x.device = len(s.log) > 0
	for _, b := range s.log {
		x.device = x.device && b.sample.device(pos) > 0
	}
	for _, b := range s.log {
		x.id(b.at)
	}
	x.ref, x.floor = x.id(s.found), math.Log(1-s.opts.MaxSlowdown)
	for i := range x.combos {
		x.rep = append(x.rep, i)
	}
	for _, b := range s.log {
		x.ws = append(x.ws, x.window(b))
	}
	x.carried = len(x.ws)
	x.fit = fitWindows(x.ws, x.rep)
	return x
}

// id is the number of a combination, a new one if it has none.
func (x *search) id(at []int) int {
	i := slices.IndexFunc(x.combos, func(c []int) bool { return x.same(c, at) })
	// Of states that are one each has its own number on this axis.
	if i >= 0 && i < len(x.axis.States) {
		return at[x.pos]
	}
	if i < 0 {
		i = len(x.combos)
		x.combos = append(x.combos, slices.Clone(at))
	}
	return i
}

// window is a booked window as this search sees it.
func (x *search) window(b booked) window {
	return window{state: x.id(b.at), at: float64(b.number), y: measure(b.sample, x.opts.Objective, x.device, x.pos)}
}

// states is how many of the numbers are states of the axis.
func (x *search) states() int { return len(x.axis.States) }

// run takes the phases in their order; a budget that ends early ends them early, and that is no error.
func (x *search) run(ctx context.Context) error {
	for _, phase := range []func(context.Context) error{x.again, x.check, x.pass, x.refine} {
		switch err := phase(ctx); {
		case errors.Is(err, errBudget):
			x.noEnergy = len(x.log) > 0 && !x.lit()
			return nil
		case err != nil:
			return err
		case x.flat || x.stopped != "" || x.held:
			return nil
		}
	}
	return nil
}

// leastRate is the least work per second of which squares and logarithms are exact: a float64 has few digits below 1e-307.
const leastRate = 1e-150

// judge is why a window does not count, "" if it does. A figure that some windows have and this one lacks is a gap.
func (x *search) judge(s Sample) string {
	switch {
	case s.Void != "":
		return s.Void
	case !(s.Work > 0 && s.Seconds > 0):
		return "no work"
	case !(s.Work/s.Seconds >= leastRate && s.Work/s.Seconds <= 1/leastRate):
		return fmt.Sprintf("work per second of %.3g, which cannot be reckoned with", s.Work/s.Seconds)
	case x.lit() && !s.hasEnergy():
		return "no energy"
	case !x.lit() && s.hasEnergy():
		x.device = s.device(x.pos) > 0
	case x.device && !(s.device(x.pos) > 0):
		return "no device watts"
	}
	return ""
}

// admit adds a window that counts. The first with energy voids those before it that had none.
func (x *search) admit(b booked) {
	if !x.lit() && b.sample.hasEnergy() {
		for _, dark := range x.log {
			x.voids[dark.at[x.pos]]++
			x.voided++
		}
		x.log, x.ws, x.carried = nil, nil, 0
	}
	x.log = append(x.log, b)
	x.ws = append(x.ws, x.window(b))
	x.fit = fitWindows(x.ws, x.rep)
}
