package meter_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/unit"
)

// rig is a simulated machine with a meter that runs.
type rig struct {
	*meter.Meter
	t   *testing.T
	sim *hostsim.Sim
	gpu string // its device
}

// on runs a test on a simulated machine in faked time.
func on(t *testing.T, name string, f func(*rig)) {
	t.Helper()
	fixture, err := hostsim.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		sim, err := hostsim.New(t.TempDir(), fixture, hostsim.Options{Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		f(start(t, sim))
	})
}

// start opens the machine's GPUs and starts a meter on it, both until the test ends.
func start(t *testing.T, sim *hostsim.Sim) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := sim.Host()
	if err := h.GPUs.Open(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := meter.New(ctx, h, meter.Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Meter: m, t: t, sim: sim}
	for _, gpu := range h.GPUs.All() {
		r.gpu = "gpu/" + gpu.Info().UUID
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := h.GPUs.Close(); err != nil {
			t.Errorf("GPUs: %v", err)
		}
	})
	return r
}

func (r *rig) open(q meter.OpenRequest) *meter.Window {
	r.t.Helper()
	if q.Name == "" {
		q.Name = "test"
	}
	w, err := r.Open(context.Background(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

func (r *rig) close(w *meter.Window, q meter.CloseRequest) meter.Result {
	r.t.Helper()
	res, err := w.Close(context.Background(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func device(t *testing.T, r meter.Result, name string) meter.DeviceEnergy {
	t.Helper()
	i := slices.IndexFunc(r.Devices, func(d meter.DeviceEnergy) bool { return d.Device == name })
	if i < 0 {
		t.Fatalf("no figure for %s in %+v", name, r.Devices)
	}
	return r.Devices[i]
}

func within(t *testing.T, what string, got, want, width unit.Energy) {
	t.Helper()
	if d := got - want; d > width || d < -width {
		t.Errorf("%s: %v, want %v ± %v", what, got, want, width)
	}
}

func has(t *testing.T, reasons []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(reasons, w) {
			t.Errorf("reasons %v, want %s among them", reasons, w)
		}
	}
}

func TestWindowChargesWhatTheDevicesDrew(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		r.sim.SetLoad("gpu0", 1)
		time.Sleep(3 * time.Second)
		truth := func() [3]unit.Energy {
			return [3]unit.Energy{r.sim.Truth("package-0"), r.sim.Truth("dram"), r.sim.Truth("gpu0")}
		}
		before, psys := truth(), r.sim.Truth("psys")
		w := r.open(meter.OpenRequest{Exact: true, Workload: "training", Unit: "epoch",
			IdleWatts: map[string]float64{"gpu": 30, "cpu/package-0": 9, "cpu/package-0/dram": 1.8}})
		time.Sleep(60 * time.Second)
		after := truth()
		res := r.close(w, meter.CloseRequest{Synced: true, Work: 2})
		var gross unit.Energy
		for i, name := range []string{"cpu/package-0", "cpu/package-0/dram", r.gpu} {
			d := device(t, res, name)
			within(t, name, d.Gross, after[i]-before[i], d.HalfWidth)
			gross += d.Gross
			if d.Method != meter.Sampled && i != 1 || d.Coverage != 1 || d.Total != d.Gross || d.FloorFrom != "caller" {
				t.Errorf("%+v", d)
			}
		}
		within(t, "floor", res.Floor, (40_800*unit.Millijoule)*60, 2)
		if res.Gross != gross || res.Energy != res.Gross-res.Floor || !res.AboveIdle || res.Duration != time.Minute {
			t.Errorf("%+v", res)
		}
		within(t, "per epoch", unit.FromJoules(res.PerUnit), res.Energy/2, 1)
		within(t, "platform", res.Platform, r.sim.Truth("psys")-psys, unit.Joule)
		if res.Backend != "nvml_counter+rapl" || res.Share != "exclusive" || res.Workload != "training" {
			t.Errorf("%+v", res)
		}
		tiny := r.open(meter.OpenRequest{Exact: true})
		time.Sleep(10 * time.Second)
		if flop := r.close(tiny, meter.CloseRequest{Synced: true, Work: 1e12}); flop.PerUnit <= 0 || flop.PerUnit > 1e-7 || flop.PerUnitHalfWidth <= 0 {
			t.Errorf("a trillion units of work cost %g J ± %g J each: never a fabricated zero", flop.PerUnit, flop.PerUnitHalfWidth)
		}
		has(t, res.Reasons, meter.ReasonFloorCaller)
		if slices.Contains(res.Reasons, meter.ReasonUnsynced) || slices.Contains(res.Reasons, meter.ReasonFloorNone) {
			t.Errorf("reasons %v", res.Reasons)
		}
	})
}

func TestDeviceNamesAndZones(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		want := []string{"cpu/package-0", "cpu/package-0/dram", r.gpu}
		if got := r.Devices(); !slices.Equal(got, want) {
			t.Errorf("devices %v, want %v", got, want)
		}
		roles := map[string]int{}
		for _, s := range r.Sensors() {
			if s.Counted != (s.Reason == "") {
				t.Errorf("%+v", s)
			}
			roles[s.Reason]++
		}
		if roles[""] != 3 || roles[meter.ReasonPlatform] != 1 || roles[meter.ReasonContained] == 0 || roles[meter.ReasonTwin] == 0 {
			t.Errorf("sensors by reason: %v", roles)
		}
		for _, c := range []struct {
			ask  []string
			want []string
		}{
			{nil, want}, {[]string{"cpu"}, want[:2]}, {[]string{"gpu"}, want[2:]},
			{[]string{r.gpu, "gpu", "cpu/package-0"}, []string{want[0], want[2]}},
		} {
			w := r.open(meter.OpenRequest{Devices: c.ask, Exact: true})
			if got := w.Devices(); !slices.Equal(got, c.want) {
				t.Errorf("asked for %v: %v, want %v", c.ask, got, c.want)
			}
			w.Abandon()
		}
		_, err := r.Open(context.Background(), meter.OpenRequest{Name: "x", Devices: []string{"cpu/package-9"}})
		if !errors.Is(err, meter.ErrUnknownDevice) || !strings.Contains(err.Error(), "cpu/package-0/dram") {
			t.Errorf("unknown device: %v", err)
		}
	})
}

func TestHostWithoutCountersIsServed(t *testing.T) {
	on(t, "vm", func(r *rig) {
		r.Tick(context.Background())
		w := r.open(meter.OpenRequest{HintJoulesPerUnit: 0.5, Unit: "token"})
		time.Sleep(time.Second)
		res := r.close(w, meter.CloseRequest{})
		if res.Method != meter.Unknown || res.Backend != "none" || res.HasUpperBound || res.AboveIdle || res.Coverage != 0 {
			t.Errorf("%+v", res)
		}
		has(t, res.Reasons, meter.ReasonNoPowercap, meter.ReasonNoGPU, meter.ReasonFloorNone)

		w = r.open(meter.OpenRequest{HintJoulesPerUnit: 0.5, Unit: "token"})
		res = r.close(w, meter.CloseRequest{Work: 1000})
		if res.Method != meter.Estimated || res.Energy != 500*unit.Joule || res.HalfWidth == 0 {
			t.Errorf("%+v", res)
		}
		w = r.open(meter.OpenRequest{HintJoulesPerUnit: 0.5, Unit: "token"})
		if res = r.close(w, meter.CloseRequest{Work: 1e308}); res.Method != meter.Unknown || res.HasPerUnit {
			t.Errorf("an estimate beyond all measure: %+v", res)
		}
		w = r.open(meter.OpenRequest{})
		if _, err := w.Close(context.Background(), meter.CloseRequest{RequireSampled: true}); !errors.Is(err, meter.ErrNotSampled) {
			t.Errorf("required sampled: %v", err)
		}
		if n := r.OpenCount(); n != 0 {
			t.Errorf("%d windows open", n)
		}
		if len(r.Sensors()) != 2 || len(r.Power()) != 0 {
			t.Errorf("sensors %v, power %v", r.Sensors(), r.Power())
		}
	})
}

func TestNothingToTellFromZeroIsNoMeasurement(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		q := meter.OpenRequest{Exact: true, Devices: []string{"gpu"}, HintJoulesPerUnit: 2}
		time.Sleep(time.Second)
		w := r.open(q)
		res := r.close(w, meter.CloseRequest{Synced: true})
		if res.Method != meter.Unknown || !res.HasUpperBound || res.UpperBound <= 0 {
			t.Errorf("a window of no length: %+v", res)
		}
		has(t, res.Reasons, meter.ReasonShortWindow)

		w = r.open(q)
		time.Sleep(40 * time.Millisecond)
		res = r.close(w, meter.CloseRequest{Synced: true, Work: 1})
		if res.Method != meter.Estimated || res.Energy != 2*unit.Joule || res.UpperBound < res.Energy {
			t.Errorf("40 ms, with a hint: %+v", res)
		}
		// A floor equal to the draw leaves nothing above it.
		q.IdleWatts, q.IdleWattsUncertainty = map[string]float64{"gpu": 30}, map[string]float64{"gpu": 2}
		before := r.sim.Truth("gpu0")
		w = r.open(q)
		time.Sleep(60 * time.Second)
		drew := (r.sim.Truth("gpu0") - before).Per(time.Minute).Watts()
		res = r.close(w, meter.CloseRequest{Synced: true})
		d := device(t, res, r.gpu)
		within(t, "floor's term", d.Terms.Floor, 120*unit.Joule, 1)
		if math.Abs(drew-30) > 1.9 {
			t.Fatalf("the board rests at %.1f W; the test wants some 30", drew)
		}
		if res.Method != meter.Unknown || res.UpperBound < res.Energy || res.Gross == 0 {
			t.Errorf("an idle minute: %+v", res)
		}
	})
}

