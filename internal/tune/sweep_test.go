package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bend is a smooth curve of n states whose best joules per work lies at state best: power rises evenly, speed saturates.
func bend(n int, best float64) curve {
	c := curve{name: fmt.Sprintf("bend of %d, best %v", n, best)}
	for s := range n {
		watts := 100 + 250*float64(s)/float64(max(n-1, 1))
		cost := 1 + 0.6*math.Pow((float64(s)-best)/float64(n), 2)
		c.label = append(c.label, fmt.Sprintf("%.0f W", watts))
		c.watts = append(c.watts, watts)
		c.rate = append(c.rate, watts/cost)
	}
	return c
}

// sweepOne sweeps a curve alone and fails the test on an error.
func sweepOne(t *testing.T, c curve, trial Trial, opts Options) Result {
	t.Helper()
	r, err := Sweep(t.Context(), []Axis{c.axis()}, trial, opts)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	return r
}

// ample is a speed floor low enough not to matter.
const ample = 0.95

// wanted is the state to be chosen on a curve without noise: the fastest that is allowed and in the band.
func (c curve) wanted(slow float64) int {
	allowed := func(s int) bool { return c.rate[s] >= (1-slow)*c.rate[c.top()] }
	best := c.top()
	for s := range c.rate {
		if allowed(s) && c.cost(s) < c.cost(best) {
			best = s
		}
	}
	fastest := best
	for s := range c.rate {
		if allowed(s) && c.cost(s) <= (1+Band)*c.cost(best) && c.rate[s] > c.rate[fastest] {
			fastest = s
		}
	}
	return fastest
}

func TestVerdicts(t *testing.T) {
	level := curve{label: []string{"a", "b", "c"}, rate: []float64{1, 1, 1}, watts: []float64{100, 102, 104}}
	for name, tt := range map[string]struct {
		curve curve
		slow  float64
		want  Verdict
		state int
	}{
		"inside the range":             {bend(9, 3), ample, Interior, bend(9, 3).wanted(ample)},
		"inside, held by the floor":    {bend(9, 3), 0.2, Interior, bend(9, 3).wanted(0.2)},
		"at the bottom":                {bend(9, -2), ample, Edge, 0},
		"at the top":                   {bend(9, 9), ample, Edge, 8},
		"no slowdown at all":           {bend(9, 3), -1, Edge, 8},
		"the lever does nothing":       {level, ample, Flat, 2},
		"the longest axis there is":    {bend(MaxStates, 8), ample, Interior, bend(MaxStates, 8).wanted(ample)},
		"two states, the lower wins":   {bend(2, 0), ample, Edge, 0},
		"one state, nothing to choose": {bend(1, 0), ample, Edge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := sweepOne(t, tt.curve, tt.curve.trial(1, noise{}), Options{MaxSlowdown: tt.slow})
			x := r.Axes[0]
			if x.Verdict != tt.want || x.Chosen != tt.state || !slices.Equal(r.Chosen, []int{tt.state}) {
				t.Errorf("verdict %s, chosen %d (%v), want %s, %d", x.Verdict, x.Chosen, r.Chosen, tt.want, tt.state)
			}
			if r.Principle != Principle || r.Note != "" {
				t.Errorf("principle %q, note %q", r.Principle, r.Note)
			}
		})
	}
}

func TestFlatAxisCostsFourWindows(t *testing.T) {
	c := curve{label: make([]string, 9), rate: slices.Repeat([]float64{2}, 9), watts: slices.Repeat([]float64{90}, 9)}
	if r := sweepOne(t, c, c.trial(1, seeded(0.02)), Options{}); r.Windows != 4 || r.Axes[0].Verdict != Flat {
		t.Errorf("%d windows, %s", r.Windows, r.Axes[0].Verdict)
	}
}

// Ends whose power differs by less than 5 % are flat, more are not.
func TestFlatIsLessThanFivePercent(t *testing.T) {
	for top, want := range map[float64]bool{104.5: true, 105.5: false, 95.5: true, 94.5: false} {
		c := curve{label: []string{"low", "high"}, rate: []float64{1, 1}, watts: []float64{100, top}}
		r := sweepOne(t, c, c.trial(1, noise{}), Options{})
		if got := r.Axes[0].Verdict == Flat; got != want {
			t.Errorf("100 W and %v W: %s", top, r.Axes[0].Verdict)
		}
	}
}

