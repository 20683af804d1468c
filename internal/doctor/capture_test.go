package doctor_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/doctor"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/levers"
)

// simulated sets up a simulated machine, its boards open.
func simulated(t *testing.T, nameOrPath string) *hostsim.Sim {
	t.Helper()
	f, err := hostsim.Load(nameOrPath)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := hostsim.New(t.TempDir(), f, hostsim.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.Host().GPUs.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Host().GPUs.Close() })
	return sim
}

func report(t *testing.T, h *host.Host) doctor.Report {
	t.Helper()
	r, err := doctor.Look(t.Context(), h, levers.Options{}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// page is a report as people see it, without the host's own ids and without what no two measurements share.
func page(t *testing.T, r doctor.Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`GPU-[0-9a-f-]{36}`).ReplaceAllString(b.String(), "GPU-…")
	text = regexp.MustCompile(`(?m)^How the counters move\n(  .*\n)+`).ReplaceAllString(text, "How the counters move: …\n")
	return regexp.MustCompile(`process [0-9]+`).ReplaceAllString(text, "process …")
}

// written captures a host into a file.
func written(t *testing.T, h *host.Host) (file, text string) {
	t.Helper()
	data, err := doctor.Capture(t.Context(), h, []byte("salt"))
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "captured.txtar")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, string(data)
}

func TestACapturedHostIsTheSameHost(t *testing.T) {
	for _, name := range hostsim.Names() {
		t.Run(name, func(t *testing.T) {
			sim := simulated(t, name)
			want := page(t, report(t, sim.Host()))
			_, wrote := sim.Touches("")
			file, text := written(t, sim.Host())
			if _, after := sim.Touches(""); after != wrote {
				t.Error("a capture has changed the host")
			}
			again := simulated(t, file)
			if diff := cmp.Diff(want, page(t, report(t, again.Host()))); diff != "" {
				t.Error(diff)
			}
			heat, _ := sim.Host().CPUHeat() // CPUs that tell of none are to tell of none again
			if got, _ := again.Host().CPUHeat(); !cmp.Equal(heat, got) {
				t.Errorf("heat of the CPUs: %v, captured %v", heat, got)
			}
			boot, err := sim.Host().Proc.ReadString("sys/kernel/random/boot_id")
			if err == nil && strings.Contains(text, boot) {
				t.Error("the boot id is in the fixture")
			}
			for _, gpu := range sim.Host().GPUs.All() {
				if strings.Contains(text, strings.TrimPrefix(gpu.Info().UUID, "GPU-")) {
					t.Error("a board's UUID is in the fixture")
				}
			}
		})
	}
}

func TestACaptureWakesNoBoard(t *testing.T) {
	sim := simulated(t, "laptop")
	written(t, sim.Host())
	if n := sim.Wakes("gpu0"); n != 0 {
		t.Errorf("%d wakes", n)
	}
}

// This very machine, whatever it has, makes a fixture that runs.
func TestThisMachineCanBeCaptured(t *testing.T) {
	h := host.Real("/", nil)
	want := report(t, h)
	file, text := written(t, h)
	if name, err := os.Hostname(); err == nil && len(name) > 3 && strings.Contains(text, name) {
		t.Errorf("the hostname %q is in the fixture", name)
	}
	got := report(t, simulated(t, file).Host())
	if diff := cmp.Diff(want.Levers, got.Levers); diff != "" {
		t.Error(diff)
	}
}

func TestWhatNamesAMachineIsHashed(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"sys/class/power_supply/hid-aa:bb:cc:dd:ee:ff-battery/type": "Battery\n",
		"proc/sys/kernel/random/boot_id":                            "0f0e0d0c-1111-2222-3333-444455556666\n",
		"proc/cpuinfo":                                              "processor\t: 0\nmodel name\t: X\n\nprocessor\t: 1\nmodel name\t: X\n\nSerial\t: 00000000deadbeef\n",
		"sys/devices/system/cpu/online":                             "-- host.toml --\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := host.Real(root, nil)
	file, text := written(t, h)
	for _, secret := range []string{"aa:bb:cc:dd:ee:ff", "0f0e0d0c", "deadbeef"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in the fixture", secret)
		}
	}
	if _, err := hostsim.Load(file); err != nil {
		t.Error(err)
	}
	other, err := doctor.Capture(context.Background(), h, []byte("another salt"))
	if err != nil || string(other) == text {
		t.Error("another salt makes the same hashes")
	}
}
