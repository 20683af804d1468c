package hostsim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the other process: hostsim.test simulate-work DIR DEVICE UNITS.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "simulate-work" {
		units, err := strconv.ParseFloat(os.Args[4], 64)
		if err == nil {
			err = SimulateWork(context.Background(), os.Args[2], os.Args[3], units, nil)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// workerCommand is this binary at work on a simulation.
func workerCommand(t *testing.T, s *Sim, device string, units float64) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), self, "simulate-work", s.Dir(), device, strconv.FormatFloat(units, 'g', -1, 64))
}

// running is a machine that other processes can use until the test ends.
func running(t *testing.T, f Fixture) *Sim {
	t.Helper()
	s := newSim(t, f)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	waitFor(t, "rates", func() bool { _, err := readRates(s.Dir()); return err == nil })
	return s
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after ten seconds", what)
		}
	}
}

// loadsLeft returns the load files there are.
func loadsLeft(t *testing.T, s *Sim) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.Dir(), loadDir))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestOtherProcess has a real process work and checks its energy: exact, however late the simulator looked.
func TestOtherProcess(t *testing.T) {
	s := running(t, quiet(t))
	const seconds = 0.4
	units := seconds * s.States(0)[8].Rate
	for range 2 {
		before, begin := aboveIdle(s), time.Now()
		if out, err := workerCommand(t, s, "gpu0", units).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		drawn, took := aboveIdle(s)-before, time.Since(begin)
		if took < time.Duration(seconds*float64(time.Second)) {
			t.Errorf("the work took %v", took)
		}
		near(t, "energy above idle", drawn, (244.261-31)*seconds, .1)
		if n := loadsLeft(t, s); n != 0 {
			t.Errorf("%d load files left", n)
		}
	}
}

// TestWorkAfterWorkOfOneProcess is a service that works request by request: each of them is done, at the board's rate, and
// the next one may begin in the moment in which the one before has ended.
func TestWorkAfterWorkOfOneProcess(t *testing.T) {
	s := running(t, quiet(t))
	before, began := aboveIdle(s), time.Now()
	const requests, seconds = 40, 0.02
	units := seconds * s.States(0)[8].Rate
	for i := range requests {
		if err := SimulateWork(t.Context(), s.Dir(), "gpu0", units, nil); err != nil {
			t.Fatalf("request %d, after %v: %v", i+1, time.Since(began), err)
		}
	}
	near(t, "energy above idle", aboveIdle(s)-before, (244.261-31)*seconds*requests, 1)
	if n := loadsLeft(t, s); n != 0 {
		t.Errorf("%d load files left", n)
	}
}

// TestALoadFileUnderTheNameOfAnother: what was said of the load before is not taken for its own.
func TestALoadFileUnderTheNameOfAnother(t *testing.T) {
	s := newSim(t, quiet(t))
	put := func(r loadRecord) {
		t.Helper()
		if err := replace(s.Dir(), filepath.Join(loadDir, "7.1"), []byte(r.text())); err != nil {
			t.Fatal(err)
		}
		if err := s.attend(false, false); err != nil {
			t.Fatal(err)
		}
	}
	now := int64(monotonic())
	put(loadRecord{pid: 7, device: "gpu0", share: 1, from: now - 2e6, to: now - 1e6})
	put(loadRecord{pid: 7, device: "gpu0", share: 1, from: now})
	if s.Rate("gpu0") == 0 {
		t.Error("the second load does nothing")
	}
}

// aboveIdle is the joules the board has drawn beyond its 31 W of idling.
func aboveIdle(s *Sim) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	return s.line.until(now)[s.line.parts.board(0)].uj.Joules() - 31*now.Seconds()
}

