package daemon_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
)

// onlooker watches an exploration at rest.
type onlooker struct {
	t    testing.TB
	each func(daemon.Progress) // may be nil
}

func (o onlooker) Plan(daemon.TunePlan) error { return nil }
func (o onlooker) Progress(p daemon.Progress) {
	o.t.Logf("%s %s %s window %d of %d: %+v", p.Axis, p.Phase, p.Label, p.Window, p.Max, p.Sample)
	if o.each != nil {
		o.each(p)
	}
}

func retune(t *testing.T, d *daemon.Daemon, each func(daemon.Progress)) daemon.RetuneReport {
	t.Helper()
	r, err := d.Retune(t.Context(), daemon.RetuneSpec{}, onlooker{t, each})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("skipped %q, verdict %s, chosen %v, saved %+v", r.Skipped, r.Report.Verdict(), r.Report.Chosen, r.Report.Result.Saved)
	return r
}

func skips(t *testing.T, d *daemon.Daemon, why string) {
	t.Helper()
	if r := retune(t, d, nil); !strings.Contains(r.Skipped, why) {
		t.Errorf("skipped %q; want %q", r.Skipped, why)
	}
	if got := d.Status().Retune.Skipped; !strings.Contains(got, why) {
		t.Errorf("the status remembers %q; want %q", got, why)
	}
}

func TestAtRestTheLeastPowerIsLookedForAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		before := sim.Digest()
		d, stop := start(t, sim, config.Default())
		r := retune(t, d, nil)
		if r.Skipped != "" || !r.Report.Applied {
			t.Fatalf("skipped %q, applied %v", r.Skipped, r.Report.Applied)
		}
		for _, a := range r.Report.Result.Axes {
			t.Logf("%s: %s", a.Name, a.Verdict)
			if a.Name == "gpu" && a.Verdict != tune.Flat {
				t.Errorf("the cap at rest: %s; want flat", a.Verdict)
			}
		}
		if limit := sim.Settings()["gpu0/limit_mw"]; limit != "300000" {
			t.Errorf("a cap that does nothing at rest is %s mW; want it left at 300000", limit)
		}
		if s := d.Status(); s.PointSource != daemon.PointTuned || s.Retune.Verdict != string(r.Report.Verdict()) || s.Retune.Last.IsZero() {
			t.Errorf("source %s, retune %+v", s.PointSource, s.Retune)
		}
		skips(t, d, "it holds for 30 days")
		if err := stop(); err != nil {
			t.Error(err)
		}
		if sim.Digest() != before {
			t.Errorf("the host is not as found: %v", sim.Settings())
		}
	})
}

func TestAPointAtRestIsLookedForAgainAfterAMonth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		retune(t, d, nil)
		points, _, err := d.Points(t.Context())
		if err != nil || len(points) != 1 {
			t.Fatalf("%d points, %v", len(points), err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		store, err := profiles.OpenStore(sim.Host().Var, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		points[0].TunedAt = points[0].TunedAt.Add(-30 * 24 * time.Hour)
		if _, err := store.Put(points[0]); err != nil {
			t.Fatal(err)
		}
		d, stop = start(t, sim, config.Default())
		if r := retune(t, d, nil); r.Skipped != "" {
			t.Errorf("after 30 days it is skipped: %s", r.Skipped)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestItIsNotExploredAtRest(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*testing.T, *hostsim.Sim, *daemon.Daemon)
		why    string
	}{
		"while a board works": {func(_ *testing.T, sim *hostsim.Sim, _ *daemon.Daemon) { sim.SetLoad("gpu0", 1) }, "the machine is training (GPU 100 %"},
		"while the CPUs work": {func(_ *testing.T, sim *hostsim.Sim, _ *daemon.Daemon) {
			sim.SetLoad("cpu", 1)
			time.Sleep(5 * time.Minute)
		}, "the machine is training"},
		"while paused": {func(t *testing.T, _ *hostsim.Sim, d *daemon.Daemon) {
			if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeOff}); err != nil {
				t.Fatal(err)
			}
		}, "quner is paused"},
		"while training by hand": {func(t *testing.T, _ *hostsim.Sim, d *daemon.Daemon) {
			if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); err != nil {
				t.Fatal(err)
			}
		}, "the profile is set to training"},
		"on battery": {func(_ *testing.T, sim *hostsim.Sim, _ *daemon.Daemon) { sim.SetOnBattery(true) }, "on battery"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := machine(t, hostFor(name))
				d, stop := start(t, sim, config.Default())
				c.before(t, sim, d)
				before := sim.Settings()
				skips(t, d, c.why)
				if diff := cmp.Diff(before, sim.Settings()); diff != "" {
					t.Errorf("it has moved:\n%s", diff)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// hostFor is a machine that has what a case is about.
func hostFor(name string) string {
	if strings.HasSuffix(name, "battery") {
		return "laptop"
	}
	return "workstation"
}

// Who wants the machine in the midst of an exploration has it as found at once.
func TestAnExplorationAtRestGivesWay(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*testing.T, *hostsim.Sim, *daemon.Daemon)
		why       string
	}{
		"to a load":      {func(_ *testing.T, sim *hostsim.Sim, _ *daemon.Daemon) { sim.SetLoad("gpu0", 1) }, "the machine is training"},
		"to the battery": {func(_ *testing.T, sim *hostsim.Sim, _ *daemon.Daemon) { sim.SetOnBattery(true) }, "battery"},
		"to a mode": {func(t *testing.T, _ *hostsim.Sim, d *daemon.Daemon) {
			if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeAuto}); err != nil {
				t.Error(err)
			}
		}, `it gave way to "profile auto"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := machine(t, hostFor(name))
				d, stop := start(t, sim, config.Default())
				found := sim.Settings()
				var ended time.Time
				r := retune(t, d, func(p daemon.Progress) {
					if p.Window == 2 {
						c.meanwhile(t, sim, d)
						ended = time.Now()
					}
				})
				if !strings.Contains(r.Skipped, c.why) || time.Since(ended) > 10*time.Second {
					t.Errorf("skipped %q after %v; want %q within ten seconds", r.Skipped, time.Since(ended), c.why)
				}
				if diff := cmp.Diff(found, sim.Settings()); diff != "" {
					t.Errorf("the host:\n%s", diff)
				}
				if d.Status().Tune.Running {
					t.Error("a sweep still runs")
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAPersonsSweepComesBeforeOneAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		swept := make(chan error, 1)
		r := retune(t, d, func(p daemon.Progress) {
			if p.Window != 1 {
				return
			}
			go func() {
				_, err := d.Tune(t.Context(), gpuSweep(), worker{t: t, sim: sim})
				swept <- err
			}()
		})
		if !strings.Contains(r.Skipped, `gave way to "tune"`) {
			t.Errorf("skipped %q", r.Skipped)
		}
		if err := <-swept; err != nil {
			t.Error(err)
		}
		if got := sim.Settings()["gpu0/limit_mw"]; got != "200000" {
			t.Errorf("cap after the person's sweep %s mW, want 200000", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestACallerWhoGoesEndsAnExplorationAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		found := sim.Settings()
		d, stop := start(t, sim, config.Default())
		ctx, leave := context.WithCancel(t.Context())
		_, err := d.Retune(ctx, daemon.RetuneSpec{}, onlooker{t, func(p daemon.Progress) { leave() }})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if diff := cmp.Diff(found, sim.Settings()); diff != "" {
			t.Errorf("the host:\n%s", diff)
		}
		if got := d.Status().Retune.Skipped; got != "it was interrupted" {
			t.Errorf("remembers %q", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
