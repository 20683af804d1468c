package profiles

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// aHost builds a host from files, given by name, and boards.
func aHost(t *testing.T, files map[string]string, boards ...host.Device) *host.Host {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := host.Real(root, driver(boards))
	if err := h.GPUs.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.GPUs.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// driver is a vendor library that knows these boards.
type driver []host.Device

func (d driver) Init() error                     { return nil }
func (d driver) Shutdown() error                 { return nil }
func (d driver) Version() (string, error)        { return "550.54.15", nil }
func (d driver) Devices() ([]host.Device, error) { return d, nil }

// board is a GPU whose utilisation a test says.
type board struct {
	uuid, vbios string
	busy        float64
	err         error
	hangs       chan struct{}
}

func (b *board) Info() (host.GPUInfo, error) {
	return host.GPUInfo{UUID: b.uuid, PCI: "0000:01:00.0", Name: "NVIDIA A40", VBIOS: b.vbios}, nil
}
func (b *board) Utilisation() (float64, error) {
	if b.hangs != nil {
		<-b.hangs
	}
	return b.busy, b.err
}
func (b *board) Energy() (unit.Energy, error)       { return 0, host.ErrNotSupported }
func (b *board) Power() (unit.Power, error)         { return 0, host.ErrNotSupported }
func (b *board) Limit() (unit.Power, error)         { return 300 * unit.Watt, nil }
func (b *board) EnforcedLimit() (unit.Power, error) { return 300 * unit.Watt, nil }
func (b *board) LimitRange() (lo, hi unit.Power, err error) {
	return 100 * unit.Watt, 300 * unit.Watt, nil
}
func (b *board) DefaultLimit() (unit.Power, error) { return 300 * unit.Watt, nil }
func (b *board) SetLimit(unit.Power) error         { return host.ErrNoPermission }
func (b *board) Processes() ([]int, error)         { return nil, nil }

const online = "sys/devices/system/cpu/online"

func TestTakeSample(t *testing.T) {
	h := aHost(t, map[string]string{"proc/loadavg": "3.25 1.00 0.50 2/345 6789\n", online: "0-3,8-11\n"},
		&board{uuid: "GPU-1", busy: 0.2}, &board{uuid: "GPU-2", busy: 0.7},
		&board{uuid: "GPU-3", err: host.ErrSuspended}, &board{uuid: "GPU-4", err: host.ErrNotSupported})
	got := TakeSample(t.Context(), h, time.Second)
	want := Sample{GPUUtilisation: 0.7, Load1: 3.25, CPUs: 8, GPUs: 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTakeSampleSaysWhatItCouldNotRead(t *testing.T) {
	h := aHost(t, nil, &board{uuid: "GPU-1", err: host.ErrUnread}, &board{uuid: "GPU-2", busy: 0.5})
	got := TakeSample(t.Context(), h, 0)
	if len(got.Unread) != 2 || !strings.Contains(got.Unread[0], "load average") ||
		!strings.Contains(got.Unread[1], "gpu/GPU-1: utilisation") {
		t.Errorf("unread: %q", got.Unread)
	}
	if got.GPUUtilisation != 0.5 || got.GPUs != 1 {
		t.Errorf("the board that told: %+v", got)
	}
}

func TestTakeSampleCountsCPUsWithoutTheKernelsList(t *testing.T) {
	h := aHost(t, map[string]string{
		"proc/loadavg": "0.10 0.10 0.10 1/2 3\n",
		"proc/stat":    "cpu  2 0 2 2 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\ncpu1 1 0 1 1 0 0 0 0 0 0\nbtime 1\n",
	})
	if got := TakeSample(t.Context(), h, 0); got.CPUs != 2 || got.Unread != nil {
		t.Errorf("%+v", got)
	}
}

func TestTakeSampleDoesNotWaitForAHungBoardForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		h := aHost(t, map[string]string{"proc/loadavg": "9 9 9 1/2 3\n", online: "0-7"},
			&board{uuid: "GPU-1", hangs: stuck})
		began := time.Now()
		got := TakeSample(context.Background(), h, 0)
		if took := time.Since(began); took > host.CallTimeout {
			t.Errorf("took %v", took)
		}
		if len(got.Unread) != 1 || got.Load1 != 9 {
			t.Errorf("%+v", got)
		}
		close(stuck)
		synctest.Wait()
	})
}

func TestCountCPUs(t *testing.T) {
	for list, want := range map[string]int{
		"0": 1, "0-3\n": 4, "0-3,8,10-11": 7, "": -1, "3-1": -1, "0-3,2": -1, "a": -1, "-1": -1, "0-": -1,
		"0,,1": -1, "0-99999999999999999999": -1,
	} {
		n, err := countCPUs(list)
		if err != nil {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %d, want %d", list, n, want)
		}
	}
}

func FuzzCountCPUs(f *testing.F) {
	for _, s := range []string{"0-3,8,10-11", "0", "", "7-", "1048576"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		if n, err := countCPUs(list); err == nil && (n < 1 || n > maxCPU+1) {
			t.Errorf("%q: %d CPUs", list, n)
		}
	})
}

