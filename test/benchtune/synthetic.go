package main

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// kind makes a curve of its kind at random.
type kind struct {
	name string
	make func(rng *rand.Rand) Curve
}

// board is a GPU in formulas: it draws rest watts and, as its clock f rises to 1, dynamic watts ∝ f·V(f)²; the work has a
// part that goes with the clock and a part that waits for the memory.
type board struct {
	rest, full float64 // W at rest, at the highest clock
	wait       float64 // share of the time at the highest clock that does not go with the clock
	bend       float64 // exponent of the dynamic watts
}

func anyBoard(rng *rand.Rand) board {
	return board{rest: 25 + 60*rng.Float64(), full: 180 + 300*rng.Float64(), wait: 0.6 * rng.Float64(), bend: 2.2 + 1.2*rng.Float64()}
}

// at is the rate and the power under a cap: the highest clock whose power is within it.
func (b board) at(limit float64) (rate, watts float64) {
	watts = min(max(limit, b.rest*1.15), b.full)
	f := math.Pow((watts-b.rest)/(b.full-b.rest), 1/b.bend)
	return 1 / (b.wait + (1-b.wait)/f), watts
}

// over is the board's curve over n caps from lo to hi watts.
func (b board) over(n int, lo, hi float64) Curve {
	var c Curve
	for i := range n {
		watts := lo + (hi-lo)*float64(i)/float64(n-1)
		rate, drawn := b.at(watts)
		c.Caps, c.Rate, c.Watts = append(c.Caps, watts), append(c.Rate, rate), append(c.Watts, drawn)
	}
	return c
}

// kinds are the shapes a search may meet.
func kinds() []kind {
	states := func(rng *rand.Rand) int { return 5 + rng.IntN(8) }
	return []kind{
		{"smooth", func(rng *rand.Rand) Curve {
			b := anyBoard(rng)
			return b.over(states(rng), b.full*(0.3+0.2*rng.Float64()), b.full)
		}},
		{"fine grid", func(rng *rand.Rand) Curve {
			b := anyBoard(rng)
			return b.over(25, b.full*(0.3+0.2*rng.Float64()), b.full)
		}},
		{"finer than an axis", func(rng *rand.Rand) Curve {
			b := anyBoard(rng)
			return b.over(26+rng.IntN(175), b.full*0.4, b.full*1.1)
		}},
		{"two or three states", func(rng *rand.Rand) Curve {
			b := anyBoard(rng)
			return b.over(2+rng.IntN(2), b.full*0.5, b.full)
		}},
		{"caps above do not bind", func(rng *rand.Rand) Curve {
			b := anyBoard(rng)
			return b.over(states(rng)+4, b.full*0.5, b.full*(1.3+0.5*rng.Float64()))
		}},
		{"monotone", func(rng *rand.Rand) Curve { // all of the work goes with the clock, nothing is drawn at rest, or the reverse
			b := board{rest: 120, full: 300, wait: 0, bend: 1.2}
			if rng.IntN(2) == 0 {
				b = board{rest: 10, full: 250 + 50*rng.Float64(), wait: 0.8, bend: 3}
			}
			return b.over(states(rng), b.full*0.5, b.full)
		}},
		{"two optima", func(rng *rand.Rand) Curve {
			b := anyBoard(rng)
			c := b.over(9+rng.IntN(8), b.full*0.5, b.full)
			at, deep := 0.3+0.5*rng.Float64(), 0.03+0.05*rng.Float64()
			for s := range c.Rate { // a clock at which the board runs better than beside it
				d := (float64(s)/float64(c.top()) - at) / 0.08
				c.Rate[s] *= 1 + deep*math.Exp(-d*d)
			}
			return c
		}},
		{"floor not honoured", func(rng *rand.Rand) Curve {
			b := anyBoard(rng)
			c := b.over(states(rng)+2, b.full*0.25, b.full)
			stuck := 1 + rng.IntN(3)
			for s := range stuck {
				c.Rate[s], c.Watts[s] = c.Rate[stuck], c.Watts[stuck]
			}
			return c
		}},
		{"noisily published", func(rng *rand.Rand) Curve {
			b := anyBoard(rng)
			c := b.over(states(rng), b.full*0.35, b.full)
			for s := range c.Rate {
				c.Rate[s] *= 1 + 0.02*rng.NormFloat64()
				c.Watts[s] *= 1 + 0.01*rng.NormFloat64()
			}
			return c
		}},
		{"flat", func(rng *rand.Rand) Curve {
			b := anyBoard(rng)
			c := b.over(states(rng), b.full*(1+0.1*rng.Float64()), b.full*1.5)
			for s := range c.Rate {
				c.Watts[s] *= 1 + 0.004*rng.NormFloat64()
			}
			return c
		}},
	}
}

// Synthetic makes n curves of each kind.
func Synthetic(n int) []Curve {
	var all []Curve
	for k, kind := range kinds() {
		for i := range n {
			c := kind.make(rand.New(rand.NewPCG(uint64(i), uint64(k))))
			c.Name = fmt.Sprintf("%s %d", kind.name, i)
			all = append(all, c)
		}
	}
	return all
}
