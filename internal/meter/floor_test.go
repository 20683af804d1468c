package meter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/unit"
)

// certificate is a floor that somebody measured: so many watts, ± so many.
func certificate(device, condition string, watts, half float64) meter.Floor {
	from := time.Now().Round(0)
	return meter.Floor{
		Device: device, State: meter.FloorBare, Condition: condition, Mean: unit.FromWatts(watts), HalfWidth: unit.FromWatts(half),
		N: 30, Kernel: "6.1", BootID: "b", From: from, To: from.Add(30 * time.Second),
	}.Named()
}

// Each window pays its share of its own floor: both of a device of 300 W and a floor of 50 W, and one of a time the device
// was busy for longer than the window.
func TestWindowsPayTheirShareOfTheFloor(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		r.sim.SetLoad("gpu0", 1)
		time.Sleep(3 * time.Second)
		floor := certificate(r.gpu, "", 50, 0.5)
		r.SetFloors([]meter.Floor{floor})
		// The load's own process is on the board before the windows open, so that they are charged above the context's rest.
		context := floor
		context.State = meter.FloorContext
		context = context.Named()
		r.SetFloors([]meter.Floor{floor, context})
		q := meter.OpenRequest{Exact: true, Devices: []string{"gpu"}}
		before := r.sim.Truth("gpu0")
		a := r.open(q)
		time.Sleep(5 * time.Second)
		b := r.open(q)
		middle := r.sim.Truth("gpu0")
		time.Sleep(5 * time.Second)
		ra, rb := r.close(a, meter.CloseRequest{Synced: true}), r.close(b, meter.CloseRequest{Synced: true})
		first, second := middle-before, r.sim.Truth("gpu0")-middle
		da, db := device(t, ra, r.gpu), device(t, rb, r.gpu)
		within(t, "A's floor", da.Floor, 375*unit.Joule, unit.Joule/10)
		within(t, "B's floor", db.Floor, 125*unit.Joule, unit.Joule/10)
		within(t, "A", da.Energy, first+second/2-375*unit.Joule, da.HalfWidth)
		within(t, "B", db.Energy, second/2-125*unit.Joule, db.HalfWidth)
		within(t, "A's u(floor)", da.Terms.Floor, 3750*unit.Millijoule, unit.Joule/100)
		for _, d := range []meter.DeviceEnergy{da, db} {
			if d.FloorFrom != context.ID || slices.Contains(d.Reasons, meter.ReasonFloorNone) || slices.Contains(d.Reasons, meter.ReasonFloorCaller) {
				t.Errorf("floor %q, reasons %v; want %s and none", d.FloorFrom, d.Reasons, context.ID)
			}
			if d.Energy+d.Floor != d.Gross {
				t.Errorf("%v + %v is not %v", d.Energy, d.Floor, d.Gross)
			}
		}
		if !ra.AboveIdle || !rb.AboveIdle {
			t.Error("not above idle, although each device has a floor")
		}
	})
}

func TestTheCallersFloorWins(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		r.SetFloors([]meter.Floor{certificate(r.gpu, "", 31, 0.1), certificate("cpu/package-0", "", 9, 0.1)})
		w := r.open(meter.OpenRequest{Exact: true, IdleWatts: map[string]float64{"gpu": 10}})
		time.Sleep(10 * time.Second)
		res := r.close(w, meter.CloseRequest{Synced: true})
		gpu, cpu := device(t, res, r.gpu), device(t, res, "cpu/package-0")
		within(t, "the caller's floor", gpu.Floor, 100*unit.Joule, unit.Joule/10)
		within(t, "the certificate's floor", cpu.Floor, 90*unit.Joule, unit.Joule/10)
		if gpu.FloorFrom != "caller" || cpu.FloorFrom == "caller" || cpu.FloorFrom == "none" {
			t.Errorf("floors from %q and %q", gpu.FloorFrom, cpu.FloorFrom)
		}
		dram := device(t, res, "cpu/package-0/dram")
		has(t, dram.Reasons, meter.ReasonFloorNone)
		if dram.FloorFrom != "none" || res.AboveIdle {
			t.Errorf("dram has no floor, and the result says %q, above idle %v", dram.FloorFrom, res.AboveIdle)
		}
	})
}