func TestUnreadableCounterIsAReasonNotZero(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		const file = "sys/class/powercap/intel-rapl:0/energy_uj"
		heal := r.sim.Fail(host.OpRead, file, unix.EACCES)
		w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"cpu"}})
		time.Sleep(10 * time.Second)
		r.Tick(context.Background())
		res := r.close(w, meter.CloseRequest{})
		d := device(t, res, "cpu/package-0")
		if d.Method != meter.Unknown || d.Coverage != 0 || d.HalfWidth == 0 || res.Method != meter.Unknown || res.Coverage != 0 {
			t.Errorf("%+v", res)
		}
		has(t, d.Reasons, meter.ReasonPermission, meter.ReasonGap)
		if m := device(t, res, "cpu/package-0/dram"); m.Method != meter.Sampled || m.Coverage != 1 {
			t.Errorf("the other zone: %+v", m)
		}
		if res.UpperBound < 10*unit.Kilojoule {
			t.Errorf("upper bound %v of a package nobody read for 10 s", res.UpperBound)
		}
		i := slices.IndexFunc(r.Sensors(), func(s meter.Sensor) bool { return s.Name == "cpu/package-0" })
		if s := r.Sensors()[i]; s.Reason != meter.ReasonPermission {
			t.Errorf("sensor %+v", s)
		}
		heal()
		r.Tick(context.Background())
		if s := r.Sensors()[i]; s.Reason != "" {
			t.Errorf("healed sensor %+v", s)
		}
	})
}

