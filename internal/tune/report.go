package tune

import (
	"fmt"
	"math"
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
	Chosen      int // index into States; Nothing with NoEnergy and after an error
	Verdict     Verdict
	MoreWindows int     // Uncertified: about how many more windows would certify, from the spread measured
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
	Joules    float64 // gross energy of all windows
	Seconds   float64 // length of all windows
	Payback   float64 // seconds of work in the chosen states that save Joules; +Inf if they save nothing
}

// report is the picture of the axis; a broken one ended in an error and chooses nothing.
func (x *search) report(broken bool) AxisResult {
	r := AxisResult{Name: x.axis.Name, Found: x.axis.Found, Chosen: Nothing, Verdict: Uncertified, Spread: math.NaN()}
	if x.fit.df >= 1 {
		r.Spread = math.Sqrt(x.fit.s2[qJoules])
	}
	var certified bool
	switch {
	case broken:
	case x.noEnergy:
		r.Verdict = NoEnergy
	case x.flat:
		r.Chosen, r.Verdict = x.axis.Found, Flat
	default:
		r.Chosen, certified = x.choose()
		switch {
		case !certified:
			r.MoreWindows = x.more()
		case x.rep[r.Chosen] == 0 || x.rep[r.Chosen] == x.top:
			r.Verdict = Edge
		default:
			r.Verdict = Interior
		}
	}
	var step path
	step.extend(x, r.Chosen)
	r.Saved, r.Slowdown = step.shares(x.opts.Confidence)
	for s := range x.axis.States {
		r.States = append(r.States, x.state(s))
	}
	return r
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

// path is the way from the states found to the chosen ones, in logarithms: what each axis brought, added up.
type path struct {
	speed, joules       float64 // ln of chosen ÷ found
	varSpeed, varJoules float64
	moved               bool    // a chosen state is not the one found
	df                  float64 // of the least known step that moved
	unknown             bool    // a step could not be measured
	watts, rate         float64 // of the last chosen state
}

// extend adds the step along one axis, from the state found to the chosen one.
func (p *path) extend(x *search, chosen int) {
	if x.flat && x.fit.n[x.found()] == 0 {
		return // the ends are alike, and the state found, which lies between them and was not measured, is kept
	}
	if chosen == Nothing || x.fit.n[x.rep[chosen]] == 0 || x.fit.n[x.found()] == 0 {
		p.unknown = true
		return
	}
	c := x.rep[chosen]
	d, se := x.fit.diff(c, x.found(), qRate)
	p.speed, p.varSpeed = p.speed+d, p.varSpeed+se*se
	d, se = x.fit.diff(c, x.found(), qJoules)
	p.joules, p.varJoules = p.joules+d, p.varJoules+se*se
	p.watts, p.rate = math.Exp(x.fit.mean[c][qWatts]), math.Exp(x.fit.mean[c][qRate])
	if c != x.found() {
		if !p.moved || x.fit.df < p.df {
			p.df = x.fit.df
		}
		p.moved = true
	}
}

// shares are the share of joules per work saved and of work/s lost along the path.
func (p *path) shares(confidence float64) (saved, slowdown Interval) {
	if p.unknown {
		none := Interval{math.NaN(), math.NaN(), math.NaN()}
		return none, none
	}
	lost := func(d, variance float64) Interval {
		switch {
		case !p.moved: // exactly nothing was lost or saved
			return Interval{}
		case p.df < 1:
			return Interval{-math.Expm1(d), math.Inf(-1), 1}
		}
		half := tQuantile((1+confidence)/2, p.df) * math.Sqrt(variance)
		return Interval{-math.Expm1(d), -math.Expm1(d + half), -math.Expm1(d - half)}
	}
	return lost(p.joules, p.varJoules), lost(p.speed, p.varSpeed)
}

// account books what the sweep itself took.
func (s *sweep) account(r *Result) {
	r.Windows, r.Voided, r.Joules, r.Seconds = s.windows, s.voided, s.joules, s.seconds
	r.Payback = math.Inf(1)
}

// conclude adds up the axes of a sweep that ended well.
func (r *Result) conclude(axes []Axis, held []int, total path, confidence float64) {
	if len(r.Axes) < len(axes) || r.Axes[len(axes)-1].Verdict == NoEnergy {
		total.unknown = true
	} else {
		r.Chosen = held
	}
	r.Saved, r.Slowdown = total.shares(confidence)
	if share := r.Saved.Value; share > 0 {
		// In a second of chosen work the host draws watts, and would have drawn watts/(1−share) for the same work.
		r.Payback = r.Joules / (total.watts * share / (1 - share))
	}
	if len(axes) > 1 {
		r.Note = "The axes were searched in turn, each with the others held at the best state known so far; combinations off that path were not measured."
	}
}
