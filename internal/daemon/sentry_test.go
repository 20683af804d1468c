package daemon_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/profiles"
)

// disturbed is a sweep's workload on a machine where something happens at the begin or at the end of some of its windows.
type disturbed struct {
	worker
	enter, leave func(window int) // may be nil
	told         []daemon.Progress
}

func (w *disturbed) Run(ctx context.Context, r daemon.TuneRun) (daemon.TuneWork, error) {
	if w.enter != nil {
		w.enter(r.Window)
	}
	work, err := w.worker.Run(ctx, r)
	if w.leave != nil {
		w.leave(r.Window)
	}
	return work, err
}

func (w *disturbed) Progress(p daemon.Progress) {
	w.worker.Progress(p)
	w.told = append(w.told, p)
}

// spoilt are the windows that do not count for a reason, counted from 1; every other one that does not is an error.
func (w *disturbed) spoilt(why daemon.VoidReason, says string) []int {
	w.t.Helper()
	var all []int
	for i, p := range w.told {
		switch {
		case (p.Why == "") != (p.Sample.Void == ""), p.Sample.Void != "" && (p.Why != why || !strings.Contains(p.Sample.Void, says)):
			w.t.Errorf("window %d: %s, %q; want %s, %q", i+1, p.Why, p.Sample.Void, why, says)
		case p.Why != "":
			all = append(all, i+1)
		}
	}
	return all
}

// counted checks what a report says of windows that did not count for one reason.
func counted(t *testing.T, r daemon.TuneReport, why daemon.VoidReason, windows int) {
	t.Helper()
	if len(r.Voids) != 1 || r.Voids[0].Why != why || r.Voids[0].Windows != windows || r.Voids[0].Last == "" || r.Result.Voided != windows {
		t.Errorf("report: %+v, %d in all; want %d of %s", r.Voids, r.Result.Voided, windows, why)
	}
}

// onMachine runs a sweep of gpuSweep on a simulated workstation, and looks that it leaves the machine as found.
func onMachine(t *testing.T, spec daemon.TuneSpec, w func(sim *hostsim.Sim) *disturbed, judge func(*disturbed, daemon.TuneReport, error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		before := sim.Digest()
		d, stop := start(t, sim, config.Default())
		work := w(sim)
		work.t, work.sim = t, sim
		r, err := d.Tune(t.Context(), spec, work)
		judge(work, r, err)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if sim.Digest() != before {
			t.Errorf("the host is not as found: %v", sim.Settings())
		}
	})
}

// Heat in the midst of a window, over before its end, spoils it, whichever way the device tells; it is measured again, and
// the sweep comes to what it comes to without.
func TestAWindowInWhichHeatSlowedADeviceDownDoesNotCount(t *testing.T) {
	for name, c := range map[string]struct{ device, says string }{
		"a board": {"gpu0", "thermal throttling: gpu/GPU-"},
		"CPUs":    {"cpu", "thermal throttling: CPU 0 and 7 others were slowed down by heat"},
	} {
		t.Run(name, func(t *testing.T) {
			var heals []func()
			onMachine(t, gpuSweep(), func(sim *hostsim.Sim) *disturbed {
				return &disturbed{enter: func(n int) {
					if n == 4 || n == 7 {
						heal := sim.Throttle(c.device, 0.6)
						heals = append(heals, heal)
						time.AfterFunc(600*time.Millisecond, heal)
					}
				}}
			}, func(w *disturbed, r daemon.TuneReport, err error) {
				if err != nil || !r.Certified() || r.Result.Axes[0].States[r.Result.Axes[0].Chosen].Label != "200 W" {
					t.Errorf("%v, %s", err, r.Verdict())
				}
				if diff := cmp.Diff([]int{4, 7}, w.spoilt(daemon.VoidThrottling, c.says)); diff != "" {
					t.Error(diff)
				}
				counted(t, r, daemon.VoidThrottling, 2)
				if len(r.Unwatched) != 0 {
					t.Errorf("not watched: %q", r.Unwatched)
				}
			})
		})
	}
}

// Heat that does not go away ends the sweep, which says what to do.
func TestHeatThatStaysEndsTheSweep(t *testing.T) {
	onMachine(t, gpuSweep(), func(sim *hostsim.Sim) *disturbed {
		return &disturbed{enter: func(n int) {
			if n == 3 {
				sim.Throttle("gpu0", 0.5)
			}
		}}
	}, func(w *disturbed, r daemon.TuneReport, err error) {
		if !errors.Is(err, daemon.ErrVoided) || !strings.Contains(err.Error(), "slowed down by heat") || !strings.Contains(err.Error(), "let it cool") || r.Applied {
			t.Errorf("%v, applied %v", err, r.Applied)
		}
		if n := len(w.told); n > 6 {
			t.Errorf("only after %d windows", n)
		}
	})
}

