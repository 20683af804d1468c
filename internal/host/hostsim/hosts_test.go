package hostsim

import (
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

const (
	policy0     = "devices/system/cpu/cpufreq/policy0/"
	preference0 = policy0 + "energy_performance_preference"
	maxPower0   = "class/powercap/intel-rapl:0/constraint_0_max_power_uw"
)

// TestHosts does on each built-in machine what goes for all: it is small, an hour of it costs little, and what is put
// back is as it was.
func TestHosts(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			f := fixture(t, name)
			if len(f.source) > 60_000 {
				t.Errorf("%d bytes", len(f.source))
			}
			s := newSim(t, f)
			before := s.Digest()
			if again := newSim(t, f).Digest(); again != before {
				t.Error("two machines of the same fixture differ")
			}
			runtime.LockOSThread() // for the rest of this test: its goroutine is all that works for the machine
			began := spent(t)
			hour(t, s)
			if took := spent(t) - began; took > time.Second {
				t.Errorf("an hour took %v of a CPU", took)
			}
			if s.Digest() != before {
				t.Error("an hour has changed a setting")
			}
		})
	}
}

// spent is the CPU time that this thread has had: how busy the machine is otherwise does not count.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// hour lets an hour pass under load, with each counter read every ten seconds.
func hour(t *testing.T, s *Sim) {
	t.Helper()
	s.SetLoad("cpu", 0.5)
	for i := range s.boards {
		s.SetLoad(boardName(i), 1)
	}
	for at := time.Duration(0); at < time.Hour; at += 10 * time.Second {
		s.mu.Lock()
		for _, name := range s.fix.counters {
			if text, ok := s.counterText(name, at); !ok || text == "" {
				t.Fatalf("%s says nothing", name)
			}
		}
		s.mu.Unlock()
	}
}

// TestTurnedOver writes another value to all settings of a machine and puts them back, governors first.
func TestTurnedOver(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, fixture(t, name))
			before, found := s.Digest(), s.Settings()
			moved := 0
			for file := range found {
				if strings.HasSuffix(file, "scaling_governor") {
					mustForeign(t, s, file, "performance")
					moved++
				}
			}
			if moved > 0 && s.Digest() == before {
				t.Error("other governors leave the machine the same")
			}
			for _, last := range []string{"scaling_governor", "energy_performance_preference"} {
				for file, text := range found {
					if strings.HasSuffix(file, last) {
						mustForeign(t, s, file, text)
					}
				}
			}
			if s.Digest() != before {
				t.Error("put back, the machine is another")
			}
		})
	}
}

// TestPreference checks the energy preference under active-mode drivers.
func TestPreference(t *testing.T) {
	for _, c := range []struct {
		host string
		raw  error // of a raw number, which Intel's driver takes
	}{{"laptop", nil}, {"amd", unix.EINVAL}} {
		t.Run(c.host, func(t *testing.T) {
			s := newSim(t, fixture(t, c.host))
			sys := s.Host().Sys
			write := func(file, text, want string, err error) {
				t.Helper()
				checkWrite(t, sys, file, text, want, err)
			}
			write(preference0, "power", "power\n", nil)
			write(preference0, "thrifty", "power\n", unix.EINVAL)
			write(preference0, "256", "power\n", unix.EINVAL)
			if err := sys.Write(preference0, []byte("128")); !errors.Is(err, c.raw) {
				t.Errorf("a raw number: %v, want %v", err, c.raw)
			}
			write(governor0, "schedutil", "powersave\n", unix.EINVAL)
			write(governor0, "performance", "performance\n", nil)
			write(preference0, "balance_power", "performance\n", unix.EBUSY)
			write(preference0, "thrifty", "performance\n", unix.EINVAL)
			write(preference0, "performance", "performance\n", nil)
			write(governor0, "powersave", "powersave\n", nil)
			if now, err := sys.ReadString(preference0); now != "performance" {
				t.Errorf("the governor put back has the preference at %q, %v", now, err)
			}
			write(preference0, "balance_performance", "balance_performance\n", nil)
			if other, err := sys.ReadString(strings.Replace(preference0, "policy0", "policy1", 1)); other != "balance_performance" {
				t.Errorf("another policy's preference is %q, %v", other, err)
			}
		})
	}
}