// A window over several operating points pays for each by its own floor; one of them without a floor leaves it none.
func TestEachSliceHasTheFloorOfItsOwnPoint(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		ctx := context.Background()
		a, b := certificate(r.gpu, "a", 20, 0.2), certificate(r.gpu, "b", 30, 0.3)
		r.SetFloors([]meter.Floor{a, b})
		r.SetCondition(ctx, "a")
		q := meter.OpenRequest{Exact: true, Devices: []string{"gpu"}}
		long, late := r.open(q), (*meter.Window)(nil)
		time.Sleep(4 * time.Second)
		r.SetCondition(ctx, "b")
		time.Sleep(2 * time.Second)
		late = r.open(q)
		time.Sleep(4 * time.Second)
		r.SetCondition(ctx, "a")
		time.Sleep(6 * time.Second)
		rl := r.close(late, meter.CloseRequest{Synced: true})
		rr := r.close(long, meter.CloseRequest{Synced: true})
		// Alone for 4 s of a and 2 s of b, then with the other for 4 s of b and 6 s of a.
		dl, dr := device(t, rl, r.gpu), device(t, rr, r.gpu)
		within(t, "the long one's floor", dr.Floor, unit.FromJoules(20*(4+3)+30*(2+2)), unit.Joule/10)
		within(t, "the late one's floor", dl.Floor, unit.FromJoules(20*3+30*2), unit.Joule/10)
		within(t, "the long one's u(floor)", dr.Terms.Floor, unit.FromJoules(0.2*7+0.3*4), unit.Joule/100)
		if dr.FloorFrom != a.ID+"+"+b.ID || dl.FloorFrom != b.ID+"+"+a.ID {
			t.Errorf("floors %q and %q of a %s, b %s", dr.FloorFrom, dl.FloorFrom, a.ID, b.ID)
		}
		has(t, dr.Reasons, meter.ReasonPointChanged)

		w := r.open(q)
		time.Sleep(3 * time.Second)
		r.SetCondition(ctx, "never measured")
		time.Sleep(3 * time.Second)
		d := device(t, r.close(w, meter.CloseRequest{Synced: true}), r.gpu)
		has(t, d.Reasons, meter.ReasonFloorNone, meter.ReasonPointChanged)
		if d.FloorFrom != "none" || d.Floor != 0 || d.Energy != d.Gross {
			t.Errorf("a part of the time has no floor: %+v", d)
		}
	})
}

// Stages follow the same floors as the whole, and what changes while the window is open does not change its floor.
func TestStagesHaveTheirOwnFloor(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		ctx := context.Background()
		a, b := certificate(r.gpu, "a", 20, 0), certificate(r.gpu, "b", 30, 0)
		r.SetFloors([]meter.Floor{a, b})
		r.SetCondition(ctx, "a")
		w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"gpu"}})
		time.Sleep(3 * time.Second)
		s1, err := w.Mark(ctx, "one")
		if err != nil {
			t.Fatal(err)
		}
		r.SetCondition(ctx, "b")
		r.SetFloors(nil)
		time.Sleep(2 * time.Second)
		res := r.close(w, meter.CloseRequest{Synced: true})
		s2 := res.Stages[1]
		within(t, "floor of the first stage", s1.Gross-s1.Energy, 60*unit.Joule, unit.Joule/10)
		within(t, "floor of the second", s2.Gross-s2.Energy, 60*unit.Joule, unit.Joule/10)
		within(t, "floor in all", res.Floor, 120*unit.Joule, unit.Joule/10)
		next := r.open(meter.OpenRequest{Exact: true, Devices: []string{"gpu"}})
		time.Sleep(2 * time.Second)
		if d := device(t, r.close(next, meter.CloseRequest{Synced: true}), r.gpu); d.FloorFrom != "none" {
			t.Errorf("a window opened after all floors went has the floor %q", d.FloorFrom)
		}
	})
}

// A stranger's CPU window lives on ticks, and its floor does too.
func TestAStrangersWindowHasAFloor(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		r.SetFloors([]meter.Floor{certificate("cpu/package-0", "", 9, 0.1)})
		ctx := context.Background()
		w := r.open(meter.OpenRequest{Owner: 1000, Devices: []string{"cpu/package-0"}})
		for range 3 {
			time.Sleep(10 * time.Second)
			r.Tick(ctx)
		}
		d := device(t, r.close(w, meter.CloseRequest{}), "cpu/package-0")
		if d.FloorFrom == "none" || d.Floor <= 170*unit.Joule || d.Floor > 300*unit.Joule {
			t.Errorf("floor %v from %q", d.Floor, d.FloorFrom)
		}
	})
}

