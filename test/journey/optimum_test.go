package journey

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
)

// task is a workload that a sweep is asked to tune, with all levers that its machine has.
type task struct {
	host    string
	boards  []string
	windows int // at most, in one sweep
	flat    map[string]bool
}

func tasks() map[string]task {
	return map[string]task{
		"workstation":                {"workstation", []string{"gpu0"}, 35, nil},
		"server, one board":          {"server", []string{"gpu0"}, 35, map[string]bool{"gpu1": true, "package": true}},
		"server, the other board":    {"server", []string{"gpu1"}, 35, map[string]bool{"gpu0": true, "package": true}},
		"server, two unlike boards":  {"server", []string{"gpu0", "gpu1"}, 45, map[string]bool{"package": true}},
		"workstation, the CPU alone": {"workstation", []string{"cpu"}, 35, map[string]bool{"gpu": true}},
	}
}

// slowest is the loss of speed that the sweeps allow.
const slowest = 0.10

func spec() daemon.TuneSpec { return daemon.TuneSpec{Apply: true, MaxSlowdown: slowest} }

func TestASweepFindsTheTrueOptimumOfEachMachine(t *testing.T) {
	for name, c := range tasks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := new(judge)
			for seed := range uint64(seeds) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { c.tune(t, seed, told) })
				})
			}
			t.Logf("the saving told holds the true one in %d of %d sweeps", told.held, told.sweeps)
		})
	}
}

// judge knows the truth of a task, and how many of the savings told so far it lies in.
type judge struct {
	truth        *terrain
	sweeps, held int
}

// tune is the whole journey: a sweep, what it has found, and the way back.
func (c task) tune(t *testing.T, seed uint64, told *judge) {
	sim := machine(t, c.host, seed)
	before := sim.Digest()
	d, stop := start(t, sim)
	defer stop()
	w := &work{t: t, sim: sim, boards: c.boards}
	r, err := d.Tune(t.Context(), spec(), w)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Certified() || !r.Applied || r.Result.Voided > 0 {
		t.Errorf("verdict %s, applied %v, %d windows void, note %q", r.Verdict(), r.Applied, r.Result.Voided, r.Note)
	}
	if told.truth == nil {
		told.truth = newTruth(t, c.host, c.boards).survey(r.Plan.Axes, slowest)
	}
	o, chosen := told.truth, told.truth.of(r.Result.Chosen)
	regret, slowdown, saved := chosen.cost()/o.best.cost()-1, 1-chosen.rate/o.found.rate, 1-chosen.cost()/o.found.cost()
	told.sweeps++
	if r.Result.Saved.Low <= saved && saved <= r.Result.Saved.High {
		told.held++
	}
	t.Logf("%d windows, chosen %v, true best %v: regret %.2f %%, slowdown %.2f %%, saved %.2f %%, told %.2f %% to %.2f %%", r.Result.Windows,
		labels(o.axes, chosen.at), labels(o.axes, o.best.at), 100*regret, 100*slowdown, 100*saved, 100*r.Result.Saved.Low, 100*r.Result.Saved.High)
	if !(regret >= 0 && regret <= band-1 && slowdown <= slowest) {
		t.Errorf("%.2f %% above the best, %.2f %% slower than found", 100*regret, 100*slowdown)
	}
	c.windowsOf(t, r, w)
	c.back(t, d, w, before)
}

// windowsOf holds the windows used against their bounds.
func (c task) windowsOf(t *testing.T, r daemon.TuneReport, w *work) {
	t.Helper()
	if r.Result.Windows > c.windows || r.Result.Windows > r.Plan.MaxWindows {
		t.Errorf("%d windows, want at most %d", r.Result.Windows, c.windows)
	}
	for _, a := range r.Result.Axes {
		if flat := a.Verdict == tune.Flat; flat != c.flat[a.Name] || flat && w.windows[a.Name] > 4 {
			t.Errorf("axis %s: %s after %d windows; want flat, after 4 at most: %v", a.Name, a.Verdict, w.windows[a.Name], c.flat[a.Name])
		}
	}
}

// back puts the machine back by each of the ways there are, and makes sure that the point outlives them.
func (c task) back(t *testing.T, d *daemon.Daemon, w *work, before string) {
	t.Helper()
	tuned := w.sim.Digest()
	if tuned == before {
		t.Error("nothing was moved")
	}
	if _, _, err := d.Restore(t.Context(), daemon.Caller{}, false, false); err != nil {
		t.Error(err)
	}
	if w.sim.Digest() != before {
		t.Errorf("restored, and yet: %v", w.sim.Settings())
	}
	for _, m := range []daemon.ModeChange{{Resume: true}, {Mode: profiles.ModeTraining}} {
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, m); err != nil {
			t.Error(err)
		}
	}
	if w.sim.Digest() != tuned {
		t.Errorf("the point is not in force again: %v", w.sim.Settings())
	}
	points, _, err := d.Points(t.Context())
	if err != nil || len(points) != 1 {
		t.Fatalf("%d points, %v", len(points), errors.Join(err))
	}
	if _, err := d.Forget(t.Context(), daemon.Caller{}, []string{points[0].ID}, false, false); err != nil {
		t.Error(err)
	}
	if w.sim.Digest() != before {
		t.Errorf("the point is forgotten, and yet: %v", w.sim.Settings())
	}
}

func labels(axes []tune.Axis, at []int) []string {
	var out []string
	for i, a := range axes {
		if i < len(at) && at[i] >= 0 {
			out = append(out, a.States[at[i]])
		}
	}
	return out
}
