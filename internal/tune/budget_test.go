package tune

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"
)

// lastingTrial makes each trial of a curve last so long.
func lastingTrial(trial Trial, took time.Duration) Trial {
	return func(ctx context.Context, s []int) (Sample, error) {
		sample, err := trial(ctx, s)
		sample.Took = took
		return sample, err
	}
}

func TestTimeBudgetBoundsTheSweep(t *testing.T) {
	c := bend(9, 3)
	for _, axes := range []int{1, 2} {
		for budget := time.Duration(0); budget <= 10*time.Minute; budget += 47 * time.Second {
			trial := lastingTrial(c.trial(1, seeded(0.15)), 20*time.Second)
			list := []Axis{c.axis()}
			if axes == 2 {
				list = []Axis{{Name: "package", States: []string{"a", "b"}, Found: 1}, c.axis()}
			}
			r, err := Sweep(t.Context(), list, trial, Options{Budget: budget, TrialTime: 20 * time.Second, MaxSlowdown: ample})
			if err != nil {
				t.Fatal(err)
			}
			if budget > 0 && r.Took > budget || r.Took != time.Duration(r.Windows)*20*time.Second {
				t.Errorf("budget %v: %d windows took %v", budget, r.Windows, r.Took)
			}
			if budget >= time.Minute && budget-r.Took >= 40*time.Second && r.Axes[axes-1].Verdict == Uncertified && r.Windows < 40 {
				t.Errorf("budget %v: uncertified, and only %v were used", budget, r.Took)
			}
		}
	}
}

// Without an expectation the first trial tells how long one is; and one that is expected to be too long is not begun.
func TestTimeBudgetAndTheFirstTrial(t *testing.T) {
	c := bend(9, 3)
	trial := lastingTrial(c.trial(1, seeded(0.02)), time.Minute)
	r := sweepOne(t, c, trial, Options{Budget: 90 * time.Second})
	if r.Windows != 1 {
		t.Errorf("%d windows of a minute in 90 s", r.Windows)
	}
	r = sweepOne(t, c, trial, Options{Budget: 90 * time.Second, TrialTime: 2 * time.Minute})
	if r.Windows != 0 || r.Axes[0].Verdict != Uncertified || r.Axes[0].Chosen != c.top() {
		t.Errorf("%d windows, %s", r.Windows, r.Axes[0].Verdict)
	}
}

// An uncertified axis says in words what is in doubt and what would settle it; a certified one says nothing.
func TestNextStep(t *testing.T) {
	c := bend(9, 3)
	for budget, want := range map[int][]string{
		4:  {"gpu: ", "have not been measured", "about ", " more windows (", " min)"},
		14: {"gpu: ", "cannot be told apart yet", "scatters by 2", "more windows ("},
	} {
		r := sweepOne(t, c, lastingTrial(c.trial(5, seeded(0.15)), 30*time.Second), Options{MaxWindows: budget, MaxSlowdown: ample})
		for _, words := range want {
			if !strings.Contains(r.Axes[0].NextStep, words) {
				t.Errorf("after %d windows: %q lacks %q", budget, r.Axes[0].NextStep, words)
			}
		}
	}
	if r := sweepOne(t, c, c.trial(5, seeded(0.01)), Options{}); r.Axes[0].NextStep != "" || r.Axes[0].Verdict == Uncertified {
		t.Errorf("%s: %q", r.Axes[0].Verdict, r.Axes[0].NextStep)
	}
}

