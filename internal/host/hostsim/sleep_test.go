package hostsim

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// TestRefusedCap checks a laptop's board: its cap is not supported, all else is there.
func TestRefusedCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "laptop"))
		s.SetLoad("gpu0", 0.1) // the library stays shut while it sleeps
		gpu := openGPU(t, s)
		if _, _, err := gpu.LimitRange(); !errors.Is(err, host.ErrNotSupported) {
			t.Errorf("range: %v", err)
		}
		if _, err := gpu.SetLimit(t.Context(), 60*unit.Watt); !errors.Is(err, host.ErrNotSupported) {
			t.Errorf("cap: %v", err)
		}
		r, err := gpu.Read(t.Context(), 0)
		if err != nil || !errors.Is(r.LimitErr, host.ErrNotSupported) || r.Enforced != 80*unit.Watt || errors.Join(r.EnergyErr, r.PowerErr, r.UtilErr, r.EnforcedErr) != nil {
			t.Errorf("reading %+v, %v", r, err)
		}
		if _, ok := s.Settings()["gpu0/limit_mw"]; ok {
			t.Error("the cap counts as a setting")
		}
	})
}

// TestAsleep follows a board under runtime power management through sleep, a library, and a load.
func TestAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "laptop", "sigma = 0.01", "sigma = 0"))
		h, library := s.Host(), s.driver() // which itself minds nobody's sleep
		see := func(when, status string, watts float64, wakes int) {
			t.Helper()
			if got, err := h.Sys.ReadString("bus/pci/devices/0000:01:00.0/power/runtime_status"); got != status {
				t.Errorf("%s: %q, want %q (%v)", when, got, status, err)
			}
			before := s.Truth("gpu0")
			time.Sleep(time.Second)
			near(t, when, (s.Truth("gpu0") - before).Joules(), watts, 1e-6)
			if got := s.Wakes("gpu0"); got != wakes {
				t.Errorf("%s: woken %d times, want %d", when, got, wakes)
			}
		}
		before := s.Digest()
		time.Sleep(time.Hour)
		see("at rest", "suspended", 1, 0)
		if err := library.Init(); err != nil {
			t.Fatal(err)
		}
		see("library open", "active", 11, 1)
		time.Sleep(time.Hour)
		see("open for an hour", "active", 11, 1)
		if err := library.Shutdown(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(13 * time.Second)
		see("closed for 13 s", "active", 11, 1)
		time.Sleep(time.Second)
		see("closed for 15 s", "suspended", 1, 1)
		s.SetLoad("gpu0", 0.5)
		see("under load", "active", 11+(71.481-11)/2, 1)
		if err := library.Init(); err != nil {
			t.Fatal(err)
		}
		if err := library.Shutdown(); err != nil {
			t.Fatal(err)
		}
		s.SetLoad("gpu0", 0)
		time.Sleep(20 * time.Second)
		see("after a load", "suspended", 1, 1)
		if s.Digest() != before {
			t.Error("sleep counts as a setting")
		}
		mustForeign(t, s, "sys/bus/pci/devices/0000:01:00.0/power/control", "on")
		time.Sleep(time.Minute)
		see("control on", "active", 11, 1)
		mustForeign(t, s, "sys/bus/pci/devices/0000:01:00.0/power/control", "auto")
		time.Sleep(time.Minute)
		see("control auto", "suspended", 1, 1)
	})
}

// TestAsleepWhoeverReads checks that the energy of a sleeping board does not depend on the pattern of reading.
func TestAsleepWhoeverReads(t *testing.T) {
	run := func(each time.Duration) (e unit.Energy) {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, fixture(t, "laptop"))
			s.SetLoad("gpu0", 1)
			time.Sleep(700 * time.Millisecond)
			s.SetLoad("gpu0", 0)
			for at := time.Duration(0); at < time.Minute; at += each {
				time.Sleep(each)
				e = s.Truth("gpu0")
			}
		})
		return e
	}
	once, often := run(time.Minute), run(100*time.Millisecond)
	if once != often || math.Abs(once.Joules()-(71.481*.7+11*15+44.3)) > 5 {
		t.Errorf("read once %v, read often %v", once, often)
	}
}

// TestCrashedLibrary checks that a dead process's library lets the boards sleep.
func TestCrashedLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "laptop"))
		if err := s.driver().Init(); err != nil {
			t.Fatal(err)
		}
		s.CutAt(1, false)
		if err := s.Host().Sys.Write(governor0, []byte("performance")); !errors.Is(err, ErrCut) {
			t.Fatal(err)
		}
		time.Sleep(16 * time.Second)
		s.Heal()
		if got, err := s.Host().Sys.ReadString("bus/pci/devices/0000:01:00.0/power/runtime_status"); got != "suspended" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestSleepTakenUp lets a machine outlive its process while its board is awake.
func TestSleepTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newSim(t, fixture(t, "laptop"))
		first.SetLoad("gpu0", 1)
		time.Sleep(time.Second)
		if err := first.attend(true, false); err != nil {
			t.Fatal(err)
		}
		second, err := Open(first.Dir(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		const file = "bus/pci/devices/0000:01:00.0/power/runtime_status"
		if got, err := second.Host().Sys.ReadString(file); got != "active" || second.Wakes("gpu0") != 0 {
			t.Errorf("%q, %v, %d wakes", got, err, second.Wakes("gpu0"))
		}
		time.Sleep(16 * time.Second)
		if got, err := second.Host().Sys.ReadString(file); got != "suspended" {
			t.Errorf("%q, %v", got, err)
		}
	})
}
