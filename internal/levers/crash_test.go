package levers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
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
	s, err := hostsim.New(memoryDir(t), f, hostsim.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// memoryDir is a temporary directory in memory where there is one: on a disk, thousands of fsyncs are all a life does.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "quner-levers-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
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

// point gives every lever of some kinds a value: a choice, if it is offered, or a percentage of what a number may be.
func point(b *levers.Bank, choices map[levers.Kind]levers.Value, percent int64) levers.Point {
	var all []levers.Setting
	for _, l := range b.Levers() {
		span := l.Span()
		v, chosen := choices[l.Kind()]
		switch {
		case chosen && slices.Contains(span.Choices, v):
		case span.Choices == nil && percent > 0:
			v = levers.Value(strconv.FormatInt(max(span.Lo, span.Hi*percent/100/span.Step*span.Step), 10))
		default:
			continue
		}
		all = append(all, levers.Setting{Lever: l.Name(), Value: v})
	}
	return levers.NewPoint(all...)
}

type choices = map[levers.Kind]levers.Value

// life is what a daemon does in a short one: start, a switch of profile, trials of a sweep, the end of it, stop. Governors
// go to and from the one that decides the energy preference.
func life(ctx context.Context, b *levers.Bank) error {
	idle := point(b, choices{levers.Governor: "powersave", levers.EnergyPreference: "balance_power"}, 0)
	trial := point(b, choices{levers.Governor: "performance"}, 70)
	other := point(b, choices{levers.EnergyPreference: "power"}, 50)
	full := point(b, choices{levers.Governor: "performance", levers.EnergyPreference: "power"}, 0)
	var errs []error
	for _, p := range []levers.Point{idle, trial, other, full, nil, idle} {
		_, err := b.Apply(ctx, p)
		errs = append(errs, err)
	}
	_, err := b.Restore(ctx, false)
	return errors.Join(append(errs, err)...)
}

func TestCrashAtEveryBoundary(t *testing.T) {
	for _, name := range []string{"workstation", "laptop", "amd"} {
		t.Run(name, func(t *testing.T) {
			whole := simulated(t, name)
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
			t.Logf("%d boundaries", n)
			for _, torn := range []bool{false, true} {
				t.Run(fmt.Sprintf("torn=%v", torn), func(t *testing.T) {
					t.Parallel()
					crashes(t, name, n, torn, found)
				})
			}
		})
	}
}

// crashes lets a process end at each of the n boundaries of a life. A machine lives through some crashes: each restore
// leaves it as found, or the test ends.
func crashes(t *testing.T, name string, n int, torn bool, found string) {
	var s *hostsim.Sim
	for i, k := 0, 1; k <= n; i, k = i+1, k+every {
		if i%16 == 0 {
			s = simulated(t, name)
		}
		at := s.Boundaries() + k
		s.CutAt(at, torn)
		err := life(t.Context(), opened(t, s))
		s.Heal()
		if s.Boundaries() < at { // directories that are there need not be made again
			if err != nil || k < n-2 {
				t.Fatalf("boundary %d of %d is not there: %v", k, n, err)
			}
			return
		}
		// Each boundary of the restore has a crash of its own too, after every fourth of those of the life.
		recovered(t, s, k, torn && i%4 == 3, found)
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
			if err := life(t.Context(), b); err != nil && (name != "locked" || !errors.Is(err, unix.ENODATA)) {
				t.Error(err)
			}
			if s.Digest() != digest {
				t.Error("the tree is not as it was")
			}
			if name == "laptop" && s.Wakes("gpu0")+s.Host().GPUs.Wakes() != 0 {
				t.Error("the sleeping board was woken")
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
	p := point(bank, choices{levers.Governor: "powersave"}, 66)
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
	p := point(bank, choices{levers.Governor: "powersave"}, 66)
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

func (r simRig) foreign(l levers.Lever, v levers.Value) error {
	if file := levers.FileOf(l); file != "" {
		name, err := filepath.Rel(filepath.Join(r.sim.Dir(), "host"), file)
		if err != nil {
			return err
		}
		return r.sim.Foreign(name, string(v))
	}
	board := slices.IndexFunc(r.sim.Host().GPUs.All(), func(g *host.GPU) bool { return strings.HasSuffix(l.Name(), g.Info().UUID) })
	return r.sim.Foreign(fmt.Sprintf("gpu%d/limit_mw", board), string(v))
}
