//go:build cgo && linux

package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// TestNVML drives the real binding, by dlopen, against a library built from test/fakenvml. The binding binds a process
// to one library for good, hence one test with one build.
func TestNVML(t *testing.T) {
	lib := buildFakeNVML(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, string)
	}{
		{"no driver", nvmlNoDriver},
		{"no library", nvmlNoLibrary},
		{"no boards", nvmlNoBoards},
		{"init refused", nvmlInitRefused},
		{"discovery", nvmlDiscovery},
		{"one board lost at discovery", nvmlOneLost},
		{"what a board's figures take in", nvmlScope},
		{"reading", nvmlReading},
		{"sentinel values", nvmlSentinelValues},
		{"energy rises", nvmlEnergyRises},
		{"no energy counter", nvmlNoCounter},
		{"power of an instant", nvmlPowerInstant},
		{"power from the driver's buffer", nvmlPowerBuffer},
		{"power by a clock of the buffer's own", nvmlPowerBufferOfNoClock},
		{"power as a mean", nvmlPowerUsage},
		{"limit", nvmlLimit},
		{"limit out of range", nvmlLimitOutOfRange},
		{"limit not permitted", nvmlLimitNotPermitted},
		{"lost", nvmlLost},
		{"processes", nvmlProcesses},
		{"slowdowns", nvmlThrottling},
		{"hung", nvmlHung},
		{"slow within the deadline", nvmlSlow},
		{"late write", nvmlLateWrite},
		{"open again", nvmlOpenAgain},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, lib) })
	}
}

// TestNVMLOldLibrary: a library without the newer functions gives errors where a call to a missing function would end
// the process. It needs a process that has bound no other library, so the test runs itself once more.
func TestNVMLOldLibrary(t *testing.T) {
	const variable = "QUNER_TEST_OLD_NVML"
	if lib := os.Getenv(variable); lib != "" {
		nvmlOld(t, lib)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestNVMLOldLibrary$", "-test.v")
	child.Env = append(os.Environ(), variable+"="+buildFakeNVML(t, "-DOLD"))
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestNVMLOldLibrary") {
		t.Fatalf("a process with an old library: %v\n%s", err, out)
	}
}

func nvmlNoDriver(t *testing.T, lib string) {
	t.Setenv("FAKENVML", filepath.Join(t.TempDir(), "absent"))
	gpus := host.NewGPUs(host.NVML(lib))
	if err := gpus.Open(t.Context()); err != nil {
		t.Fatalf("a machine without the driver is an error: %v", err)
	}
	if !errors.Is(gpus.Why(), host.ErrNoDriver) || len(gpus.All()) != 0 {
		t.Errorf("boards %v, because %v; want none, %v", gpus.All(), gpus.Why(), host.ErrNoDriver)
	}
}

func nvmlNoLibrary(t *testing.T, lib string) {
	newMachine(t, 1)
	// The second is a library, but none of NVML's functions is in it.
	for _, path := range []string{lib + ".absent", "libm.so.6"} {
		gpus := host.NewGPUs(host.NVML(path))
		if err := gpus.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if why := gpus.Why(); !errors.Is(why, host.ErrNoDriver) || !strings.Contains(why.Error(), filepath.Base(path)) {
			t.Errorf("%s: no board because %v; want %v with the file's name", path, why, host.ErrNoDriver)
		}
	}
}

func nvmlNoBoards(t *testing.T, lib string) {
	gpus := newMachine(t, 0).open(lib)
	if !errors.Is(gpus.Why(), host.ErrNotSupported) || len(gpus.All()) != 0 {
		t.Errorf("boards %v, because %v", gpus.All(), gpus.Why())
	}
}

