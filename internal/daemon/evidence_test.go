package daemon_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/profiles"
)

// edit changes a fact of a machine that is switched off.
func edit(t *testing.T, sim *hostsim.Sim, name, old, now string) {
	t.Helper()
	file := filepath.Join(sim.Host().Proc.Path(), name)
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%s: %q, %v", name, text, err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), old, now)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A point keeps what it was concluded from. Another kernel leaves it in force and to be looked at again, another
// processor leaves it alone.
func TestAPointAndItsEvidenceOnAnotherMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		r, err := d.Tune(t.Context(), gpuSweep(), worker{t: t, sim: sim})
		if err != nil || !r.Applied {
			t.Fatalf("applied %v, %v", r.Applied, err)
		}
		p := lookAt(t, d, false, "200000")
		if p.WorkUnit != "run" || p.MaxSlowdown != 0.1 || !(p.Payback > 0) || !(p.Watts > 100) || len(p.Axes) != 1 {
			t.Errorf("evidence: %+v", p.Evidence)
		}
		if saved, lost := r.Result.Saved.Half(), r.Result.Slowdown.Half(); p.SavingHalfWidth != saved || p.SlowdownHalfWidth != lost || !(saved > 0) {
			t.Errorf("the report says ± %v and ± %v, the point ± %v and ± %v", saved, lost, p.SavingHalfWidth, p.SlowdownHalfWidth)
		}
		windows := 0
		for _, s := range p.States {
			windows += s.Windows
			if s.Chosen != (s.Label == "200 W") || s.Found != (s.Label == "300 W") || s.JoulesPerWork == nil || s.Windows > 1 && s.JoulesPerWork.Half == nil {
				t.Errorf("state %+v", s)
			}
		}
		if windows != p.Windows-p.Voided {
			t.Errorf("%d windows of the states, %d in all", windows, p.Windows)
		}
		again := func(file, old, now string, stale bool, limit string) profiles.TunedPoint {
			if err := stop(); err != nil {
				t.Error(err)
			}
			edit(t, sim, file, old, now)
			d, stop = start(t, sim, config.Default())
			if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); err != nil {
				t.Fatal(err)
			}
			if got := sim.Settings()["gpu0/limit_mw"]; got != limit {
				t.Errorf("%s: cap %s, want %s", now, got, limit)
			}
			return lookAt(t, d, stale, limit)
		}
		p = again("sys/kernel/osrelease", "6.1.0", "6.6.0", true, "200000")
		_, here, _ := d.Points(t.Context())
		if c := p.SoftFacts.Changes(here.Soft); len(c) != 1 || !strings.HasPrefix(c[0], "kernel: 6.1.0") || len(p.HardFacts.Changes(here.Hard)) > 0 {
			t.Errorf("changes %q", c)
		}
		p = again("cpuinfo", "i7-9700", "i7-8700", false, "300000")
		_, here, _ = d.Points(t.Context())
		if c := p.HardFacts.Changes(here.Hard); !slices.ContainsFunc(c, func(s string) bool { return strings.HasPrefix(s, "cpu: ") }) || d.Status().PointSource == daemon.PointTuned {
			t.Errorf("changes %q, source %s", c, d.Status().PointSource)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func lookAt(t *testing.T, d *daemon.Daemon, stale bool, limit string) profiles.TunedPoint {
	t.Helper()
	points, _, err := d.Points(t.Context())
	if err != nil || len(points) != 1 {
		t.Fatalf("%d points, %v", len(points), err)
	}
	if got := d.Status().Revalidate; got != stale {
		t.Errorf("cap %s: to be validated again: %v, want %v", limit, got, stale)
	}
	return points[0]
}