func TestPowerSource(t *testing.T) {
	const dir = "sys/class/power_supply/"
	for name, c := range map[string]struct {
		files map[string]string
		want  Source
	}{
		"no supply at all":  {nil, Mains},
		"plugged in":        {map[string]string{dir + "AC/type": "Mains", dir + "AC/online": "1", dir + "BAT0/type": "Battery", dir + "BAT0/status": "Discharging"}, Mains},
		"on battery":        {map[string]string{dir + "AC/type": "Mains", dir + "AC/online": "0", dir + "BAT0/type": "Battery", dir + "BAT0/status": "Discharging"}, Battery},
		"programmable USB":  {map[string]string{dir + "ucsi/type": "USB", dir + "ucsi/online": "2", dir + "BAT0/type": "Battery", dir + "BAT0/status": "Discharging"}, Mains},
		"a mouse":           {map[string]string{dir + "hid/type": "Battery", dir + "hid/scope": "Device", dir + "hid/status": "Discharging"}, Mains},
		"unknown, no cable": {map[string]string{dir + "BAT0/type": "Battery", dir + "BAT0/status": "Unknown", dir + "AC/type": "Mains", dir + "AC/online": "0"}, Battery},
		"unknown, alone":    {map[string]string{dir + "BAT0/type": "Battery", dir + "BAT0/status": "Unknown"}, Mains},
	} {
		t.Run(name, func(t *testing.T) {
			if got := PowerSource(aHost(t, c.files)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestFingerprint(t *testing.T) {
	const cpu = "devices/system/cpu/"
	files := map[string]string{
		"proc/cpuinfo":                                  "processor\t: 0\nmodel name\t: Example CPU\nmicrocode\t: 0x2c\n\nprocessor\t: 1\nmodel name\t: Other\n",
		"proc/sys/kernel/osrelease":                     "6.12.8\n",
		"sys/" + cpu + "cpufreq/policy0/scaling_driver": "intel_pstate\n",
		"sys/" + cpu + "intel_pstate/status":            "active\n",
	}
	got := FingerprintOf(aHost(t, files, &board{uuid: "GPU-1", vbios: "94.02"}))
	want := Fingerprint{
		Hard: Facts{"cpu": "Example CPU", "cpufreq": "intel_pstate active", "gpu/GPU-1": "94.02 100000000…300000000 µW"},
		Soft: Facts{"kernel": "6.12.8", "microcode": "0x2c", "gpu driver": "550.54.15"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}

	files["proc/sys/kernel/osrelease"] = "6.13.0\n"
	kernel := FingerprintOf(aHost(t, files, &board{uuid: "GPU-1", vbios: "94.02"}))
	if kernel.Hard.Key() != got.Hard.Key() || kernel.Soft.Key() == got.Soft.Key() {
		t.Error("another kernel is another soft key and the same hard one")
	}
	flashed := FingerprintOf(aHost(t, files, &board{uuid: "GPU-1", vbios: "94.03"}))
	if flashed.Hard.Key() == got.Hard.Key() || flashed.Soft.Key() != kernel.Soft.Key() {
		t.Error("another vbios is another hard key")
	}
}

func TestFactsKeyTellsFactsApart(t *testing.T) {
	if (Facts{"a": "b", "c": "d"}).Key() == (Facts{"a": "b\"\n\"c\"=\"d"}).Key() {
		t.Error("a value can pass for another fact")
	}
}

func TestDriver(t *testing.T) {
	for name, c := range map[string]struct {
		driver, status string
		active         bool
		text           string
	}{
		"intel_pstate":    {"intel_pstate", "active", true, "intel_pstate active"},
		"intel_cpufreq":   {"intel_cpufreq", "passive", false, "intel_cpufreq passive"},
		"amd-pstate-epp":  {"amd-pstate-epp", "active", true, "amd-pstate-epp active"},
		"acpi-cpufreq":    {"acpi-cpufreq", "off", false, "acpi-cpufreq"},
		"nothing of both": {"", "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			if c.driver != "" {
				files["sys/devices/system/cpu/cpufreq/policy0/scaling_driver"] = c.driver
				files["sys/devices/system/cpu/intel_pstate/status"] = c.status
			}
			d := DriverOf(aHost(t, files))
			if d.Active() != c.active || d.String() != c.text {
				t.Errorf("%q, active %v", d, d.Active())
			}
		})
	}
}

// faulty makes one name fail.
func faulty(d string, fails string, err error) host.Dir {
	return host.NewDir(d, func(a host.Access) error {
		if a.Name == fails || a.To == fails {
			return err
		}
		return nil
	})
}

var errDisk = errors.New("input/output error")

func TestSampleOfABoardThatSleeps(t *testing.T) {
	const dir = "sys/bus/pci/devices/0000:01:00.0/"
	h := aHost(t, map[string]string{
		dir + "vendor": "0x10de\n", dir + "class": "0x030000\n", dir + "power/control": "auto\n", dir + "power/runtime_status": "suspended\n",
		"proc/loadavg": "0.10 0.10 0.10 1/100 1\n", "sys/devices/system/cpu/online": "0-3\n",
	}, &board{uuid: "GPU-1", busy: 1})
	if s := TakeSample(t.Context(), h, 0); s.GPUs != 1 || s.GPUUtilisation != 0 || len(s.Unread) != 0 {
		t.Errorf("%+v, want one board that does nothing", s)
	}
	if h.GPUs.Wakes() != 0 || len(h.GPUs.All()) != 0 {
		t.Error("the board was woken to ask")
	}
}
