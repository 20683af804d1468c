//go:build cgo && linux

package host_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

func powerSamples(t *testing.T, g *host.GPU) []host.PowerSample {
	t.Helper()
	began := time.Now()
	all, err := g.PowerSamples(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		if i > 0 && !s.At.After(all[i-1].At) || s.At.After(time.Now()) {
			t.Errorf("sample %d was taken at %v, after %v", i, s.At.Sub(began), all)
		}
	}
	return all
}

// only is the board's one sample, taken during the call.
func only(t *testing.T, g *host.GPU) host.PowerSample {
	t.Helper()
	began := time.Now()
	all := powerSamples(t, g)
	if len(all) != 1 || all[0].At.Before(began) {
		t.Fatalf("samples %+v, want one of now", all)
	}
	s := all[0]
	s.At = time.Time{}
	return s
}

func nvmlPowerInstant(t *testing.T, lib string) {
	m := newMachine(t, 1)
	m.put(0, "samples", "1 1")
	g := m.board(lib)
	for _, mw := range []string{"291500", "0", "0", "65535", "4294967294"} {
		m.put(0, "instant_mw", mw)
		want := host.PowerSample{From: host.PowerInstant}
		_, _ = fmt.Sscan(mw, &want.Power)
		want.Power *= unit.Milliwatt
		if got := only(t, g); got != want {
			t.Errorf("%s mW: %+v", mw, got)
		}
	}
	m.put(0, "instant_mw", "4294967295")
	if _, err := g.PowerSamples(t.Context()); !errors.Is(err, host.ErrUnread) {
		t.Errorf("all ones: %v", err)
	}
	m.put(0, "instant_mw", "100000")
	if got := only(t, g); got.Power != 100*unit.Watt || got.From != host.PowerInstant {
		t.Errorf("after it: %+v", got)
	}
}

// nvmlPowerBuffer: what the driver sampled by itself comes with its own times, whichever clock they were taken by, each once.
func nvmlPowerBuffer(t *testing.T, lib string) {
	for _, clock := range []int32{unix.CLOCK_REALTIME, unix.CLOCK_BOOTTIME} {
		m := newMachine(t, 1)
		m.remove(0, "instant_mw")
		g := m.board(lib)
		now := func() uint64 {
			var ts unix.Timespec
			if err := unix.ClockGettime(clock, &ts); err != nil {
				t.Fatal(err)
			}
			return uint64(ts.Nano() / 1000)
		}
		var lines []string
		put := func(stamp, mw uint64) {
			lines = append(lines, fmt.Sprint(stamp, " ", mw))
			m.put(0, "samples", strings.Join(lines, "\n"))
		}
		zero := now()
		put(zero-400_000, 50_000)
		put(zero-200_000, 60_000)
		if got := powerSamples(t, g); len(got) != 1 || got[0].Power != 60*unit.Watt || got[0].From != host.PowerBuffer ||
			math.Abs(time.Since(got[0].At).Seconds()-0.2) > 0.15 {
			t.Errorf("clock %d: at first %+v, want the newest, 200 ms old", clock, got)
		}
		if got := powerSamples(t, g); len(got) != 0 {
			t.Errorf("clock %d: the same again: %+v", clock, got)
		}
		put(zero-50_000, 80_000) // a ring: the newest need not be the last
		put(zero-100_000, 70_000)
		put(zero-150_000, 0)
		got := powerSamples(t, g)
		if len(got) != 3 || got[0].Power != 0 || got[1].Power != 70*unit.Watt || got[2].Power != 80*unit.Watt ||
			got[2].At.Sub(got[0].At) != 100*time.Millisecond || got[0].Averaging != 0 {
			t.Errorf("clock %d: then %+v", clock, got)
		}
	}
}

// nvmlPowerBufferOfNoClock: stamps of a clock nobody has are at least the right time apart.
func nvmlPowerBufferOfNoClock(t *testing.T, lib string) {
	m := newMachine(t, 1)
	m.remove(0, "instant_mw")
	m.put(0, "samples", "1000 50000")
	g := m.board(lib)
	powerSamples(t, g)
	m.put(0, "samples", "1000 50000\n21000 60000\n41000 70000\n18446744073709551615 80000")
	got := powerSamples(t, g)
	if len(got) != 2 || got[1].At.Sub(got[0].At) != 20*time.Millisecond {
		t.Errorf("samples %+v", got)
	}
}

func nvmlPowerUsage(t *testing.T, lib string) {
	for _, c := range []struct {
		name, arch, id string
		averaging      time.Duration
	}{
		{"Kepler", "2", "102D10DE", 0}, {"Pascal", "4", "15F810DE", 0}, {"Turing", "6", "1EB810DE", 0},
		{"GA100", "7", "20B510DE", 0}, {"GA102", "7", "223510DE", time.Second}, {"Hopper", "9", "233010DE", time.Second},
		{"unknown", "4294967295", "FFFF10DE", time.Second}, {"not told", "", "223510DE", 0},
	} {
		m := newMachine(t, 1)
		m.remove(0, "instant_mw")
		m.put(0, "pci_id", c.id)
		if c.arch != "" {
			m.put(0, "arch", c.arch)
		}
		g := m.board(lib)
		want := host.PowerSample{Power: 280 * unit.Watt, Averaging: c.averaging, From: host.PowerUsage}
		for range 2 {
			if got := only(t, g); got != want {
				t.Errorf("%s: %+v, want %+v", c.name, got, want)
			}
		}
	}
	m := newMachine(t, 1)
	m.remove(0, "instant_mw")
	m.put(0, "arch", "7")
	m.put(0, "fail", "nvmlDeviceGetArchitecture 999")
	g := m.board(lib)
	if got := only(t, g); got.Averaging != time.Second {
		t.Errorf("a chip that cannot be told: %+v", got)
	}
	m.put(0, "fail", "* 15")
	if _, err := g.PowerSamples(t.Context()); !errors.Is(err, host.ErrLost) {
		t.Errorf("a lost board: %v", err)
	}
	m.put(0, "fail", "nvmlDeviceGetPowerUsage 3")
	if _, err := g.PowerSamples(t.Context()); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("a board that tells no power: %v", err)
	}
}

func nvmlNoCounter(t *testing.T, lib string) {
	m := newMachine(t, 2)
	m.put(0, "no_counter", "")
	m.put(1, "fail", "nvmlDeviceGetTotalEnergyConsumption 999")
	all := m.open(lib).All()
	if all[0].HasCounter(t.Context()) || !all[1].HasCounter(t.Context()) {
		t.Error("only a board that says so has no counter")
	}
	if got := only(t, all[0]); got.Power != unit.FromWatts(291.5) {
		t.Errorf("its power: %+v", got)
	}
}
