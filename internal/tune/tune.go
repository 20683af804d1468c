package tune

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
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
}

// Sample is one window of work done in one state.
type Sample struct {
	Work     float64 // amount of work done, in the workload's own unit
	Seconds  float64 // length of the window
	Joules   float64 // energy of the whole host, gross; NaN or ≤ 0 where there is no counter
	Achieved float64 // mean watts of the device the axis moves; 0 where it is not known
	Void     string  // why the window does not count, "" if it does; a void window is repeated within the budget
}

// hasEnergy tells whether a counter measured the window.
func (s Sample) hasEnergy() bool { return s.Joules > 0 && !math.IsInf(s.Joules, 1) }

// Trial sets the state (one index per axis), settles, and measures one window of work. An error ends the sweep.
type Trial func(ctx context.Context, state []int) (Sample, error)

// Objective is what a sweep maximises.
type Objective int

// The objectives. The zero value is work per joule.
const (
	WorkPerJoule  Objective = iota // least joules per work
	WorkPerSecond                  // most work per second
	EDP                            // least energy × delay: joules per work × seconds per work
)

// names are what the objectives are written as, by Objective.
func names() []string { return []string{"work-per-joule", "work-per-second", "edp"} }

// ParseObjective reads the name an Objective is written with.
func ParseObjective(name string) (Objective, error) {
	if i := slices.Index(names(), name); i >= 0 {
		return Objective(i), nil
	}
	return 0, fmt.Errorf("objective %q: allowed are %s", name, strings.Join(names(), ", "))
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
	default:
		return watts - rate
	}
}

// Options say what to look for and how long. The zero value of a field takes the default named beside it.
type Options struct {
	Objective   Objective
	MaxSlowdown float64 // 0.10: the least work/s allowed is (1 − MaxSlowdown) × the state found; negative: no slowdown at all
	AllowRaise  bool    // also try states above the one found
	MaxWindows  int     // 40 per axis: windows in all, voided ones included
	Repeats     int     // 2: windows the two ends of an axis get before anything is concluded from them, at least 2
	Confidence  float64 // 0.95
	Seed        uint64  // breaks ties in the order of windows; equal seeds and samples give equal sweeps
	Progress    func(Progress)
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
	Sample Sample // the window itself, Void if it did not count
}

// Phase is the part of an axis's search a window belongs to.
type Phase string

// The phases, in their order.
const (
	PhaseCheck  Phase = "pre-check" // both ends: does this axis do anything?
	PhasePass   Phase = "pass"      // once over every state that may matter
	PhaseRefine Phase = "refine"    // again where the decision hangs on it
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
	}
	return o, nil
}
