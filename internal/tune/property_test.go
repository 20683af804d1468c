package tune

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// anyCurve is a random curve: power and speed rise, with bumps.
func anyCurve(rng *rand.Rand) curve {
	n := 2 + rng.IntN(MaxStates-1)
	c := bend(n, rng.Float64()*float64(n+4)-2)
	for s := range n {
		c.rate[s] *= 1 + 0.02*rng.NormFloat64()
		c.watts[s] *= 1 + 0.02*rng.NormFloat64()
	}
	return c
}

// Whatever the curve and the noise, the choice agrees with what the report says was measured, and no state above the one
// found is ever set unless that was allowed.
func TestChoiceNeverViolatesWhatWasMeasured(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		c := anyCurve(rng)
		axis := c.axis()
		axis.Found = rng.IntN(c.top() + 1)
		opts := Options{Seed: seed, AllowRaise: rng.IntN(2) == 0, Objective: Objective(rng.IntN(3)), MaxSlowdown: 0.05 + 0.5*rng.Float64()}
		if rng.IntN(2) == 0 { // what another curve leaves, or this one as it was
			was := c
			if rng.IntN(2) == 0 {
				was = bend(c.top()+1, rng.Float64()*float64(c.top()+5)-2)
			}
			axis.Prior = was.leave(t, seed, seeded(0.01), Options{MaxSlowdown: opts.MaxSlowdown})
		}
		trial := c.trial(seed, noise{joules: 0.05 * rng.Float64(), watts: 0.02, speed: 0.02 * rng.Float64()})
		r, err := Sweep(t.Context(), []Axis{axis}, func(ctx context.Context, s []int) (Sample, error) {
			if s[0] > axis.Found && !opts.AllowRaise {
				t.Errorf("seed %d: state %d set, found was %d", seed, s[0], axis.Found)
			}
			return trial(ctx, s)
		}, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { agrees(t, r.Axes[0], opts) })
	}
}

// agrees checks a report against itself.
func agrees(t *testing.T, x AxisResult, opts Options) {
	chosen, found := x.States[x.Chosen], x.States[x.Found]
	if x.Chosen > x.Found && !opts.AllowRaise {
		t.Errorf("chosen %d above %d, the one found", x.Chosen, x.Found)
	}
	if x.Verdict == Flat {
		if x.Chosen != x.Found {
			t.Errorf("flat, yet %d chosen", x.Chosen)
		}
		return
	}
	if chosen.Windows == 0 || !chosen.Allowed {
		t.Errorf("chosen state: %+v", chosen)
	}
	if x.Chosen != x.Found && chosen.WorkPerSecond.Value < (1-opts.MaxSlowdown)*found.WorkPerSecond.Value*(1-1e-9) {
		t.Errorf("chosen does %v, found %v work/s", chosen.WorkPerSecond.Value, found.WorkPerSecond.Value)
	}
	certified := x.Verdict == Interior || x.Verdict == Edge
	cost := func(s StateResult) float64 {
		return math.Exp(opts.Objective.cost(math.Log(s.WorkPerSecond.Value), math.Log(s.Watts.Value)))
	}
	for i, s := range x.States {
		if (s.Windows == 0) != (s.Skipped != "") && s.SameAs == Nothing {
			t.Errorf("state %d: %d windows, skipped %q", i, s.Windows, s.Skipped)
		}
		if !s.Allowed || s.Windows == 0 {
			continue
		}
		if certified && cost(chosen) > (1+Band)*cost(s)*(1+1e-9) {
			t.Errorf("certified %d costs %v, state %d costs %v", x.Chosen, cost(chosen), i, cost(s))
		}
		if !certified && cost(chosen) > cost(s)*(1+1e-9) {
			t.Errorf("uncertified %d is not the best estimate: state %d is", x.Chosen, i)
		}
		if certified && s.Certified && s.SameAs == Nothing && x.States[x.Chosen].SameAs != i &&
			s.WorkPerSecond.Low > chosen.WorkPerSecond.High*1.003 {
			t.Errorf("state %d is certified and surely faster than %d", i, x.Chosen)
		}
	}
	if certified != (chosen.Certified) || certified != (x.MoreWindows == 0) {
		t.Errorf("%s: chosen certified %v, %d more windows", x.Verdict, chosen.Certified, x.MoreWindows)
	}
}

// A pass that climbs or descends would take a drift for a slope.
func TestOrderIsNotMonotoneInTime(t *testing.T) {
	for n := 4; n <= MaxStates; n++ {
		for seed := range uint64(8) {
			c := bend(n, float64(n)/2)
			var states, times []float64
			opts := Options{Seed: seed, MaxSlowdown: ample, Progress: func(p Progress) {
				if p.Phase == PhasePass {
					states, times = append(states, float64(p.State)), append(times, float64(p.Window))
				}
			}}
			sweepOne(t, c, c.trial(seed, seeded(0.02)), opts)
			if r := correlation(states, times); len(states) > 3 && math.Abs(r) > 0.8 {
				t.Errorf("%d states, seed %d: pass %v, correlation with time %.2f", n, seed, states, r)
			}
		}
	}
}

