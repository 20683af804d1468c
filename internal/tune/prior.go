package tune

import (
	"fmt"
	"math"
	"slices"
)

// Prior is what an earlier sweep has left of an axis. It says where to look first, and what need not be looked at while the
// axis is as it was; every figure and certificate of the new sweep rests on windows of its own.
type Prior struct {
	State int // the state that was chosen, and certified
	// Seen is what was measured. Unless that covers the ends of the axis, as far as it is searched, and the state found, the
	// prior is of no use, and the search starts from nothing.
	Seen []Seen
}

// Seen is what an earlier sweep has measured of a state. An interval without an end is of a window as sure as they usually are.
type Seen struct {
	State                               int
	WorkPerSecond, Watts, JoulesPerWork Interval
}

// Prior is what the search along the axis leaves to a later one; nil if it has certified nothing.
func (a AxisResult) Prior() *Prior {
	if a.Verdict != Interior && a.Verdict != Edge {
		return nil
	}
	p := &Prior{State: a.Chosen}
	for i, s := range a.States {
		if s.Windows > 0 {
			p.Seen = append(p.Seen, Seen{State: i, WorkPerSecond: s.WorkPerSecond, Watts: s.Watts, JoulesPerWork: s.JoulesPerWork})
		}
	}
	return p
}

// check refuses what no sweep along the axis can have left.
func (p *Prior) check(a Axis) error {
	if p == nil {
		return nil
	}
	if p.State < 0 || p.State >= len(a.States) {
		return fmt.Errorf("axis %s: chosen before was state %d of %d", a.Name, p.State, len(a.States))
	}
	for _, s := range p.Seen {
		if s.State < 0 || s.State >= len(a.States) {
			return fmt.Errorf("axis %s: seen before was state %d of %d", a.Name, s.State, len(a.States))
		}
	}
	return nil
}

// Covers tells whether State and these states were measured whole.
func (p *Prior) Covers(states ...int) bool {
	return !slices.ContainsFunc(append(states, p.State), func(s int) bool {
		return slices.ContainsFunc([]quantity{qRate, qWatts, qJoules}, func(q quantity) bool {
			v, _ := p.earlier(s, q)
			return math.IsNaN(v)
		})
	})
}

// earlier is the logarithm of a state's figure as it was, and its standard error; NaN if it is not known.
func (p *Prior) earlier(state int, q quantity) (v, se float64) {
	i := slices.IndexFunc(p.Seen, func(s Seen) bool { return s.State == state })
	if i < 0 {
		return math.NaN(), 0
	}
	var was Interval
	switch q {
	case qRate:
		was = p.Seen[i].WorkPerSecond
	case qWatts:
		was = p.Seen[i].Watts
	default:
		was = p.Seen[i].JoulesPerWork
	}
	if v = math.Log(was.Value); math.IsInf(v, 0) {
		return math.NaN(), 0
	}
	if half := math.Log(was.High / was.Value); half >= 0 && !math.IsInf(half, 1) {
		return v, half / 2 // intervals are of 95 %, or nearly
	}
	return v, usual
}

// against is the logarithm of the ratio of a state's figure to that of State as it was, and its standard error.
func (p *Prior) against(state int, q quantity) (d, se float64) {
	v, a := p.earlier(state, q)
	w, b := p.earlier(p.State, q)
	return v - w, math.Hypot(a, b)
}

// distinct: states whose power differs by less tell nothing of each other.
const distinct = 0.05

// beside are the nearest states below and above one, of 0…top, that were measured and drew another power.
func (p *Prior) beside(state, top int) []int {
	var out []int
	here, _ := p.earlier(state, qWatts)
	for _, step := range []int{-1, 1} {
		near := Nothing
		for s := state + step; s >= 0 && s <= top; s += step {
			v, _ := p.earlier(s, qWatts)
			if math.IsNaN(v) {
				continue
			}
			if near = s; math.Abs(v-here) >= distinct {
				break
			}
		}
		if near != Nothing {
			out = append(out, near)
		}
	}
	return out
}
