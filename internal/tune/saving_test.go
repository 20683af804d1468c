package tune

import (
	"context"
	"math/rand/v2"
	"testing"
)

// A board that nothing holds back scatters more than one at its cap, so that the state found and the one chosen have each a
// spread of its own. What is told to be saved holds the truth all the same, as often as it says.
func TestWhatIsSavedHoldsTheTruth(t *testing.T) {
	const sweeps = 1500
	curve := bend(7, 3)
	top := len(curve.rate) - 1
	cost := func(s int) float64 { return curve.watts[s] / curve.rate[s] }
	for name, scatter := range map[string]struct{ found, others float64 }{
		"alike": {0.01, 0.01}, "found more": {0.02, 0.007}, "found less": {0.004, 0.012},
	} {
		t.Run(name, func(t *testing.T) {
			var told, saved, slower, windows float64
			for seed := range uint64(sweeps) {
				rng := rand.New(rand.NewPCG(seed, 11))
				r, err := Sweep(t.Context(), []Axis{{Name: "gpu", States: curve.label, Found: top}}, func(_ context.Context, at []int) (Sample, error) {
					s, sigma := at[0], scatter.others
					if s == top {
						sigma = scatter.found
					}
					work := curve.rate[s] * (1 + sigma/2*rng.NormFloat64())
					return Sample{Work: work, Seconds: 1, Joules: work * cost(s) * (1 + sigma*rng.NormFloat64()), Achieved: curve.watts[s]}, nil
				}, Options{Seed: seed, MaxSlowdown: ample})
				if err != nil {
					t.Fatal(err)
				}
				windows += float64(r.Windows)
				if r.Chosen[0] == top {
					continue
				}
				told++
				if truth := 1 - cost(r.Chosen[0])/cost(top); r.Saved.Low <= truth && truth <= r.Saved.High {
					saved++
				}
				if truth := 1 - curve.rate[r.Chosen[0]]/curve.rate[top]; r.Slowdown.Low <= truth && truth <= r.Slowdown.High {
					slower++
				}
			}
			t.Logf("%.1f windows; of %.0f intervals hold the truth: saved %.3f, slowdown %.3f", windows/sweeps, told, saved/told, slower/told)
			if told < 0.9*sweeps || saved/told < 0.93 || slower/told < 0.93 {
				t.Error("too few")
			}
		})
	}
}