// A lever that changes the speed at the same power is not flat.
func TestEqualPowerIsNotFlatIfTheSpeedDiffers(t *testing.T) {
	c := curve{label: []string{"slow", "fast"}, rate: []float64{0.85, 1}, watts: []float64{100, 101}}
	for _, o := range []Objective{WorkPerJoule, WorkPerSecond, EDP} {
		r := sweepOne(t, c, c.trial(1, seeded(0.005)), Options{Objective: o, MaxSlowdown: ample})
		if x := r.Axes[0]; x.Verdict != Edge || x.Chosen != 1 {
			t.Errorf("%s: %s, chosen %d", o, x.Verdict, x.Chosen)
		}
	}
}

// Caps that do not bind are one state: few of them are measured, and the one already set is kept.
func TestCapsThatDoNotBindAreOneState(t *testing.T) {
	c := bend(9, 11)
	for range 10 {
		c.label = append(c.label, fmt.Sprint(len(c.label)))
		c.rate, c.watts = append(c.rate, c.rate[8]), append(c.watts, c.watts[8])
	}
	r := sweepOne(t, c, c.trial(3, noise{joules: 0.005, watts: 0.0025}), Options{})
	x := r.Axes[0]
	one := 0
	for _, s := range x.States {
		if s.SameAs == c.top() {
			one++
		}
	}
	if one < 4 || x.Chosen != c.top() || x.Verdict != Edge || r.Windows > 16 {
		t.Errorf("%d states merged, chosen %d, %s, %d windows", one, x.Chosen, x.Verdict, r.Windows)
	}
}

func TestNoEnergyChoosesNothing(t *testing.T) {
	for name, joules := range map[string]float64{"NaN": math.NaN(), "zero": 0, "negative": -3, "infinite": math.Inf(1)} {
		t.Run(name, func(t *testing.T) {
			c := bend(7, 3)
			r := sweepOne(t, c, func(_ context.Context, s []int) (Sample, error) {
				return Sample{Work: c.rate[s[0]], Seconds: 1, Joules: joules}, nil
			}, Options{MaxSlowdown: ample})
			x := r.Axes[0]
			if x.Verdict != NoEnergy || r.Chosen != nil || x.Chosen != Nothing || r.Joules != 0 || !math.IsInf(r.Payback, 1) {
				t.Errorf("%+v", r)
			}
			for s, st := range x.States {
				if math.Abs(st.WorkPerSecond.Value-c.rate[s]) > 1e-9 || !math.IsNaN(st.JoulesPerWork.Value) || st.InBand || st.Certified {
					t.Errorf("state %d: %+v: want its speed, and no joules", s, st)
				}
			}
		})
	}
}

// A budget that ends in the pre-check knows already that there is no counter; one that was void throughout knows nothing.
func TestShortBudgets(t *testing.T) {
	c := bend(7, 3)
	for want, sample := range map[Verdict]Sample{
		NoEnergy:    {Work: 1, Seconds: 1},
		Uncertified: {Work: 1, Seconds: 1, Joules: 5, Void: "thermal throttling"},
	} {
		r := sweepOne(t, c, func(context.Context, []int) (Sample, error) { return sample, nil }, Options{MaxWindows: 3})
		x := r.Axes[0]
		if x.Verdict != want || want == Uncertified && (x.Chosen != c.top() || x.MoreWindows < c.top()) {
			t.Errorf("%s, want %s: %+v", x.Verdict, want, x)
		}
	}
}

func TestNoiseBeyondTheBudgetIsUncertified(t *testing.T) {
	c := bend(9, 3)
	const budget = 14
	r := sweepOne(t, c, c.trial(5, seeded(0.15)), Options{MaxWindows: budget, MaxSlowdown: ample})
	x := r.Axes[0]
	if x.Verdict != Uncertified || x.MoreWindows < 1 || r.Windows != budget {
		t.Fatalf("%s, %d more, %d windows", x.Verdict, x.MoreWindows, r.Windows)
	}
	for _, s := range x.States {
		if s.Certified {
			t.Errorf("state %s certified in an uncertified axis", s.Label)
		}
	}
}

