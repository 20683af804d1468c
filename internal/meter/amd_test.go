package meter

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/unit"
)

const amdSensors = "sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0/hwmon/hwmon4/"

// amdHost is the simulated AMD host without noise, with files added to the sensors of its card.
func amdHost(t *testing.T, files ...string) *hostsim.Sim {
	t.Helper()
	text, err := os.ReadFile("../host/hostsim/hosts/amd.txtar")
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(text), "sigma = 0.01", "sigma = 0", 1)
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		before, after, ok := strings.Cut(edited, "-- "+amdSensors+"name --\n")
		if !ok {
			t.Fatal("the card has no sensors")
		}
		edited = before + "-- " + amdSensors + name + " --\n" + content + "\n-- " + amdSensors + "name --\n" + after
	}
	file := filepath.Join(t.TempDir(), "amd.txtar")
	if err := os.WriteFile(file, []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
	fixture, err := hostsim.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := hostsim.New(t.TempDir(), fixture, hostsim.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return sim
}

func onlyCard(t *testing.T, sim *hostsim.Sim) *amdCard {
	t.Helper()
	cards, err := findAMDCards(sim.Host())
	if err != nil || len(cards) != 1 {
		t.Fatalf("%d cards, %v; want one", len(cards), err)
	}
	return cards[0]
}

func TestAMDCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := amdHost(t)
		card := onlyCard(t, sim)
		want := Sensor{Name: "gpu/0000:03:00.0", Label: "AMD GPU 0000:03:00.0", Backend: PowerSampler, Counted: true,
			Detail: card.sys.File("class/drm/card0/device/hwmon/hwmon4")}
		if got := card.passport(); got != want {
			t.Errorf("sensor %+v, want %+v", got, want)
		}
		if card.limit() != 305*unit.Watt*3/2 {
			t.Errorf("limit %v", card.limit())
		}
		if _, _, err := card.energy(t.Context()); !errors.Is(err, host.ErrNotSupported) {
			t.Errorf("a counter it does not have: %v", err)
		}
		s := newSampler(card, amdUpdate, card.limit())
		if e, at, err := s.energy(t.Context()); e != 0 || !at.Equal(time.Now()) || err != nil {
			t.Errorf("at first %v, %v", e, err)
		}
		from, before := s.sum.mark(), sim.Truth("gpu0")
		for i := range 200 { // idle, 5 s of load, idle again
			switch i {
			case 73:
				sim.SetLoad("gpu0", 1)
			case 123:
				sim.SetLoad("gpu0", 0)
			}
			time.Sleep(powerPeriod)
			if _, _, err := s.energy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f, truth := s.since(from), sim.Truth("gpu0")-before
		if f.length != 20*time.Second || abs(f.energy-truth) > f.half || f.half > truth/10 {
			t.Errorf("%v ± %v over %v, true %v", f.energy, f.half, f.length, truth)
		}
	})
}

// TestAMDCardThatCounts: a driver's counter is read as it stands.
func TestAMDCardThatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := amdHost(t, "energy1_input=1000000", "power1_average_interval=1000")
		card := onlyCard(t, sim)
		if card.backend() != HwmonCounter {
			t.Errorf("backend %s", card.backend())
		}
		first, at, err := card.energy(t.Context())
		if err != nil || !at.Equal(time.Now()) || first < unit.Joule || first > 3*unit.Joule {
			t.Errorf("counter %v, %v", first, err)
		}
		before := sim.Truth("gpu0")
		time.Sleep(10 * time.Second)
		then, _, err := card.energy(t.Context())
		if off := (then - first - (sim.Truth("gpu0") - before)).Joules(); err != nil || math.Abs(off) > 2 {
			t.Errorf("rose to %v, off by %g J, %v", then, off, err)
		}
		if _, averaging, err := card.samples(t.Context()); averaging != time.Second || err != nil {
			t.Errorf("a mean over %v, %v", averaging, err)
		}
	})
}

