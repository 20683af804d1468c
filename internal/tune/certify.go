package tune

import (
	"context"
	"math"
)

const (
	// leastWindows the best state has before it may be certified: one lucky window is no evidence.
	leastWindows = 3
	// A state whose speed is no more than slowErrors standard errors below the floor, or fastErrors above it, is measured again
	// if the choice hangs on it, by more than this part of the band (matters), but at most to so many windows: where exactly
	// the floor lies is not worth the whole budget. One that is taken to be fast enough goes on being measured if it is the
	// best, and is found out; one that is taken to be too slow is never looked at again.
	slowErrors       = 2.5
	fastErrors       = 1
	speedWindowsOne  = 12 // on a single axis
	speedWindowsMany = 4  // on each of several
	matters          = 0.5
	// lenient: a state is too slow if it is below the floor by more than so many standard errors. To refuse a state that is
	// allowed costs more energy than one that is too slow by a fraction of a per cent costs time.
	lenient = 0.35
	// far: a rival whose cost is surely higher by so much is not one that could be mistaken for the best.
	far = 0.03
	// fasterWindows is how many windows it may take to certify a state that is faster than the best and in the band.
	fasterWindows = 4
	// worthwhile is by how much (a factor of e^0.002) a state must be faster to be taken for its speed: joules in the band are
	// joules all the same.
	worthwhile = 0.002
	// A certificate is sought after every window, and sooner or later one would be found by luck. A look may spend this part
	// (looks) of the error allowed, and after more than firstLooks windows less and less. Measured where states lie just
	// outside the band, the worst there is: at most 5 % of certificates are wrong.
	looks      = 0.40
	firstLooks = 8
)

// found is the state that stands for the one found.
func (x *search) found() int { return x.rep[x.axis.Found] }

// against is the combination that speed is held against: the one found before the sweep. Where that was not measured, as
// where it lies between the ends of an axis that does nothing, the state held so far stands for it.
func (x *search) against() int {
	if ref := x.rep[x.ref]; x.fit.n[ref] > 0 {
		return ref
	}
	return x.found()
}

// allowed tells whether a state was measured and meets the speed floor by estimate. The state found always does: there
// is nothing faster to go back to.
func (x *search) allowed(s int) bool {
	if x.fit.n[s] == 0 {
		return false
	}
	if s == x.found() || x.opts.Objective == AtRest {
		return true
	}
	d, se := x.fit.diff(s, x.against(), qRate)
	if len(x.axes) > 1 { // each axis would go a little below the floor
		return d >= x.floor+lenient*se
	}
	return d >= x.floor-lenient*se
}

// best is the allowed state of least cost by estimate, in doubt the one found.
func (x *search) best() int {
	best := x.found()
	for s := range x.states() {
		if x.allowed(s) && x.fit.mean[s][qCost] < x.fit.mean[best][qCost] {
			best = s
		}
	}
	return best
}

// rivals are the allowed states other than c.
func (x *search) rivals(c int) []int {
	var out []int
	for s := range x.states() {
		if s != c && x.allowed(s) {
			out = append(out, s)
		}
	}
	return out
}

// critical is the t value of one of n comparisons that must hold together (Bonferroni), df degrees of freedom.
func (x *search) critical(n int, df float64) float64 {
	spend := looks / float64(max(n, 1)) / max(1, float64(len(x.ws)-x.carried-x.decided)/firstLooks)
	return x.quantile(1-(1-x.opts.Confidence)*spend, df)
}

// contenders counts the rivals that could be mistaken for c: those far behind take no part of the error that is allowed.
func (x *search) contenders(c int, rivals []int) int {
	n := 0
	for _, s := range rivals {
		if d, se := x.fit.diff(c, s, qCost); !(d+3*se < -far) {
			n++
		}
	}
	return n
}

// margin is by how much (in ln of cost) the upper bound, at the t value t, of c's cost ÷ s's stays inside the band;
// negative: not certain, NaN or −Inf: nothing is known.
func (x *search) margin(c, s int, t float64) float64 {
	d, se := x.fit.diff(c, s, qCost)
	return math.Log1p(Band) - d - t*se
}

// leeway is how much more (in ln of cost) a state may cost that is taken because it is faster: on all axes together, no more
// than the band.
func (x *search) leeway() float64 { return math.Log1p(Band) / float64(len(x.axes)) }

// certified tells whether the interval of c's cost against every rival's stays inside the band.
func (x *search) certified(c int) bool { return x.within(c, math.Log1p(Band)) }

// within tells whether the interval of c's cost against every rival's stays below so much more (in ln).
func (x *search) within(c int, more float64) bool {
	if x.top == 0 && x.fit.n[c] > 0 {
		return true // there is nothing to choose
	}
	if x.fit.df < 1 || x.fit.n[c] < leastWindows || x.unmeasured() > 0 {
		return false
	}
	rivals := x.rivals(c)
	t := x.critical(x.contenders(c, rivals), x.fit.df)
	for _, s := range rivals {
		if !(x.margin(c, s, t) >= math.Log1p(Band)-more) {
			return false
		}
	}
	return true
}

// unmeasured counts the states that still need a first window.
func (x *search) unmeasured() int {
	n := 0
	for s := range x.states() {
		if x.open(s) {
			n++
		}
	}
	return n
}

// refine measures again where the decision hangs, until the best state is certified.
func (x *search) refine(ctx context.Context) error {
	if x.noEnergy || x.top == 0 {
		return nil
	}
	if x.phase != PhaseCorner {
		x.phase = PhaseRefine
	}
	for {
		s := x.wanted()
		if s == Nothing {
			return nil
		}
		if err := x.measure(ctx, s); err != nil {
			return err
		}
	}
}