// What an uncertified sweep asks for is about what it then takes.
func TestMoreWindowsIsAGoodEstimate(t *testing.T) {
	c := bend(7, 3)
	var asked, taken float64
	for seed := range uint64(40) {
		short := sweepOne(t, c, c.trial(seed, seeded(0.03)), Options{MaxWindows: 14, MaxSlowdown: ample})
		if short.Axes[0].Verdict != Uncertified {
			continue
		}
		long := sweepOne(t, c, c.trial(seed, seeded(0.03)), Options{MaxWindows: 2000, MaxSlowdown: ample})
		asked += float64(short.Axes[0].MoreWindows)
		taken += float64(long.Windows - short.Windows)
	}
	if taken == 0 || asked < taken/3 || asked > taken*3 {
		t.Errorf("asked for %v windows, took %v", asked, taken)
	}
}

func TestBudgetBoundsEveryWindow(t *testing.T) {
	c := bend(9, 3)
	for budget := 1; budget < 30; budget++ {
		calls := 0
		trial := c.trial(1, seeded(0.05))
		r := sweepOne(t, c, func(ctx context.Context, s []int) (Sample, error) {
			calls++
			sample, err := trial(ctx, s)
			if calls%5 == 0 {
				sample.Void = "foreign load"
			}
			return sample, err
		}, Options{MaxWindows: budget})
		if calls > budget || r.Windows != calls || r.Voided != calls/5 {
			t.Errorf("budget %d: %d trials, counted %d, voided %d", budget, calls, r.Windows, r.Voided)
		}
	}
}

func TestVoidWindowsAreRepeatedAndCounted(t *testing.T) {
	c := bend(5, 2)
	var spoilt []int
	void := map[int]bool{2: true, 3: true, 7: true}
	calls, trial := 0, c.trial(1, noise{})
	r := sweepOne(t, c, func(ctx context.Context, s []int) (Sample, error) {
		calls++
		sample, err := trial(ctx, s)
		if void[calls] {
			spoilt = append(spoilt, s[0])
			sample.Joules *= 7
			sample.Void = "cap rewritten"
		}
		return sample, err
	}, Options{MaxSlowdown: ample})
	if r.Voided != 3 || r.Axes[0].Chosen != 2 {
		t.Errorf("voided %d, chosen %d", r.Voided, r.Axes[0].Chosen)
	}
	for s, st := range r.Axes[0].States {
		want := len(slices.DeleteFunc(slices.Clone(spoilt), func(i int) bool { return i != s }))
		if st.Voided != want {
			t.Errorf("state %d: voided %d, want %d", s, st.Voided, want)
		}
	}
}

// A figure that goes missing is a gap in a counter, not a host without one.
func TestGapsInCountersVoid(t *testing.T) {
	for name, spoil := range map[string]func(*Sample){
		"no energy":       func(s *Sample) { s.Joules = math.NaN() },
		"no device watts": func(s *Sample) { s.Achieved = 0 },
		"no work":         func(s *Sample) { s.Work = 0 },
		"no time":         func(s *Sample) { s.Seconds = 0 },
	} {
		for _, at := range []int{1, 2, 6} {
			if name == "no device watts" && at == 1 {
				continue // then nothing says that there are any
			}
			c := bend(5, 2)
			calls, trial := 0, c.trial(1, noise{})
			r := sweepOne(t, c, func(ctx context.Context, s []int) (Sample, error) {
				calls++
				sample, err := trial(ctx, s)
				if calls == at {
					spoil(&sample)
				}
				return sample, err
			}, Options{MaxSlowdown: ample})
			if r.Voided != 1 || r.Axes[0].Chosen != 2 || r.Axes[0].Verdict != Interior {
				t.Errorf("%s in window %d: voided %d, chosen %d, %s", name, at, r.Voided, r.Axes[0].Chosen, r.Axes[0].Verdict)
			}
		}
	}
}

func TestTrialErrorEndsTheSweep(t *testing.T) {
	c := bend(9, 3)
	broken := errors.New("workload exited with 3")
	calls, trial := 0, c.trial(1, seeded(0.02))
	r, err := Sweep(t.Context(), []Axis{c.axis()}, func(ctx context.Context, s []int) (Sample, error) {
		if calls++; calls == 6 {
			return Sample{}, broken
		}
		return trial(ctx, s)
	}, Options{})
	if !errors.Is(err, broken) || calls != 6 {
		t.Fatalf("error %v after %d trials", err, calls)
	}
	if r.Windows != 5 || r.Chosen != nil || r.Axes[0].Chosen != Nothing || r.Axes[0].States[8].Windows != 1 {
		t.Errorf("partial result: %+v", r)
	}
}