func nvmlInitRefused(t *testing.T, lib string) {
	m := newMachine(t, 1)
	m.put(-1, "fail", "nvmlInit_v2 18") // the library is newer than the kernel module
	gpus := m.open(lib)
	if !errors.Is(gpus.Why(), host.ErrNoDriver) {
		t.Errorf("no board because %v, want %v", gpus.Why(), host.ErrNoDriver)
	}
	m.remove(-1, "fail")
	if err := gpus.Open(t.Context()); err != nil || len(gpus.All()) != 1 {
		t.Errorf("after the module caught up: %d boards, %v, %v", len(gpus.All()), err, gpus.Why())
	}
}

func nvmlDiscovery(t *testing.T, lib string) {
	m := newMachine(t, 2)
	m.remove(1, "vbios")
	m.remove(1, "min_mw")
	gpus := m.open(lib)
	if got := gpus.Version(); got != "550.54.15" {
		t.Errorf("driver version %q", got)
	}
	all := gpus.All()
	if len(all) != 2 {
		t.Fatalf("%d boards, want 2: %v", len(all), gpus.Why())
	}
	want := host.GPUInfo{UUID: "GPU-aaaaaaaa-0000-0000-0000-000000000000", PCI: "0000:3b:00.0", Name: "NVIDIA A40",
		VBIOS: "94.02.5C.00.03"}
	if got := all[0].Info(); got != want {
		t.Errorf("first board is %+v, want %+v", got, want)
	}
	if lo, hi, err := all[0].LimitRange(); lo != 100*unit.Watt || hi != 300*unit.Watt || err != nil {
		t.Errorf("range %v to %v, %v", lo, hi, err)
	}
	if got := all[1].Info(); got.VBIOS != "" || got.PCI != "0000:3c:00.0" {
		t.Errorf("a board without a VBIOS version is %+v", got)
	}
	if _, _, err := all[1].LimitRange(); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("range of a board that has none: %v", err)
	}
}

func nvmlOneLost(t *testing.T, lib string) {
	m := newMachine(t, 2)
	m.put(0, "fail", "nvmlDeviceGetHandleByIndex_v2 15")
	all := m.open(lib).All()
	if len(all) != 1 || all[0].Info().PCI != "0000:3c:00.0" {
		t.Errorf("boards beside a lost one: %v, want the second alone", all)
	}
}

func nvmlReading(t *testing.T, lib string) {
	m := newMachine(t, 1)
	m.put(0, "enforced_mw", "250000")
	g := m.board(lib)
	r := read(t, g)
	if err := errors.Join(r.EnergyErr, r.PowerErr, r.UtilErr, r.LimitErr, r.EnforcedErr); err != nil {
		t.Fatal(err)
	}
	if r.Power != unit.FromWatts(291.5) || r.Utilisation != 0.97 || r.Limit != 300*unit.Watt || r.Enforced != 250*unit.Watt {
		t.Errorf("reading %+v", r)
	}
	if p, err := g.DefaultLimit(t.Context()); p != 300*unit.Watt || err != nil {
		t.Errorf("default limit %v, %v", p, err)
	}

	m.put(0, "fail", "nvmlDeviceGetFieldValues 2") // a driver that does not know the field
	if r := read(t, g); r.Power != 280*unit.Watt || r.PowerErr != nil {
		t.Errorf("power without the instant reading is %v, %v; want the mean", r.Power, r.PowerErr)
	}
	m.put(0, "fail", "nvmlDeviceGetUtilizationRates 3\nnvmlDeviceGetTotalEnergyConsumption 3")
	r = read(t, g)
	if !errors.Is(r.UtilErr, host.ErrNotSupported) || !errors.Is(r.EnergyErr, host.ErrNotSupported) || r.PowerErr != nil {
		t.Errorf("figures the board lacks: utilisation %v, energy %v; power %v", r.UtilErr, r.EnergyErr, r.PowerErr)
	}
}

// Some boards answer a question they cannot answer with all ones.
func nvmlSentinelValues(t *testing.T, lib string) {
	m := newMachine(t, 1)
	m.put(0, "instant_mw", "4294967295")
	m.put(0, "util_pct", "4294967295")
	r := read(t, m.board(lib))
	if !errors.Is(r.PowerErr, host.ErrUnread) || !errors.Is(r.UtilErr, host.ErrUnread) {
		t.Errorf("power %v, %v; utilisation %v, %v; want both unread", r.Power, r.PowerErr, r.Utilisation, r.UtilErr)
	}
}