func correlation(x, y []float64) float64 {
	var mx, my, sxy, sxx, syy float64
	for i := range x {
		mx += x[i] / float64(len(x))
		my += y[i] / float64(len(x))
	}
	for i := range x {
		sxy += (x[i] - mx) * (y[i] - my)
		sxx += (x[i] - mx) * (x[i] - mx)
		syy += (y[i] - my) * (y[i] - my)
	}
	return sxy / math.Sqrt(sxx*syy)
}

// A host whose power creeps by the same share every window: without noise the states come out exactly as they are.
func TestLinearDriftCancels(t *testing.T) {
	for _, drift := range []float64{-0.03, -0.001, 0.001, 0.01, 0.03} {
		c := bend(9, 4)
		r := sweepOne(t, c, c.trial(1, noise{drift: drift}), Options{MaxSlowdown: ample})
		x := r.Axes[0]
		if x.Chosen != c.wanted(ample) || x.Verdict != Interior {
			t.Errorf("drift %v: chosen %d, %s", drift, x.Chosen, x.Verdict)
		}
		for s, st := range x.States {
			if st.Windows == 0 {
				continue
			}
			want := c.cost(s) / c.cost(c.top())
			if got := st.JoulesPerWork.Value / x.States[c.top()].JoulesPerWork.Value; math.Abs(got/want-1) > 1e-9 {
				t.Errorf("drift %v: state %d ÷ top = %v, want %v", drift, s, got, want)
			}
		}
	}
}

// The same pre-check must call an axis flat, or not, whatever the drift.
func TestDriftDoesNotHideAFlatAxis(t *testing.T) {
	level := curve{label: make([]string, 5), rate: slices.Repeat([]float64{1}, 5), watts: []float64{100, 100, 100, 101, 101}}
	for _, drift := range []float64{-0.08, 0.08} {
		if r := sweepOne(t, level, level.trial(1, noise{joules: 0.002, watts: 0.002, drift: drift}), Options{}); r.Axes[0].Verdict != Flat {
			t.Errorf("drift %v: %s", drift, r.Axes[0].Verdict)
		}
	}
}

// A 95 % interval holds the truth in nearly 95 % of sweeps, the savings included. A sweep stops when its spread looks
// small enough, which costs a little of it.
func TestIntervalsCoverTheTruth(t *testing.T) {
	const sweeps = 800
	c := bend(7, 3)
	var top, saved, n float64
	for seed := range uint64(sweeps) {
		r := sweepOne(t, c, c.trial(seed, seeded(0.01)), Options{Seed: seed, MaxSlowdown: ample})
		x := r.Axes[0]
		if x.Chosen == c.top() {
			continue
		}
		n++
		if i := x.States[c.top()].JoulesPerWork; i.Low <= c.cost(c.top()) && c.cost(c.top()) <= i.High {
			top++
		}
		if truth := 1 - c.cost(x.Chosen)/c.cost(c.top()); r.Saved.Low <= truth && truth <= r.Saved.High {
			saved++
		}
	}
	if n < 0.9*sweeps || top/n < 0.92 || top/n > 0.98 || saved/n < 0.92 || saved/n > 0.98 {
		t.Errorf("of %v sweeps the interval held the truth: state found %.3f, savings %.3f", n, top/n, saved/n)
	}
	t.Logf("coverage: state found %.3f, savings %.3f", top/n, saved/n)
}

// Without a repeat there is no spread, and without a spread no certificate.
func TestNoIntervalNoCertificate(t *testing.T) {
	c := bend(9, 3)
	for budget := 1; budget <= 4; budget++ {
		r := sweepOne(t, c, c.trial(1, noise{}), Options{MaxWindows: budget, MaxSlowdown: ample})
		x := r.Axes[0]
		if x.Verdict != Uncertified || x.MoreWindows < 1 || x.Chosen > c.top() {
			t.Errorf("budget %d: %s, %d more", budget, x.Verdict, x.MoreWindows)
		}
		if first := x.States[c.top()].JoulesPerWork; budget == 1 && (first.Low != 0 || !math.IsInf(first.High, 1)) {
			t.Errorf("one window: interval %+v", first)
		}
	}
}

// Work of which a float64 holds next to no digits certifies nothing, however well it could be measured.
func TestWorkBeyondReckoningCertifiesNothing(t *testing.T) {
	c := bend(9, 4)
	for _, scale := range []float64{1e-320, 1e-200, 1e200, 1e308} {
		trial := c.trial(1, noise{joules: 0.002, watts: 0.001})
		r := sweepOne(t, c, func(ctx context.Context, at []int) (Sample, error) {
			s, err := trial(ctx, at)
			s.Work *= scale
			return s, err
		}, Options{MaxSlowdown: ample, MaxWindows: 20})
		if v := r.Axes[0].Verdict; v != NoEnergy && v != Uncertified || r.Voided != r.Windows {
			t.Errorf("work of 1 is %g: %s, %d of %d windows void", scale, v, r.Voided, r.Windows)
		}
	}
}