// What a device does not tell voids nothing, and the report says so.
func TestHeatThatNobodyTellsIsSaidToBeUnwatched(t *testing.T) {
	onMachine(t, gpuSweep(), func(sim *hostsim.Sim) *disturbed {
		sim.FailGPU("*", "throttling", host.ErrNotSupported)
		sim.Fail(host.OpRead, "sys/devices/system/cpu/*/thermal_throttle/*", unix.ENOENT)
		return &disturbed{enter: func(n int) {
			if n == 4 {
				time.AfterFunc(600*time.Millisecond, sim.Throttle("gpu0", 0.6))
			}
		}}
	}, func(w *disturbed, r daemon.TuneReport, err error) {
		if err != nil || len(r.Voids) != 0 {
			t.Errorf("%v, %+v", err, r.Voids)
		}
		if !slices.ContainsFunc(r.Unwatched, func(d string) bool { return strings.HasPrefix(d, "gpu/GPU-") }) || !slices.Contains(r.Unwatched, "cpu") || len(r.Unwatched) != 2 {
			t.Errorf("not watched: %q", r.Unwatched)
		}
	})
}

// caller is the process that runs the sweep's workload, a child of its.
const caller, child = 4_200_000, 4_200_001

// fromCaller is gpuSweep asked for by that process.
func fromCaller() daemon.TuneSpec {
	spec := gpuSweep()
	spec.Caller.PID = caller
	return spec
}

// family lets the workload be of processes, which come and go with it.
func family(sim *hostsim.Sim, parent int, enter func(n int)) *disturbed {
	var end func()
	return &disturbed{
		enter: func(n int) {
			end = sim.Spawn(hostsim.Process{PID: child + n, Parent: parent, Name: "train", UID: 1000, Device: "gpu0"})
			enter(n)
		},
		leave: func(int) { end() },
	}
}

// Who holds a board and does nothing vetoes nothing if it was there before; who comes while the workload runs does, by name.
func TestAWindowWithAStrangerOnTheBoardDoesNotCount(t *testing.T) {
	onMachine(t, fromCaller(), func(sim *hostsim.Sim) *disturbed {
		sim.Spawn(hostsim.Process{PID: caller, Parent: 1, Name: "qunerctl"})
		sim.Spawn(hostsim.Process{PID: 4_300_000, Parent: 1, Name: "jupyter", UID: 1001, Device: "gpu0"})
		sim.Spawn(hostsim.Process{PID: 4_400_000, Parent: 1, Name: "desktop", UID: 1001}) // on no board
		return family(sim, caller, func(n int) {
			switch n {
			case 3: // the server of MPS, which comes with the first that needs it
				sim.Spawn(hostsim.Process{PID: 4_500_000, Parent: 1, Name: "nvidia-cuda-mps", UID: 1000, Device: "gpu0"})
			case 5: // it comes and goes within the window
				time.AfterFunc(1200*time.Millisecond, sim.Spawn(hostsim.Process{PID: 4_300_001, Parent: 1, Name: "ffmpeg", UID: 1001, Device: "gpu0", Share: 0.3}))
			case 8: // it stays until the next one's midst
				time.AfterFunc(3500*time.Millisecond, sim.Spawn(hostsim.Process{PID: 4_300_002, Parent: 1, Name: "ffmpeg", UID: 1001, Device: "gpu0", Share: 0.3}))
			}
		})
	}, func(w *disturbed, r daemon.TuneReport, err error) {
		if err != nil || !r.Certified() {
			t.Errorf("%v, %s", err, r.Verdict())
		}
		if diff := cmp.Diff([]int{5, 8, 9}, w.spoilt(daemon.VoidLoad, "(ffmpeg) of uid 1001 on gpu/GPU-")); diff != "" {
			t.Error(diff)
		}
		counted(t, r, daemon.VoidLoad, 3)
	})
}

// A workload that works by others' processes, as in containers, has those that come and go with it; who stays is a stranger.
func TestAWorkloadInAContainerIsNoStranger(t *testing.T) {
	onMachine(t, fromCaller(), func(sim *hostsim.Sim) *disturbed {
		sim.Spawn(hostsim.Process{PID: caller, Parent: 1, Name: "qunerctl"})
		shim := sim.Spawn(hostsim.Process{PID: 4_400_000, Parent: 1, Name: "containerd-shim"})
		_ = shim
		return family(sim, 4_400_000, func(n int) {
			if n == 6 {
				time.AfterFunc(4*time.Second, sim.Spawn(hostsim.Process{PID: 4_300_000, Parent: 1, Name: "render", UID: 1001, Device: "gpu0"}))
			}
		})
	}, func(w *disturbed, r daemon.TuneReport, err error) {
		if err != nil || !r.Certified() {
			t.Errorf("%v, %s", err, r.Verdict())
		}
		if diff := cmp.Diff([]int{6, 7}, w.spoilt(daemon.VoidLoad, "pid 4300000 (render)")); diff != "" {
			t.Error(diff)
		}
	})
}

