package tune

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// tilted is a host of two axes whose joules per work are best at (2, 0), but along the first axis alone, with the second one
// as it was found, at (4, 2). Speed and power rise along both.
func tilted(seed uint64, sigma float64) ([]Axis, Trial) {
	rng := rand.New(rand.NewPCG(seed, 6))
	axes := []Axis{{Name: "gpu", States: []string{"a", "b", "c", "d", "e", "f"}, Found: 5}, {Name: "package", States: []string{"x", "y", "z"}, Found: 2}}
	return axes, func(_ context.Context, s []int) (Sample, error) {
		best := 2 + float64(s[1])
		rate := (1 + 0.4*float64(s[0])) * (1 + 0.2*float64(s[1]))
		cost := 1 + 0.04*math.Pow(float64(s[0])-best, 2) + 0.1*float64(s[1])
		return Sample{
			Work: rate, Seconds: 1, Joules: 100 * rate * cost * (1 + sigma*rng.NormFloat64()),
			AchievedBy: []float64{100 + 20*float64(s[0]), 40 + 10*float64(s[1])},
		}, nil
	}
}

// When the second axis is set, the first one's optimum is elsewhere: that is seen, followed and told. Noise hides it
// seldom.
func TestTheCornerIsChecked(t *testing.T) {
	const seeds = 40
	for sigma, most := range map[float64]int{0: 0, 0.002: 0, 0.005: 0, 0.01: 3} {
		missed := 0
		for seed := range uint64(seeds) {
			axes, trial := tilted(seed, sigma)
			var beside int
			r, err := Sweep(t.Context(), axes, trial, Options{MaxSlowdown: ample, Progress: func(p Progress) {
				if p.Phase == PhaseCorner {
					beside++
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			want := "gpu from e to " + axes[0].States[r.Chosen[0]]
			if r.Chosen[1] != 0 || r.Chosen[0] > 3 || !strings.Contains(r.Note, want) {
				missed++
				t.Logf("σ %v, seed %d: chosen %v, %d windows beside the corner, note %q", sigma, seed, r.Chosen, beside, r.Note)
			}
			if beside == 0 || beside > 12 || r.Axes[0].Chosen != r.Chosen[0] {
				t.Errorf("σ %v, seed %d: %d windows beside the corner; axis says %d, sweep %d", sigma, seed, beside, r.Axes[0].Chosen, r.Chosen[0])
			}
		}
		if missed > most {
			t.Errorf("σ %v: missed in %d of %d sweeps", sigma, missed, seeds)
		}
	}
}

// An axis whose device is another than the first one's is not flat because the first one's device does not mind it.
func TestAxesHaveDevicesOfTheirOwn(t *testing.T) {
	governor := []float64{40, 60, 110}
	axes := []Axis{{Name: "gpu", States: bend(6, 2).label, Found: 5}, {Name: "governor", States: []string{"a", "b", "c"}, Found: 2}}
	gpu := bend(6, 2)
	for name, each := range map[string]bool{"told by axis": true, "told of the board alone": false} {
		r, err := Sweep(t.Context(), axes, func(_ context.Context, s []int) (Sample, error) {
			work := gpu.rate[s[0]]
			sample := Sample{Work: work, Seconds: 1, Joules: gpu.watts[s[0]] + governor[s[1]], Achieved: gpu.watts[s[0]]}
			if each {
				sample.AchievedBy = []float64{gpu.watts[s[0]], governor[s[1]]}
			}
			return sample, nil
		}, Options{MaxSlowdown: ample})
		if err != nil {
			t.Fatal(err)
		}
		if x := r.Axes[1]; x.Verdict == Flat || x.Chosen != 0 {
			t.Errorf("%s: %s, chosen %d", name, x.Verdict, x.Chosen)
		}
	}
}

// What the first axis has measured of the state that the second one begins with is not measured again.
func TestWindowsCarryOver(t *testing.T) {
	for flat, most := range map[bool]int{true: 4, false: 3} {
		axes, trial := twoAxes(1, 0.01)
		first := 0
		r, err := Sweep(t.Context(), axes, func(ctx context.Context, s []int) (Sample, error) {
			if flat {
				s = []int{s[0], 3} // the second lever does nothing
			}
			return trial(ctx, s)
		}, Options{MaxSlowdown: ample, Progress: func(p Progress) {
			if p.Axis == "package" && p.Phase == PhaseCheck {
				first++
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if (r.Axes[1].Verdict == Flat) != flat || first > most {
			t.Errorf("flat %v: %s after a pre-check of %d windows", flat, r.Axes[1].Verdict, first)
		}
		if r.Axes[1].States[3].Windows < 3 {
			t.Errorf("flat %v: %d windows of the state that the axis began with", flat, r.Axes[1].States[3].Windows)
		}
	}
}

// Progress tells at each window what would be chosen if it was the last one.
func TestProgressTellsTheBestSoFar(t *testing.T) {
	c := bend(9, 3)
	for seed := range uint64(20) {
		var path []int
		opts := Options{Seed: seed, MaxSlowdown: ample, Progress: func(p Progress) { path = append(path, p.Best) }}
		full := sweepOne(t, c, c.trial(seed, seeded(0.03)), opts)
		if path[len(path)-1] != full.Axes[0].Chosen {
			t.Errorf("seed %d: %v, then %d chosen", seed, path, full.Axes[0].Chosen)
		}
		opts.Progress = nil
		for n := 5; n < len(path); n++ {
			opts.MaxWindows = n
			if short := sweepOne(t, c, c.trial(seed, seeded(0.03)), opts); short.Axes[0].Chosen != path[n-1] {
				t.Errorf("seed %d: after %d windows %d was said, %d is chosen", seed, n, path[n-1], short.Axes[0].Chosen)
			}
		}
	}
}

func TestThin(t *testing.T) {
	for n := range 300 {
		for found := range n {
			keep := Thin(n, found)
			if len(keep) != min(n, MaxStates) || !slices.IsSorted(keep) || len(slices.Compact(slices.Clone(keep))) != len(keep) {
				t.Fatalf("%d states, found %d: %v", n, found, keep)
			}
			for _, s := range []int{0, n - 1, found} {
				if !slices.Contains(keep, s) {
					t.Fatalf("%d states: %v lacks %d", n, keep, s)
				}
			}
		}
	}
}

// A certificate is wrong in no more than a twentieth of cases even where states just outside the band lie in wait.
func TestCertificatesBesideTheBand(t *testing.T) {
	const sweeps, out = 1000, 1.0192
	for _, costs := range [][]float64{{out, 1, out, 1.2}, {1, out}, {out, 1}, {out, out, out, 1, out}} {
		for _, sigma := range []float64{0.005, 0.02} {
			c := curve{}
			for s, cost := range costs {
				rate := math.Pow(1.25, float64(s))
				c.label, c.rate, c.watts = append(c.label, fmt.Sprint(s)), append(c.rate, rate), append(c.watts, 100*cost*rate)
			}
			var certified, wrong float64
			for seed := range uint64(sweeps) {
				r := sweepOne(t, c, c.trial(seed, seeded(sigma)), Options{Seed: seed, MaxWindows: 200, MaxSlowdown: ample})
				if x := r.Axes[0]; x.Verdict == Interior || x.Verdict == Edge {
					certified++
					if costs[x.Chosen] > 1+Band {
						wrong++
					}
				}
			}
			t.Logf("%v, σ %v: certified %.3f, of these wrong %.4f", costs, sigma, certified/sweeps, wrong/certified)
			if certified < 0.5*sweeps || wrong/certified > 0.05 {
				t.Errorf("%v, σ %v: certified %.3f, of these wrong %.4f", costs, sigma, certified/sweeps, wrong/certified)
			}
		}
	}
}
