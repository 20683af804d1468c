package hostsim

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// TestWrites checks what the kernel takes, what it makes of it and what it refuses.
func TestWrites(t *testing.T) {
	s := newSim(t, fixture(t, "workstation"))
	const dir = "devices/system/cpu/cpufreq/policy0/"
	tests := []struct {
		file, write, want string
		err               error
	}{
		{governor0, "powersave", "powersave\n", nil},
		{governor0, "ondemand\n", "ondemand\n", nil},
		{"devices/system/cpu/cpu0/cpufreq/scaling_governor", "conservative", "conservative\n", nil}, // by a link
		{governor0, "userspace", "conservative\n", unix.EINVAL},                                     // known, not offered
		{governor0, "turbo", "conservative\n", unix.EINVAL},
		{governor0, "", "conservative\n", unix.EINVAL},
		{governor0, "performance", "performance\n", nil},
		{dir + "scaling_max_freq", "9999999", "3001000\n", nil},
		{dir + "scaling_cur_freq", "1", "3001000\n", unix.EACCES},
		{packageLimit, "30000001", "30000000\n", nil},
		{packageLimit, "45125000", "45125000\n", nil},
		{packageLimit, "-5", "45125000\n", unix.EINVAL},
		{packageLimit, "abc", "45125000\n", unix.EINVAL},
		{mmioLimit, "1000000000", "1000000000\n", nil}, // nobody checks it against the maximum
		{"class/powercap/intel-rapl:0/name", "x", "package-0\n", unix.EACCES},
		{"bus/pci/devices/0000:41:00.0/power/control", "auto", "auto\n", nil},
		{"bus/pci/devices/0000:41:00.0/power/control", "off", "auto\n", unix.EINVAL},
	}
	sys := s.Host().Sys
	for _, c := range tests {
		checkWrite(t, sys, c.file, c.write, c.want, c.err)
	}
	if err := sys.Write("devices/nothing", []byte("1")); !errors.Is(err, unix.ENOENT) {
		t.Errorf("write to a file that is not there: %v", err)
	}
	if err := sys.Replace("devices/new", []byte("1"), 0o644); !errors.Is(err, unix.EPERM) {
		t.Errorf("a new file in /sys: %v", err)
	}
}

// checkWrite writes to a file and reads it back.
func checkWrite(t *testing.T, sys host.Dir, file, write, want string, wantErr error) {
	t.Helper()
	if err := sys.Write(file, []byte(write)); !errors.Is(err, wantErr) {
		t.Errorf("write %q to %s: %v, want %v", write, file, err, wantErr)
	}
	if got, err := sys.Read(file); string(got) != want {
		t.Errorf("after %q %s reads %q (%v), want %q", write, file, got, err, want)
	}
}

// TestWrap reads a counter across its wrap, as the meter's vector has it.
func TestWrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fixture(t, "workstation", "sigma = 0.01", "sigma = 0", "187612340917", "262143000000", "idle_w = 9.0", "idle_w = 100.0")
		s := newSim(t, f)
		before, err := s.Host().Sys.ReadUint(packageCounter)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		after, err := s.Host().Sys.ReadUint(packageCounter)
		if err != nil {
			t.Fatal(err)
		}
		// The counter goes in units of 61.035 µJ.
		if before > 262143000000 || before < 262143000000-62 || math.Abs(float64(after)-99671089) > 124 {
			t.Errorf("%d → %d", before, after)
		}
		near(t, "true energy", s.Truth("package-0").Joules(), 100, 1e-6)
	})
}

func TestCounter(t *testing.T) {
	const most = 262143328850
	for _, c := range []struct {
		z     zone
		since unit.Energy
		want  uint64
	}{
		{zone{most: most}, 0, 0},
		{zone{most: most}, 61, 0},
		{zone{most: most}, 62, 62},
		{zone{most: most}, most, most},
		{zone{most: most}, most + 61, most},
		{zone{most: most}, most + 62, 0},
		{zone{most: most, start: most}, 62, 0},
		{zone{most: most}, 1795 * 700 * unit.Joule, (1795*700*1000000 - 4*262143328911) / 61 * 61},
		{zone{start: 7}, most, most + 7}, // without a range it goes on and on
	} {
		if got := c.z.counter(c.since); got < c.want || got-c.want > 1e6 || c.want < 1e6 && got != c.want {
			t.Errorf("%+v after %d µJ: %d, want %d", c.z, c.since, got, c.want)
		}
	}
}