// doubt is the state whose next window serves the decision most, Nothing if it is taken: the lesser known of the best
// state and the rival least surely behind it; then those whose speed is in question.
func (x *search) doubt() int {
	best := x.best()
	if x.fit.n[best] < leastWindows {
		return best
	}
	rivals, rival, worst := x.rivals(best), Nothing, 0.0
	t := x.critical(x.contenders(best, rivals), x.fit.df)
	for _, s := range rivals {
		if m := x.margin(best, s, t); !(m >= worst) {
			rival, worst = s, m
		}
	}
	if rival != Nothing {
		return x.lesser(rival, best)
	}
	if s := x.speedDoubt(best); s != Nothing {
		return s
	}
	return x.fasterDoubt(best)
}

// wanted is the state to measure next: one in doubt, or, once another one is chosen, the state found before the sweep, until it
// has windows enough to tell by how much the choice is better. Nothing if there is no more to know.
func (x *search) wanted() int {
	if s := x.doubt(); s != Nothing {
		return s
	}
	found := x.found()
	if x.rep[x.ref] != found || x.fit.n[found] >= leastWindows || x.rep[x.choose()] == found {
		return Nothing
	}
	x.decided++
	return x.axis.Found
}

// lesser is the one of two states with fewer windows.
func (x *search) lesser(a, b int) int {
	if x.fit.n[a] < x.fit.n[b] {
		return a
	}
	return b
}

func (x *search) speedWindows() int {
	if len(x.axes) > 1 {
		return speedWindowsMany
	}
	return speedWindowsOne
}

// speedDoubt is the state to measure next because the best, or one that would be better, is too near the speed floor.
func (x *search) speedDoubt(best int) int {
	ref := x.against()
	for s := range x.states() {
		n := x.fit.n[s]
		if s == ref || s == x.found() || n == 0 || n >= x.speedWindows() {
			continue
		}
		d, se := x.fit.diff(s, ref, qRate)
		if d-x.floor >= fastErrors*se || x.floor-d >= slowErrors*se {
			continue
		}
		if x.hangsOn(s, best) {
			return x.lesser(ref, s)
		}
	}
	return Nothing
}

// hangsOn tells whether the choice would leave the band if a state was allowed that is not, or the best one was not.
func (x *search) hangsOn(s, best int) bool {
	other, least := best, math.Inf(1)
	if s == best {
		for _, r := range x.rivals(best) {
			if d, _ := x.fit.diff(r, best, qCost); d < least {
				other, least = r, d
			}
		}
		return !math.IsInf(least, 1) && least > math.Log1p(Band)*matters || other == best
	}
	d, _ := x.fit.diff(best, s, qCost)
	return !x.allowed(s) && d > math.Log1p(Band)*matters
}

// fasterDoubt is the state to measure next because a state faster than the best is in the band, and a few windows, with
// what is estimated now, certify it.
func (x *search) fasterDoubt(best int) int {
	for _, s := range x.rivals(best) {
		if cost, _ := x.fit.diff(s, best, qCost); cost > x.leeway() ||
			!x.faster(s, best) || x.within(s, x.leeway()) {
			continue
		}
		rivals := x.rivals(s)
		t, worst, blocker, within := x.critical(x.contenders(s, rivals), x.fit.df), math.Inf(1), s, true
		for _, r := range rivals {
			d, _ := x.fit.diff(s, r, qCost)
			v := 1/float64(max(x.fit.n[s], fasterWindows)) + 1/float64(max(x.fit.n[r], fasterWindows))
			within = within && d+t*math.Sqrt(x.fit.s2[qCost]*v) <= x.leeway()
			if m := x.margin(s, r, t); m < worst {
				worst, blocker = m, r
			}
		}
		if next := x.lesser(blocker, s); within && x.fit.n[s] < leastWindows {
			return s
		} else if within && x.fit.n[next] < fasterWindows {
			return next
		}
	}
	return Nothing
}

// faster tells whether a is faster than b by what is worth having, and by more than the noise.
func (x *search) faster(a, b int) bool {
	d, se := x.fit.diff(a, b, qRate)
	return d > max(worthwhile, se)
}

// choose is the fastest allowed state that is certified; where none is, the best by estimate.
func (x *search) choose() int {
	if x.fit.n[x.found()] == 0 {
		return x.axis.Found
	}
	state := x.best()
	certified := x.certified(state)
	for s := range x.states() {
		if x.allowed(s) && (!certified && x.certified(s) || x.within(s, x.leeway()) && x.faster(s, state)) {
			state, certified = s, true
		}
	}
	if state == x.found() {
		state = x.axis.Found // of states that are one, the one that is already set
	}
	return state
}

// more estimates from the measured spread how many further windows certify the best state; 0 if it is certified.
func (x *search) more() int {
	best := x.best()
	if x.certified(best) {
		return 0
	}
	rivals := x.rivals(best)
	first := x.unmeasured() + max(0, leastWindows-x.fit.n[best])
	if x.fit.df < 1 || !x.lit() { // no spread yet: one more window each tells it
		return first + 1 + len(rivals)
	}
	more, df := 0, x.fit.df
	for range 2 { // the second time with the degrees of freedom the further windows bring
		t := x.critical(x.contenders(best, rivals), df)
		need := make(map[int]int)
		for _, s := range rivals {
			d, _ := x.fit.diff(best, s, qCost)
			tight := t / (math.Log1p(Band) - d)
			n := int(math.Ceil(2 * x.fit.s2[qCost] * tight * tight))
			need[s] = max(0, n-x.fit.n[s])
			need[best] = max(need[best], n-x.fit.n[best])
		}
		more = 0
		for _, n := range need {
			more += n
		}
		df = x.fit.df + float64(more)
	}
	return max(1, first+more)
}
