package daemon_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
)

// machine sets up a simulated host for a test.
func machine(t testing.TB, name string) *hostsim.Sim {
	t.Helper()
	f, err := hostsim.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := hostsim.New(t.TempDir(), f, hostsim.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return sim
}

// start runs a daemon on sim until the test ends or stop is called.
func start(t testing.TB, sim *hostsim.Sim, cfg config.Config) (d *daemon.Daemon, stop func() error) {
	t.Helper()
	d, err := daemon.New(t.Context(), sim.Host(), cfg, daemon.Options{Version: "test"}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- d.Run(ctx) }()
	metered := make(chan struct{})
	go func() {
		defer close(metered)
		_ = d.Meter().Run(ctx)
	}()
	<-d.Ready()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		err := <-ended
		<-metered // its last heartbeat writes the journal that Close ends
		if closed := d.Close(); closed != nil {
			t.Errorf("close: %v", closed)
		}
		return err
	}
	return d, stop
}

// worker runs a sweep's workload on the simulated board.
type worker struct {
	t      testing.TB
	sim    *hostsim.Sim
	before func(r daemon.TuneRun) error // may be nil
}

func (w worker) Plan(daemon.TunePlan) error { return nil }
func (w worker) Progress(p daemon.Progress) {
	w.t.Logf("%s %s window %d of %d: %+v", p.Phase, p.Label, p.Window, p.Max, p.Sample)
}

func (w worker) Run(ctx context.Context, r daemon.TuneRun) (daemon.TuneWork, error) {
	if w.before != nil {
		if err := w.before(r); err != nil {
			return daemon.TuneWork{}, err
		}
	}
	var work daemon.TuneWork
	for began := time.Now(); time.Since(began) < r.AtLeast; work.Amount++ {
		if err := w.sim.Work(ctx, "gpu0", 25); err != nil {
			return work, err
		}
	}
	return work, nil
}

func gpuSweep() daemon.TuneSpec { return daemon.TuneSpec{NoCPU: true, Apply: true, MaxSlowdown: 0.1} }

func TestASweepFindsTheBestAllowedCapAndKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		before := sim.Digest()
		d, stop := start(t, sim, config.Default())
		r, err := d.Tune(t.Context(), gpuSweep(), worker{t: t, sim: sim})
		if err != nil {
			t.Fatal(err)
		}
		a := r.Result.Axes[0]
		t.Logf("chosen %s, verdict %s, saved %+v, slowdown %+v, %d windows, payback %.0f s",
			a.States[a.Chosen].Label, r.Verdict(), r.Result.Saved, r.Result.Slowdown, r.Result.Windows, r.Result.Payback)
		if got := a.States[a.Chosen].Label; got != "200 W" || !r.Certified() || !r.Applied {
			t.Errorf("chosen %s, verdict %s, applied %v; want 200 W, certified, applied", got, r.Verdict(), r.Applied)
		}
		if got := sim.Settings()["gpu0/limit_mw"]; got != "200000" {
			t.Errorf("cap after the sweep %s mW, want 200000", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if sim.Digest() != before {
			t.Errorf("the host is not as found: %v", sim.Settings())
		}
	})
}

// stoppedOnce is a caller that stands still in its first window, as after Ctrl-Z.
type stoppedOnce struct {
	worker
	windows int
}

func (w *stoppedOnce) Run(ctx context.Context, r daemon.TuneRun) (daemon.TuneWork, error) {
	work, err := w.worker.Run(ctx, r)
	if w.windows++; w.windows == 1 {
		time.Sleep(6 * time.Second)
		work.Stalled = 6 * time.Second
	}
	return work, err
}

func TestAWindowInWhichTheCallerStoodStillDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		r, err := d.Tune(t.Context(), gpuSweep(), &stoppedOnce{worker: worker{t: t, sim: sim}})
		if err != nil {
			t.Fatal(err)
		}
		if a := r.Result.Axes[0]; r.Result.Voided != 1 || a.States[a.Chosen].Label != "200 W" {
			t.Errorf("%d windows voided, chosen %s; want 1 and 200 W", r.Result.Voided, a.States[a.Chosen].Label)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
