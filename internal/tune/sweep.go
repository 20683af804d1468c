package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// errBudget ends a search, not a sweep: there are no windows left.
var errBudget = errors.New("window budget used up")

// Sweep searches the axes in turn, each with the others held at the best state known so far, at first the state found.
// The error is the trial's own, or the cause of a cancelled ctx; the Result then holds what was measured until then, and
// nothing is chosen. A budget that runs out is no error: the axis is uncertified.
//
// Every window is taken in a state at or below Found unless Options.AllowRaise.
func Sweep(ctx context.Context, axes []Axis, trial Trial, opts Options) (Result, error) {
	opts, err := opts.withDefaults(axes)
	if err != nil {
		return Result{}, err
	}
	s := &sweep{trial: trial, opts: opts, rng: rand.New(rand.NewPCG(opts.Seed, pcgStream))}
	for _, a := range axes {
		s.held = append(s.held, a.Found)
	}
	var (
		r     = Result{Objective: opts.Objective, Principle: Principle}
		total path
	)
	for i, a := range axes {
		x := newSearch(s, a, i, total.speed)
		x.limit = s.windows + (opts.MaxWindows-s.windows)/(len(axes)-i)
		err := x.run(ctx)
		r.Axes = append(r.Axes, x.report(err != nil))
		if err != nil {
			s.account(&r)
			return r, err
		}
		if x.noEnergy {
			break // nothing is chosen on any axis: there is no counter
		}
		s.held[i] = r.Axes[i].Chosen
		total.extend(x, s.held[i])
	}
	s.account(&r)
	r.conclude(axes, s.held, total, opts.Confidence)
	return r, nil
}

// pcgStream keeps this package's random numbers apart from those of a caller that seeds its own with the same number.
const pcgStream = 0x71756e6572

// sweep is what the searches of all axes share: the trial, the budget, and the states held on the other axes.
type sweep struct {
	trial Trial
	opts  Options
	rng   *rand.Rand
	held  []int

	windows, voided int
	joules, seconds float64
}

// search is the search along one axis. States are indices into axis.States; only 0…top are ever set.
type search struct {
	*sweep
	axis  Axis
	pos   int     // which of the sweep's axes this is
	top   int     // highest state that may be set
	floor float64 // ln of the least work/s allowed ÷ work/s of the state found on this axis
	limit int     // windows of the whole sweep at which this axis must end

	phase    Phase
	ws       []window
	voids    []int    // voided windows per state
	rep      []int    // the state that stands for a state's group of the same measured power
	skipped  []string // why a state was not measured
	flat     bool
	noEnergy bool
	device   bool // windows tell the device's watts
	fit      fit
}

// newSearch prepares the search along the axis at pos; speed is ln of the work/s of the states held so far ÷ of those
// found, and what it has cost is no longer to be spent here.
func newSearch(s *sweep, a Axis, pos int, speed float64) *search {
	x := &search{sweep: s, axis: a, pos: pos, top: a.Found, floor: math.Log(1-s.opts.MaxSlowdown) - speed}
	if s.opts.AllowRaise {
		x.top = len(a.States) - 1
	}
	x.voids, x.skipped = make([]int, len(a.States)), make([]string, len(a.States))
	for i := range a.States {
		x.rep = append(x.rep, i)
		if i > x.top {
			x.skipped[i] = "above the state found"
		}
	}
	x.fit = fitWindows(nil, x.rep)
	return x
}

// run takes the phases in their order; a budget that ends early ends them early, and that is no error.
func (x *search) run(ctx context.Context) error {
	for _, phase := range []func(context.Context) error{x.check, x.pass, x.refine} {
		switch err := phase(ctx); {
		case errors.Is(err, errBudget):
			x.noEnergy = len(x.ws) > 0 && !x.lit()
			return nil
		case err != nil:
			return err
		case x.flat:
			return nil
		}
	}
	return nil
}

// measure takes one window that counts in a state, repeating void ones within the budget.
func (x *search) measure(ctx context.Context, state int) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if x.windows >= x.limit {
			return errBudget
		}
		at := slices.Clone(x.held)
		at[x.pos] = state
		sample, err := x.trial(ctx, at)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("axis %s, state %s: %w", x.axis.Name, x.axis.States[state], err)
		}
		if x.count(state, sample) {
			return nil
		}
	}
}

// count books a window and says whether it counts.
func (x *search) count(state int, s Sample) bool {
	x.windows++
	x.seconds += max(0, s.Seconds)
	if s.hasEnergy() {
		x.joules += s.Joules
	}
	s.Void = x.judge(s)
	if s.Void != "" {
		x.voids[state]++
		x.voided++
	} else {
		x.admit(window{state: state, at: float64(x.windows), y: measure(s, x.opts.Objective, x.device)})
	}
	if x.opts.Progress != nil {
		x.opts.Progress(Progress{
			Axis: x.axis.Name, Phase: x.phase, State: state, Label: x.axis.States[state], Sample: s,
			Window: x.windows, Max: x.opts.MaxWindows, Voided: x.voided,
		})
	}
	return s.Void == ""
}

// judge is why a window does not count, "" if it does. A figure that some windows have and this one lacks is a gap.
func (x *search) judge(s Sample) string {
	switch {
	case s.Void != "":
		return s.Void
	case !(s.Work > 0 && s.Seconds > 0 && !math.IsInf(s.Work/s.Seconds, 0)):
		return "no work"
	case x.lit() && !s.hasEnergy():
		return "no energy"
	case !x.lit() && s.hasEnergy():
		x.device = s.Achieved > 0
	case x.device && !(s.Achieved > 0):
		return "no device watts"
	}
	return ""
}

// admit adds a window that counts. The first with energy voids those before it that had none.
func (x *search) admit(w window) {
	if !x.lit() && w.lit() {
		for _, dark := range x.ws {
			x.voids[dark.state]++
			x.voided++
		}
		x.ws = nil
	}
	x.ws = append(x.ws, w)
	x.fit = fitWindows(x.ws, x.rep)
}

// lit tells whether the windows so far have energy.
func (x *search) lit() bool { return len(x.ws) > 0 && x.ws[0].lit() }
