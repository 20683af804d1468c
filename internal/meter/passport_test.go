package meter

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/unit"
)

func sensor(t *testing.T, m *Meter, name string) Sensor {
	t.Helper()
	all := m.Sensors()
	i := slices.IndexFunc(all, func(s Sensor) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no sensor %s: %+v", name, all)
	}
	return all[i]
}

// Each verdict of the rule is counted where it is made, and a sensor shows the sum.
func TestPassportCountsVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := false
		hook := func(a host.Access) error {
			if broken && a.Op == host.OpRead && filepath.Base(a.Name) == "energy_uj" {
				return unix.EIO
			}
			return nil
		}
		tr := powercapTree(t, hook, "intel-rapl:0 package-0")
		const end = 262143328850
		tr.set("intel-rapl:0", end-50e6)
		m := tr.meter()
		tick := func(after time.Duration, uj int64) {
			time.Sleep(after)
			tr.set("intel-rapl:0", uj)
			m.Tick(context.Background())
		}
		tick(2*time.Second, end-20e6)       // ok
		tick(2*time.Second, 30e6)           // wrap
		broken = true                       //
		tick(2*time.Second, 40e6)           // unread
		broken = false                      //
		tick(2*time.Second, 60e6)           // ok
		tick(2*time.Second, 20e9)           // jump
		tick(2*time.Second, 80e6)           // recovered
		tick(2*time.Second, 200)            // reset
		tick(2*time.Second, 20e6)           // ok
		tick(2*time.Second, 500e9)          // jump
		tick(121*time.Second, 501e9)        // ok
		tick(2*time.Second, 300e9)          // backward
		tick(2*time.Second, 501e9+30e6)     // ok
		tick(400*time.Second, 501e9+30.1e6) // ambiguous
		s := sensor(t, m, "cpu/package-0")
		want := Verdicts{OK: 5, Ambiguous: 1, Wrap: 1, Reset: 1, Jump: 2, Backward: 1, Recovered: 1, Unread: 1}
		if s.Verdicts != want {
			t.Errorf("%+v\nwant %+v", s.Verdicts, want)
		}
		if s.Span != end+61 || s.Resolution != 61 || s.Limit != unit.Kilowatt || !s.Counted || s.Reason != "" {
			t.Errorf("%+v", s)
		}
		if s.Coverage >= 1 || s.Coverage < 0.9 || s.MaxGap != 2*time.Second {
			t.Errorf("coverage %v, longest gap %v", s.Coverage, s.MaxGap)
		}
	})
}

// A zone without a range has no end: it is shown so, and one that tells no name is shown too.
func TestPassportOfOddZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := func(a host.Access) error {
			if strings.HasSuffix(a.Name, "intel-rapl:2/energy_uj") && a.Op == host.OpRead || strings.HasSuffix(a.Name, "intel-rapl:3/name") {
				return unix.EIO
			}
			return nil
		}
		tr := powercapTree(t, hook, "intel-rapl:0 package-0", "intel-rapl:1 package-1", "intel-rapl:2 package-2", "intel-rapl:3 package-3",
			"intel-rapl:4 strange;name")
		tr.put("intel-rapl:1", "max_energy_range_uj", "")
		m := tr.meter()
		m.Tick(context.Background())
		if s := sensor(t, m, "cpu/package-0"); s.Span == 0 || !s.Counted || s.Reason != "" {
			t.Errorf("the good one: %+v", s)
		}
		if s := sensor(t, m, "cpu/package-1"); s.Span != 0 || s.Resolution != 1 || !s.Counted || s.Reason != "" {
			t.Errorf("without a range: %+v", s)
		}
		if s := sensor(t, m, "cpu/package-2"); s.Reason != ReasonUnreadable || s.Verdicts.Unread == 0 || s.Coverage != 0 {
			t.Errorf("unreadable: %+v", s)
		}
		for _, name := range []string{"cpu/@intel-rapl:3", "cpu/@intel-rapl:4"} {
			if s := sensor(t, m, name); s.Reason != ReasonUnreadable || s.Counted || s.Detail == "" {
				t.Errorf("nameless: %+v", s)
			}
		}
		if got := m.Devices(); !slices.Equal(got, []string{"cpu/package-0", "cpu/package-1", "cpu/package-2"}) {
			t.Errorf("devices %v", got)
		}
	})
}