// A failed reading in the middle costs nothing: the next good one spans both intervals.
func TestReadErrorWithinAWindow(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		before := r.sim.Truth("package-0")
		w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"cpu/package-0"}})
		time.Sleep(2500 * time.Millisecond)
		heal := r.sim.Fail(host.OpRead, "sys/class/powercap/intel-rapl:0/energy_uj", unix.EIO)
		time.Sleep(5 * time.Second)
		if s, err := w.Mark(context.Background(), "blind"); err != nil || s.Gross == 0 {
			t.Errorf("a mark on an unread counter: %+v, %v", s, err)
		}
		heal()
		time.Sleep(2500 * time.Millisecond)
		res := r.close(w, meter.CloseRequest{})
		within(t, "package", res.Gross, r.sim.Truth("package-0")-before, 100*unit.Millijoule)
		if res.Coverage != 1 || res.MaxGap != 0 || res.Method != meter.Sampled {
			t.Errorf("%+v", res)
		}
	})
}

func TestGPUThatCannotBeReadIsAReason(t *testing.T) {
	for _, c := range []struct {
		err    error
		reason string
	}{
		{host.ErrSuspended, meter.ReasonSleeping}, {host.ErrLost, meter.ReasonLost},
		{host.ErrNotSupported, meter.ReasonNoCounter}, {host.ErrNoPermission, meter.ReasonPermission},
	} {
		on(t, "workstation", func(r *rig) {
			r.sim.FailGPU(strings.TrimPrefix(r.gpu, "gpu/"), "energy", c.err)
			w := r.open(meter.OpenRequest{Exact: true, Devices: []string{r.gpu}})
			time.Sleep(time.Second)
			res := r.close(w, meter.CloseRequest{Synced: true})
			if res.Method != meter.Unknown || res.Coverage != 0 {
				t.Errorf("%v: %+v", c.err, res)
			}
			has(t, res.Reasons, c.reason)
			r.Tick(context.Background())
			i := slices.IndexFunc(r.Power(), func(p meter.DevicePower) bool { return p.Device == r.gpu })
			if p := r.Power()[i]; p.Known || p.Reason != c.reason {
				t.Errorf("%v: power %+v", c.err, p)
			}
		})
	}
}

