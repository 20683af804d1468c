package levers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/levers"
)

// simulated sets up a workstation that is not there.
func simulated(t testing.TB, name string) *hostsim.Sim {
	t.Helper()
	f, err := hostsim.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := hostsim.New(t.TempDir(), f, hostsim.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// opened is a new process's bank; the one before it has ended.
func opened(t testing.TB, s *hostsim.Sim) *levers.Bank {
	t.Helper()
	_ = s.Host().GPUs.Close()
	b, err := levers.OpenBank(t.Context(), s.Host(), nil)
	if err != nil {
		t.Fatalf("open bank: %v", err)
	}
	return b
}

// point gives every lever of a kind one value.
func point(b *levers.Bank, values map[levers.Kind]levers.Value) levers.Point {
	var all []levers.Setting
	for _, l := range b.Levers() {
		if v, ok := values[l.Kind()]; ok {
			all = append(all, levers.Setting{Lever: l.Name(), Value: v})
		}
	}
	return levers.NewPoint(all...)
}

// life is what a daemon does in a short one: start, a switch of profile, two trials of a sweep, the end of it, stop.
func life(ctx context.Context, b *levers.Bank) error {
	idle := point(b, map[levers.Kind]levers.Value{levers.Governor: "powersave"})
	trial := point(b, map[levers.Kind]levers.Value{levers.Governor: "performance", levers.GPUCap: "200000"})
	other := point(b, map[levers.Kind]levers.Value{levers.GPUCap: "150000"})
	var errs []error
	for _, p := range []levers.Point{idle, trial, other, nil, idle} {
		_, err := b.Apply(ctx, p)
		errs = append(errs, err)
	}
	_, err := b.Restore(ctx, false)
	return errors.Join(append(errs, err)...)
}

func TestCrashAtEveryBoundary(t *testing.T) {
	whole := simulated(t, "workstation")
	found := fmt.Sprint(whole.Settings())
	if err := life(t.Context(), opened(t, whole)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(whole.Settings()); got != found {
		t.Fatalf("after a whole life:\n%s\nwas\n%s", got, found)
	}
	n := whole.Boundaries()
	if n < 40 {
		t.Fatalf("%d boundaries only", n)
	}
	for _, torn := range []bool{false, true} {
		t.Run(fmt.Sprintf("torn=%v", torn), func(t *testing.T) {
			t.Parallel()
			var s *hostsim.Sim
			for k := 1; k <= n; k++ {
				if k%16 == 1 { // a machine lives through some crashes: each restore leaves it as found, or the test ends
					s = simulated(t, "workstation")
				}
				at := s.Boundaries() + k
				s.CutAt(at, torn)
				err := life(t.Context(), opened(t, s))
				s.Heal()
				if s.Boundaries() < at { // directories that are there need not be made again
					if err != nil || k < n-2 {
						t.Fatalf("boundary %d of %d is not there: %v", k, n, err)
					}
					break
				}
				recovered(t, s, k, torn, found)
			}
		})
	}
}

// recovered lets a process restore after a crash; with crash a second crash ends it in turn, at each boundary of its own,
// and the next process tries.
func recovered(t *testing.T, s *hostsim.Sim, k int, crash bool, found string) {
	t.Helper()
	for again := 1; ; again++ {
		if crash {
			s.CutAt(s.Boundaries()+again, true)
		}
		before := s.Boundaries()
		r, err := opened(t, s).Restore(t.Context(), false)
		s.Heal()
		if !crash || s.Boundaries() < before+again { // it ended of its own accord
			if err != nil || len(r.Left) != 0 {
				t.Fatalf("boundary %d, crash %d in restoring: %v, left %v", k, again, err, r.Left)
			}
			break
		}
	}
	if got := fmt.Sprint(s.Settings()); got != found {
		t.Fatalf("boundary %d: host has\n%s\nwas\n%s", k, got, found)
	}
}

func TestSimulatedHosts(t *testing.T) {
	for _, name := range hostsim.Names() {
		t.Run(name, func(t *testing.T) {
			s := simulated(t, name)
			digest := s.Digest()
			b := opened(t, s)
			t.Cleanup(func() { _ = s.Host().GPUs.Close() })
			if _, writes := s.Touches(""); writes != 0 {
				t.Errorf("discovery made %d changes", writes)
			}
			if len(b.Levers())+len(b.Missing()) == 0 {
				t.Error("neither levers nor reasons")
			}
			t.Logf("%d levers; missing: %v", len(b.Levers()), b.Missing())
			if err := life(t.Context(), b); err != nil {
				t.Error(err)
			}
			if s.Digest() != digest {
				t.Error("the tree is not as it was")
			}
		})
	}
}

func BenchmarkStates(b *testing.B) {
	bank := opened(b, simulated(b, "workstation"))
	for b.Loop() {
		if n := len(bank.States(b.Context())); n != len(bank.Levers()) {
			b.Fatal(n)
		}
	}
}

// BenchmarkPlan is the cost of a tick that has nothing to do.
func BenchmarkPlan(b *testing.B) {
	bank := opened(b, simulated(b, "workstation"))
	p := point(bank, map[levers.Kind]levers.Value{levers.Governor: "powersave", levers.GPUCap: "200000"})
	if _, err := bank.Apply(b.Context(), p); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if w, err := bank.Plan(b.Context(), p); err != nil || len(w) != 0 {
			b.Fatal(w, err)
		}
	}
}

// BenchmarkApply is the cost of a switch of all levers to and fro, journal included.
func BenchmarkApply(b *testing.B) {
	bank := opened(b, simulated(b, "workstation"))
	p := point(bank, map[levers.Kind]levers.Value{levers.Governor: "powersave", levers.GPUCap: "200000"})
	for b.Loop() {
		if _, err := bank.Apply(b.Context(), p); err != nil {
			b.Fatal(err)
		}
		if _, err := bank.Apply(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// simRig is somebody else at a simulated machine.
type simRig struct {
	t   *testing.T
	sim *hostsim.Sim
}

func (r simRig) foreign(l levers.Lever, v levers.Value) {
	r.t.Helper()
	name := "gpu0/limit_mw"
	if l.Kind() == levers.Governor {
		_, policy, _ := strings.Cut(l.Name(), "/")
		name = "sys/devices/system/cpu/cpufreq/" + policy + "/scaling_governor"
	}
	if err := r.sim.Foreign(name, string(v)); err != nil {
		r.t.Fatal(err)
	}
}
