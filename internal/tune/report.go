package tune

import (
	"fmt"
	"math"
	"time"
)

// Verdict is what became of an axis.
type Verdict string

// The verdicts.
const (
	Interior    Verdict = "interior"    // certified, inside the range
	Edge        Verdict = "edge"        // certified, at an end of the range
	Flat        Verdict = "flat"        // both ends draw the same power: the lever does nothing for this workload
	Uncertified Verdict = "uncertified" // too noisy or too short; Chosen is only the best estimate
	NoEnergy    Verdict = "no_energy"   // no counter: speeds are reported, nothing is chosen
)

// Interval is a measured figure with its confidence interval. With no spread to learn from yet it is as wide as the
// figure can be; all three are NaN where the figure was not measured.
type Interval struct{ Value, Low, High float64 }

// Half is the larger half of the interval, which is what is told after a ±; it has no end where the interval has none.
func (i Interval) Half() float64 { return max(i.High-i.Value, i.Value-i.Low) }

// StateResult is what was measured of one state. States that were found to be one (SameAs) share their windows' figures.
type StateResult struct {
	Label         string
	Windows       int      // windows that counted, taken in this very state
	Voided        int      // windows that did not
	WorkPerSecond Interval // work/s
	Watts         Interval // whole host
	JoulesPerWork Interval // whole host
	Achieved      float64  // mean watts of the device, of the host where they are not known; NaN where not measured
	Allowed       bool     // meets the speed floor by estimate
	InBand        bool     // allowed, and its cost is at most 1+Band times the best allowed one's, by estimate
	Certified     bool     // its own certificate holds
	SameAs        int      // index of the state that stands for it, Nothing if it stands for itself
	Skipped       string   // why it was not measured, "" if it was
}

// AxisResult is the search along one axis.
type AxisResult struct {
	Name        string
	Found       int
	Chosen      int    // index into States; Nothing with NoEnergy and after an error
	From        int    // index of the state of Axis.Prior, if the search started from that; else Nothing
	Moved       string // with From: why the search went on as if there had been no earlier one, "" if it did not
	Verdict     Verdict
	MoreWindows int     // Uncertified: about how many more windows would certify, from the spread measured
	NextStep    string  // Uncertified: in words, what is in doubt and what would settle it
	Stopped     string  // why the axis was left as found after its pre-check, "" if it was not: what it cannot pay back
	Spread      float64 // measured relative standard deviation of one window's joules per work; NaN if unknown
	States      []StateResult
	Saved       Interval // share of joules per work saved against the state found
	Slowdown    Interval // share of work/s lost against the state found
}

// Result is a sweep.
type Result struct {
	Objective Objective
	Principle string // the sentence every report carries
	Note      string // what the reader must know of how it was searched, "" if nothing
	Axes      []AxisResult
	Chosen    []int    // index per axis; nil if nothing was chosen
	Saved     Interval // share of joules per work saved against the states found, over all axes
	Slowdown  Interval // share of work/s lost against the states found, over all axes
	Windows   int      // windows used, voided ones included
	Voided    int
	Joules    float64       // gross energy of all windows
	Seconds   float64       // length of all windows
	Took      time.Duration // all trials, setting and settling included
	Payback   float64       // seconds of work in the chosen states that save Joules; +Inf if they save nothing
}

// report is the picture of the axis; a broken one ended in an error and chooses nothing.
func (x *search) report(broken bool) AxisResult {
	r := AxisResult{Name: x.axis.Name, Found: x.axis.Found, Chosen: Nothing, From: x.from, Moved: x.moved, Verdict: Uncertified, Spread: math.NaN()}
	if x.fit.df >= 1 {
		r.Spread = math.Sqrt(x.fit.s2[qJoules])
	}
	switch {
	case broken:
	case x.noEnergy:
		r.Verdict = NoEnergy
	case x.flat:
		r.Chosen, r.Verdict = x.axis.Found, Flat
	case x.stopped != "":
		r.Chosen, r.Stopped, r.NextStep = x.axis.Found, x.stopped, "measured no further: "+x.stopped
	default:
		r.Chosen = x.choose()
		r.conclude(x)
	}
	r.Saved, r.Slowdown = x.shares(r.Chosen, x.found())
	if x.flat || x.stopped != "" {
		r.Saved, r.Slowdown = Interval{}, Interval{} // it is left as found, whether or not that was measured
	}
	for s := range x.axis.States {
		r.States = append(r.States, x.state(s))
	}
	return r
}

// conclude judges the chosen state by what a search knows.
func (r *AxisResult) conclude(x *search) {
	r.Verdict, r.MoreWindows, r.NextStep = Uncertified, 0, ""
	chosen := x.rep[r.Chosen]
	switch {
	case !x.allowed(chosen) || !x.certified(chosen):
		r.MoreWindows = x.more()
		r.NextStep = x.nextStep(r.MoreWindows)
	case chosen == 0 || chosen == x.top:
		r.Verdict = Edge
	default:
		r.Verdict = Interior
	}
}