// TestWrittenTogether lets another process put governors and preferences back at once.
func TestWrittenTogether(t *testing.T) {
	s := newSim(t, fixture(t, "laptop"))
	found := s.Settings()
	for _, dir := range s.fix.policies {
		mustForeign(t, s, dir+"/scaling_governor", "performance")
	}
	for _, dir := range s.fix.policies {
		for _, file := range []string{dir + "/scaling_governor", dir + "/energy_performance_preference"} {
			if err := os.WriteFile(filepath.Join(s.Dir(), "host", file), []byte(found[file]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.attend(true, false); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(s.Settings(), found) {
		t.Error("put back from outside, settings differ")
	}
}

// TestOffline takes a policy's CPUs away.
func TestOffline(t *testing.T) {
	s := newSim(t, fixture(t, "server"))
	sys, before := s.Host().Sys, s.Digest()
	s.SetOnline("policy3", false)
	s.SetOnline("policy15", false)
	const governor3 = "devices/system/cpu/cpufreq/policy3/scaling_governor"
	if _, err := sys.Read(governor3); !errors.Is(err, unix.EBUSY) {
		t.Errorf("read: %v", err)
	}
	if err := sys.Write(governor3, []byte("performance")); !errors.Is(err, unix.EBUSY) {
		t.Errorf("write: %v", err)
	}
	if err := s.Foreign("sys/"+governor3, "performance"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("somebody else's write: %v", err)
	}
	if _, err := sys.Read(governor0); err != nil {
		t.Errorf("another policy: %v", err)
	}
	if list, err := os.ReadFile(sys.File("devices/system/cpu/online")); string(list) != "0-2,4-14\n" {
		t.Errorf("online %q, %v", list, err)
	}
	s.SetOnline("policy3", true)
	s.SetOnline("policy15", true)
	if g, err := sys.ReadString(governor3); g != "schedutil" {
		t.Errorf("back again: %q, %v", g, err)
	}
	if s.Digest() != before {
		t.Error("back again the machine is another")
	}
}

// TestLocked checks what locked firmware answers.
func TestLocked(t *testing.T) {
	s := newSim(t, fixture(t, "locked"))
	sys, before := s.Host().Sys, s.Digest()
	if _, err := sys.Read(maxPower0); !errors.Is(err, unix.ENODATA) {
		t.Errorf("the highest power: %v", err)
	}
	if limit, err := sys.ReadString(packageLimit); limit != "35000000" {
		t.Errorf("the limit reads %q, %v", limit, err)
	}
	for _, file := range []string{packageLimit, mmioLimit, "class/powercap/intel-rapl:0/constraint_0_time_window_us"} {
		if err := sys.Write(file, []byte("20000000")); !errors.Is(err, unix.ENODATA) {
			t.Errorf("write to %s: %v", file, err)
		}
		if err := s.Foreign("sys/"+file, "20000000"); !errors.Is(err, unix.ENODATA) {
			t.Errorf("somebody else's write to %s: %v", file, err)
		}
	}
	limit, err := sys.ReadUint(mmioLimit)
	most, err2 := sys.ReadUint(strings.Replace(maxPower0, "rapl", "rapl-mmio", 1))
	if limit <= most || errors.Join(err, err2) != nil {
		t.Errorf("the twin's limit %d is not above its highest %d: %v, %v", limit, most, err, err2)
	}
	if s.Digest() != before {
		t.Error("refused writes have changed the machine")
	}
	h := s.Host()
	if err := h.GPUs.Open(t.Context()); err != nil || !errors.Is(h.GPUs.Why(), host.ErrNoDriver) {
		t.Errorf("a board without a driver: %v, %v", err, h.GPUs.Why())
	}
	args, err := h.Proc.Read("5000812/cmdline")
	if string(args) != "/usr/sbin/thermald\x00--systemd\x00--dbus-enable\x00--adaptive\x00" {
		t.Errorf("command line %q, %v", args, err)
	}
	if unit, err := h.Proc.ReadString("5000931/cgroup"); path.Base(unit) != "power-profiles-daemon.service" {
		t.Errorf("cgroup %q, %v", unit, err)
	}
}

// TestBattery pulls the plug.
func TestBattery(t *testing.T) {
	s := newSim(t, fixture(t, "laptop"))
	before := s.Digest()
	look := func(want string) {
		t.Helper()
		online, err := s.Host().Sys.ReadString("class/power_supply/AC/online")
		status, err2 := s.Host().Sys.ReadString("class/power_supply/BAT0/status")
		if got := online + " " + status; got != want {
			t.Errorf("%q (%v), want %q", got, errors.Join(err, err2), want)
		}
	}
	look("1 Full")
	s.SetOnBattery(true)
	look("0 Discharging")
	s.SetOnBattery(false)
	look("1 Full")
	if s.Digest() != before {
		t.Error("plugged in again, the machine is another")
	}
}

// TestLowestLimit checks that the lower of the MSR's and the MMIO register's limits binds, and a die's own.
func TestLowestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "laptop", "sigma = 0.01", "sigma = 0"))
		s.SetLoad("cpu", 1)
		drawn := func(device string) float64 {
			before := s.Truth(device)
			time.Sleep(time.Second)
			return (s.Truth(device) - before).Joules()
		}
		near(t, "found", drawn("package-0"), 28, 1e-3)
		mustForeign(t, s, "sys/"+packageLimit, "20000000")
		near(t, "MSR lower", drawn("package-0"), 20, 1e-3)
		mustForeign(t, s, "sys/"+mmioLimit, "15000000")
		near(t, "MMIO lower", drawn("package-0"), 15, 1e-3)

		s = newSim(t, fixture(t, "server", "sigma = 0.01", "sigma = 0"))
		s.SetLoad("cpu", 1)
		rate := s.Rate("cpu")
		mustForeign(t, s, "sys/class/powercap/intel-rapl:1/constraint_0_power_limit_uw", "60000000")
		near(t, "one die", drawn("package-0-die-1"), 60, 1e-3)
		near(t, "another", drawn("package-0-die-0"), 125, 1e-3)
		if now := s.Rate("cpu"); now >= rate || now < rate/2 {
			t.Errorf("one die of four slowed takes the rate from %g to %g", rate, now)
		}
	})
}

// TestPackageOptimum sweeps PL1 under a CPU load: less power never does more work, and work per joule is best inside.
func TestPackageOptimum(t *testing.T) {
	for name, ends := range map[string][2]int{"workstation": {5, 65}, "laptop": {3, 28}, "server": {20, 125}} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, fixture(t, name))
			s.SetLoad("cpu", 1)
			best, at, last := 0.0, 0, 0.0
			for w := ends[0]; w <= ends[1]; w++ {
				for file := range s.Settings() {
					zone := s.content(path.Dir(file) + "/name")
					if path.Base(file) == "constraint_0_power_limit_uw" && strings.HasPrefix(zone, "package-") {
						mustForeign(t, s, file, strconv.Itoa(w*1e6))
					}
				}
				rate := s.Rate("cpu")
				if rate < last {
					t.Errorf("%d W: %g, less than %g at 1 W less", w, rate, last)
				}
				last = rate
				if per := rate / s.Power().Watts(); per > best {
					best, at = per, w
				}
			}
			if at == ends[0] || at == ends[1] {
				t.Errorf("work per joule is best at %d W, an end of %v", at, ends)
			}
		})
	}
}