func TestThreeWindowsBelowAFloorMakeItSuspect(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		floor := certificate(r.gpu, "", 60, 0.5) // the board draws 31 W
		r.SetFloors([]meter.Floor{floor})
		run := func() meter.DeviceEnergy {
			w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"gpu"}})
			time.Sleep(5 * time.Second)
			return device(t, r.close(w, meter.CloseRequest{Synced: true}), r.gpu)
		}
		for n := range 4 {
			d := run()
			if d.Energy >= -d.HalfWidth {
				t.Fatalf("%v ± %v is not below the floor", d.Energy, d.HalfWidth)
			}
			if got, want := slices.Contains(d.Reasons, meter.ReasonFloorSuspect), n >= 2; got != want || r.Suspects(floor.ID) != want {
				t.Errorf("window %d: suspect %v (%v), want %v", n+1, got, r.Suspects(floor.ID), want)
			}
		}
		fresh := certificate(r.gpu, "", 31, 0.5)
		r.SetFloors([]meter.Floor{fresh})
		if d := run(); slices.Contains(d.Reasons, meter.ReasonFloorSuspect) || d.FloorFrom != fresh.ID {
			t.Errorf("a new certificate is still suspect: %v, floor %s", d.Reasons, d.FloorFrom)
		}
		fresh.Suspect = true
		r.SetFloors([]meter.Floor{fresh})
		has(t, run().Reasons, meter.ReasonFloorSuspect)
	})
}

// try measures a device's floor to its end; note is told each step.
func (r *rig) try(device string, lasting time.Duration, note func(meter.FloorStep)) (meter.Floor, error) {
	r.t.Helper()
	ctx := context.Background()
	trial, err := r.TryFloor(ctx, device, lasting)
	if err != nil {
		return meter.Floor{}, err
	}
	defer trial.Abandon()
	for {
		time.Sleep(trial.Part())
		s, err := trial.Step(ctx)
		if err != nil || s.Done {
			return s.Floor, err
		}
		if note != nil {
			note(s)
		}
	}
}

// The truth is in the interval of at least 95 % of certificates, whatever the noise; its width is not absurd either.
func TestCertificatesAreTrue(t *testing.T) {
	truths := map[string]map[string]float64{
		"workstation": {"cpu/package-0": 9, "cpu/package-0/dram": 1.8, "gpu0": 31},
		"server": {"cpu/package-0-die-0": 23, "cpu/package-1-die-0": 23, "gpu/GPU-0d7c1f52-6b3e-4c0a-9f14-aa40aa40aa40": 31,
			"gpu/GPU-b52e8c77-1d94-4a6b-8e02-600060006000": 24},
	}
	const seeds = uint64(12)
	held, all := 0, 0
	for name, truth := range truths {
		fixture, err := hostsim.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range seeds {
			synctest.Test(t, func(t *testing.T) {
				sim, err := hostsim.New(t.TempDir(), fixture, hostsim.Options{Seed: seed})
				if err != nil {
					t.Fatal(err)
				}
				r := start(t, sim)
				floors := map[string]meter.Floor{}
				var mu sync.Mutex
				var trials sync.WaitGroup
				for device := range truth {
					trials.Go(func() {
						f, err := r.try(strings.Replace(device, "gpu0", r.gpu, 1), meter.MinFloor, nil)
						if err != nil {
							t.Errorf("%s, seed %d: %v", name, seed, err)
						}
						mu.Lock()
						defer mu.Unlock()
						floors[device] = f
					})
				}
				trials.Wait()
				for device, watts := range truth {
					f := floors[device]
					if all++; unit.FromWatts(watts) >= f.Mean-f.HalfWidth && unit.FromWatts(watts) <= f.Mean+f.HalfWidth {
						held++
					} else {
						t.Logf("%s %s, seed %d: %v ± %v, in truth %v W", name, device, seed, f.Mean, f.HalfWidth, watts)
					}
					if f.HalfWidth.Watts() > 0.02*watts+0.05 {
						t.Errorf("%s: %v ± %v is a wide interval for a steady board", device, f.Mean, f.HalfWidth)
					}
				}
			})
		}
	}
	t.Logf("%d of %d intervals hold the truth", held, all)
	if float64(held) < 0.95*float64(all) {
		t.Errorf("%d of %d intervals hold the truth, want 95 %%", held, all)
	}
}

// Whatever counts a device's energy, or adds its power up, its floor can be measured; a board that sleeps is not woken.
func TestEverySourceHasAFloor(t *testing.T) {
	for _, name := range []string{"amd", "laptop"} {
		t.Run(name, func(t *testing.T) {
			on(t, name, func(r *rig) {
				time.Sleep(20 * time.Second) // a board that may sleep does by then
				for _, device := range r.Devices() {
					f, err := r.try(device, meter.MinFloor, nil)
					switch {
					case errors.Is(err, meter.ErrNotAtRest) && strings.Contains(err.Error(), "it sleeps"):
						t.Logf("%s: %v", device, err)
					case err != nil || f.Mean <= 0 || f.Named().Check() != nil:
						t.Errorf("%s: %+v, %v", device, f, err)
					default:
						t.Logf("%s: %v ± %v", device, f.Mean, f.HalfWidth)
					}
				}
			})
		})
	}
}