func TestHungGPUHoldsUpNobodyForLong(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		w := r.open(meter.OpenRequest{Exact: true, Devices: []string{r.gpu}})
		time.Sleep(time.Second / 2)
		release := r.sim.HangGPU(strings.TrimPrefix(r.gpu, "gpu/"), "energy")
		began := time.Now()
		var both sync.WaitGroup
		both.Go(func() { r.close(w, meter.CloseRequest{Synced: true}) })
		both.Go(func() {
			other := r.open(meter.OpenRequest{Exact: true, Devices: []string{r.gpu}})
			time.Sleep(time.Second / 5)
			res := r.close(other, meter.CloseRequest{Synced: true})
			if res.Method != meter.Unknown {
				t.Errorf("%+v", res)
			}
			has(t, res.Reasons, meter.ReasonHung)
		})
		both.Wait()
		if took := time.Since(began); took > 2*host.CallTimeout {
			t.Errorf("two windows on a hung GPU took %v", took)
		}
		cpu := r.open(meter.OpenRequest{Exact: true, Devices: []string{"cpu"}})
		time.Sleep(5 * time.Second)
		if res := r.close(cpu, meter.CloseRequest{}); res.Method != meter.Sampled {
			t.Errorf("the CPU beside it: %+v", res)
		}
		release()
		time.Sleep(time.Second)
	})
}

func TestSleepingGPUIsLeftAsleep(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		set := func(status string) {
			name := filepath.Join(r.sim.Dir(), "host/sys/bus/pci/devices/0000:41:00.0/power/runtime_status")
			if err := os.WriteFile(name, []byte(status+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		set("suspended")
		uuid := strings.TrimPrefix(r.gpu, "gpu/")
		woken := r.sim.FailGPU(uuid, "energy", errors.New("the board was touched"))
		if got := r.open(meter.OpenRequest{Exact: true}).Devices(); slices.Contains(got, r.gpu) {
			t.Errorf("by default the window charges %v, a sleeping GPU among them", got)
		}
		w := r.open(meter.OpenRequest{Exact: true, Devices: []string{r.gpu}})
		time.Sleep(3 * time.Second)
		r.Tick(context.Background())
		res := r.close(w, meter.CloseRequest{Synced: true})
		has(t, res.Reasons, meter.ReasonSleeping)
		if res.Method != meter.Unknown || slices.Contains(res.Reasons, meter.ReasonUnreadable) {
			t.Errorf("%+v", res)
		}
		woken()
		set("active")
		w = r.open(meter.OpenRequest{Exact: true, Devices: []string{r.gpu}})
		time.Sleep(3 * time.Second)
		if res := r.close(w, meter.CloseRequest{Synced: true}); res.Method != meter.Sampled {
			t.Errorf("awake again: %+v", res)
		}
	})
}

// For 3 hours the package's counter wraps again and again; every tick of the daemon keeps count.
func TestLongWindowOverWraps(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		r.sim.SetLoad("cpu", 1)
		before := r.sim.Truth("package-0")
		w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"cpu/package-0"}})
		time.Sleep(3 * time.Hour)
		res := r.close(w, meter.CloseRequest{})
		drawn := r.sim.Truth("package-0") - before
		if drawn < 300*unit.Kilojoule {
			t.Fatalf("drawn %v: no wrap", drawn)
		}
		within(t, "three hours", res.Gross, drawn, unit.Joule)
		if res.Coverage != 1 || len(res.Devices[0].Reasons) != 1 {
			t.Errorf("%+v", res)
		}
	})
}