// TestKilledProcess ends a worker without warning: its load ends with it.
func TestKilledProcess(t *testing.T) {
	s := running(t, quiet(t))
	cmd := workerCommand(t, s, "gpu0", 1e9)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "load", func() bool { return s.Rate("gpu0") > 0 })
	pids, err := s.boards[0].Processes()
	if err != nil || len(pids) != 1 || pids[0] != cmd.Process.Pid {
		t.Errorf("processes %v (%v), want %d", pids, err, cmd.Process.Pid)
	}
	who, err := s.Host().Process(cmd.Process.Pid)
	if err != nil || who.Parent != os.Getpid() || who.UID != uint32(os.Getuid()) {
		t.Errorf("the process in the machine's /proc: %+v, %v", who, err)
	}
	if mine, err := s.Host().Process(os.Getpid()); err != nil || mine.Parent != os.Getppid() {
		t.Errorf("its parent: %+v, %v", mine, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Nobody has waited for it yet, and still it is dead.
	waitFor(t, "end of the load", func() bool { return s.Rate("gpu0") == 0 && loadsLeft(t, s) == 0 })
	waitFor(t, "end of what /proc says of it", func() bool { _, err := s.Host().Process(cmd.Process.Pid); return errors.Is(err, fs.ErrNotExist) })
	if err := cmd.Wait(); err == nil {
		t.Error("a killed process has succeeded")
	}
}

// TestSharedRate has two loads of one process share a board.
func TestSharedRate(t *testing.T) {
	s := running(t, quiet(t))
	units := .2 * s.States(0)[8].Rate
	begin := time.Now()
	var last float64
	done := make(chan error, 2)
	go func() { done <- SimulateWork(t.Context(), s.Dir(), "gpu0", units, func(d float64) { last = d }) }()
	go func() { done <- SimulateWork(t.Context(), s.Dir(), "gpu0", units, nil) }()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	// Two workers notice each other within a look at the rates.
	if took := time.Since(begin); took < 350*time.Millisecond {
		t.Errorf("two shared a board and took %v", took)
	}
	if last != units {
		t.Errorf("the last progress was %g of %g", last, units)
	}
	if n := loadsLeft(t, s); n != 0 {
		t.Errorf("%d load files left", n)
	}
}

func TestSimulateWorkErrors(t *testing.T) {
	ctx, s := t.Context(), newSim(t, quiet(t))
	if err := SimulateWork(ctx, t.TempDir(), "gpu0", 1, nil); !errors.Is(err, ErrNoSimulation) {
		t.Errorf("an empty directory: %v", err)
	}
	if err := SimulateWork(ctx, s.Dir(), "gpu0", 1, nil); !errors.Is(err, ErrGone) {
		t.Errorf("a simulation nobody runs: %v", err)
	}
	old := fmt.Sprintf("at %d\ndevice gpu0 0\n", monotonic()-3*time.Second)
	if err := replace(s.Dir(), rateFile, []byte(old)); err != nil {
		t.Fatal(err)
	}
	if err := SimulateWork(ctx, s.Dir(), "gpu0", 1, nil); !errors.Is(err, ErrGone) {
		t.Errorf("a simulation nobody runs any more: %v", err)
	}
	live := running(t, quiet(t))
	if err := SimulateWork(ctx, live.Dir(), "gpu1", 1, nil); err == nil || !strings.Contains(err.Error(), "allowed: cpu, gpu0") {
		t.Errorf("an unknown device: %v", err)
	}
	if err := SimulateWork(ctx, live.Dir(), "gpu0", math.NaN(), nil); err == nil {
		t.Error("NaN units were done")
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := SimulateWork(short, live.Dir(), "gpu0", 1e9, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("broken off: %v", err)
	}
	if n := loadsLeft(t, live); n != 0 {
		t.Errorf("%d load files left", n)
	}
	waitFor(t, "end of the load", func() bool { return live.Rate("gpu0") == 0 })
}

// TestForeignHands has somebody write settings past the hook, as a shell does, and watches counters move.
func TestForeignHands(t *testing.T) {
	s := running(t, fixture(t, "workstation"))
	s.SetLoad("cpu", 1)
	file := s.Host().Sys.File("devices/system/cpu/cpufreq/policy0/scaling_governor")
	if err := os.WriteFile(file, []byte("powersave\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := s.Rate("cpu")
	waitFor(t, "effect of the governor", func() bool { return s.Rate("cpu") < full })
	if err := os.WriteFile(file, []byte("warp\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "refusal", func() bool {
		data, err := os.ReadFile(file)
		return err == nil && string(data) == "powersave\n"
	})
	counter := s.Host().Sys.File(packageCounter)
	seen := map[string]bool{}
	waitFor(t, "moving counter", func() bool {
		data, err := os.ReadFile(counter)
		if err != nil || len(data) < 2 || data[len(data)-1] != '\n' {
			t.Fatalf("a foreign reader sees %q, %v", data, err)
		}
		seen[string(data)] = true
		return len(seen) > 5
	})
}

func FuzzParseLoad(f *testing.F) {
	f.Add("123", "gpu0 1 1000\n")
	f.Add("123.4", "gpu0 0.5 1000\ngpu0 0 2000\n")
	f.Add("x", "cpu NaN -1\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		r, err := parseLoad(name, text)
		if err != nil {
			return
		}
		again, err := parseLoad(name, r.text())
		if err != nil || again != r {
			t.Errorf("%q is %+v, and that is %+v, %v", text, r, again, err)
		}
	})
}

func FuzzParseRates(f *testing.F) {
	f.Add("at 12\ndevice cpu 0\ndevice gpu0 43.2\nload 17 gpu0 on 43.2\nload 18.1 cpu ending 0\n")
	f.Add("at x\nload 1\ndevice gpu0 NaN\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRates(text)
		for name, g := range r.loads {
			if err == nil && !(g.rate >= 0 && !math.IsInf(g.rate, 0)) {
				t.Errorf("load %q has a rate of %g", name, g.rate)
			}
		}
	})
}
