// Command benchtune replays measured power-cap curves through the real search of internal/tune, with seeded noise, and
// holds what it chose against the truth: how often it is in the band, how many windows that takes, what its certificates
// are worth. The searches a person would write first are measured beside it.
package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/qunerd/quner/internal/tune"
)

// Curve is a power-cap curve, from the lowest cap to the highest, and the truth that a replayed search has to find.
type Curve struct {
	Name  string
	Caps  []float64 // W, as asked for
	Rate  []float64 // work/s
	Watts []float64 // W drawn
}

// What the bars are about: the speed floor, and the spreads of power at which a curve is surely flat, or surely not.
const (
	maxSlowdown = 0.10
	flatBelow   = 0.03
	flatAbove   = 0.08
)

// top is the highest cap, which is the state found.
func (c Curve) top() int { return len(c.Rate) - 1 }

// cost is joules per work.
func (c Curve) cost(s int) float64 { return c.Watts[s] / c.Rate[s] }

// allowed tells whether a state is within the slowdown of the highest cap.
func (c Curve) allowed(s int) bool { return c.Rate[s] >= (1-maxSlowdown)*c.Rate[c.top()] }

// spread is by what share the most power drawn at any cap is above the least.
func (c Curve) spread() float64 { return slices.Max(c.Watts)/slices.Min(c.Watts) - 1 }

// best is the allowed state of least joules per work.
func (c Curve) best() int {
	best := c.top()
	for s := range c.Rate {
		if c.allowed(s) && c.cost(s) < c.cost(best) {
			best = s
		}
	}
	return best
}

// regret is what a state costs above the best, as a share. One that is better, and so too slow, is no regret.
func (c Curve) regret(s int) float64 { return max(0, c.cost(s)/c.cost(c.best())-1) }

// thinned is the curve as an axis can have it: at most so many states as one may have.
func (c Curve) thinned() Curve {
	t := Curve{Name: c.Name}
	for _, s := range c.kept() {
		t.Caps, t.Rate, t.Watts = append(t.Caps, c.Caps[s]), append(t.Rate, c.Rate[s]), append(t.Watts, c.Watts[s])
	}
	return t
}

// kept are the states of the thinned curve.
func (c Curve) kept() []int { return tune.Thin(len(c.Rate), c.top()) }

// axis is the curve for the search.
func (c Curve) axis() tune.Axis {
	a := tune.Axis{Name: "gpu", Found: c.top()}
	for _, w := range c.Caps {
		a.States = append(a.States, fmt.Sprintf("%g W", w))
	}
	return a
}

// check refuses what is no curve.
func (c Curve) check() error {
	if len(c.Rate) < 2 {
		return fmt.Errorf("%s: %d points, want two at least", c.Name, len(c.Rate))
	}
	for s := range c.Rate {
		if !(c.Rate[s] > 0) || !(c.Watts[s] > 0) || math.IsInf(c.Rate[s], 1) || math.IsInf(c.Watts[s], 1) {
			return fmt.Errorf("%s: %g W: rate %g, power %g: not above zero", c.Name, c.Caps[s], c.Rate[s], c.Watts[s])
		}
	}
	return nil
}

// builder puts a curve together from points in any order; those of one cap are averaged.
type builder struct {
	name   string
	points map[float64][][2]float64 // seconds a work and watts, by cap
}

func newBuilder(name string) *builder { return &builder{name, map[float64][][2]float64{}} }

// add takes a measurement in: the time that one work took, and the power drawn over it.
func (b *builder) add(watts, seconds, drawn float64) {
	b.points[watts] = append(b.points[watts], [2]float64{seconds, drawn})
}

// curve is what was added.
func (b *builder) curve() Curve {
	c := Curve{Name: b.name}
	for watts := range b.points {
		c.Caps = append(c.Caps, watts)
	}
	slices.Sort(c.Caps)
	for _, watts := range c.Caps {
		var seconds, joules float64
		for _, p := range b.points[watts] {
			seconds, joules = seconds+p[0], joules+p[0]*p[1]
		}
		c.Rate = append(c.Rate, float64(len(b.points[watts]))/seconds)
		c.Watts = append(c.Watts, joules/seconds)
	}
	return c
}