// A stranger who stays ends the sweep, which names it and says what to do.
func TestAStrangerWhoStaysEndsTheSweep(t *testing.T) {
	onMachine(t, fromCaller(), func(sim *hostsim.Sim) *disturbed {
		sim.Spawn(hostsim.Process{PID: caller, Parent: 1, Name: "qunerctl"})
		return family(sim, caller, func(n int) {
			if n == 3 {
				sim.Spawn(hostsim.Process{PID: 4_300_000, Parent: 1, Name: "train\x1b[2J", UID: 1001, Device: "gpu0", Share: 1})
			}
		})
	}, func(w *disturbed, r daemon.TuneReport, err error) {
		if !errors.Is(err, daemon.ErrVoided) || !strings.Contains(err.Error(), "on gpu/GPU-") ||
			!strings.Contains(err.Error(), "pid 4300000 (train?[2J) of uid 1001") || !strings.Contains(err.Error(), "wait until it has ended") || r.Applied || len(w.told) > 7 {
			t.Errorf("%v after %d windows, applied %v", err, len(w.told), r.Applied)
		}
	})
}

// Somebody who was there before and begins to work is known by what the board draws while the workload does not run.
func TestAWindowUnderSomebodysWorkOnTheBoardDoesNotCount(t *testing.T) {
	onMachine(t, fromCaller(), func(sim *hostsim.Sim) *disturbed {
		sim.Spawn(hostsim.Process{PID: 4_300_000, Parent: 1, Name: "jupyter", UID: 1001, Device: "gpu0"})
		return &disturbed{leave: func(n int) {
			switch n {
			case 4:
				sim.SetLoad("gpu0", 1)
			case 6:
				sim.SetLoad("gpu0", 0)
			}
		}}
	}, func(w *disturbed, r daemon.TuneReport, err error) {
		if err != nil || !r.Certified() {
			t.Errorf("%v, %s", err, r.Verdict())
		}
		if diff := cmp.Diff([]int{5, 6}, w.spoilt(daemon.VoidLoad, "somebody else's load on gpu/GPU-")); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(w.told[4].Sample.Void, "W at its quietest; on it: pid 4300000 (jupyter) of uid 1001") {
			t.Errorf("%q", w.told[4].Sample.Void)
		}
	})
}

// A service's own processes are those of its user, also those that come anew; another's are strangers.
func TestAServiceMayStartAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		service := &live{t: t, d: d, sim: sim, owner: 1000, workload: "chat", unit: "tokens", size: 5}
		quit := service.serve(1)
		time.Sleep(10 * time.Second)
		var windows, void int
		r, err := d.Tune(t.Context(), attachedSweep("chat", 1000), bystander{t, func(p daemon.Progress) {
			windows++
			switch windows {
			case 2:
				sim.Spawn(hostsim.Process{PID: 4_300_000, Parent: 1, Name: "worker", UID: 1000, Device: "gpu0"})
			case 4:
				time.AfterFunc(3*time.Second, sim.Spawn(hostsim.Process{PID: 4_300_001, Parent: 1, Name: "other", UID: 1001, Device: "gpu0"}))
			}
			if p.WorkUnit != "token" {
				t.Errorf("window %d is told in %q", windows, p.WorkUnit)
			}
			if p.Why != "" {
				void++
				if p.Why != daemon.VoidLoad || !strings.Contains(p.Sample.Void, "(other) of uid 1001") {
					t.Errorf("window %d: %s %q", windows, p.Why, p.Sample.Void)
				}
			}
		}})
		if err != nil || !r.Certified() || void < 1 || void > 2 {
			t.Errorf("%v, %s, %d voids", err, r.Verdict(), void)
		}
		quit()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// At rest nobody's process belongs to the workload; the exploration gives way without a complaint.
func TestAnExplorationAtRestGivesWayToAStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		n := 0
		r := retune(t, d, func(daemon.Progress) {
			if n++; n == 2 {
				sim.Spawn(hostsim.Process{PID: 4_300_000, Parent: 1, Name: "jupyter", UID: 1001, Device: "gpu0"})
			}
		})
		if !strings.Contains(r.Skipped, "(jupyter)") || r.Report.Applied {
			t.Errorf("%q, applied %v", r.Skipped, r.Report.Applied)
		}
		if got := profiles.Idle; got != r.Spec.Profile {
			t.Error(r.Spec.Profile)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
