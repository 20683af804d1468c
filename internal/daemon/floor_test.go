package daemon_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/unit"
)

// floorObserver keeps what a measurement of floors tells.
type floorObserver struct {
	plan  daemon.FloorPlan
	steps []daemon.FloorProgress
	on    func(daemon.FloorProgress) // may be nil
}

func (o *floorObserver) Plan(p daemon.FloorPlan) error { o.plan = p; return nil }

func (o *floorObserver) Progress(p daemon.FloorProgress) {
	o.steps = append(o.steps, p)
	if o.on != nil {
		o.on(p)
	}
}

const theBoard = "gpu/GPU-6f1d2c44-90ab-4e57-8a3b-c2d1e0f94a40"

// window runs one on the board and returns its part.
func window(t *testing.T, d *daemon.Daemon, lasts time.Duration) meter.DeviceEnergy {
	t.Helper()
	w, err := d.Meter().Open(t.Context(), meter.OpenRequest{Name: "test", Owner: 1000, Devices: []string{"gpu"}})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(lasts)
	r, err := w.Close(t.Context(), meter.CloseRequest{Synced: true})
	if err != nil {
		t.Fatal(err)
	}
	return r.Devices[0]
}

func TestMeasuredFloorsAreKeptAndUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		found := sim.Digest()
		d, stop := start(t, sim, config.Default())
		defer func() { _ = stop() }()
		o := &floorObserver{}
		settings := sim.Settings()
		out, err := d.MeasureFloor(t.Context(), daemon.FloorSpec{Caller: daemon.Caller{UID: 7}}, o)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) != 3 || len(o.plan.Points) != 1 || len(o.plan.Points[0].Writes) != 0 || o.plan.Duration != 30*time.Second {
			t.Errorf("%d outcomes of %+v", len(out), o.plan)
		}
		if after := sim.Settings(); after["gpu0/limit_mw"] != settings["gpu0/limit_mw"] || len(after) != len(settings) {
			t.Error("measuring at the point in force has moved a lever")
		}
		if !slices.ContainsFunc(o.steps, func(p daemon.FloorProgress) bool { return p.Measuring && p.Power > 0 && p.Of == 30*time.Second }) {
			t.Error("no progress while measuring")
		}
		d1 := window(t, d, 20*time.Second)
		i := slices.IndexFunc(out, func(o daemon.FloorOutcome) bool { return o.Device == theBoard })
		if i < 0 || d1.FloorFrom != out[i].Floor.ID || slices.Contains(d1.Reasons, meter.ReasonFloorNone) {
			t.Fatalf("floor %q with %v; want %+v", d1.FloorFrom, d1.Reasons, out)
		}
		if f := out[i].Floor; f.Driver == "" || f.Kernel == "" || f.BootID == "" || f.Condition != d.Meter().Condition() {
			t.Errorf("%+v", f)
		}
		// At rest a window costs nothing, within its interval, which the floor's own uncertainty is part of, and the board's
		// ripple, 1 % in each 100 ms.
		if most := d1.HalfWidth + 2*unit.Joule; d1.Energy > most || d1.Energy < -most || d1.Terms.Floor == 0 {
			t.Errorf("a window at rest: %v ± %v, of it the floor's %v", d1.Energy, d1.HalfWidth, d1.Terms.Floor)
		}
		events, err := d.History(t.Context(), 0)
		if err != nil || !slices.ContainsFunc(events, func(e daemon.Event) bool { return e.Call == "floor measure" && e.UID == 7 && e.Error == "" }) {
			t.Errorf("history %+v, %v", events, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if sim.Digest() != found {
			t.Error("the host is not as found")
		}

		// The next daemon takes them up; with another driver or kernel those they are of are void.
		d, stop = start(t, sim, config.Default())
		if got := window(t, d, 5*time.Second).FloorFrom; got != out[i].Floor.ID {
			t.Errorf("after a restart the floor is %q, want %s", got, out[i].Floor.ID)
		}
		gone, err := d.ForgetFloors(t.Context(), daemon.Caller{}, []string{out[i].Floor.ID}, false, true)
		if err != nil || len(gone) != 1 || window(t, d, 5*time.Second).FloorFrom == "none" {
			t.Errorf("a dry run of forgetting: %v, %v", gone, err)
		}
		if gone, err = d.ForgetFloors(t.Context(), daemon.Caller{}, []string{out[i].Floor.ID}, false, false); err != nil || len(gone) != 1 {
			t.Errorf("forgotten %v, %v", gone, err)
		}
		if got := window(t, d, 5*time.Second).FloorFrom; got != "none" {
			t.Errorf("after it was forgotten the floor is %q", got)
		}
		if _, err := d.ForgetFloors(t.Context(), daemon.Caller{}, []string{"nothing"}, false, false); !errors.Is(err, daemon.ErrNoFloor) {
			t.Errorf("forgetting nothing: %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A new driver may draw something else at rest: certificates of boards are void with it, and all with another kernel.
func TestFloorsAreVoidWithOtherSoftware(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*testing.T, *hostsim.Sim) *hostsim.Sim
		gpu, cpu bool // void
	}{
		{"nothing", func(_ *testing.T, s *hostsim.Sim) *hostsim.Sim { return s }, false, false},
		{"the driver", func(t *testing.T, s *hostsim.Sim) *hostsim.Sim { return editFixture(t, s, `driver = "`, `driver = "9`) }, true, false},
		{"the kernel", func(t *testing.T, s *hostsim.Sim) *hostsim.Sim {
			t.Helper()
			file := s.Host().Proc.File("sys/kernel/osrelease")
			if err := os.WriteFile(file, []byte("9.9.9\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return s
		}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := machine(t, "workstation")
				d, stop := start(t, sim, config.Default())
				defer func() { _ = stop() }()
				if _, err := d.MeasureFloor(t.Context(), daemon.FloorSpec{}, &floorObserver{}); err != nil {
					t.Fatal(err)
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				d, stop = start(t, c.change(t, sim), config.Default())
				floors, err := d.Floors(t.Context())
				if err != nil || len(floors) != 3 {
					t.Fatalf("%d floors, %v", len(floors), err)
				}
				for _, f := range floors {
					want := c.cpu
					if f.Device == theBoard {
						want = c.gpu
					}
					if (f.Void != "") != want {
						t.Errorf("%s: void %q, want %v", f.Device, f.Void, want)
					}
				}
				if got := window(t, d, 3*time.Second).FloorFrom; (got == "none") != c.gpu {
					t.Errorf("a window's floor is %q", got)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// editFixture takes the machine's directory up as that of an edited fixture.
func editFixture(t *testing.T, s *hostsim.Sim, from, to string) *hostsim.Sim {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join(s.Dir(), "sim", "host.txtar"))
	if err != nil || len(matches) != 1 {
		t.Fatalf("fixture: %v, %v", matches, err)
	}
	data, err := os.ReadFile(matches[0])
	if err != nil || !strings.Contains(string(data), from) {
		t.Fatalf("no %q in the fixture, %v", from, err)
	}
	if err := os.WriteFile(matches[0], []byte(strings.ReplaceAll(string(data), from, to)), 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := hostsim.Open(s.Dir(), hostsim.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// With all points each that quner may bring into force is measured, and the host is put back.
func TestFloorsAtAllPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		defer func() { _ = stop() }()
		if _, err := d.Tune(t.Context(), gpuSweep(), worker{t: t, sim: sim}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeIdle}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // the load average
		before := sim.Digest()
		plan := &floorObserver{}
		if _, err := d.MeasureFloor(t.Context(), daemon.FloorSpec{AllPoints: true, DryRun: true}, plan); err != nil {
			t.Fatal(err)
		}
		if sim.Digest() != before || len(plan.plan.Points) < 2 || !slices.ContainsFunc(plan.plan.Points, func(p daemon.FloorPoint) bool { return len(p.Writes) > 0 }) {
			t.Errorf("dry run: moved %v, plan %+v", sim.Digest() != before, plan.plan)
		}
		caps := map[string]bool{}
		var busy error
		o := &floorObserver{on: func(p daemon.FloorProgress) {
			caps[sim.Settings()["gpu0/limit_mw"]] = true
			if p.Measuring && busy == nil {
				_, busy = d.Apply(t.Context(), daemon.Caller{}, false)
				if s := d.Status(); s.PointSource != daemon.PointFloor {
					t.Errorf("point source %q meanwhile", s.PointSource)
				}
			}
		}}
		out, err := d.MeasureFloor(t.Context(), daemon.FloorSpec{AllPoints: true}, o)
		if err != nil {
			t.Fatal(err)
		}
		if !errors.Is(busy, daemon.ErrBusy) {
			t.Errorf("applying meanwhile: %v, want ErrBusy", busy)
		}
		if len(caps) < 2 {
			t.Errorf("measured at the caps %v alone", caps)
		}
		if sim.Digest() != before {
			t.Error("the host is not put back")
		}
		keys := map[string]bool{}
		for _, f := range out {
			if f.Refused != "" {
				t.Errorf("%s at %s: %s", f.Device, f.Point, f.Refused)
			}
			keys[f.Floor.Condition] = true
		}
		if len(keys) != len(o.plan.Points) || !keys[""] {
			t.Errorf("floors at %d points %v of %d", len(keys), keys, len(o.plan.Points))
		}
		// A window that crosses from one to the other has a floor all the way.
		w, err := d.Meter().Open(t.Context(), meter.OpenRequest{Name: "test", Owner: 1000, Devices: []string{"gpu"}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		r, err := w.Close(t.Context(), meter.CloseRequest{Synced: true})
		if err != nil {
			t.Fatal(err)
		}
		g := r.Devices[0]
		if !strings.Contains(g.FloorFrom, "+") || !slices.Contains(g.Reasons, meter.ReasonPointChanged) || !r.AboveIdle {
			t.Errorf("floor %q, reasons %v", g.FloorFrom, g.Reasons)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAMeasurementThatIsEndedPutsTheHostBack(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*testing.T, *daemon.Daemon, context.CancelFunc)
		want error
	}{
		{"by its caller", func(_ *testing.T, _ *daemon.Daemon, cancel context.CancelFunc) { cancel() }, context.Canceled},
		{"by a pause", func(t *testing.T, d *daemon.Daemon, _ context.CancelFunc) {
			t.Helper()
			if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeOff}); err != nil {
				t.Error(err)
			}
		}, daemon.ErrRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := machine(t, "workstation")
				found := sim.Digest()
				cfg := config.Default()
				cfg.UntunedTraining = "performance"
				d, stop := start(t, sim, cfg)
				defer func() { _ = stop() }()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := false
				o := &floorObserver{on: func(p daemon.FloorProgress) {
					if p.Point == 2 && p.Measuring && !ended {
						ended = true
						c.end(t, d, cancel)
					}
				}}
				_, err := d.MeasureFloor(ctx, daemon.FloorSpec{AllPoints: true}, o)
				if !errors.Is(err, c.want) {
					t.Errorf("ended with %v, want %v", err, c.want)
				}
				if n := d.Meter().OpenCount(); n != 0 {
					t.Errorf("%d windows are left open", n)
				}
				floors, err := d.Floors(t.Context())
				if err != nil || len(floors) != 3 {
					t.Errorf("%d floors are kept, %v; want those of the first point", len(floors), err)
				}
				if _, err := d.Apply(t.Context(), daemon.Caller{}, false); errors.Is(err, daemon.ErrBusy) {
					t.Error("the levers are still held")
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				if sim.Digest() != found {
					t.Error("the host is not as found")
				}
			})
		})
	}
}

func TestFloorsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		defer func() { _ = stop() }()
		// Somebody's window is no reason.
		w, err := d.Meter().Open(t.Context(), meter.OpenRequest{Name: "test", Owner: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.MeasureFloor(t.Context(), daemon.FloorSpec{Devices: []string{"gpu"}}, &floorObserver{}); err != nil {
			t.Errorf("with a window open: %v", err)
		}
		w.Abandon()
		sim.SetLoad("gpu0", 0.9) // which keeps the CPU busy too
		_, err = d.MeasureFloor(t.Context(), daemon.FloorSpec{Devices: []string{"gpu"}}, &floorObserver{})
		if !errors.Is(err, daemon.ErrRefused) || !strings.Contains(err.Error(), "90 % at work") {
			t.Errorf("under load: %v", err)
		}
		_, err = d.MeasureFloor(t.Context(), daemon.FloorSpec{AllPoints: true}, &floorObserver{})
		if !errors.Is(err, daemon.ErrRefused) || !strings.Contains(err.Error(), "training") {
			t.Errorf("at all points, under load: %v", err)
		}
		// The CPU is nearly at rest: it gets its floors, and the board a reason.
		sim.SetLoad("gpu0", 0.15)
		time.Sleep(10 * time.Second)
		out, err := d.MeasureFloor(t.Context(), daemon.FloorSpec{}, &floorObserver{})
		if err != nil {
			t.Errorf("a board under load costs the CPU its floor: %v", err)
		}
		for _, o := range out {
			if (o.Refused != "") != (o.Device == theBoard) {
				t.Errorf("%s: refused %q", o.Device, o.Refused)
			}
		}
		if _, err := d.MeasureFloor(t.Context(), daemon.FloorSpec{Devices: []string{"gpu/nothing"}}, &floorObserver{}); !errors.Is(err, meter.ErrUnknownDevice) {
			t.Errorf("a device that is not there: %v", err)
		}
		sim.SetLoad("gpu0", 0)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A floor that three windows speak against stays suspect over a restart, until it is measured again.
func TestASuspectFloorIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		defer func() { _ = stop() }()
		measure := func() {
			t.Helper()
			if _, err := d.MeasureFloor(t.Context(), daemon.FloorSpec{Devices: []string{"gpu"}}, &floorObserver{}); err != nil {
				t.Fatal(err)
			}
		}
		measure()
		floors, err := d.Floors(t.Context())
		if err != nil || len(floors) != 1 || floors[0].Suspect {
			t.Fatalf("%+v, %v", floors, err)
		}
		wrong := floors[0].Floor
		wrong.Mean, wrong.To = 60*unit.Watt, wrong.To.Add(time.Second)
		d.Meter().SetFloors([]meter.Floor{wrong})
		for range 3 {
			window(t, d, 5*time.Second)
		}
		time.Sleep(15 * time.Second) // a tick
		if floors, err = d.Floors(t.Context()); err != nil || !floors[0].Suspect {
			t.Errorf("not suspect after three windows below it: %+v, %v", floors, err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		d, stop = start(t, sim, config.Default())
		if got := window(t, d, 5*time.Second); !slices.Contains(got.Reasons, meter.ReasonFloorSuspect) {
			t.Errorf("after a restart the floor is believed: %v", got.Reasons)
		}
		measure()
		if got := window(t, d, 5*time.Second); slices.Contains(got.Reasons, meter.ReasonFloorSuspect) {
			t.Errorf("a new certificate is still suspect: %v", got.Reasons)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
