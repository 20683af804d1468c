package daemon_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/profiles"
)

// foreign has somebody else set all governors.
func foreign(t *testing.T, sim *hostsim.Sim, governor string) {
	t.Helper()
	for _, file := range governorFiles(t, sim) {
		if err := sim.Foreign(file, governor); err != nil {
			t.Fatal(err)
		}
	}
}

// person is the owner at the command line.
type person struct {
	t *testing.T
	d *daemon.Daemon
}

func (p person) mode(c daemon.ModeChange) daemon.Applied {
	p.t.Helper()
	out, err := p.d.SetMode(p.t.Context(), daemon.Caller{}, c)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p person) restore(force, dryRun bool) levers.Restored {
	p.t.Helper()
	out, _, err := p.d.Restore(p.t.Context(), daemon.Caller{}, force, dryRun)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// overtakenSweep runs a sweep of the CPU's levers in whose midst somebody else sets the governors.
func overtakenSweep(t *testing.T, sim *hostsim.Sim, d *daemon.Daemon) {
	t.Helper()
	work := worker{t: t, sim: sim, before: func(r daemon.TuneRun) error {
		if r.Window == 3 {
			foreign(t, sim, "ondemand")
		}
		return nil
	}}
	_, err := d.Tune(t.Context(), daemon.TuneSpec{NoGPU: true, Apply: true, MaxSlowdown: 0.5}, work)
	if !errors.Is(err, daemon.ErrVoided) {
		t.Errorf("the sweep ends with %v", err)
	}
}

func TestGovernorsThatSomebodyElseSetsDuringASweepStayTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		found := sim.Settings()
		d, stop := start(t, sim, raised())
		owner := person{t, d}
		owner.mode(daemon.ModeChange{Mode: profiles.ModeTraining})
		overtakenSweep(t, sim, d)
		theirs := func(when string) {
			t.Helper()
			if got := governors(t, sim); got != "ondemand" {
				t.Errorf("%s: governors %s", when, got)
			}
			for _, s := range ofKind(t, d, levers.Governor) {
				if s.State != levers.Yielded {
					t.Errorf("%s: %s is %q", when, s.Name, s.State)
				}
			}
		}
		theirs("after the sweep")
		owner.mode(daemon.ModeChange{Mode: profiles.ModeOff})
		theirs("paused")
		owner.mode(daemon.ModeChange{Resume: true})
		theirs("resumed")

		want := `someone else has set "ondemand"; it was found as "schedutil"; to put it back: echo 'schedutil' > `
		for _, dryRun := range []bool{true, false} {
			out := owner.restore(false, dryRun)
			if len(out.Left) != len(governorFiles(t, sim)) || len(out.Writes) != 0 {
				t.Errorf("restore (dry run %v): %+v", dryRun, out)
			}
			for _, l := range out.Left {
				file := strings.TrimPrefix(l.Lever, "cpufreq/") + "/scaling_governor"
				if l.Kept || !strings.HasPrefix(l.Why, want) || !strings.HasSuffix(l.Why, file) {
					t.Errorf("left %+v, want %s…%s", l, want, file)
				}
			}
		}
		theirs("restored without force")
		if plan := owner.restore(true, true); len(plan.Writes) != len(governorFiles(t, sim)) || len(plan.Left) != 0 {
			t.Errorf("forced dry run: %+v", plan)
		}
		theirs("forced dry run")
		if out := owner.restore(true, false); len(out.Writes) != len(governorFiles(t, sim)) || len(out.Left) != 0 {
			t.Errorf("forced: %+v", out)
		}
		if diff := cmp.Diff(found, sim.Settings()); diff != "" {
			t.Errorf("forced:\n%s", diff)
		}
		if owner.mode(daemon.ModeChange{Resume: true}); governors(t, sim) != "performance" {
			t.Errorf("resumed after force: governors %s", governors(t, sim))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(found, sim.Settings()); diff != "" {
			t.Errorf("after the stop:\n%s", diff)
		}
	})
}

// apply in person takes what somebody else has moved, seen by quner before or not; its dry run says so and takes nothing.
func TestApplyInPersonTakesTheLevers(t *testing.T) {
	for name, seen := range map[string]bool{"seen before": true, "not yet seen": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := machine(t, "workstation")
				d, stop := start(t, sim, raised())
				owner := person{t, d}
				owner.mode(daemon.ModeChange{Mode: profiles.ModeTraining})
				foreign(t, sim, "ondemand")
				if seen {
					owner.mode(daemon.ModeChange{Mode: profiles.ModeTraining})
				}
				for range 2 {
					plan, err := d.Apply(t.Context(), daemon.Caller{}, true)
					if err != nil || len(plan.Writes) == 0 || !plan.Writes[0].Moved() || governors(t, sim) != "ondemand" {
						t.Errorf("dry run: %+v, %v; governors %s", plan, err, governors(t, sim))
					}
				}
				if owner.mode(daemon.ModeChange{Mode: profiles.ModeTraining}); governors(t, sim) != "ondemand" {
					t.Error("a dry run has taken the levers")
				}
				if _, err := d.Apply(t.Context(), daemon.Caller{}, false); err != nil || governors(t, sim) != "performance" {
					t.Errorf("%v; governors %s", err, governors(t, sim))
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				if got := governors(t, sim); got != "ondemand" {
					t.Errorf("after the stop: governors %s, taken over from ondemand", got)
				}
			})
		})
	}
}

func TestATrialOfLeavingALeverTakesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, raised())
		owner := person{t, d}
		owner.mode(daemon.ModeChange{Mode: profiles.ModeTraining})
		foreign(t, sim, "ondemand")
		owner.mode(daemon.ModeChange{Mode: profiles.ModeTraining})
		for _, o := range []profiles.Owner{profiles.OwnerOthers, profiles.OwnerQuner} {
			if _, _, err := d.SetLeverOwner(t.Context(), daemon.Caller{}, "governor", o, true); err != nil {
				t.Fatal(err)
			}
			owner.mode(daemon.ModeChange{Mode: profiles.ModeTraining})
			if got := governors(t, sim); got != "ondemand" {
				t.Errorf("after a dry run of leaving them to %s: governors %s", o, got)
			}
		}
		if _, _, err := d.SetLeverOwner(t.Context(), daemon.Caller{}, "governor", profiles.OwnerQuner, false); err != nil {
			t.Fatal(err)
		}
		if got := governors(t, sim); strings.Contains(got, "ondemand") {
			t.Errorf("taken: governors %s", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