// nextStep says what keeps the best state from being certified, and what would.
func (x *search) nextStep(more int) string {
	best := x.best()
	label := x.axis.States[best]
	settle := fmt.Sprintf("about %d more windows", more)
	if x.windows > 0 && x.spent > 0 {
		settle += fmt.Sprintf(" (%s)", lasting(x.spent/time.Duration(x.windows)*time.Duration(more)))
	}
	if n := x.unmeasured(); n > 0 {
		return fmt.Sprintf("%s: %d of %d states have not been measured; %s would settle it", x.axis.Name, n, x.top+1, settle)
	}
	rivals := x.rivals(best)
	if x.fit.df < 1 || len(rivals) == 0 {
		return fmt.Sprintf("%s: there is no repeat yet to tell the noise from; %s would settle it", x.axis.Name, settle)
	}
	t := x.critical(x.contenders(best, rivals), x.fit.df)
	rival, worst := rivals[0], math.Inf(1)
	for _, s := range rivals {
		if m := x.margin(best, s, t); m < worst {
			rival, worst = s, m
		}
	}
	words := fmt.Sprintf("%s: %s and %s cannot be told apart yet, a window scatters by %.1f %%; %s would certify one of them",
		x.axis.Name, label, x.axis.States[rival], 100*math.Sqrt(x.fit.s2[qCost]), settle)
	if more > 3*len(x.ws) {
		words += ", and longer ones, which scatter less, sooner"
	}
	return words
}

// state is the picture of one state.
func (x *search) state(s int) StateResult {
	r := StateResult{Label: x.axis.States[s], Voided: x.voids[s], SameAs: Nothing, Skipped: x.skipped[s], Achieved: math.NaN()}
	for _, w := range x.ws {
		if w.state == s {
			r.Windows++
		}
	}
	rep := x.rep[s]
	if rep != s {
		r.SameAs = rep
		if r.Windows == 0 {
			r.Skipped = fmt.Sprintf("draws what %s draws", x.axis.States[rep])
		}
	}
	if r.Windows == 0 && r.Skipped == "" {
		r.Skipped = "not reached"
	}
	none := Interval{math.NaN(), math.NaN(), math.NaN()}
	r.WorkPerSecond, r.Watts, r.JoulesPerWork = none, none, none
	if r.Windows == 0 {
		return r
	}
	r.WorkPerSecond, r.Watts, r.JoulesPerWork = x.interval(rep, qRate), x.interval(rep, qWatts), x.interval(rep, qJoules)
	r.Achieved = math.Exp(x.fit.mean[rep][qDevice])
	if x.fit.n[x.found()] > 0 {
		r.Allowed = x.allowed(rep)
		d, _ := x.fit.diff(rep, x.best(), qCost)
		r.InBand = r.Allowed && !x.noEnergy && d <= math.Log1p(Band)
		r.Certified = r.Allowed && !x.flat && !x.noEnergy && x.certified(rep)
	}
	return r
}

// interval is a state's figure with its two-sided Student's t interval.
func (x *search) interval(s int, q quantity) Interval {
	v := x.fit.mean[s][q]
	if math.IsNaN(v) || x.fit.n[s] == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	if x.fit.df < 1 {
		return Interval{math.Exp(v), 0, math.Inf(1)}
	}
	half := tQuantile((1+x.opts.Confidence)/2, x.fit.df) * x.fit.se(s, q)
	return Interval{math.Exp(v), math.Exp(v - half), math.Exp(v + half)}
}

// shares are the share of joules per work saved, and of work/s lost, by a combination against another one.
func (x *search) shares(chosen, found int) (saved, slowdown Interval) {
	unknown := Interval{math.NaN(), math.NaN(), math.NaN()}
	if chosen == Nothing || x.fit.n[x.rep[chosen]] == 0 || x.fit.n[x.rep[found]] == 0 {
		return unknown, unknown
	}
	lost := func(q quantity) Interval {
		d, se, df := x.fit.apart(x.rep[chosen], x.rep[found], q)
		switch {
		case x.rep[chosen] == x.rep[found]: // exactly nothing was lost or saved
			return Interval{}
		case math.IsNaN(d):
			return unknown
		case x.fit.df < 1:
			return Interval{-math.Expm1(d), math.Inf(-1), 1}
		}
		half := x.quantile((1+x.opts.Confidence)/2, df) * se
		return Interval{-math.Expm1(d), -math.Expm1(d + half), -math.Expm1(d - half)}
	}
	return lost(qJoules), lost(qRate)
}

// account books what the sweep itself took.
func (s *sweep) account(r *Result) {
	r.Windows, r.Voided, r.Joules, r.Seconds, r.Took = s.windows, s.voided, s.joules, s.seconds, s.spent
	r.Payback = math.Inf(1)
}

// conclude adds up a sweep that ended well: the combination chosen against the one found, over all windows.
func (s *sweep) conclude(r *Result) {
	if len(s.axes) > 1 {
		r.Note += "The axes were searched in turn, each with the others held at the best state known so far; combinations off that path were not measured."
	}
	if len(r.Axes) < len(s.axes) || r.Axes[len(s.axes)-1].Verdict == NoEnergy {
		unknown := Interval{math.NaN(), math.NaN(), math.NaN()}
		r.Saved, r.Slowdown = unknown, unknown
		return
	}
	r.Chosen = s.held
	x := newSearch(s, s.axes[0], 0)
	chosen := x.id(s.held)
	if s.same(s.held, s.found) {
		return // nothing moved, nothing is saved, whether or not it was measured
	}
	r.Saved, r.Slowdown = x.shares(chosen, x.ref)
	if share := r.Saved.Value; share > 0 {
		// In a second of chosen work the host draws watts, and would have drawn watts/(1−share) for the same work.
		r.Payback = r.Joules / (math.Exp(x.fit.mean[x.rep[chosen]][qWatts]) * share / (1 - share))
	}
}
