package tune

import (
	"context"
	"fmt"
	"math"
)

const (
	// flatSpread: the ends of an axis whose power differs by less → the lever does nothing for this workload.
	flatSpread = 0.05
	// samePower: states whose power differs by less are one state, unless their speed (by as much) or their cost
	// (by alike standard errors) speaks against it.
	samePower = 0.015
	alike     = 1.5 // standard errors of cost
	// bump is how far real curves stray from rising power and rising speed; what is concluded from that order without a
	// window must hold by more.
	bump = 0.05
	// farBelow the speed floor (a factor of e^−0.1) a state must be before the ones below it are taken to be too slow.
	farBelow = 0.1
)

// check measures both ends, there and back so that a linear drift falls out, and finds the axis flat if their power is
// the same.
func (x *search) check(ctx context.Context) error {
	x.phase = PhaseCheck
	order := []int{x.top, 0, 0, x.top}
	for i := 0; x.fit.n[x.top] < x.opts.Repeats || x.fit.n[0] < x.opts.Repeats; i++ {
		if err := x.measure(ctx, order[i%len(order)]); err != nil {
			return err
		}
	}
	if x.noEnergy = !x.lit(); x.noEnergy || x.top == 0 {
		return nil
	}
	d, _ := x.fit.diff(x.top, 0, qDevice)
	x.flat = math.Abs(d) < math.Log1p(flatSpread)
	return nil
}

// pass measures once every state that may matter: each time the middle of the widest gap, so that the order is never
// monotone, and each window may settle, by the rising course of power and speed, what lies beside it.
func (x *search) pass(ctx context.Context) error {
	x.phase = PhasePass
	if x.fit.n[x.axis.Found] == 0 { // nothing can be judged without the state that all are held against
		if err := x.measure(ctx, x.axis.Found); err != nil {
			return err
		}
	}
	for {
		x.settle()
		state := x.next()
		if state == Nothing {
			return nil
		}
		if err := x.measure(ctx, state); err != nil {
			return err
		}
	}
}

// open tells whether a state still needs a window.
func (x *search) open(s int) bool {
	return s <= x.top && x.fit.n[s] == 0 && x.skipped[s] == "" && x.rep[s] == s
}

// next is the middle of the longest run of open states, Nothing if there is none. The seed breaks ties.
func (x *search) next() int {
	best, length := Nothing, 0
	for s := 0; s <= x.top; s++ {
		n := 0
		for x.open(s + n) {
			n++
		}
		if n > length || n == length && n > 0 && x.rng.IntN(2) == 0 {
			best, length = s+n/2, n
			if n%2 == 0 {
				best -= x.rng.IntN(2)
			}
		}
		s += n
	}
	return best
}

// settle closes the states that need no window.
func (x *search) settle() {
	t := tQuantile(x.opts.Confidence, x.fit.df)
	x.settleSlow(t)
	if !x.noEnergy {
		x.merge()
		x.settleCostly(t)
	}
}

// settleSlow closes what lies below a state that is surely and by far too slow.
func (x *search) settleSlow(t float64) {
	for s := x.top - 1; s > 0; s-- {
		if x.fit.n[s] == 0 {
			continue
		}
		if d, se := x.fit.diff(s, x.found(), qRate); d+t*se < x.floor-farBelow {
			for below := range s {
				if x.open(below) {
					x.skipped[below] = fmt.Sprintf("%s is already far below the speed floor", x.axis.States[s])
				}
			}
			return
		}
	}
}

// merge joins to the highest state those that draw the same power: a cap that does not bind is no other state.
func (x *search) merge() {
	for s := range x.top {
		if x.fit.n[s] == 0 || x.rep[s] != s {
			continue
		}
		power, _ := x.fit.diff(x.top, s, qDevice)
		speed, _ := x.fit.diff(x.top, s, qRate)
		cost, se := x.fit.diff(x.top, s, qCost)
		if math.Abs(power) < samePower && math.Abs(speed) < samePower && math.Abs(cost) <= alike*se {
			for m := s; m < x.top; m++ {
				x.rep[m] = x.top
			}
			x.fit = fitWindows(x.ws, x.rep)
			return
		}
	}
}

// settleCostly closes an open state if even with the power of the next measured state below it and the speed of the next
// one above it, it could not be better than the best by more than the band.
func (x *search) settleCostly(t float64) {
	best := x.best()
	for s := 1; s < x.top; s++ {
		if !x.open(s) {
			continue
		}
		lo, hi := s, s
		for lo > 0 && x.fit.n[lo] == 0 {
			lo--
		}
		for hi < x.top && x.fit.n[hi] == 0 {
			hi++
		}
		least := x.opts.Objective.cost(x.fit.mean[hi][qRate], x.fit.mean[lo][qWatts])
		se := math.Sqrt(x.fit.s2[qCost] * (1/float64(x.fit.n[best]) + 1/float64(min(x.fit.n[lo], x.fit.n[hi]))))
		if x.fit.mean[best][qCost]+t*se+bump < least+math.Log1p(Band) {
			x.skipped[s] = fmt.Sprintf("cannot be better than %s", x.axis.States[best])
		}
	}
}