func TestSleepOfTheMachineWithinAWindow(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"cpu/package-0"}})
		time.Sleep(10 * time.Second)
		r.sim.Suspend(8 * time.Hour)
		time.Sleep(10 * time.Second)
		res := r.close(w, meter.CloseRequest{})
		if res.Duration != 20*time.Second || res.Method != meter.Sampled {
			t.Errorf("%+v", res)
		}
	})
}

func TestSharedDeviceIsDividedByWeight(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		r.sim.SetLoad("gpu0", 1)
		time.Sleep(time.Second)
		gpu := []string{"gpu"}
		floor := map[string]float64{"gpu": 30}
		before := r.sim.Truth("gpu0")
		light := r.open(meter.OpenRequest{Devices: gpu, IdleWatts: floor})
		heavy := r.open(meter.OpenRequest{Devices: gpu, IdleWatts: floor, Weight: 3})
		watch := r.open(meter.OpenRequest{Devices: gpu, Observe: true, Exact: true})
		time.Sleep(40 * time.Second)
		rl := r.close(light, meter.CloseRequest{Synced: true})
		rh := r.close(heavy, meter.CloseRequest{Synced: true})
		rw := r.close(watch, meter.CloseRequest{Synced: true})
		if sum := rl.Gross + rh.Gross; sum != rw.Gross || rw.Gross != device(t, rl, r.gpu).Total {
			t.Errorf("%v + %v charged, %v drawn", rl.Gross, rh.Gross, rw.Gross)
		}
		within(t, "device", rw.Gross, r.sim.Truth("gpu0")-before, 31*unit.Joule)
		within(t, "three times as much", rh.Gross, 3*rl.Gross, 4)
		within(t, "the floor is taken once", rl.Floor+rh.Floor, 1200*unit.Joule, 2)
		if rl.Share != "shared" || rw.Share != "exclusive" {
			t.Errorf("share %s, of the observer %s", rl.Share, rw.Share)
		}
		has(t, rl.Reasons, meter.ReasonShared)
	})
}

func TestStagesAreCutsOfOneWindow(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		w := r.open(meter.OpenRequest{Exact: true, IdleWatts: map[string]float64{"cpu": 11, "gpu": 30}})
		var stages []meter.Stage
		for _, load := range []float64{1, 0} {
			r.sim.SetLoad("gpu0", load)
			time.Sleep(20 * time.Second)
			s, err := w.Mark(context.Background(), "stage")
			if err != nil {
				t.Fatal(err)
			}
			stages = append(stages, s)
		}
		time.Sleep(10 * time.Second)
		res := r.close(w, meter.CloseRequest{Synced: true})
		if len(res.Stages) != 3 || !slices.Equal(res.Stages[:2], stages) || res.Stages[2].Duration != 10*time.Second {
			t.Fatalf("stages %+v", res.Stages)
		}
		var gross, energy unit.Energy
		for _, s := range res.Stages {
			gross += s.Gross
			energy += s.Energy
		}
		within(t, "stages, gross", gross, res.Gross, 10)
		within(t, "stages, above idle", energy, res.Energy, 10)
		if stages[0].Energy < 3*stages[1].Energy {
			t.Errorf("under load %v, at rest %v", stages[0].Energy, stages[1].Energy)
		}
		if _, err := w.Mark(context.Background(), "late"); !errors.Is(err, meter.ErrNoWindow) {
			t.Errorf("a mark on a closed window: %v", err)
		}
		if _, err := w.Close(context.Background(), meter.CloseRequest{}); !errors.Is(err, meter.ErrNoWindow) {
			t.Errorf("a second close: %v", err)
		}
	})
}

