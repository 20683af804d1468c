package tune

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Principle is the sentence every report carries: what is expected of a curve, and what the band is not.
const Principle = "Work per joule tends to peak inside the range, not at its top (EXP-132); ±1.91 % is that experiment's fixed threshold, not this host's confidence interval."

// Band is the width of EXP-132's band: states whose cost is at most 1+Band times the best one's are as good as the best.
const Band = 0.0191

// MaxStates is the most states one axis may have.
const MaxStates = 25

// Nothing is the index that stands for no state: nothing was chosen.
const Nothing = -1

// Axis is a named group of levers moved together.
type Axis struct {
	Name   string
	States []string // labels, from the lowest power to the highest
	Found  int      // index of the state found before the sweep
	Prior  *Prior   // what an earlier sweep has found; nil: nothing is known
}

// Sample is one window of work done in one state.
type Sample struct {
	Work     float64 // amount of work done, in the workload's own unit
	Seconds  float64 // length of the window
	Joules   float64 // energy of the whole host, gross; NaN or ≤ 0 where there is no counter
	Achieved float64 // mean watts of the device the axes move; 0 where it is not known
	// AchievedBy is the same for each axis, where they move different devices; where it is short or 0, Achieved holds.
	AchievedBy []float64
	Took       time.Duration // the whole trial, setting and settling included; 0: Seconds
	Void       string        // why the window does not count, "" if it does; a void window is repeated within the budget
}

// device is the mean watts of the device that the axis at pos moves.
func (s Sample) device(pos int) float64 {
	if pos < len(s.AchievedBy) && s.AchievedBy[pos] > 0 {
		return s.AchievedBy[pos]
	}
	return s.Achieved
}

// took is how long the trial was.
func (s Sample) took() time.Duration {
	if s.Took > 0 {
		return s.Took
	}
	return time.Duration(max(0, s.Seconds) * float64(time.Second))
}

// hasEnergy tells whether a counter measured the window.
func (s Sample) hasEnergy() bool { return s.Joules > 0 && !math.IsInf(s.Joules, 1) }

// Trial sets the state (one index per axis), settles, and measures one window of work. An error ends the sweep.
type Trial func(ctx context.Context, state []int) (Sample, error)

// Objective is what a sweep maximises.
type Objective int

// The objectives. The zero value is work per joule. AtRest is for a host that does nothing: its work is time itself, a
// sample needs none, and there is no speed to keep. It is not one that a person asks for, and ParseObjective does not know it.
const (
	WorkPerJoule  Objective = iota // least joules per work
	WorkPerSecond                  // most work per second
	EDP                            // least energy × delay: joules per work × seconds per work
	AtRest                         // least watts
)

// names are what the objectives are written as, by Objective.
func names() []string { return []string{"work-per-joule", "work-per-second", "edp", "watts-at-rest"} }

// ParseObjective reads the name an Objective is written with.
func ParseObjective(name string) (Objective, error) {
	asked := names()[:AtRest]
	if i := slices.Index(asked, name); i >= 0 {
		return Objective(i), nil
	}
	return 0, fmt.Errorf("objective %q: allowed are %s", name, strings.Join(asked, ", "))
}

// String is the name ParseObjective reads.
func (o Objective) String() string {
	if o < 0 || int(o) >= len(names()) {
		return fmt.Sprintf("objective(%d)", int(o))
	}
	return names()[o]
}

// cost is ln(what the objective minimises) of a state with these logarithms of work/s and of watts.
func (o Objective) cost(rate, watts float64) float64 {
	switch o {
	case WorkPerSecond:
		return -rate
	case EDP:
		return watts - 2*rate
	case AtRest:
		return watts
	default:
		return watts - rate
	}
}

// Options say what to look for and how long. The zero value of a field takes the default named beside it.
type Options struct {
	Objective Objective
	// MaxSlowdown: 0.10; the least work/s allowed is (1 − MaxSlowdown) × the state found; negative: no slowdown at all. It goes by
	// the estimate, within a part of a standard error; where the choice hangs on it, a state near it is measured again.
	MaxSlowdown float64
	AllowRaise  bool          // also try states above the one found
	MaxWindows  int           // 40 per axis: windows in all, voided ones included
	Budget      time.Duration // none: time in all; no trial is begun that would end after it, going by the longest one so far
	TrialTime   time.Duration // 0: how long a trial is expected to take before there was one; only for Budget
	Repeats     int           // 2: windows the two ends of an axis get before it is found to do nothing, at least 2
	Confidence  float64       // 0.95
	Seed        uint64        // breaks ties in the order of windows; equal seeds and samples give equal sweeps
	// Horizon: an axis that even with the largest saving its pre-check leaves possible could not pay back the sweep within
	// this time of work is left where it was found. 0: none is.
	Horizon  time.Duration
	Progress func(Progress)
}

// Progress tells of one window that has just ended.
type Progress struct {
	Axis   string
	Phase  Phase
	State  int    // index in Axis.States
	Label  string // Axis.States[State]
	Window int    // windows done so far, voided ones included
	Max    int    // the budget of windows
	Voided int    // how many of them were void
	At     []int  // the whole combination of states, one index an axis
	Sample Sample // the window itself, Void if it did not count
	Best   int    // index in Axis.States of the state that would be chosen if the sweep ended now
}

// Phase is the part of an axis's search a window belongs to.
type Phase string

// The phases, in their order.
const (
	PhaseAgain  Phase = "again"     // what an earlier sweep has chosen, and beside it: is it as it was?
	PhaseCheck  Phase = "pre-check" // both ends: does this axis do anything?
	PhasePass   Phase = "pass"      // once over every state that may matter
	PhaseRefine Phase = "refine"    // again where the decision hangs on it
	PhaseCorner Phase = "corner"    // beside the optima of all axes, now that all of them are set
)

// withDefaults fills in what the caller left open and refuses what makes no sense.
func (o Options) withDefaults(axes []Axis) (Options, error) {
	switch {
	case o.MaxSlowdown == 0:
		o.MaxSlowdown = 0.10
	case o.MaxSlowdown < 0:
		o.MaxSlowdown = 0
	case !(o.MaxSlowdown < 1):
		return o, fmt.Errorf("max slowdown %v: not below 1", o.MaxSlowdown)
	}
	if o.Confidence == 0 {
		o.Confidence = 0.95
	}
	if !(o.Confidence > 0.5 && o.Confidence < 1) {
		return o, fmt.Errorf("confidence %v: not between 0.5 and 1", o.Confidence)
	}
	if o.MaxWindows == 0 {
		o.MaxWindows = 40 * len(axes)
	}
	if o.MaxWindows < 0 {
		return o, fmt.Errorf("budget of %d windows: negative", o.MaxWindows)
	}
	if o.Budget < 0 || o.TrialTime < 0 || o.Horizon < 0 {
		return o, fmt.Errorf("budget %v, trial time %v, horizon %v: negative", o.Budget, o.TrialTime, o.Horizon)
	}
	o.Repeats = max(o.Repeats, 2)
	if len(axes) == 0 {
		return o, fmt.Errorf("sweep: no axis")
	}
	for _, a := range axes {
		if n := len(a.States); n == 0 || n > MaxStates {
			return o, fmt.Errorf("axis %s: %d states, want 1 to %d", a.Name, n, MaxStates)
		}
		if a.Found < 0 || a.Found >= len(a.States) {
			return o, fmt.Errorf("axis %s: found state %d of %d", a.Name, a.Found, len(a.States))
		}
		if err := a.Prior.check(a); err != nil {
			return o, err
		}
	}
	return o, nil
}
