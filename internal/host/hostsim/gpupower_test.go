package hostsim

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// onlyBoard opens the machine's library and returns its first board.
func onlyBoard(t *testing.T, s *Sim) *host.GPU {
	t.Helper()
	gpus := s.Host().GPUs
	if err := gpus.Open(t.Context()); err != nil || len(gpus.All()) == 0 {
		t.Fatalf("boards %v, %v, %v", gpus.All(), err, gpus.Why())
	}
	t.Cleanup(func() { _ = gpus.Close() })
	return gpus.All()[0]
}

func samplesOf(t *testing.T, g *host.GPU) host.PowerSample {
	t.Helper()
	all, err := g.PowerSamples(t.Context())
	if err != nil || len(all) != 1 || !all[0].At.Equal(time.Now()) {
		t.Fatalf("samples %+v, %v; want one of now", all, err)
	}
	return all[0]
}

// TestNoCounter: such a board tells its power alone, at the steps of its sensor.
func TestNoCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "workstation", "sigma = 0.01", "sigma = 0", "curve = \"gpu0.csv\"", "no_counter = true\ncurve = \"gpu0.csv\""))
		g := onlyBoard(t, s)
		if _, _, err := g.Energy(t.Context()); !errors.Is(err, host.ErrNotSupported) || g.HasCounter(t.Context()) {
			t.Errorf("its energy: %v", err)
		}
		r, err := g.Read(t.Context(), 0)
		if err != nil || !errors.Is(r.EnergyErr, host.ErrNotSupported) || r.PowerErr != nil {
			t.Errorf("reading %+v, %v", r, err)
		}
		time.Sleep(time.Second)
		before := s.Truth("gpu0")
		idle := samplesOf(t, g)
		s.SetLoad("gpu0", 1)
		steps, last := 0, idle.Power
		var sum unit.Energy
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			now := samplesOf(t, g)
			if now.Power != last {
				steps++
			}
			last = now.Power
			sum += last.Over(10 * time.Millisecond)
		}
		if idle.From != host.PowerInstant || idle.Averaging != 0 || steps != 1 || last <= idle.Power {
			t.Errorf("from %+v to %v in %d steps", idle, last, steps)
		}
		near(t, "energy by its samples", sum.Joules(), (s.Truth("gpu0") - before).Joules(), last.Watts()*0.11)
	})
}

// TestPowerMean: a sensor of means follows a step for as long as it averages.
func TestPowerMean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "workstation", "sigma = 0.01", "sigma = 0", "curve = \"gpu0.csv\"", "power_mean_s = 1.0\ncurve = \"gpu0.csv\""))
		g := onlyBoard(t, s)
		time.Sleep(5 * time.Second)
		idle := samplesOf(t, g)
		s.SetLoad("gpu0", 1)
		time.Sleep(500 * time.Millisecond)
		half := samplesOf(t, g)
		time.Sleep(500 * time.Millisecond)
		full := samplesOf(t, g)
		time.Sleep(time.Second)
		if again := samplesOf(t, g); again.Power != full.Power || again.From != host.PowerUsage || again.Averaging != time.Second {
			t.Errorf("%+v, then %+v", full, again)
		}
		near(t, "half a second after the step", half.Power.Watts(), (idle.Power+full.Power).Watts()/2, 0.1)
		if full.Power < 2*idle.Power {
			t.Errorf("from %v to %v", idle.Power, full.Power)
		}
	})
}

func TestMisread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "workstation"))
		g := onlyBoard(t, s)
		truth := samplesOf(t, g).Power
		heal, healInner := s.Misread("gpu0", "4294967295"), s.Misread(g.Info().UUID, "65535")
		for _, want := range []unit.Power{65535 * unit.Milliwatt, 4294967295 * unit.Milliwatt, truth} {
			if got := samplesOf(t, g).Power; got != want {
				t.Errorf("power %v, want %v", got, want)
			}
			healInner()
			healInner = heal
		}
		heal()

		amd := newSim(t, fixture(t, "amd"))
		const file = "class/drm/card0/device/hwmon/hwmon4/power1_average"
		healed := amd.Misread("0000:03:00.0", "[N/A]")
		if text, err := amd.Host().Sys.ReadString(file); text != "[N/A]" || err != nil {
			t.Errorf("power1_average %q, %v", text, err)
		}
		healed()
		if _, err := amd.Host().Sys.ReadUint(file); err != nil {
			t.Error(err)
		}
	})
}

// TestAMDGPUEnergy: a board whose driver counts energy shows it in the tree, goes on from where it stood, and is woken by a
// look at it.
func TestAMDGPUEnergy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dir = "sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0/hwmon/hwmon4/"
		f := fixture(t, "amd", "sigma = 0.01", "sigma = 0", "-- "+dir+"power1_label --", "-- "+dir+"energy1_input --\n5000000000\n-- "+dir+"power1_label --")
		s := newSim(t, f)
		sys := s.Host().Sys
		const file = "class/drm/card0/device/hwmon/hwmon4/energy1_input"
		first, err := sys.ReadUint(file)
		if err != nil || first < 5_000_000_000 || first > 5_001_000_000 {
			t.Fatalf("counter %d, %v", first, err)
		}
		s.SetLoad("gpu0", 1)
		before := s.Truth("gpu0")
		time.Sleep(10 * time.Second)
		then, err := sys.ReadUint(file)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "energy", float64(then-first)/1e6, (s.Truth("gpu0") - before).Joules(), 35)
		again, err := Open(s.Dir(), Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := again.Host().Sys.ReadUint(file); err != nil || v+1000 < then {
			t.Errorf("taken up at %d after %d, %v", v, then, err)
		}
		s.SetLoad("gpu0", 0)
		mustForeign(t, s, "sys/bus/pci/devices/0000:03:00.0/power/control", "auto")
		time.Sleep(time.Minute)
		if _, err := sys.ReadUint(file); err != nil || s.Wakes("gpu0") != 1 {
			t.Errorf("a look at one asleep: %v, %d wakes", err, s.Wakes("gpu0"))
		}
	})
}
