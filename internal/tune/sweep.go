package tune

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// errBudget ends a search, not a sweep: there are no windows or no time left.
var errBudget = errors.New("budget used up")

// Sweep searches the axes in turn, each with the others held at the best state known so far, at first the state found. When
// all are set, the neighbours of that corner are looked at. The error is the trial's own, or the cause of a cancelled ctx;
// the Result then holds what was measured until then, and nothing is chosen. A budget that runs out is no error: the axis
// is uncertified.
//
// Every window is taken in a state at or below Found unless Options.AllowRaise.
func Sweep(ctx context.Context, axes []Axis, trial Trial, opts Options) (Result, error) {
	opts, err := opts.withDefaults(axes)
	if err != nil {
		return Result{}, err
	}
	s := newSweep(axes, trial, opts)
	r := Result{Objective: opts.Objective, Principle: Principle}
	var searched []*search
	asBefore := true // the axes so far stand where they stood while the later ones were searched before
	for i, a := range axes {
		if !asBefore {
			a.Prior = nil
		}
		x := newSearch(s, a, i)
		x.limits(len(axes) - i)
		err := x.run(ctx)
		r.Axes = append(r.Axes, x.report(err != nil))
		if err != nil {
			s.account(&r)
			return r, err
		}
		if x.noEnergy {
			break // nothing is chosen on any axis: there is no counter
		}
		searched = append(searched, x)
		s.held[i], s.canon[i] = r.Axes[i].Chosen, x.rep[:len(a.States)]
		before := a.Found
		if a.Prior != nil {
			before = a.Prior.State
		}
		asBefore = asBefore && s.held[i] == before
	}
	if err := s.corner(ctx, searched, &r); err != nil {
		s.account(&r)
		return r, err
	}
	s.account(&r)
	s.conclude(&r)
	return r, nil
}

// pcgStream keeps this package's random numbers apart from those of a caller that seeds its own with the same number.
const pcgStream = 0x71756e6572

// sweep is what the searches of all axes share: the trial, the budget, the states held on the axes, and what was measured.
type sweep struct {
	trial Trial
	axes  []Axis
	opts  Options
	rng   *rand.Rand
	found []int   // the combination of states found
	held  []int   // the best one known so far
	canon [][]int // by axis and state, the state that stands for its group of the same measured power
	log   []booked
	ts    map[[2]float64]float64 // quantiles of Student's t, by probability and degrees of freedom

	windows, voided int
	joules, seconds float64
	spent, longest  time.Duration // all trials, and the longest one
}

// booked is a window that counts.
type booked struct {
	at     []int // the combination of states
	number int   // of the window in the sweep
	sample Sample
}

func newSweep(axes []Axis, trial Trial, opts Options) *sweep {
	s := &sweep{
		trial: trial, axes: axes, opts: opts, rng: rand.New(rand.NewPCG(opts.Seed, pcgStream)),
		ts: map[[2]float64]float64{}, longest: opts.TrialTime,
	}
	for _, a := range axes {
		s.found = append(s.found, a.Found)
		own := make([]int, len(a.States))
		for i := range own {
			own[i] = i
		}
		s.canon = append(s.canon, own)
	}
	s.held = slices.Clone(s.found)
	return s
}

// quantile is tQuantile, remembered.
func (s *sweep) quantile(p, df float64) float64 {
	t, ok := s.ts[[2]float64{p, df}]
	if !ok {
		t = tQuantile(p, df)
		s.ts[[2]float64{p, df}] = t
	}
	return t
}

// same tells whether two combinations are one: on every axis the same state, or one that draws the same.
func (s *sweep) same(a, b []int) bool {
	for i := range a {
		if a[i] != b[i] && s.canon[i][a[i]] != s.canon[i][b[i]] {
			return false
		}
	}
	return true
}

// lit tells whether the windows so far have energy.
func (s *sweep) lit() bool { return len(s.log) > 0 && s.log[0].sample.hasEnergy() }

// affords tells whether one more trial fits what a search may use.
func (x *search) affords() bool {
	return x.windows < x.limit && (x.opts.Budget == 0 || x.spent+x.longest <= x.until)
}

// limits gives the axis its share of what is left of the budget, with so many axes to go.
func (x *search) limits(axes int) {
	x.limit = x.windows + (x.opts.MaxWindows-x.windows)/axes
	x.until = x.spent + (x.opts.Budget-x.spent)/time.Duration(axes)
}

// measure takes one window that counts in a combination the search knows, repeating void ones within the budget.
func (x *search) measure(ctx context.Context, id int) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !x.affords() {
			return errBudget
		}
		at := slices.Clone(x.combos[id])
		sample, err := x.trial(ctx, slices.Clone(at))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("axis %s, state %s: %w", x.axis.Name, x.axis.States[at[x.pos]], err)
		}
		if x.count(id, sample) {
			return nil
		}
	}
}

// count books a window and says whether it counts.
func (x *search) count(id int, s Sample) bool {
	x.windows++
	x.seconds += max(0, s.Seconds)
	x.spent += s.took()
	x.longest = max(x.longest, s.took())
	if s.hasEnergy() {
		x.joules += s.Joules
	}
	if x.opts.Objective == AtRest && s.Work == 0 {
		s.Work = s.Seconds
	}
	s.Void = x.judge(s)
	state := x.combos[id][x.pos]
	if s.Void != "" {
		x.voids[state]++
		x.voided++
	} else {
		x.admit(booked{at: x.combos[id], number: x.windows, sample: s})
	}
	if x.opts.Progress != nil {
		x.opts.Progress(Progress{
			Axis: x.axis.Name, Phase: x.phase, State: state, Label: x.axis.States[state], Sample: s, At: slices.Clone(x.combos[id]),
			Window: x.windows, Max: x.opts.MaxWindows, Voided: x.voided, Best: x.choose(),
		})
	}
	return s.Void == ""
}