// TestBoard checks what a driver of the vendor's does.
func TestBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, quiet(t))
		gpu := openGPU(t, s)
		if lo, hi, err := gpu.LimitRange(); lo != 100*unit.Watt || hi != 300*unit.Watt || err != nil {
			t.Errorf("range %v … %v, %v", lo, hi, err)
		}
		for _, w := range []unit.Power{99999 * unit.Milliwatt, 300001 * unit.Milliwatt, 0, -1} {
			if _, err := gpu.SetLimit(t.Context(), w); !errors.Is(err, host.ErrOutOfRange) {
				t.Errorf("cap %v: %v", w, err)
			}
		}
		if now, err := gpu.SetLimit(t.Context(), 212345678); now != 212345*unit.Milliwatt || err != nil {
			t.Errorf("cap of 212.345678 W reads back %d µW, %v", now, err)
		}
		s.SetLoad("gpu0", 1)
		time.Sleep(time.Second)
		r, err := gpu.Read(t.Context(), 0)
		if err != nil || r.Utilisation != 1 || r.Power < 188*unit.Watt || r.Power > 189*unit.Watt || r.Enforced != r.Limit {
			t.Errorf("reading %+v, %v", r, err)
		}
		if pids, err := gpu.Processes(t.Context()); len(pids) != 1 || pids[0] != os.Getpid() {
			t.Errorf("processes %v, %v", pids, err)
		}
		// The counter moves each 100 ms, in whole millijoules, by what the board drew since.
		steps := map[unit.Energy]int{}
		last := r.Energy
		for range 1000 {
			time.Sleep(time.Millisecond)
			e, _, err := gpu.Energy(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if e != last {
				steps[e-last]++
			}
			last = e
		}
		n := 0
		for step, times := range steps {
			n += times
			near(t, "step", step.Joules(), 18.8685, .001)
		}
		if n != 10 || last%unit.Millijoule != 0 {
			t.Errorf("%d steps in a second, the last to %d µJ", n, last)
		}
	})
}

// openGPU opens the machine's boards and returns the first.
func openGPU(t *testing.T, s *Sim) *host.GPU {
	t.Helper()
	if err := s.Host().GPUs.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Host().GPUs.Close(); err != nil {
			t.Error(err)
		}
	})
	all := s.Host().GPUs.All()
	if len(all) == 0 {
		t.Fatal(s.Host().GPUs.Why())
	}
	return all[0]
}

// TestVM checks that a machine with nothing has nothing, and can be worked on.
func TestVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "vm"))
		h := s.Host()
		for _, dir := range []string{"devices/system/cpu/cpufreq", "class/powercap", "bus/pci/devices", "class/power_supply"} {
			if h.Sys.Exists(dir) {
				t.Errorf("a virtual machine has %s", dir)
			}
		}
		if err := h.GPUs.Open(t.Context()); err != nil || len(h.GPUs.All()) != 0 || !errors.Is(h.GPUs.Why(), host.ErrNoDriver) {
			t.Errorf("boards: %v, %v, %v", err, h.GPUs.All(), h.GPUs.Why())
		}
		if cpu, err := h.Proc.ReadString("cpuinfo"); err != nil || !strings.Contains(cpu, " hypervisor\n") {
			t.Errorf("no hypervisor in cpuinfo: %v", err)
		}
		if len(h.BootID()) != 36 {
			t.Errorf("boot id %q", h.BootID())
		}
		begin := time.Now()
		if err := s.Work(t.Context(), "cpu", 200); err != nil {
			t.Fatal(err)
		}
		near(t, "seconds", time.Since(begin).Seconds(), 2, 1e-6)
		if len(s.Settings()) != 0 {
			t.Errorf("settings %v", s.Settings())
		}
		stat, err := h.Proc.ReadString("stat")
		if first, _, _ := strings.Cut(stat, "\n"); first != "cpu  42400 0 8000 17200000 1800 0 200 0 0 0" && first != "cpu 42400 0 8000 17200000 1800 0 200 0 0 0" {
			t.Errorf("stat %q, %v", first, err)
		}
		if up, err := h.Proc.ReadString("uptime"); up != "86414.37 680113.02" && !strings.HasPrefix(up, "86414.37 ") {
			t.Errorf("uptime %q, %v", up, err)
		}
		s.Suspend(time.Minute)
		if h.Asleep() != time.Minute {
			t.Errorf("asleep for %v", h.Asleep())
		}
	})
}
