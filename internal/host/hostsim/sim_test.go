package hostsim

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// newSim sets up a built-in machine in a temporary directory.
func newSim(t testing.TB, name string) *Sim {
	t.Helper()
	f, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.TempDir(), f, Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHourOfLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "workstation")
		s.SetLoad("gpu0", 1)
		want := s.States(0)
		began := s.Truth("gpu0") + s.Truth("package-0") + s.Truth("dram")
		const counter = "class/powercap/intel-rapl:0/energy_uj"
		first, err := s.Host().Sys.ReadUint(counter)
		if err != nil {
			t.Fatal(err)
		}
		var total uint64
		for last, range_ := first, uint64(262143328911); time.Since(s.start) < time.Hour; {
			time.Sleep(10 * time.Second)
			v, err := s.Host().Sys.ReadUint(counter)
			if err != nil {
				t.Fatal(err)
			}
			total += (v + range_ - last) % range_
			last = v
		}
		drawn := (s.Truth("gpu0") + s.Truth("package-0") + s.Truth("dram") - began).Joules()
		if mean := want[len(want)-1].Power.Watts() * 3600; math.Abs(drawn/mean-1) > 0.001 {
			t.Errorf("an hour at full load drew %.0f J; the model says %.0f", drawn, mean)
		}
		if diff := float64(total)*1e-6 - s.Truth("package-0").Joules(); math.Abs(diff) > 0.1 {
			t.Errorf("the package's counter is %.3f J off the truth", diff)
		}
		if p := unit.FromJoules(drawn).Per(time.Hour); p < 200*unit.Watt {
			t.Errorf("mean power %v", p)
		}
	})
}