func nvmlEnergyRises(t *testing.T, lib string) {
	m := newMachine(t, 1)
	m.put(0, "energy", "5000000000 1") // 5 kJ, last integrated at boot
	m.put(0, "power_mw", "0")
	g := m.board(lib)
	first, _, err := g.Energy(t.Context())
	if err != nil || first != 5*unit.Kilojoule {
		t.Fatalf("energy %v, %v; want 5 kJ", first, err)
	}
	m.put(0, "power_mw", "280000")
	time.Sleep(2 * time.Millisecond)
	then, _, err := g.Energy(t.Context())
	if err != nil || then <= first {
		t.Errorf("energy at 280 W went from %v to %v, %v", first, then, err)
	}
}

func nvmlLimit(t *testing.T, lib string) {
	m := newMachine(t, 1)
	g := m.board(lib)
	now, err := g.SetLimit(t.Context(), unit.FromWatts(210.5))
	if err != nil || now != unit.FromWatts(210.5) {
		t.Fatalf("set to 210.5 W: %v, %v", now, err)
	}
	if text, err := os.ReadFile(m.path(0, "limit_mw")); string(text) != "210500\n" || err != nil {
		t.Errorf("the board has %q, %v", text, err)
	}
	if p, err := g.Limit(t.Context()); p != now || err != nil {
		t.Errorf("read back %v, %v", p, err)
	}
}

func nvmlLimitOutOfRange(t *testing.T, lib string) {
	g := newMachine(t, 1).board(lib)
	for _, p := range []unit.Power{99 * unit.Watt, 301 * unit.Watt, 0, -5 * unit.Watt, 5_000_000 * unit.Watt} {
		if _, err := g.SetLimit(t.Context(), p); !errors.Is(err, host.ErrOutOfRange) {
			t.Errorf("set to %v: %v, want %v", p, err, host.ErrOutOfRange)
		}
	}
	if p, err := g.Limit(t.Context()); p != 300*unit.Watt || err != nil {
		t.Errorf("after refused limits: %v, %v", p, err)
	}
}

func nvmlLimitNotPermitted(t *testing.T, lib string) {
	m := newMachine(t, 1)
	m.put(0, "noperm", "")
	_, err := m.board(lib).SetLimit(t.Context(), 200*unit.Watt)
	if !errors.Is(err, host.ErrNoPermission) || host.ReasonOf(err) != host.NoPermission {
		t.Errorf("set without the right: %v", err)
	}
}

func nvmlLost(t *testing.T, lib string) {
	m := newMachine(t, 2)
	all := m.open(lib).All()
	m.put(0, "fail", "* 15")
	r := read(t, all[0])
	for _, err := range []error{r.EnergyErr, r.PowerErr, r.UtilErr, r.LimitErr, r.EnforcedErr} {
		if !errors.Is(err, host.ErrLost) {
			t.Errorf("a lost board says %v", err)
		}
	}
	if r := read(t, all[1]); r.PowerErr != nil {
		t.Errorf("the other board says %v", r.PowerErr)
	}
}

func nvmlProcesses(t *testing.T, lib string) {
	m := newMachine(t, 1)
	g := m.board(lib)
	if pids, err := g.Processes(t.Context()); len(pids) != 0 || err != nil {
		t.Errorf("processes on an idle board: %v, %v", pids, err)
	}
	m.put(0, "pids", "101 202 303")
	if pids, err := g.Processes(t.Context()); fmt.Sprint(pids) != "[101 202 303]" || err != nil {
		t.Errorf("processes: %v, %v", pids, err)
	}
}

