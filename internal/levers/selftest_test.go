package levers_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/levers"
)

// selftest runs a self-test on a simulated host, with every lever quner's, and checks that the host is as it was found.
func selftest(t *testing.T, name string, prepare func(*hostsim.Sim)) []levers.Test {
	t.Helper()
	f, err := hostsim.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := hostsim.New(t.TempDir(), f, hostsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := sim.Host()
	found := sim.Digest()
	if prepare != nil {
		prepare(sim)
	}
	if err := h.GPUs.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	bank, err := levers.OpenBank(t.Context(), h, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := bank.Selftest(t.Context(), nil, false)
	if err != nil {
		t.Error(err)
	}
	if sim.Digest() != found {
		t.Errorf("%s: not as found after the self-test: %v", name, sim.Settings())
	}
	if err := h.GPUs.Close(); err != nil {
		t.Error(err)
	}
	return tests
}

func TestSelftestOnEveryHost(t *testing.T) {
	for name, want := range map[string]map[levers.Verdict]int{
		"workstation": {levers.Moved: 11},
		"server":      {levers.Moved: 22},
		"laptop":      {levers.Moved: 18},
		"amd":         {levers.Moved: 17},
		"locked":      {levers.Moved: 12, levers.Refused: 1}, // the BIOS refuses PL1, which only a write tells
		"vm":          {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := map[levers.Verdict]int{}
				for _, test := range selftest(t, name, nil) {
					got[test.Verdict]++
					if test.Verdict != levers.Moved && test.Detail == "" {
						t.Errorf("%s is %s and does not say why", test.Lever, test.Verdict)
					}
				}
				for v, n := range want {
					if got[v] != n {
						t.Errorf("%d levers %s, want %d: %v", got[v], v, n, got)
					}
				}
			})
		})
	}
}

// What a process that died has left is put back first, so that no lever is called stuck for being where it belongs.
func TestSelftestAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tests := selftest(t, "laptop", func(sim *hostsim.Sim) {
			bank, err := levers.OpenBank(context.Background(), sim.Host(), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			point := levers.NewPoint(levers.Setting{Lever: "epp/policy0", Value: "power"}, levers.Setting{Lever: "epp/policy1", Value: "power"})
			if _, err := bank.Apply(context.Background(), point); err != nil && !errors.Is(err, levers.ErrUnknown) {
				t.Fatal(err)
			}
		})
		for _, test := range tests {
			if test.Failed() {
				t.Errorf("%+v", test)
			}
		}
	})
}
