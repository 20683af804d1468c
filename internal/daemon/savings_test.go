package daemon_test

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
)

// certify leaves points on a machine that is switched off, each with a saving of 20 % ± 2 %.
func certify(t *testing.T, sim *hostsim.Sim, points ...profiles.TunedPoint) {
	t.Helper()
	store, err := profiles.OpenStore(sim.Host().Var, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.Host().GPUs.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	here := profiles.FingerprintOf(sim.Host())
	for _, p := range points {
		p.PowerSource, p.Verdict, p.Certified, p.TunedAt = profiles.Mains, "edge", true, time.Now()
		p.Saving, p.SavingHalfWidth, p.Hard, p.Soft = 0.20, 0.02, here.Hard.Key(), here.Soft.Key()
		if _, err := store.Put(p); err != nil {
			t.Fatal(err)
		}
	}
}

func savings(t *testing.T, d *daemon.Daemon) map[string]daemon.Saving {
	t.Helper()
	all, err := d.Savings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]daemon.Saving{}
	for _, r := range all.Rows {
		name := string(r.Profile) + " " + r.Workload
		if r.Certificate == "" {
			name += "unmeasured"
		}
		sum := rows[name]
		sum.Seconds, sum.Used, sum.Saved, sum.Half = sum.Seconds+r.Seconds, sum.Used+r.Used, sum.Saved+r.Saved, sum.Half+r.Half
		rows[name] = sum
	}
	return rows
}

// truth is what the counted devices have really used, in joules.
func truth(sim *hostsim.Sim) float64 {
	return (sim.Truth("gpu0") + sim.Truth("package-0") + sim.Truth("dram")).Joules()
}

func near(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want) }

func TestSavingsAreTheCertificatesShareOfWhatWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		certify(t, sim, profiles.TunedPoint{Profile: profiles.Idle},
			profiles.TunedPoint{Profile: profiles.Training, Workload: "bert", Evidence: profiles.Evidence{UID: 1000}})
		d, stop := start(t, sim, config.Default())
		began, used := time.Now(), truth(sim)
		_, writes := sim.Touches("var/savings.json")
		time.Sleep(time.Hour)
		used = truth(sim) - used
		if _, after := sim.Touches("var/savings.json"); after-writes > 6*4 {
			t.Errorf("%d writes in an hour", after-writes)
		}
		rest := savings(t, d)["idle "]
		if !near(rest.Seconds, time.Since(began).Seconds(), 0.01) || !near(rest.Used, used, 0.02) || !near(rest.Saved, used*0.25, 0.02) || !near(rest.Half, used*0.02/0.64, 0.02) {
			t.Errorf("an hour at rest, %.0f J: %+v", used, rest)
		}
		if s := d.Status().Savings; !s.Measured || !near(s.Saved.Joules(), rest.Saved, 0.02) {
			t.Errorf("status: %+v", s)
		}

		// Training that no certificate speaks of, then the workload that one names, then another's window of that name.
		sim.SetLoad("gpu0", 1)
		time.Sleep(10 * time.Minute)
		open := func(uid uint32) *meter.Window {
			w, err := d.Meter().Open(t.Context(), meter.OpenRequest{Name: "request", Workload: "bert", Owner: uid, Exact: true})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		foreign := open(1001)
		time.Sleep(10 * time.Minute)
		own, used := open(1000), truth(sim)
		time.Sleep(10 * time.Minute)
		used = truth(sim) - used
		own.Abandon()
		foreign.Abandon()
		rows := savings(t, d)
		if r := rows["training bert"]; !near(r.Seconds, 600, 0.05) || !near(r.Saved, used*0.25, 0.05) {
			t.Errorf("ten minutes of bert, %.0f J: %+v", used, r)
		}
		if r := rows["training unmeasured"]; !near(r.Seconds, 1200, 0.05) || r.Saved != 0 || r.Used != 0 {
			t.Errorf("twenty minutes of something else: %+v", r)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}

		// It survives a restart, and a file that cannot be trusted is set aside.
		d, stop = start(t, sim, config.Default())
		if got := savings(t, d)["training bert"]; !near(got.Saved, rows["training bert"].Saved, 0.001) {
			t.Errorf("after a restart: %+v, before it %+v", got, rows["training bert"])
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		file := filepath.Join(sim.Host().Var.Path(), "savings.json")
		if err := os.WriteFile(file, []byte(`{"schema":1,"rows":[{"day":"soon","seconds":-1}]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		d, stop = start(t, sim, config.Default())
		if got := savings(t, d); len(got) > 1 {
			t.Errorf("from a file that cannot be trusted: %+v", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		aside, err := filepath.Glob(file + ".corrupt-*")
		if err != nil || len(aside) != 1 || !strings.Contains(aside[0], "savings.json.corrupt-") {
			t.Errorf("set aside: %q, %v", aside, err)
		}
	})
}