// The floor of a kind is that of all its devices together.
func TestFloorOfAKindIsTakenOnce(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"cpu"}, IdleWatts: map[string]float64{"cpu": 5}})
		time.Sleep(10 * time.Second)
		res := r.close(w, meter.CloseRequest{})
		within(t, "floor of package and dram", res.Floor, 50*unit.Joule, 2)
		p, d := res.Devices[0], res.Devices[1]
		if p.Floor <= 3*d.Floor || d.Floor <= 0 || !res.AboveIdle {
			t.Errorf("package %v, dram %v", p.Floor, d.Floor)
		}
		w = r.open(meter.OpenRequest{Exact: true, IdleWatts: map[string]float64{"cpu": 5}})
		time.Sleep(10 * time.Second)
		res = r.close(w, meter.CloseRequest{Synced: true})
		if g := device(t, res, r.gpu); res.AboveIdle || g.FloorFrom != "none" || g.Floor != 0 || g.Energy != g.Gross {
			t.Errorf("a GPU without a floor: %+v", res)
		}
		has(t, res.Reasons, meter.ReasonFloorNone, meter.ReasonFloorCaller)
	})
}

func TestStrangersSeeCPUEnergyOnTicksOnly(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		cpu := []string{"cpu"}
		time.Sleep(300 * time.Millisecond)
		reads, _ := r.sim.Touches("sys/class/powercap")
		var windows []*meter.Window
		for range 1000 {
			windows = append(windows, r.open(meter.OpenRequest{Owner: 1000, Devices: cpu}))
		}
		if now, _ := r.sim.Touches("sys/class/powercap"); now != reads {
			t.Errorf("1,000 windows caused %d counter reads", now-reads)
		}
		time.Sleep(500 * time.Millisecond)
		res := r.close(windows[0], meter.CloseRequest{})
		if res.Method != meter.Unknown {
			t.Errorf("half a second: %+v", res)
		}
		has(t, res.Reasons, meter.ReasonShortWindow, meter.ReasonCoarse)
		for _, w := range windows[2:] {
			w.Abandon()
		}
		time.Sleep(10 * time.Second)
		reads, _ = r.sim.Touches("sys/class/powercap")
		before := r.sim.Truth("package-0")
		w := r.open(meter.OpenRequest{Owner: 1000, Devices: cpu})
		time.Sleep(60 * time.Second)
		drawn := r.sim.Truth("package-0") - before
		ticked, _ := r.sim.Touches("sys/class/powercap")
		res = r.close(w, meter.CloseRequest{})
		if now, _ := r.sim.Touches("sys/class/powercap"); now != ticked || ticked-reads > 4*62 {
			t.Errorf("reads: %d in a minute, %d by the close", ticked-reads, now-ticked)
		}
		d := device(t, res, "cpu/package-0")
		// Another window of the same uid is open beside it, so half is its own.
		within(t, "package", d.Total, drawn, d.HalfWidth*2)
		within(t, "half of the package", d.Gross, d.Total/2, d.HalfWidth)
		if d.Gross%(100*unit.Millijoule) != 0 || d.Total%(100*unit.Millijoule) != 0 || res.Gross%(100*unit.Millijoule) != 0 {
			t.Errorf("not in steps of 0.1 J: %+v", res)
		}
		if res.Platform%(100*unit.Millijoule) != 0 {
			t.Errorf("platform %v", res.Platform)
		}
	})
}

// A stranger's GPU figures are exact.
func TestStrangersSeeGPUEnergyExactly(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		time.Sleep(time.Second)
		before := r.sim.Truth("gpu0")
		w := r.open(meter.OpenRequest{Owner: 1000, Devices: []string{"gpu"}})
		time.Sleep(700 * time.Millisecond)
		res := r.close(w, meter.CloseRequest{})
		within(t, "gpu", res.Gross, r.sim.Truth("gpu0")-before, res.HalfWidth)
		has(t, res.Reasons, meter.ReasonUnsynced)
		if slices.Contains(res.Reasons, meter.ReasonCoarse) || res.Method != meter.Sampled {
			t.Errorf("%+v", res)
		}
	})
}