func TestACertificateSaysHowItWasMeasured(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		r.SetCondition(context.Background(), "nvml/x=200 W")
		// Somebody else's window is no reason to refuse, and it loses nothing to the measurement.
		w := r.open(meter.OpenRequest{Owner: 1000, Exact: true, Devices: []string{"gpu"}})
		var phases []string
		f, err := r.try(r.gpu, 40*time.Second, func(s meter.FloorStep) {
			phases = append(phases, fmt.Sprint(s.Measuring))
			if s.Power <= 0 && s.Elapsed > time.Second || s.Of <= 0 {
				t.Errorf("progress without figures: %+v", s)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if phases = slices.Compact(phases); strings.Join(phases, " ") != "false true" {
			t.Errorf("phases %v, want first settling, then measuring", phases)
		}
		if f.Device != r.gpu || f.State != meter.FloorBare || f.Condition != "nvml/x=200 W" || f.N < 35 || f.To.Sub(f.From) < 40*time.Second || f.Sigma <= 0 {
			t.Errorf("%+v", f)
		}
		if err := f.Named().Check(); err != nil {
			t.Error(err)
		}
		d := device(t, r.close(w, meter.CloseRequest{Synced: true}), r.gpu)
		if d.Gross != d.Total || slices.Contains(d.Reasons, meter.ReasonShared) {
			t.Errorf("the window beside the measurement was charged %v of %v: %v", d.Gross, d.Total, d.Reasons)
		}
		if n := r.OpenCount(); n != 0 {
			t.Errorf("%d windows are left open", n)
		}
	})
}

func TestAFloorIsRefusedUnderLoad(t *testing.T) {
	for _, c := range []struct {
		name, device, busy string
		share              float64
		after              time.Duration
		says               string
	}{
		{"a board at work", "gpu", "gpu0", 0.5, 0, "50 % at work, for pid"},
		{"a board that goes to work", "gpu", "gpu0", 1, 25 * time.Second, "100 % at work"},
		{"a board that does a little", "gpu", "gpu0", 0.04, 25 * time.Second, "4 % at work, for pid"},
		{"a CPU at work", "cpu/package-0", "cpu", 0.5, 0, "CPUs are at work"},
		{"a CPU that goes to work", "cpu/package-0", "cpu", 0.6, 25 * time.Second, "at work"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on(t, "workstation", func(r *rig) {
				if c.device == "gpu" {
					c.device = r.gpu
				}
				go func() {
					time.Sleep(c.after)
					r.sim.SetLoad(c.busy, c.share)
				}()
				time.Sleep(time.Second)
				began := time.Now()
				f, err := r.try(c.device, meter.MinFloor, nil)
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("floor %+v, error %v; want one that says %q", f, err, c.says)
				}
				t.Logf("after %v: %v", time.Since(began), err)
				if n := r.OpenCount(); n != 0 {
					t.Errorf("%d windows are left open", n)
				}
			})
		})
	}
}

// A board that has been seen lower at the same point is not at rest, though nothing else tells.
func TestAFloorIsRefusedAboveTheLowestSeen(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		ctx := context.Background()
		for range 3 {
			time.Sleep(10 * time.Second)
			r.Tick(ctx)
		}
		uuid := strings.TrimPrefix(r.gpu, "gpu/")
		defer r.sim.FailGPU(uuid, "processes", host.ErrNotSupported)()
		defer r.sim.FailGPU(uuid, "utilisation", host.ErrNotSupported)()
		r.sim.SetLoad("gpu0", 0.2)
		_, err := r.try(r.gpu, meter.MinFloor, nil)
		if !errors.Is(err, meter.ErrNotAtRest) || !strings.Contains(err.Error(), "has been seen at 3") {
			t.Errorf("error %v, want one that names the 31 W seen before", err)
		}
		r.SetCondition(ctx, "another")
		if _, err := r.try(r.gpu, meter.MinFloor, nil); err != nil {
			t.Errorf("at another point nothing lower has been seen: %v", err)
		}
	})
}