func TestProspect(t *testing.T) {
	for name, tt := range map[string]struct {
		p      Prospect
		within time.Duration
		pays   bool
		back   time.Duration
		words  string
	}{
		"a tenth of 300 W pays 42 kJ back in 1400 s": {Prospect{300, 0.1, 42000}, time.Hour, true, 1400 * time.Second, "at most 10.0 % of 300 W, that is 30 W, can be saved; the sweep takes about 42 kJ, which that saves in 23 min of work, within 60 min"},
		"a hair does not":           {Prospect{300, 0.0001, 42000}, 10 * 24 * time.Hour, false, 1400000 * time.Second, "in 16 days of work, more than 10 days"},
		"nothing never does":        {Prospect{300, 0, 2.5e6}, time.Hour, false, math.MaxInt64, "nothing can be saved, and the sweep takes about 2.5 MJ"},
		"less than nothing neither": {Prospect{300, -0.1, 10}, time.Hour, false, math.MaxInt64, "about 10 J"},
	} {
		pays, words := tt.p.Pays(tt.within)
		if pays != tt.pays || !strings.Contains(words, tt.words) {
			t.Errorf("%s: %v, %q", name, pays, words)
		}
		if got := tt.p.Payback(); tt.back == math.MaxInt64 && got != tt.back || tt.back != math.MaxInt64 && (got-tt.back).Abs() > time.Second {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// After the pre-check a sweep that cannot pay back is not gone on with, if it is told in what time it has to.
func TestSweepStopsWhereItCannotPayBack(t *testing.T) {
	c := bend(9, 3)
	for horizon, stops := range map[time.Duration]bool{0: false, 5 * time.Second: true, 30 * 24 * time.Hour: false} {
		r := sweepOne(t, c, c.trial(1, seeded(0.02)), Options{Horizon: horizon, MaxSlowdown: ample})
		x := r.Axes[0]
		if stopped := x.Stopped != ""; stopped != stops {
			t.Errorf("within %v: %q", horizon, x.Stopped)
		}
		if stops && (r.Windows > 4 || x.Chosen != x.Found || x.Verdict != Uncertified || !strings.Contains(x.NextStep, "the sweep takes") || r.Saved != (Interval{})) {
			t.Errorf("within %v: %d windows, chosen %d, %s, %q", horizon, r.Windows, x.Chosen, x.Verdict, x.NextStep)
		}
	}
}

// Whoever asks for speed is not told what it does not save.
func TestSpeedHasNoPayback(t *testing.T) {
	c := bend(9, 3)
	if r := sweepOne(t, c, c.trial(1, seeded(0.02)), Options{Objective: WorkPerSecond, Horizon: time.Second}); r.Axes[0].Stopped != "" {
		t.Error(r.Axes[0].Stopped)
	}
}

// At rest the work is time itself: the state of least watts is chosen, whatever else it does, and a lever that changes
// nothing is left alone.
func TestAtRest(t *testing.T) {
	axis := Axis{Name: "governor", States: []string{"powersave", "schedutil", "performance"}, Found: 2}
	for name, tt := range map[string]struct {
		watts  []float64
		want   int
		verdct Verdict
	}{
		"the lowest saves":   {[]float64{30, 36, 41}, 0, Edge},
		"the middle one":     {[]float64{41, 33, 44}, 1, Interior},
		"nothing to be had":  {[]float64{40, 40.2, 40.4}, 2, Flat},
		"the found one best": {[]float64{45, 43, 38}, 2, Edge},
	} {
		calls := 0.0
		r, err := Sweep(t.Context(), []Axis{axis}, func(_ context.Context, s []int) (Sample, error) {
			calls++
			return Sample{Seconds: 30, Joules: 30 * tt.watts[s[0]] * (1 + 0.004*math.Sin(calls*calls))}, nil
		}, Options{Objective: AtRest})
		if err != nil {
			t.Fatal(err)
		}
		if x := r.Axes[0]; x.Chosen != tt.want || x.Verdict != tt.verdct {
			t.Errorf("%s: chosen %d, %s", name, x.Chosen, x.Verdict)
		}
		if saved := 1 - tt.watts[tt.want]/tt.watts[2]; math.Abs(r.Saved.Value-saved) > 0.01 {
			t.Errorf("%s: saved %v, want %v", name, r.Saved.Value, saved)
		}
	}
	if _, err := ParseObjective(AtRest.String()); err == nil {
		t.Error("a person can ask for it")
	}
}

func TestNegativeTimesAreRefused(t *testing.T) {
	for _, opts := range []Options{{Budget: -1}, {TrialTime: -1}, {Horizon: -1}} {
		if _, err := Sweep(t.Context(), []Axis{bend(3, 1).axis()}, nil, opts); err == nil {
			t.Errorf("%+v: no error", opts)
		}
	}
}