func TestLimits(t *testing.T) {
	on(t, "vm", func(r *rig) {
		var windows []*meter.Window
		for range 1024 {
			windows = append(windows, r.open(meter.OpenRequest{Owner: 1}))
		}
		ctx := context.Background()
		if _, err := r.Open(ctx, meter.OpenRequest{Owner: 1, Name: "x"}); !errors.Is(err, meter.ErrTooMany) {
			t.Errorf("the 1,025th of one uid: %v", err)
		}
		for uid := range uint32(3) {
			for range 1024 {
				windows = append(windows, r.open(meter.OpenRequest{Owner: 2 + uid}))
			}
		}
		if _, err := r.Open(ctx, meter.OpenRequest{Owner: 9, Name: "x"}); !errors.Is(err, meter.ErrTooMany) {
			t.Errorf("the 4,097th: %v", err)
		}
		if _, err := r.Detached(windows[0].ID(), meter.Viewer{UID: 2}); !errors.Is(err, meter.ErrNoWindow) {
			t.Errorf("another uid's window: %v", err)
		}
		if _, err := r.Detached(windows[0].ID(), meter.Viewer{UID: 1}); !errors.Is(err, meter.ErrOnSession) {
			t.Errorf("one's own window on a session: %v", err)
		}
		for _, w := range windows {
			w.Abandon()
			w.Abandon()
		}
		if n := r.OpenCount(); n != 0 {
			t.Errorf("%d windows open", n)
		}
		w := r.open(meter.OpenRequest{Owner: 1})
		for range 1024 {
			if _, err := w.Mark(ctx, "s"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Mark(ctx, "s"); !errors.Is(err, meter.ErrTooMany) {
			t.Errorf("the 1,025th stage: %v", err)
		}
	})
}

func TestRequestsAreChecked(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		for name, q := range map[string]meter.OpenRequest{
			"no name":         {},
			"name":            {Name: "a b"},
			"long name":       {Name: strings.Repeat("a", 65)},
			"workload":        {Name: "a", Workload: "\x1b[2J"},
			"unit":            {Name: "a", Unit: "µJ"},
			"weight":          {Name: "a", Weight: -1},
			"weight NaN":      {Name: "a", Weight: math.NaN()},
			"weight too much": {Name: "a", Weight: 1001},
			"weight too low":  {Name: "a", Weight: 0.0009},
			"hint":            {Name: "a", HintJoulesPerUnit: math.Inf(1)},
			"hint NaN":        {Name: "a", HintJoulesPerUnit: math.NaN()},
			"hint below 0":    {Name: "a", HintJoulesPerUnit: -1},
			"short limit":     {Name: "a", Detached: true, Limit: time.Millisecond},
			"limit below 0":   {Name: "a", Detached: true, Limit: -time.Second},
			"long limit":      {Name: "a", Detached: true, Limit: 25 * time.Hour},
			"idle":            {Name: "a", IdleWatts: map[string]float64{"cpu": -3}},
			"idle NaN":        {Name: "a", IdleWatts: map[string]float64{"cpu": math.NaN()}},
			"idle, ±":         {Name: "a", IdleWattsUncertainty: map[string]float64{"gpu": -1}},
			"idle of nothing": {Name: "a", IdleWatts: map[string]float64{"tpu": 3}},
		} {
			_, err := r.Open(context.Background(), q)
			want := meter.ErrBadRequest
			if name == "idle of nothing" {
				want = meter.ErrUnknownDevice
			}
			if !errors.Is(err, want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		w := r.open(meter.OpenRequest{})
		if _, err := w.Mark(context.Background(), ""); !errors.Is(err, meter.ErrBadRequest) {
			t.Errorf("a stage without a name: %v", err)
		}
		if _, err := w.Close(context.Background(), meter.CloseRequest{Work: math.NaN()}); !errors.Is(err, meter.ErrBadRequest) {
			t.Errorf("work NaN: %v", err)
		}
		if r.OpenCount() != 1 {
			t.Errorf("a bad close ended the window")
		}
		w.Abandon()
	})
}

func TestChangeOfConditionIsSaid(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		ctx := context.Background()
		r.SetCondition(ctx, "a")
		w := r.open(meter.OpenRequest{})
		r.SetCondition(ctx, "a")
		if res := r.close(w, meter.CloseRequest{}); slices.Contains(res.Reasons, meter.ReasonPointChanged) {
			t.Errorf("nothing changed: %v", res.Reasons)
		}
		w = r.open(meter.OpenRequest{})
		time.Sleep(time.Second)
		r.SetCondition(ctx, "b")
		time.Sleep(time.Second)
		has(t, r.close(w, meter.CloseRequest{}).Reasons, meter.ReasonPointChanged)
	})
}

