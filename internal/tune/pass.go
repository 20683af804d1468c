package tune

import (
	"context"
	"fmt"
	"math"
)

const (
	// flatSpread: the ends of an axis whose power differs by less → the lever does nothing for this workload.
	flatSpread = 0.05
	// steepSpread: ends whose power differs by so much after one window each are not asked again; no noise that leaves
	// anything to be found makes that of an axis that does nothing.
	steepSpread = 0.2
	// usual is the relative standard deviation of a window that is expected before there is one, as if learnt from so many
	// (guessed) degrees of freedom.
	usual   = 0.02
	guessed = 2.0
	// near: the power of two states differs by less, and so does their speed → what lies between is taken to lie between in
	// cost too, give or take a part of the band.
	near, nearFine = 0.08, 0.15
	// fewStates: on an axis of no more, each is worth a window: they may be governors, which have no order for sure.
	fewStates = 5
	// fineStates: an axis of more states is a fine one, whose neighbours differ by less than the band.
	fineStates = 12
	// samePower: states whose power differs by less are one state, unless their speed (by as much) or their cost
	// (by alike standard errors) speaks against it.
	samePower = 0.015
	alike     = 1.5 // standard errors of cost
	// bump is how far real curves stray from rising power and rising speed; what is concluded from that order without a
	// window must hold by more.
	bump = 0.05
	// farBelow the speed floor (a factor of e^−0.06) a state must be before the ones below it are taken to be too slow.
	farBelow, farBelowFine = 0.06, 0.02
)

// check measures both ends, there and back so that a linear drift falls out, and finds the axis flat if they are alike.
// Ends that are far apart are not asked twice. What an earlier axis has measured of the upper one counts.
func (x *search) check(ctx context.Context) error {
	x.phase = PhaseCheck
	order := []int{x.top, 0, 0, x.top}
	if x.fit.n[x.top] > 0 {
		order = []int{0, x.top, 0, x.top}
	}
	enough := func(s int) bool { return x.fit.n[s] >= x.opts.Repeats }
	for i := 0; !enough(x.top) || !enough(0); i++ {
		if i > 0 && x.steep() {
			break
		}
		if err := x.measure(ctx, order[i%len(order)]); err != nil {
			return err
		}
	}
	if x.noEnergy = !x.lit(); x.noEnergy || x.top == 0 {
		return nil
	}
	if x.flat = x.alike(x.top, 0); !x.flat {
		x.stopped = x.hopeless()
	}
	return nil
}

// steep tells whether one window each of the ends is enough to see that the axis does something.
func (x *search) steep() bool {
	if !x.lit() || x.top == 0 || x.fit.n[x.top] == 0 || x.fit.n[0] == 0 {
		return false
	}
	d, _ := x.fit.diff(x.top, 0, qDevice)
	return math.Abs(d) > steepSpread
}

// alike tells whether two states draw the same: their device does, and neither the whole host's power nor the speed, whose
// noise is reckoned with, speaks against it. Published curves of boards that no cap binds stray by up to a tenth in speed;
// where speed is what is asked for, less is believed.
func (x *search) alike(a, b int) bool {
	device, _ := x.fit.diff(a, b, qDevice)
	host, _ := x.fit.diff(a, b, qWatts)
	speed, _ := x.fit.diff(a, b, qRate)
	limit := math.Log1p(flatSpread)
	stray := limit
	if x.opts.Objective == WorkPerJoule {
		stray *= 2
	}
	return math.Abs(device) < limit && math.Abs(host) < limit+2*x.guess(qWatts, a, b) &&
		math.Abs(speed) < stray+2*x.guess(qRate, a, b)
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
	for lo := range x.top {
		if x.fit.n[lo] == 0 || !x.open(lo+1) {
			continue
		}
		hi := lo + 1
		for hi < x.top && x.fit.n[hi] == 0 {
			hi++
		}
		if x.allowed(lo) || !x.allowed(hi) {
			continue
		}
		power, _ := x.fit.diff(hi, lo, qDevice)
		if s := x.crossing(lo, hi); s != Nothing && math.Abs(power) <= x.near() {
			return s
		}
		if s := (lo + hi + x.rng.IntN(2)) / 2; x.open(s) {
			return s
		}
	}
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
	t := x.quantile(x.opts.Confidence, x.fit.df+guessed)
	x.settleSlow(t)
	if !x.noEnergy {
		x.merge()
		x.settleCostly(t)
		x.settleBetween()
	}
}