// TestAMDCardAsleep: nothing that is asked of a card that sleeps wakes it, and a sampler goes on after a lapse when it is up.
func TestAMDCardAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := amdHost(t, "energy1_input=0")
		if err := sim.Foreign("sys/bus/pci/devices/0000:03:00.0/power/control", "auto"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		card := onlyCard(t, sim)
		s := newSampler(card, amdUpdate, card.limit())
		for range 3 {
			_, _, err := card.energy(t.Context())
			_, _, samplesErr := card.samples(t.Context())
			_, _, sumErr := s.energy(t.Context())
			for _, err := range []error{err, samplesErr, sumErr} {
				if !errors.Is(err, host.ErrSuspended) || whyOf(err) != ReasonSleeping {
					t.Errorf("asleep: %v", err)
				}
			}
			time.Sleep(time.Second)
		}
		if n := sim.Wakes("gpu0"); n != 0 || !card.CanSleep(card.sys) || card.limit() != boardLimit {
			t.Errorf("woken %d times, limit %v", n, card.limit())
		}
		sim.SetLoad("gpu0", 1)
		for range 3 {
			if _, _, err := s.energy(t.Context()); err != nil {
				t.Errorf("awake: %v", err)
			}
			time.Sleep(powerPeriod)
		}
		if card.limit() != 305*unit.Watt*3/2 || sim.Wakes("gpu0") != 0 {
			t.Errorf("limit %v", card.limit())
		}
		sim.SetLoad("gpu0", 0)
		time.Sleep(time.Minute)
		if _, _, err := s.energy(t.Context()); !errors.Is(err, host.ErrSuspended) {
			t.Errorf("asleep again: %v", err)
		}
		sim.SetLoad("gpu0", 1)
		if _, _, err := s.energy(t.Context()); !errors.Is(err, errLapse) {
			t.Errorf("awake again: %v, want a lapse", err)
		}
		time.Sleep(powerPeriod)
		if _, _, err := s.energy(t.Context()); err != nil {
			t.Errorf("after the lapse: %v", err)
		}
	})
}

// TestAMDAPU: a card whose power has the CPU's in it is known by the sensors it has, and is not counted.
func TestAMDAPU(t *testing.T) {
	for _, name := range []string{"in1_input=700", "in1_label=vddnb"} {
		card := onlyCard(t, amdHost(t, name))
		if s := card.passport(); !card.apu || s.Counted || s.Reason != ReasonWithCPU {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		apu   bool
		found bool
	}{
		{"a card", map[string]string{"device": "0x744c", "hwmon/hwmon0/power1_average": "1", "hwmon/hwmon0/power1_cap": "1"}, false, true},
		{"no cap", map[string]string{"device": "0x1638", "hwmon/hwmon0/power1_input": "1"}, true, true},
		{"MI300A", map[string]string{"device": "0x74a0", "hwmon/hwmon0/power1_input": "1", "hwmon/hwmon0/power1_cap": "1"}, true, true},
		{"MI300X", map[string]string{"device": "0x74a1", "hwmon/hwmon0/power1_input": "1", "hwmon/hwmon0/power1_cap": "1"}, false, true},
		{"no power", map[string]string{"device": "0x6798", "hwmon/hwmon0/temp1_input": "1"}, false, false},
		{"another driver's", map[string]string{"device": "0x56a0", "hwmon/hwmon0/name": "i915", "hwmon/hwmon0/energy1_input": "1"}, false, false},
		{"no sensors", map[string]string{"device": "0x744c"}, false, false},
	} {
		root := t.TempDir()
		dir := filepath.Join(root, "sys/class/drm/card1/device")
		for name, text := range c.files {
			if strings.HasPrefix(name, "hwmon") && c.files["hwmon/hwmon0/name"] == "" {
				putFile(t, filepath.Join(dir, "hwmon/hwmon0/name"), "amdgpu")
			}
			putFile(t, filepath.Join(dir, name), text)
		}
		putFile(t, filepath.Join(root, "sys/class/drm/card1-DP-1/status"), "connected")
		cards, err := findAMDCards(host.Real(root, nil))
		if err != nil || (len(cards) == 1) != c.found || c.found && cards[0].apu != c.apu {
			t.Errorf("%s: %d cards, %v", c.name, len(cards), err)
		}
	}
}

func putFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSamplerWithoutNumbers: what a sensor says instead of a power is no reading, once nothing can stand for it any more.
func TestSamplerWithoutNumbers(t *testing.T) {
	for _, text := range []string{"[N/A]", "65535", "4294967295", "65535000000", "-5", "", "NaN", "458000000", "1e3"} {
		synctest.Test(t, func(t *testing.T) {
			sim := amdHost(t)
			card := onlyCard(t, sim)
			s := newSampler(card, amdUpdate, card.limit())
			look := func() (unit.Energy, error) {
				t.Helper()
				time.Sleep(powerPeriod)
				e, _, err := s.energy(t.Context())
				return e, err
			}
			for range 10 {
				_, _ = look()
			}
			heal := sim.Misread("gpu0", text)
			held, err := look()
			if want := 17 * unit.Watt; abs(held-want.Over(time.Second)) > 10 || err != nil {
				t.Errorf("%q: the newest sample stands for one period: %v, %v", text, held, err)
			}
			heal()
			if e, err := look(); abs(e-(17*unit.Watt).Over(1100*time.Millisecond)) > 10 || err != nil {
				t.Errorf("%q once: %v, %v", text, e, err)
			}
			heal = sim.Misread("gpu0", text)
			_, _ = look()
			if _, err := look(); err == nil || whyOf(err) != ReasonUnreadable {
				t.Errorf("%q twice: %v", text, err)
			}
			heal()
			if _, err := look(); !errors.Is(err, errLapse) {
				t.Errorf("%q, then a power: %v, want a lapse", text, err)
			}
		})
	}
}

// TestSamplerOfALostCard: the newest sample does not stand for a card that is gone.
func TestSamplerOfALostCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := amdHost(t)
		s := newSampler(onlyCard(t, sim), 0, 0)
		for errno, reason := range map[error]string{unix.EACCES: ReasonPermission, unix.ENODEV: ReasonLost} {
			if _, _, err := s.energy(t.Context()); err != nil && !errors.Is(err, errLapse) {
				t.Fatal(err)
			}
			heal := sim.Fail(host.OpRead, amdSensors+"power1_average", errno)
			time.Sleep(time.Millisecond)
			if _, _, err := s.energy(t.Context()); whyOf(err) != reason {
				t.Errorf("%v: %v, want %s", errno, err, reason)
			}
			heal()
		}
	})
}