// After work a board's power falls for a while: the measurement waits for that, and says so.
func TestAFloorWaitsForTheTailOfWork(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		uuid := strings.TrimPrefix(r.gpu, "gpu/")
		defer r.sim.FailGPU(uuid, "processes", host.ErrNotSupported)()
		defer r.sim.FailGPU(uuid, "utilisation", host.ErrNotSupported)()
		go func() {
			for _, share := range []float64{0.5, 0.4, 0.3, 0.2, 0.1, 0} {
				r.sim.SetLoad("gpu0", share)
				time.Sleep(4 * time.Second)
			}
		}()
		time.Sleep(time.Second)
		began, settling := time.Now(), time.Duration(0)
		f, err := r.try(r.gpu, meter.MinFloor, func(s meter.FloorStep) {
			if !s.Measuring {
				settling = time.Since(began)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if settling < 20*time.Second || settling > 45*time.Second {
			t.Errorf("it waited %v for a tail of 20 s", settling)
		}
		within(t, "floor", unit.Energy(f.Mean), unit.Energy(31*unit.Watt), unit.Energy(f.HalfWidth)+100_000)
	})
}

// A board has several levels at rest, and each its floor: a service whose context stays open is charged above that of the
// context, and a run that opens one pays for it.
func TestEachLevelOfRestHasItsFloor(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "host", "hostsim", "hosts", "workstation.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "context.txtar")
	if err := os.WriteFile(file, bytes.Replace(data, []byte("idle_w = 31.0 "), []byte("context_w = 50.0\nidle_w = 31.0 "), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	on(t, file, func(r *rig) {
		var floors []meter.Floor
		for _, watts := range []float64{31, 81} {
			if watts > 31 {
				r.sim.SetLoad("gpu0", 1e-9) // a process that does nothing
			}
			time.Sleep(2 * time.Second)
			f, err := r.try(r.gpu, meter.MinFloor, nil)
			if err != nil {
				t.Fatal(err)
			}
			within(t, string(f.State), unit.Energy(f.Mean), unit.Energy(unit.FromWatts(watts)), unit.Energy(f.HalfWidth)+100_000)
			floors = append(floors, f.Named())
		}
		r.SetFloors(floors)
		run := func() meter.DeviceEnergy {
			w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"gpu"}})
			time.Sleep(5 * time.Second)
			r.sim.SetLoad("gpu0", 1e-9)
			time.Sleep(5 * time.Second)
			return device(t, r.close(w, meter.CloseRequest{Synced: true}), r.gpu)
		}
		r.sim.SetLoad("gpu0", 0)
		time.Sleep(2 * time.Second)
		d := run()               // bare, and in it a context is opened for half of the time
		ripple := 4 * unit.Joule // of the board itself, in 10 s
		within(t, "a run that opens a context", d.Energy, 250*unit.Joule, d.HalfWidth+ripple)
		for range 20 {
			d = run()
			within(t, "a window of a service at rest", d.Energy, 0, d.HalfWidth+ripple)
			if slices.Contains(d.Reasons, meter.ReasonFloorSuspect) {
				t.Fatal("the ripple of a board at rest makes its floor suspect")
			}
		}
	})
}

// A context that is open and does nothing is a state of its own; nobody knows the state of a board that does not answer.
func TestTheStateOfABoardAtRest(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		r.sim.SetLoad("gpu0", 1e-9) // a process that does nothing
		f, err := r.try(r.gpu, meter.MinFloor, nil)
		if err != nil || f.State != meter.FloorContext {
			t.Fatalf("state %q, %v; want context", f.State, err)
		}
		floor := f.Named()
		r.SetFloors([]meter.Floor{floor})
		run := func() string {
			w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"gpu"}})
			time.Sleep(3 * time.Second)
			return device(t, r.close(w, meter.CloseRequest{Synced: true}), r.gpu).FloorFrom
		}
		if got := run(); got != floor.ID {
			t.Errorf("with a context open the floor is %q, want %s", got, floor.ID)
		}
		r.sim.SetLoad("gpu0", 0)
		time.Sleep(2 * time.Second)
		if got := run(); got != "none" {
			t.Errorf("without a context the floor is %q: that of a context is not its", got)
		}
		defer r.sim.FailGPU(strings.TrimPrefix(r.gpu, "gpu/"), "processes", host.ErrUnread)()
		time.Sleep(2 * time.Second)
		if got := run(); got != "none" {
			t.Errorf("with the board's state not known the floor is %q", got)
		}
		if _, err := r.try(r.gpu, meter.MinFloor, nil); !errors.Is(err, meter.ErrNotAtRest) {
			t.Errorf("a floor of a state nobody knows: %v", err)
		}
	})
}
