package daemon_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/profiles"
)

// governorFiles are the settings that decide the governors, sorted.
func governorFiles(t *testing.T, sim *hostsim.Sim) []string {
	t.Helper()
	var files []string
	for _, name := range slices.Sorted(maps.Keys(sim.Settings())) {
		if filepath.Base(name) == "scaling_governor" {
			files = append(files, name)
		}
	}
	if len(files) < 2 {
		t.Fatalf("%d governors", len(files))
	}
	return files
}

// governors is the one governor of all policies, or what differs.
func governors(t *testing.T, sim *hostsim.Sim) string {
	t.Helper()
	all := map[string]bool{}
	for _, file := range governorFiles(t, sim) {
		all[strings.TrimSpace(sim.Settings()[file])] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), " ")
}

// step is an access at which a change is held up.
type step struct {
	op   host.Op
	name string
}

// steps are moments in a change of the governors: the journal's, and the write of the first policy, of one in the midst and of the last.
func steps(t *testing.T, sim *hostsim.Sim) []step {
	t.Helper()
	all := []step{{host.OpCreate, "var/*"}, {host.OpRename, "var/*"}}
	files := governorFiles(t, sim)
	for _, file := range []string{files[0], files[len(files)/2], files[len(files)-1]} {
		all = append(all, step{host.OpWrite, file})
	}
	return all
}

// A caller that goes away in the midst of a change leaves a whole one: mode, point and levers fit each other.
func TestAChangeIsWholeWheneverItsCallerGoes(t *testing.T) {
	training := func(ctx context.Context, d *daemon.Daemon) error {
		_, err := d.SetMode(ctx, daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining})
		return err
	}
	apply := func(ctx context.Context, d *daemon.Daemon) error {
		_, err := d.Apply(ctx, daemon.Caller{}, false)
		return err
	}
	restore := func(ctx context.Context, d *daemon.Daemon) error {
		_, _, err := d.Restore(ctx, daemon.Caller{}, false, false)
		return err
	}
	nothing := func(*testing.T, *hostsim.Sim, *daemon.Daemon) {}
	trained := func(t *testing.T, _ *hostsim.Sim, d *daemon.Daemon) {
		if err := training(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	moved := func(t *testing.T, sim *hostsim.Sim, d *daemon.Daemon) {
		trained(t, sim, d)
		for _, file := range governorFiles(t, sim) {
			if err := sim.Foreign(file, "ondemand"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		before func(*testing.T, *hostsim.Sim, *daemon.Daemon)
		call   func(context.Context, *daemon.Daemon) error
		want   string
		mode   profiles.Mode
	}{
		"set mode": {nothing, training, "performance", profiles.ModeTraining},
		"apply":    {moved, apply, "performance", profiles.ModeTraining},
		"restore":  {trained, restore, "schedutil", profiles.ModeOff},
	} {
		for _, at := range steps(t, machine(t, "workstation")) {
			t.Run(name+" at "+at.op.String()+" "+strings.ReplaceAll(at.name, "/", " "), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sim := machine(t, "workstation")
					found := sim.Settings()
					d, stop := start(t, sim, raised())
					c.before(t, sim, d)
					release := sim.Hang(at.op, at.name)
					ctx, leave := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() { done <- c.call(ctx, d) }()
					synctest.Wait()
					select {
					case err := <-done:
						t.Fatalf("the change was not held up: %v", err)
					default:
					}
					leave()
					synctest.Wait()
					release()
					if err := <-done; err != nil {
						t.Error(err)
					}
					if got := governors(t, sim); got != c.want || d.Status().Mode.Mode != c.mode {
						t.Errorf("mode %s, governors %s; want %s, %s", d.Status().Mode.Mode, got, c.mode, c.want)
					}
					if err := stop(); err != nil {
						t.Error(err)
					}
					if name == "apply" { // what somebody else had set is what was found when it was taken
						for _, file := range governorFiles(t, sim) {
							found[file] = "ondemand\n"
						}
					}
					if diff := cmp.Diff(found, sim.Settings()); diff != "" {
						t.Errorf("after the stop:\n%s", diff)
					}
				})
			})
		}
	}
}

func TestACallerWhoHasGoneBeforehandChangesNothingOrAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, raised())
		ctx, leave := context.WithCancel(t.Context())
		leave()
		for range 20 {
			_, err := d.SetMode(ctx, daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining})
			want := map[bool]string{true: "performance", false: "schedutil"}[d.Status().Mode.Mode == profiles.ModeTraining]
			if got := governors(t, sim); got != want || err == nil && want != "performance" {
				t.Errorf("mode %s, governors %s, %v", d.Status().Mode.Mode, got, err)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