// TestSamplerOfABoard: a board without a counter, with a sensor of instants and one of means.
func TestSamplerOfABoard(t *testing.T) {
	for _, mean := range []string{"", "power_mean_s = 1.0\n"} {
		synctest.Test(t, func(t *testing.T) {
			text, err := os.ReadFile("../host/hostsim/hosts/workstation.txtar")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "old.txtar")
			edited := strings.NewReplacer("sigma = 0.01", "sigma = 0", "curve = \"gpu0.csv\"", mean+"no_counter = true\ncurve = \"gpu0.csv\"").Replace(string(text))
			if err := os.WriteFile(file, []byte(edited), 0o644); err != nil {
				t.Fatal(err)
			}
			fixture, err := hostsim.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			sim, err := hostsim.New(t.TempDir(), fixture, hostsim.Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			gpus := sim.Host().GPUs
			if err := gpus.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = gpus.Close() })
			b := newBoard(sim.Host().Sys, gpus.All()[0])
			if b.gpu.HasCounter(t.Context()) {
				t.Fatal("it has a counter")
			}
			time.Sleep(5 * time.Second)
			s := newSampler(boardPower{b}, nvmlPeriod, b.limit())
			_, _, _ = s.energy(t.Context())
			from, before := s.sum.mark(), sim.Truth("gpu0")
			sim.SetLoad("gpu0", 1)
			for range 5 {
				time.Sleep(powerPeriod)
				_, _, _ = s.energy(t.Context())
			}
			if f := s.since(from); (f.reason == ReasonAveraging) != (mean != "") {
				t.Errorf("after 0.5 s: reason %q", f.reason)
			}
			for range 50 {
				time.Sleep(powerPeriod)
				_, _, _ = s.energy(t.Context())
			}
			f, truth := s.since(from), sim.Truth("gpu0")-before
			if abs(f.energy-truth) > f.half || f.half > truth/5 || f.reason != "" {
				t.Errorf("mean %q: %v ± %v, true %v, reason %q", mean, f.energy, f.half, truth, f.reason)
			}
		})
	}
}

func FuzzParseMicrowatts(f *testing.F) {
	for _, text := range []string{"17000000\n", "0", "[N/A]\n", "-1", "4294967295", "9223372036854775808", "1 2", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseMicrowatts([]byte(text))
		if err == nil && (p < 0 || strings.Trim(text, "0123456789\n") != "") {
			t.Errorf("%q is %d µW", text, p)
		}
	})
}
