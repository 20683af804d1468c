package hostsim

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

// TestAMDGPU checks a board whose cap and power lie in the tree.
func TestAMDGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "amd", "sigma = 0.01", "sigma = 0"))
		sys := s.Host().Sys
		const dir = "class/drm/card0/device/hwmon/hwmon4/"
		for _, c := range []struct {
			write, want string
			err         error
		}{
			{"250000000", "250000000\n", nil},
			{"250999999", "250000000\n", nil}, // whole watts
			{"210000000", "250000000\n", unix.EINVAL},
			{"210999999", "250000000\n", unix.EINVAL},
			{"211000000", "211000000\n", nil},
			{"305000000", "305000000\n", nil},
			{"306000000", "305000000\n", unix.EINVAL},
			{"0", "305000000\n", unix.EINVAL},
			{"-1", "305000000\n", unix.EINVAL},
			{"abc", "305000000\n", unix.EINVAL},
			{"270000000", "270000000\n", nil},
		} {
			checkWrite(t, sys, dir+"power1_cap", c.write, c.want, c.err)
		}
		s.SetLoad("gpu0", 1)
		time.Sleep(time.Second)
		if w, err := sys.ReadUint(dir + "power1_average"); w != 269_860_000 {
			t.Errorf("draws %d µW, %v", w, err)
		}
		if busy, err := sys.ReadUint("class/drm/card0/device/gpu_busy_percent"); busy != 100 {
			t.Errorf("busy %d %%, %v", busy, err)
		}
		near(t, "rate", s.Rate("0000:03:00.0"), 28.97, .1)
		if s.Settings()["gpu0/limit_mw"] != "" {
			t.Error("a cap of NVIDIA's on a board of AMD's")
		}
		if err := s.Host().GPUs.Open(t.Context()); err != nil || !errors.Is(s.Host().GPUs.Why(), host.ErrNoDriver) {
			t.Errorf("NVIDIA's library: %v, %v", err, s.Host().GPUs.Why())
		}
		states := s.States(0)
		if best := bestState(states); best == 0 || best == len(states)-1 {
			t.Errorf("work per joule is best at state %d of %d", best, len(states))
		}
	})
}

func bestState(states []State) int {
	best := 0
	for i, st := range states {
		if st.Rate*float64(states[best].Power) > states[best].Rate*float64(st.Power) {
			best = i
		}
	}
	return best
}

// TestAMDGPUAsleep lets such a board sleep: readings wake it, writes fail.
func TestAMDGPUAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "amd", "sigma = 0.01", "sigma = 0"))
		sys := s.Host().Sys
		const dir = "bus/pci/devices/0000:03:00.0/"
		status := func(want string) {
			t.Helper()
			if got, err := sys.ReadString(dir + "power/runtime_status"); got != want {
				t.Errorf("%q, want %q (%v)", got, want, err)
			}
		}
		time.Sleep(time.Minute)
		status("active")
		mustForeign(t, s, "sys/"+dir+"power/control", "auto")
		time.Sleep(4 * time.Second)
		status("active")
		time.Sleep(2 * time.Second)
		status("suspended")
		if err := sys.Write(dir+"hwmon/hwmon4/power1_cap", []byte("250000000")); !errors.Is(err, unix.EPERM) {
			t.Errorf("a write: %v", err)
		}
		if _, err := sys.ReadString(dir + "hwmon/hwmon4/name"); err != nil || s.Wakes("0000:03:00.0") != 0 {
			t.Errorf("its name has woken it: %v", err)
		}
		status("suspended")
		before := s.Truth("gpu0")
		time.Sleep(10 * time.Second)
		near(t, "asleep", (s.Truth("gpu0") - before).Joules(), 20, 1e-6)
		if _, err := sys.ReadUint(dir + "hwmon/hwmon4/power1_average"); err != nil || s.Wakes("gpu0") != 1 {
			t.Errorf("a reading: %v, %d wakes", err, s.Wakes("gpu0"))
		}
		status("active")
		checkWrite(t, sys, dir+"hwmon/hwmon4/power1_cap", "250000000", "250000000\n", nil)
	})
}