// A counter that stands is not supported; once it moves it counts again.
func TestPassportOfAFrozenCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := powercapTree(t, nil, "intel-rapl:0 package-0")
		m := tr.meter()
		for range 3 {
			time.Sleep(2 * time.Second)
			m.Tick(context.Background())
		}
		if s := sensor(t, m, "cpu/package-0"); s.Counted || s.Reason != ReasonFrozen {
			t.Errorf("%+v", s)
		}
		if p := m.Power()[0]; p.Known || p.Reason != ReasonFrozen {
			t.Errorf("%+v", p)
		}
		time.Sleep(2 * time.Second)
		tr.set("intel-rapl:0", 50e6)
		m.Tick(context.Background())
		if s := sensor(t, m, "cpu/package-0"); !s.Counted || s.Reason != "" {
			t.Errorf("moving again: %+v", s)
		}
	})
}

// simulated returns a meter of a simulated machine, and a while after the machine's start.
func simulated(t *testing.T, name string, after time.Duration) (*Meter, *hostsim.Sim) {
	t.Helper()
	fixture, err := hostsim.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := hostsim.New(t.TempDir(), fixture, hostsim.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(after)
	if err := sim.Host().GPUs.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Host().GPUs.Close() })
	m, err := New(t.Context(), sim.Host(), Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return m, sim
}

// A probe measures what the counters' steps are, in little time, and credits nothing.
func TestProbeMeasuresSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := simulated(t, "workstation", 0)
		before := sensor(t, m, "cpu/package-0")
		if before.PeriodFrom != PeriodAssumed || before.Period != time.Millisecond {
			t.Errorf("before: %+v", before)
		}
		began := time.Now()
		m.Probe(t.Context(), ProbeOptions{CPU: 20 * time.Millisecond})
		if took := time.Since(began); took > 25*time.Millisecond {
			t.Errorf("the zones took %v", took)
		}
		shares := 0
		m.Probe(t.Context(), ProbeOptions{GPU: time.Second, Progress: func(float64) { shares++ }})
		if took := time.Since(began); took > 1100*time.Millisecond || shares == 0 {
			t.Errorf("all took %v, with %d words of progress", took, shares)
		}
		for _, s := range m.Sensors() {
			if s.PeriodFrom == "" {
				continue // it is not read
			}
			want := time.Millisecond
			if s.Backend == NVMLCounter {
				want = 100 * time.Millisecond
			}
			if s.PeriodFrom != PeriodMeasured || !near(s.Period, want, 0.1) || s.Smallest <= 0 {
				t.Errorf("%s: %v %s ± %v, smallest %v", s.Name, s.Period, s.PeriodFrom, s.Jitter, s.Smallest)
			}
		}
		after := sensor(t, m, "cpu/package-0")
		if after.Verdicts != before.Verdicts {
			t.Errorf("a probe made verdicts: %+v", after.Verdicts)
		}
	})
}

// A board that sleeps is not woken by a probe.
func TestProbeLeavesSleepersAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, sim := simulated(t, "laptop", time.Minute)
		m.Probe(t.Context(), ProbeOptions{CPU: 20 * time.Millisecond, GPU: time.Second})
		if n := sim.Wakes("gpu0"); n != 0 {
			t.Errorf("the board was woken %d times", n)
		}
		if reads, _ := sim.Touches("gpu/"); reads != 0 {
			t.Errorf("its driver was called %d times", reads)
		}
	})
}

func TestReadCostIsTheMedian(t *testing.T) {
	c := clocked{}
	if c.cost() != 0 {
		t.Errorf("cost of nothing %v", c.cost())
	}
	for i := range 40 {
		c.took[c.n%len(c.took)] = time.Duration(i) * time.Microsecond
		c.n++
	}
	if c.cost() != 24*time.Microsecond {
		t.Errorf("median of 9…39 µs: %v", c.cost())
	}
}