func TestNoCounterIsReadAtRest(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		time.Sleep(3 * time.Second) // the board's steps are learned
		reads, _ := r.sim.Touches("sys")
		time.Sleep(time.Hour)
		if now, _ := r.sim.Touches("sys"); now != reads {
			t.Errorf("%d accesses in an hour without a window", now-reads)
		}
		w := r.open(meter.OpenRequest{Exact: true})
		time.Sleep(10 * time.Second)
		r.close(w, meter.CloseRequest{})
		reads, _ = r.sim.Touches("sys")
		time.Sleep(time.Hour)
		if now, _ := r.sim.Touches("sys"); now > reads+8 {
			t.Errorf("%d accesses in an hour after the last window", now-reads)
		}
	})
}

func TestPowerIsTheMeanBetweenTicks(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		for _, p := range r.Power() {
			if p.Known || p.Reason == "" {
				t.Errorf("before the first tick: %+v", p)
			}
		}
		time.Sleep(10 * time.Second)
		r.Tick(context.Background())
		r.sim.SetLoad("gpu0", 1)
		before := r.sim.Truth("gpu0")
		time.Sleep(10 * time.Second)
		r.Tick(context.Background())
		want := (r.sim.Truth("gpu0") - before).Per(10 * time.Second)
		for _, p := range r.Power() {
			if !p.Known || p.Power <= 0 {
				t.Errorf("%+v", p)
			}
			if p.Device == r.gpu && math.Abs(p.Power.Watts()-want.Watts()) > 3 {
				t.Errorf("GPU %v, want %v", p.Power, want)
			}
		}
	})
}

// An estimate is never above what the counters allow.
func TestEstimateStaysBelowTheBound(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		time.Sleep(time.Second)
		w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"gpu"}, HintJoulesPerUnit: 1e6})
		time.Sleep(20 * time.Millisecond)
		res := r.close(w, meter.CloseRequest{Work: 5, Synced: true})
		if res.Method != meter.Estimated || res.Energy != res.UpperBound || res.Energy > unit.Kilojoule || !res.HasPerUnit {
			t.Errorf("%+v", res)
		}
	})
}

// A stranger's window of less than a second has no CPU figure, even with two ticks in it.
func TestStrangersNeedASecond(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		for _, c := range []struct {
			rest   time.Duration
			method meter.Method
		}{{100 * time.Millisecond, meter.Unknown}, {9 * time.Second, meter.Sampled}} {
			time.Sleep(time.Second - time.Duration(time.Now().Nanosecond()))
			w := r.open(meter.OpenRequest{Owner: 1000, Devices: []string{"cpu/package-0"}})
			time.Sleep(100 * time.Millisecond)
			r.Tick(context.Background())
			time.Sleep(500 * time.Millisecond)
			r.Tick(context.Background())
			time.Sleep(c.rest)
			if res := r.close(w, meter.CloseRequest{}); res.Method != c.method {
				t.Errorf("%v: %+v", 600*time.Millisecond+c.rest, res)
			}
		}
	})
}

// When a window opens does not decide when CPU counters are read.
func TestHeartbeatsKeepToTheirGrid(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		reads := func() int { n, _ := r.sim.Touches("sys/class/powercap"); return n }
		gpu := func() int { n, _ := r.sim.Touches(r.gpu + "/energy"); return n }
		time.Sleep(10*time.Second + 300*time.Millisecond)
		n, g := reads(), gpu()
		w := r.open(meter.OpenRequest{Owner: 1000, Devices: []string{"cpu"}})
		time.Sleep(650 * time.Millisecond)
		if reads() != n {
			t.Error("read before the next heartbeat")
		}
		time.Sleep(100 * time.Millisecond)
		if reads() == n {
			t.Error("no read at the heartbeat")
		}
		if gpu() != g {
			t.Error("a GPU no window charges was read")
		}
		w.Abandon()
	})
}

// Edges that wait for a reading share the next one.
func TestEdgesOfOneMomentShareAReading(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		reads := func() int { n, _ := r.sim.Touches(r.gpu + "/energy"); return n }
		release := r.sim.HangGPU(strings.TrimPrefix(r.gpu, "gpu/"), "energy")
		before := reads()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"gpu"}})
				time.Sleep(time.Millisecond)
				w.Abandon()
			})
			time.Sleep(time.Millisecond)
		}
		release()
		all.Wait()
		if n := reads() - before; n > 8 { // the follower makes some too
			t.Errorf("%d readings for 50 edges that waited", n)
		}
	})
}
