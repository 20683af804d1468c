// Package crash ends a daemon at every write it makes, and shows that the machine can be put back from there.
package crash

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/profiles"
)

// worker runs the sweep's workload on the simulated board.
type worker struct{ sim *hostsim.Sim }

func (worker) Plan(daemon.TunePlan) error { return nil }
func (worker) Progress(daemon.Progress)   {}

func (w worker) Run(ctx context.Context, r daemon.TuneRun) (daemon.TuneWork, error) {
	var work daemon.TuneWork
	for began := time.Now(); time.Since(began) < r.AtLeast; work.Amount++ {
		if err := w.sim.Work(ctx, "gpu0", 25); err != nil {
			return work, err
		}
	}
	return work, nil
}

// life is a short one with every way of moving a lever in it: a start, a switch of profile, a sweep that keeps its point,
// a self-test, a pause and its end, a stop. What it comes to does not matter here; after a crash most calls fail.
func life(ctx context.Context, sim *hostsim.Sim) {
	cfg := config.Default()
	cfg.UntunedTraining = "performance"
	log := slog.New(slog.DiscardHandler)
	d, err := daemon.New(ctx, sim.Host(), cfg, daemon.Options{Version: "test"}, log)
	if err != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Run(ctx)
	}()
	<-d.Ready()
	caller := daemon.Caller{}
	set := func(m daemon.ModeChange) { _, _ = d.SetMode(ctx, caller, m) }
	set(daemon.ModeChange{Mode: profiles.ModeTraining})
	_, _ = d.Tune(ctx, daemon.TuneSpec{NoCPU: true, Apply: true, MaxSlowdown: 0.1, MaxWindows: 6, Force: true}, worker{sim})
	_, _ = d.Selftest(ctx, caller, false)
	set(daemon.ModeChange{Mode: profiles.ModeOff})
	set(daemon.ModeChange{Resume: true})
	set(daemon.ModeChange{Mode: profiles.ModeAuto})
	stop()
	<-ended
	_ = d.Close()
}

// machine sets up a simulated host for a test.
func machine(t *testing.T, name string) *hostsim.Sim {
	t.Helper()
	f, err := hostsim.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := hostsim.New(memoryDir(t), f, hostsim.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return sim
}

// memoryDir is a temporary directory in memory where there is one: on a disk, thousands of fsyncs are all a life does.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "quner-crash-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// hosts are those with levers: each kind of lever is on one of them.
func hosts() []string { return []string{"workstation", "laptop", "amd", "server", "locked"} }

func TestALifeWithoutACrashLeavesTheHostAsFound(t *testing.T) {
	for _, name := range hosts() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := machine(t, name)
				before := sim.Digest()
				life(t.Context(), sim)
				if after := sim.Digest(); after != before {
					t.Errorf("the host after a life is not the one before: %v", sim.Settings())
				}
			})
		})
	}
}

// TestACrashAtEveryWrite ends the process at each changing access there is, whole or torn, and restores as the service's
// ExecStopPost does.
func TestACrashAtEveryWrite(t *testing.T) {
	for _, name := range hosts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashEverywhere(t, name)
		})
	}
}

func crashEverywhere(t *testing.T, name string) {
	boundaries := 0
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, name)
		life(t.Context(), sim)
		boundaries = sim.Boundaries()
	})
	if boundaries < 50 {
		t.Fatalf("a life of %d changing accesses: too few to be the life this test means", boundaries)
	}
	for _, torn := range []bool{false, true} {
		for k := 1; k <= boundaries; k += every {
			if !crashAt(t, name, k, torn) {
				return
			}
		}
	}
	t.Logf("%s: %d write boundaries, every %d. of them whole and torn: host put back byte for byte each time", name, boundaries, every)
}

func crashAt(t *testing.T, name string, k int, torn bool) (ok bool) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, name)
		before := sim.Digest()
		sim.CutAt(k, torn)
		life(t.Context(), sim)
		sim.Heal()
		if err := restore(t.Context(), sim); err != nil {
			t.Errorf("crash at %d, torn %v: restore: %v", k, torn, err)
		}
		if after := sim.Digest(); after != before {
			t.Errorf("crash at %d, torn %v: the host is not as found: %v", k, torn, sim.Settings())
		}
		ok = !t.Failed()
	})
	return ok
}

// restore is what qunerd restore does.
func restore(ctx context.Context, sim *hostsim.Sim) (err error) {
	h := sim.Host()
	if err := h.GPUs.Open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.GPUs.Close()) }()
	bank, err := levers.OpenBank(ctx, h, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	done, err := bank.Restore(ctx, false)
	if err != nil {
		return err
	}
	if len(done.Left) > 0 {
		return fmt.Errorf("left: %v", done.Left)
	}
	return nil
}