func TestCancelReturnsItsCause(t *testing.T) {
	c := bend(9, 3)
	cause := errors.New("the client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	calls, trial := 0, c.trial(1, seeded(0.02))
	r, err := Sweep(ctx, []Axis{c.axis()}, func(ctx context.Context, s []int) (Sample, error) {
		if calls++; calls == 5 {
			cancel(cause)
			return Sample{}, ctx.Err()
		}
		return trial(ctx, s)
	}, Options{})
	if !errors.Is(err, cause) || calls != 5 || r.Windows != 4 || r.Chosen != nil {
		t.Errorf("error %v after %d trials, %d windows, chosen %v", err, calls, r.Windows, r.Chosen)
	}
}

func TestEqualSeedsGiveEqualSweeps(t *testing.T) {
	c := bend(12, 4)
	opts := Options{Seed: 7, MaxSlowdown: ample}
	a, b := sweepOne(t, c, c.trial(2, seeded(0.03)), opts), sweepOne(t, c, c.trial(2, seeded(0.03)), opts)
	if d := cmp.Diff(fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b)); d != "" {
		t.Error(d)
	}
}

func TestObjectives(t *testing.T) {
	c := bend(9, 3)
	edp := 0
	for s := range c.rate {
		if c.cost(s)/c.rate[s] < c.cost(edp)/c.rate[edp] {
			edp = s
		}
	}
	for o, want := range map[Objective]int{WorkPerJoule: c.wanted(ample), WorkPerSecond: 8, EDP: edp} {
		r := sweepOne(t, c, c.trial(1, noise{}), Options{Objective: o, MaxSlowdown: ample})
		if r.Axes[0].Chosen != want {
			t.Errorf("%s: chosen %d, want %d", o, r.Axes[0].Chosen, want)
		}
		if back, err := ParseObjective(o.String()); back != o || err != nil {
			t.Errorf("%s reads back as %v, %v", o, back, err)
		}
	}
	if _, err := ParseObjective("work-per-dollar"); err == nil {
		t.Error("work-per-dollar is an objective")
	}
}

func TestSweepRefusesNonsense(t *testing.T) {
	good := Axis{Name: "gpu", States: []string{"a", "b"}, Found: 1}
	for name, tt := range map[string]struct {
		axes []Axis
		opts Options
	}{
		"no axis":           {nil, Options{}},
		"no state":          {[]Axis{{Name: "gpu"}}, Options{}},
		"too many states":   {[]Axis{{Name: "gpu", States: make([]string, MaxStates+1)}}, Options{}},
		"found out of them": {[]Axis{{Name: "gpu", States: []string{"a"}, Found: 1}}, Options{}},
		"found below them":  {[]Axis{{Name: "gpu", States: []string{"a"}, Found: -1}}, Options{}},
		"slowdown of all":   {[]Axis{good}, Options{MaxSlowdown: 1}},
		"slowdown NaN":      {[]Axis{good}, Options{MaxSlowdown: math.NaN()}},
		"certain":           {[]Axis{good}, Options{Confidence: 1}},
		"budget below none": {[]Axis{good}, Options{MaxWindows: -1}},
	} {
		_, err := Sweep(t.Context(), tt.axes, func(context.Context, []int) (Sample, error) {
			t.Errorf("%s: a window was taken", name)
			return Sample{}, errors.New("never")
		}, tt.opts)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestProgressTellsEveryWindow(t *testing.T) {
	c := bend(9, 3)
	var phases []Phase
	last := 0
	r := sweepOne(t, c, c.trial(1, seeded(0.02)), Options{MaxSlowdown: ample, Progress: func(p Progress) {
		if p.Window != last+1 || p.Max != 40 || p.Label != c.label[p.State] || p.Axis != "gpu" {
			t.Errorf("after window %d: %+v", last, p)
		}
		last = p.Window
		phases = append(phases, p.Phase)
	}})
	if last != r.Windows {
		t.Errorf("told of %d windows of %d", last, r.Windows)
	}
	if got := slices.Compact(phases); !slices.Equal(got, []Phase{PhaseCheck, PhasePass, PhaseRefine}) {
		t.Errorf("phases %v", got)
	}
}
