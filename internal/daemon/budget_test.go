package daemon_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/tune"
)

// A sweep ends when its time is up, before a window that would not fit, going by those before it, and the host is put back.
func TestASweepEndsWhenItsTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		found := sim.Settings()
		d, stop := start(t, sim, config.Default())
		defer func() { _ = stop() }()
		spec := gpuSweep()
		spec.Budget = 20 * time.Second
		began := time.Now()
		r, err := d.Tune(t.Context(), spec, worker{t: t, sim: sim})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		if took > spec.Budget*11/10 || took < spec.Budget*2/3 || r.Result.Windows == 0 {
			t.Errorf("took %v for %d windows; want about %v", took, r.Result.Windows, spec.Budget)
		}
		if a := r.Result.Axes[0]; r.Applied || r.Certified() || a.NextStep == "" {
			t.Errorf("applied %v, certified %v, next step %q", r.Applied, r.Certified(), a.NextStep)
		}
		if diff := cmp.Diff(found, sim.Settings()); diff != "" {
			t.Errorf("after the sweep:\n%s", diff)
		}
	})
}

// A sweep that cannot pay back is not gone on with, unless that is wished.
func TestASweepThatCannotPayBackStopsAfterItsFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		cfg := config.Default()
		cfg.PaybackHorizon = time.Second
		d, stop := start(t, sim, cfg)
		r, err := d.Tune(t.Context(), gpuSweep(), worker{t: t, sim: sim})
		if err != nil {
			t.Fatal(err)
		}
		if a := r.Result.Axes[0]; a.Stopped == "" || r.Result.Windows > 4 || r.Applied || r.Verdict() != tune.Uncertified {
			t.Errorf("stopped %q after %d windows, applied %v, %s", a.Stopped, r.Result.Windows, r.Applied, r.Verdict())
		}
		if got := sim.Settings()["gpu0/limit_mw"]; got != "300000" {
			t.Errorf("cap %s mW, want as found", got)
		}
		time.Sleep(2 * time.Second)
		spec := gpuSweep()
		spec.Force = true
		if r, err = d.Tune(t.Context(), spec, worker{t: t, sim: sim}); err != nil || !r.Applied {
			t.Errorf("forced: applied %v, %v", r.Applied, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
