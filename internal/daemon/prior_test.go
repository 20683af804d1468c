package daemon_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
)

// updated starts a machine again under another kernel.
func updated(t *testing.T, sim *hostsim.Sim, stop func() error, old, now string) (*daemon.Daemon, func() error) {
	t.Helper()
	if err := stop(); err != nil {
		t.Error(err)
	}
	edit(t, sim, "sys/kernel/osrelease", old, now)
	return start(t, sim, config.Default())
}

func tuned(t *testing.T, d *daemon.Daemon, spec daemon.TuneSpec, w daemon.TuneWorkload) daemon.TuneReport {
	t.Helper()
	r, err := d.Tune(t.Context(), spec, w)
	if err != nil || !r.Applied {
		t.Fatalf("applied %v (%s), %v", r.Applied, r.Note, err)
	}
	for _, a := range r.Result.Axes {
		t.Logf("%s: %s, chosen %d, from %d, moved %q; %d windows", a.Name, a.Verdict, a.Chosen, a.From, a.Moved, r.Result.Windows)
	}
	return r
}

// After an update the sweep for the same starts from the point, needs fewer windows, and its point is good again.
func TestASweepStartsFromThePointOfBeforeAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		work := worker{t: t, sim: sim}
		spec := gpuSweep()
		spec.Workload = "bert"
		first := tuned(t, d, spec, work)
		if again := tuned(t, d, spec, work); first.Plan.Prior != nil || again.Plan.Prior != nil {
			t.Errorf("with nothing changed it starts from %+v, %+v", first.Plan.Prior, again.Plan.Prior)
		}
		d, stop = updated(t, sim, stop, "6.1.0", "6.6.0")
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); err != nil {
			t.Fatal(err)
		}
		old := lookAt(t, d, true, "200000")
		for name, change := range map[string]func(*daemon.TuneSpec){
			"fresh": func(s *daemon.TuneSpec) { s.Fresh = true }, "another workload": func(s *daemon.TuneSpec) { s.Workload = "" },
			"another speed floor": func(s *daemon.TuneSpec) { s.MaxSlowdown = 0.2 }, "another objective": func(s *daemon.TuneSpec) { s.Objective = tune.EDP },
			"more axes": func(s *daemon.TuneSpec) { s.NoCPU = false },
		} {
			other := spec
			other.DryRun = true
			change(&other)
			if plan, err := d.Tune(t.Context(), other, work); err != nil || plan.Plan.Prior != nil {
				t.Errorf("%s: it starts from %+v, %v", name, plan.Plan.Prior, err)
			}
		}
		second := tuned(t, d, spec, work)
		p := second.Plan.Prior
		if p == nil || p.ID != old.ID || !p.TunedAt.Equal(old.TunedAt) || !slices.Equal(p.Labels, []string{"200 W"}) || len(p.Changed) != 1 || !strings.HasPrefix(p.Changed[0], "kernel: 6.1.0") {
			t.Errorf("it starts from %+v", p)
		}
		a := second.Result.Axes[0]
		if a.States[a.Chosen].Label != "200 W" || a.Moved != "" || !second.Certified() || 10*second.Result.Windows > 8*first.Result.Windows {
			t.Errorf("chosen %s, moved %q, %s in %d windows; before in %d", a.States[a.Chosen].Label, a.Moved, second.Verdict(), second.Result.Windows, first.Result.Windows)
		}
		if now := lookAt(t, d, false, "200000"); now.ID != old.ID || now.Soft == old.Soft || !now.TunedAt.After(old.TunedAt) {
			t.Errorf("point %+v", now)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// throttled is a workload that an update has made slow below some caps.
type throttled struct {
	worker
	below []string
}

func (w throttled) Run(ctx context.Context, r daemon.TuneRun) (daemon.TuneWork, error) {
	work, err := w.worker.Run(ctx, r)
	if slices.Contains(w.below, r.State[0]) {
		work.Amount *= 0.7
	}
	return work, err
}

// Where the update has moved the optimum, the sweep finds it all the same, and says why it went on.
func TestASweepFindsAnOptimumThatHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		first := tuned(t, d, gpuSweep(), worker{t: t, sim: sim})
		d, stop = updated(t, sim, stop, "6.1.0", "6.6.0")
		second := tuned(t, d, gpuSweep(), throttled{worker{t: t, sim: sim}, []string{"100 W", "125 W", "150 W", "175 W", "200 W"}})
		a := second.Result.Axes[0]
		if a.From != first.Result.Chosen[0] || a.Moved == "" || a.States[a.Chosen].Label != "225 W" || !second.Certified() {
			t.Errorf("from %d, moved %q, chosen %s, %s", a.From, a.Moved, a.States[a.Chosen].Label, second.Verdict())
		}
		if got := lookAt(t, d, false, "225000"); !second.Applied || got.Point[0].Value != "225000" {
			t.Errorf("point %+v", got.Point)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Three axes. Two of the governors are so near each other that either may be chosen.
func TestASearchOfThreeAxesStartsFromItsPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		spec := daemon.TuneSpec{Apply: true, MaxSlowdown: 0.1}
		first := tuned(t, d, spec, worker{t: t, sim: sim})
		d, stop = updated(t, sim, stop, "6.1.0", "6.6.0")
		second := tuned(t, d, spec, worker{t: t, sim: sim})
		then, now := first.Result.Chosen, second.Result.Chosen
		if second.Plan.Prior == nil || second.Result.Windows >= first.Result.Windows || then[0] != now[0] || then[2] != now[2] || !second.Certified() {
			t.Errorf("from %+v, chosen %v in %d windows; before %v in %d", second.Plan.Prior, second.Result.Chosen, second.Result.Windows,
				first.Result.Chosen, first.Result.Windows)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// The machine at rest, on a host whose governor draws for nothing.
func TestAnExplorationAtRestStartsFromItsPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		governors, err := filepath.Glob(filepath.Join(sim.Host().Sys.Path(), "devices/system/cpu/cpufreq/policy*/scaling_governor"))
		if err != nil || len(governors) == 0 {
			t.Fatalf("%d governors, %v", len(governors), err)
		}
		for _, file := range governors {
			if err := os.WriteFile(file, []byte("performance\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		d, stop := start(t, sim, config.Default())
		first := retune(t, d, nil).Report
		d, stop = updated(t, sim, stop, "6.1.0", "6.6.0")
		second := retune(t, d, nil).Report
		if second.Plan.Prior == nil || !second.Certified() || !second.Applied || second.Result.Windows > first.Result.Windows {
			t.Errorf("from %+v, %s in %d windows, before in %d", second.Plan.Prior, second.Verdict(), second.Result.Windows, first.Result.Windows)
		}
		skips(t, d, "it holds for 30 days")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
