package tune

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// twoAxes is a host whose joules per work is best at (gpu 2, package 1), with the faster state 3 of the gpu in the band, but
// not in the half of it that is one axis's part: what both might give away for speed would leave the band.
func twoAxes(seed uint64, sigma float64) ([]Axis, Trial) {
	gpu, cpu := bend(6, 2), bend(4, 1)
	rng := rand.New(rand.NewPCG(seed, 2))
	axes := []Axis{{Name: "gpu", States: gpu.label, Found: 5}, {Name: "package", States: cpu.label, Found: 3}}
	return axes, func(_ context.Context, s []int) (Sample, error) {
		work := math.Sqrt(gpu.rate[s[0]] * cpu.rate[s[1]])
		return Sample{Work: 2 * work, Seconds: 2, Joules: 2 * work * gpu.cost(s[0]) * cpu.cost(s[1]) * (1 + sigma*rng.NormFloat64())}, nil
	}
}

func TestAxesAreSearchedInTurn(t *testing.T) {
	axes, trial := twoAxes(1, 0)
	var seen [][]int // but for the last look at the corner
	r, err := Sweep(t.Context(), axes, trial, Options{MaxSlowdown: ample, Progress: func(p Progress) {
		if p.Phase != PhaseCorner {
			seen = append(seen, p.At)
		} else if p.At[1] != 1 {
			t.Errorf("beside the corner, the second axis is in state %d", p.At[1])
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Chosen, []int{2, 1}) || r.Note == "" {
		t.Errorf("chosen %v, note %q", r.Chosen, r.Note)
	}
	second := slices.IndexFunc(seen, func(s []int) bool { return s[0] != seen[0][0] && s[1] != 3 })
	for i, s := range seen {
		if held := i < second && s[1] == 3 || i >= second && (s[0] == 2 || s[1] == 3); !held {
			t.Errorf("window %d in state %v: more than one axis was moved", i, s)
		}
	}
	found, _ := trial(t.Context(), []int{5, 3})
	chosen, _ := trial(t.Context(), []int{2, 1})
	saved := 1 - (chosen.Joules/chosen.Work)/(found.Joules/found.Work)
	slow := 1 - chosen.Work/found.Work
	if math.Abs(r.Saved.Value-saved) > 1e-9 || math.Abs(r.Slowdown.Value-slow) > 1e-9 {
		t.Errorf("saved %v, slower %v; want %v, %v", r.Saved.Value, r.Slowdown.Value, saved, slow)
	}
	// The pay-back is the time of chosen work that saves what the sweep took.
	rate := chosen.Work / chosen.Seconds
	payback := r.Joules / (rate * (found.Joules/found.Work - chosen.Joules/chosen.Work))
	if math.Abs(r.Payback/payback-1) > 1e-9 {
		t.Errorf("payback %v s, want %v s", r.Payback, payback)
	}
}

// What the first axis spends of the speed is not there for the second one.
func TestSpeedFloorIsForAllAxesTogether(t *testing.T) {
	for _, slow := range []float64{0.05, 0.1, 0.2, 0.4} {
		axes, trial := twoAxes(1, 0)
		r, err := Sweep(t.Context(), axes, trial, Options{MaxSlowdown: slow})
		if err != nil {
			t.Fatal(err)
		}
		found, _ := trial(t.Context(), []int{5, 3})
		chosen, _ := trial(t.Context(), r.Chosen)
		if chosen.Work < (1-slow)*found.Work-1e-9 {
			t.Errorf("limit %v: chosen %v is %.3f slower", slow, r.Chosen, 1-chosen.Work/found.Work)
		}
	}
}

// An axis that does nothing is left where it was found, also where that is between its ends and so never measured: what
// the other axes save is known all the same.
func TestAFlatAxisThatMayBeRaisedLeavesTheSavingKnown(t *testing.T) {
	gpu := bend(6, 2)
	axes := []Axis{{Name: "gpu", States: gpu.label, Found: 5}, {Name: "package", States: []string{"a", "b", "c", "d"}, Found: 2}}
	r, err := Sweep(t.Context(), axes, func(_ context.Context, s []int) (Sample, error) {
		work := gpu.rate[s[0]]
		return Sample{Work: work, Seconds: 2, Joules: work * gpu.cost(s[0])}, nil
	}, Options{MaxSlowdown: ample, AllowRaise: true})
	if err != nil {
		t.Fatal(err)
	}
	if a := r.Axes[1]; a.Verdict != Flat || a.Chosen != a.Found || a.Saved != (Interval{}) {
		t.Errorf("the axis that does nothing: %+v", a)
	}
	if !(r.Saved.Value > 0) || math.IsInf(r.Payback, 0) || r.Saved != r.Axes[0].Saved {
		t.Errorf("saved %+v, payback %v s", r.Saved, r.Payback)
	}
}