func nvmlHung(t *testing.T, lib string) {
	m := newMachine(t, 2)
	all := m.open(lib).All()
	m.put(0, "hang", "")
	began := time.Now()
	if _, err := all[0].Read(t.Context(), 0); !errors.Is(err, host.ErrHung) || !all[0].Hung() {
		t.Errorf("a driver that does not answer: %v, hung %v", err, all[0].Hung())
	}
	if took := time.Since(began); took < host.CallTimeout {
		t.Errorf("given up after %v, before %v", took, host.CallTimeout)
	}
	if _, err := all[0].Limit(t.Context()); !errors.Is(err, host.ErrHung) {
		t.Errorf("a second call to a hung board: %v", err)
	}
	if r := read(t, all[1]); r.PowerErr != nil {
		t.Errorf("the other board waits for the hung one: %v", r.PowerErr)
	}
	m.remove(0, "hang")
	for all[0].Hung() {
		time.Sleep(time.Millisecond)
	}
	if r := read(t, all[0]); r.PowerErr != nil {
		t.Errorf("the board that came back says %v", r.PowerErr)
	}
}

func nvmlSlow(t *testing.T, lib string) {
	m := newMachine(t, 1)
	g := m.board(lib)
	m.put(0, "delay_us", "20000")
	if _, err := g.Limit(t.Context()); err != nil {
		t.Errorf("a call of 20 ms: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := g.Limit(ctx); !errors.Is(err, context.DeadlineExceeded) || g.Hung() {
		t.Errorf("a caller who cannot wait 20 ms: %v, hung %v", err, g.Hung())
	}
}

func nvmlLateWrite(t *testing.T, lib string) {
	m := newMachine(t, 1)
	g := m.board(lib)
	told := make(chan unit.Power, 1)
	g.OnLateWrite(func(now unit.Power, err error) {
		if err != nil {
			t.Errorf("late write: %v", err)
		}
		told <- now
	})
	m.put(0, "hang", "")
	if _, err := g.SetLimit(t.Context(), 200*unit.Watt); !errors.Is(err, host.ErrHung) {
		t.Fatalf("a write that does not return: %v", err)
	}
	m.remove(0, "hang")
	if now := <-told; now != 200*unit.Watt {
		t.Errorf("the late write came to %v", now)
	}
}

func nvmlOpenAgain(t *testing.T, lib string) {
	m := newMachine(t, 1)
	gpus := m.open(lib)
	for range 3 {
		if err := gpus.Close(); err != nil {
			t.Fatal(err)
		}
		if err := gpus.Open(t.Context()); err != nil || len(gpus.All()) != 1 {
			t.Fatalf("opened again: %d boards, %v, %v", len(gpus.All()), err, gpus.Why())
		}
		read(t, gpus.All()[0])
	}
}

func nvmlOld(t *testing.T, lib string) {
	m := newMachine(t, 1)
	m.put(0, "arch", "7") // which the library has no function to tell
	g := m.board(lib)
	r := read(t, g)
	if !errors.Is(r.EnergyErr, host.ErrNotSupported) || !errors.Is(r.EnforcedErr, host.ErrNotSupported) {
		t.Errorf("energy %v, enforced limit %v; want both not supported", r.EnergyErr, r.EnforcedErr)
	}
	if r.Power != 280*unit.Watt || r.PowerErr != nil || r.Limit != 300*unit.Watt {
		t.Errorf("what an old library has: power %v, %v, limit %v", r.Power, r.PowerErr, r.Limit)
	}
	m.put(0, "reasons", "36") // the cap and the driver's guard against heat, by the function's older name
	m.put(0, "thermal_ns", "5000")
	if got, err := g.Throttling(t.Context()); err != nil || got != (host.Throttling{Now: host.SlowHeat, Spent: 5 * time.Microsecond}) {
		t.Errorf("its slowdowns: %+v, %v", got, err)
	}
	// A driver older than Ampere: what it tells is the power of a moment.
	if got := only(t, g); got != (host.PowerSample{Power: 280 * unit.Watt, From: host.PowerUsage}) || g.HasCounter(t.Context()) {
		t.Errorf("its power sample: %+v", got)
	}
}
