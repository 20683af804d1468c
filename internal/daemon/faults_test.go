package daemon_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
)

// sleeper is a workload that takes its time and no more, and counts its runs.
type sleeper struct {
	worker
	runs int
}

func (s *sleeper) Run(_ context.Context, r daemon.TuneRun) (daemon.TuneWork, error) {
	s.runs++
	time.Sleep(r.AtLeast)
	return daemon.TuneWork{Amount: r.AtLeast.Seconds()}, nil
}

// A counter that stands still says nothing. A sweep that took it for zero would find every cap alike.
func TestASweepOnAFrozenCounterEndsWithoutAVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		h := *sim.Host()
		h.GPUs = host.NewGPUs(daemon.FrozenBoard())
		d, err := daemon.New(t.Context(), &h, config.Default(), daemon.Options{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 2)
		go func() { ended <- d.Run(ctx) }()
		go func() { ended <- d.Meter().Run(ctx) }()
		<-d.Ready()
		work := &sleeper{worker: worker{t: t, sim: sim}}
		r, err := d.Tune(t.Context(), gpuSweep(), work)
		if !errors.Is(err, daemon.ErrVoided) || !strings.Contains(err.Error(), "frozen") || r.Applied || work.runs != 5 {
			t.Errorf("%d runs, %v, verdict %s, applied %v", work.runs, err, r.Verdict(), r.Applied)
		}
		if now := d.Status(); now.Tune.LastVerdict != "interrupted" || now.PointSource == daemon.PointTuned {
			t.Errorf("status %+v, point %s", now.Tune, now.PointSource)
		}
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

const a40 = "GPU-6f1d2c44-90ab-4e57-8a3b-c2d1e0f94a40"

func TestASweepOfABoardWithoutACounterAppliesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		found := sim.Settings()
		for _, call := range []string{"energy", "power"} { // neither a counter nor a sensor of its power
			sim.FailGPU(a40, call, host.ErrNotSupported)
		}
		d, stop := start(t, sim, config.Default())
		r, err := d.Tune(t.Context(), gpuSweep(), worker{t: t, sim: sim})
		if err != nil || r.Verdict() != tune.NoEnergy || r.Applied || r.Result.Windows > 12 {
			t.Errorf("%v, verdict %s, applied %v, %d windows", err, r.Verdict(), r.Applied, r.Result.Windows)
		}
		if diff := cmp.Diff(found, sim.Settings()); diff != "" {
			t.Errorf("after the sweep:\n%s", diff)
		}
		if points, _, err := d.Points(t.Context()); err != nil || len(points) != 0 {
			t.Errorf("points %v, %v", points, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestASweepEndsWhereACounterCannotBeReadAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		found := sim.Settings()
		d, stop := start(t, sim, config.Default())
		last := 0
		work := worker{t: t, sim: sim, before: func(r daemon.TuneRun) error {
			if last = r.Window; last == 4 {
				const counter = "sys/devices/virtual/powercap/intel-rapl/intel-rapl:0/energy_uj"
				sim.Fail(host.OpRead, counter, unix.EIO)
				sim.Fail(host.OpOpen, counter, unix.EIO)
			}
			return nil
		}}
		r, err := d.Tune(t.Context(), gpuSweep(), work)
		if !errors.Is(err, daemon.ErrVoided) || !strings.Contains(err.Error(), "package-0") || !strings.Contains(err.Error(), "unreadable") {
			t.Errorf("the sweep ends with %v", err)
		}
		if last != 8 || r.Applied {
			t.Errorf("%d windows, applied %v", last, r.Applied)
		}
		if diff := cmp.Diff(found, sim.Settings()); diff != "" {
			t.Errorf("after the sweep:\n%s", diff)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// degraded is what the status says of the levers.
func degraded(d *daemon.Daemon) string { return strings.Join(d.Status().Degraded, "\n") }

func TestALeverThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		found := sim.Settings()
		cfg := raised()
		d, stop := start(t, sim, cfg)
		stubborn := governorFiles(t, sim)[1]
		heal := sim.Fail(host.OpWrite, stubborn, unix.EIO)
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); !errors.Is(err, unix.EIO) {
			t.Errorf("%v", err)
		}
		if !strings.Contains(degraded(d), "policy1") || governors(t, sim) != "performance schedutil" {
			t.Errorf("status says %q; governors %s", degraded(d), governors(t, sim))
		}
		time.Sleep(cfg.Tick)
		synctest.Wait()
		if !strings.Contains(degraded(d), "policy1") {
			t.Errorf("a tick on, status says %q", degraded(d))
		}
		heal()
		time.Sleep(2 * cfg.Tick)
		synctest.Wait()
		if degraded(d) != "" || governors(t, sim) != "performance" {
			t.Errorf("healed, status says %q; governors %s", degraded(d), governors(t, sim))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(found, sim.Settings()); diff != "" {
			t.Errorf("after the stop:\n%s", diff)
		}
	})
}

// Tries become rarer: what fails for good must not cost a write at each tick for ever.
func TestALeverThatFailsForGoodIsTriedEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		cfg := raised()
		d, stop := start(t, sim, cfg)
		stubborn := governorFiles(t, sim)[1]
		heal := sim.Fail(host.OpWrite, stubborn, unix.EIO)
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); err == nil {
			t.Error("no error")
		}
		_, before := sim.Touches(stubborn)
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, after := sim.Touches(stubborn); after-before < 6 || after-before > 15 {
			t.Errorf("%d tries in an hour", after-before)
		}
		heal()
		time.Sleep(10*time.Minute + cfg.Tick)
		synctest.Wait()
		if degraded(d) != "" || governors(t, sim) != "performance" {
			t.Errorf("healed, status says %q; governors %s", degraded(d), governors(t, sim))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestASweepRightAfterASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		for range 2 {
			spec := gpuSweep()
			spec.MaxWindows = 3
			if _, err := d.Tune(t.Context(), spec, worker{t: t, sim: sim}); err != nil {
				t.Fatal(err)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAMachineThatTrainsIsStillRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		sim.SetLoad("gpu0", 0.9)
		time.Sleep(time.Minute)
		if _, err := d.Tune(t.Context(), gpuSweep(), worker{t: t, sim: sim}); !errors.Is(err, daemon.ErrRefused) {
			t.Errorf("%v", err)
		}
		sim.SetLoad("gpu0", 0)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheVerdictOfASweepThatWasCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		found := sim.Settings()
		d, stop := start(t, sim, config.Default())
		ctx, leave := context.WithCancel(t.Context())
		work := worker{t: t, sim: sim, before: func(r daemon.TuneRun) error {
			if r.Window == 4 {
				leave()
			}
			return nil
		}}
		if _, err := d.Tune(ctx, gpuSweep(), work); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if now := d.Status().Tune; now.Running || now.LastVerdict != "interrupted" || now.Last.IsZero() {
			t.Errorf("%+v", now)
		}
		if diff := cmp.Diff(found, sim.Settings()); diff != "" {
			t.Errorf("after the sweep:\n%s", diff)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