// guess is the standard error of the difference of two states if the spread was known from a few windows before the
// first. It serves decisions of where to measure, where some error must be reckoned with before there is a spread; what a
// certificate says rests on the spread measured alone.
func (x *search) guess(q quantity, a, b int) float64 {
	expected := usual
	if q == qRate {
		expected /= 2
	}
	s2 := (guessed*expected*expected + x.fit.df*x.fit.s2[q]) / (guessed + x.fit.df)
	return math.Sqrt(s2 * (1/float64(x.fit.n[a]) + 1/float64(x.fit.n[b])))
}

// settleSlow closes what lies below a state that is surely and by far too slow.
func (x *search) settleSlow(t float64) {
	for s := x.top - 1; s > 0; s-- {
		if x.fit.n[s] == 0 {
			continue
		}
		if d, _ := x.fit.diff(s, x.against(), qRate); d+t*x.guess(qRate, s, x.against()) < x.floor-x.farBelow() {
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
		cost, _ := x.fit.diff(x.top, s, qCost)
		if math.Abs(power) < samePower && math.Abs(speed) < samePower && math.Abs(cost) <= alike*x.guess(qCost, x.top, s) {
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
		least2 := lo
		if x.fit.n[hi] < x.fit.n[lo] {
			least2 = hi
		}
		if x.fit.mean[best][qCost]+t*x.guess(qCost, best, least2)+bump < least+math.Log1p(Band) {
			x.skipped[s] = fmt.Sprintf("cannot be better than %s", x.axis.States[best])
		}
	}
}

// settleBetween closes open states between two measured ones so near to each other that what lies between cannot be much
// different. Where the speed floor runs between the two, that is true only if what could be gained down to it is little.
func (x *search) settleBetween() {
	if x.states() <= fewStates {
		return
	}
	for lo := 0; lo < x.top; lo++ {
		if x.fit.n[lo] == 0 || !x.open(lo+1) {
			continue
		}
		hi := lo + 1
		for hi < x.top && x.fit.n[hi] == 0 {
			hi++
		}
		power, _ := x.fit.diff(hi, lo, qDevice)
		speed, _ := x.fit.diff(hi, lo, qRate)
		host, _ := x.fit.diff(hi, lo, qWatts)
		if max(math.Abs(power), math.Abs(speed), math.Abs(host)-x.guess(qWatts, hi, lo)) > x.near() || x.crossing(lo, hi) != Nothing {
			continue
		}
		for s := lo + 1; s < hi; s++ {
			if x.open(s) {
				x.skipped[s] = fmt.Sprintf("between %s and %s, which are near", x.axis.States[lo], x.axis.States[hi])
			}
		}
	}
}

// farBelow is how far below the speed floor a state must be for the ones below it to be too slow.
func (x *search) farBelow() float64 {
	if x.states() > fineStates {
		return farBelowFine
	}
	return farBelow
}

// near is how far apart states may be for what lies between them to be known from them.
func (x *search) near() float64 {
	if len(x.axis.States) > fineStates {
		return nearFine
	}
	return near
}

// crossing is the open state between lo and hi that is expected just above the speed floor, if hi is allowed, lo is too slow
// and what is expected to be gained by it is worth a window; else Nothing.
func (x *search) crossing(lo, hi int) int {
	if x.allowed(lo) || !x.allowed(hi) {
		return Nothing
	}
	slow, _ := x.fit.diff(lo, x.against(), qRate)
	fast, _ := x.fit.diff(hi, x.against(), qRate)
	steps := float64(hi - lo)
	share := (x.floor - slow) / (fast - slow) // of the way from lo to hi, where the floor is
	s := min(lo+int(math.Ceil(share*steps)), hi-1)
	down := 1 - max(0, share-0.5/steps) // the way from hi to the floor; speed falls faster further down, so half a state more
	speed, _ := x.fit.diff(lo, hi, qRate)
	power, _ := x.fit.diff(lo, hi, qDevice) // its noise is less than that of the cost
	if s <= lo || s >= hi || !x.open(s) || -down*x.opts.Objective.cost(speed, power) < math.Log1p(Band)/3 {
		return Nothing
	}
	return s
}
