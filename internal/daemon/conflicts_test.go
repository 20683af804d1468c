package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/profiles"
)

// ofKind are the states of a kind's levers, which must be some.
func ofKind(t *testing.T, d *daemon.Daemon, k levers.Kind) []levers.State {
	t.Helper()
	var found []levers.State
	for _, s := range d.Status().Levers {
		if s.Kind == k {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no lever of kind %s", k)
	}
	return found
}

// leftTo checks that all levers of a kind are left to a daemon, or with "" to none.
func leftTo(t *testing.T, d *daemon.Daemon, k levers.Kind, by string) {
	t.Helper()
	for _, s := range ofKind(t, d, k) {
		left := s.State == levers.Yielded && strings.Contains(s.Note, "left to "+by)
		if left != (by != "") {
			t.Errorf("%s: state %q, note %q; want it left to %q", s.Name, s.State, s.Note, by)
		}
	}
}

// fast sets every policy to the governor that an idle machine is moved away from.
func fast(t *testing.T, sim *hostsim.Sim) {
	t.Helper()
	for name := range sim.Settings() {
		if filepath.Base(name) == "scaling_governor" {
			if err := sim.Foreign(name, "performance"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// service is a process of a simulated host that can be stopped and started.
type service struct{ here, away string }

func serviceOf(t *testing.T, sim *hostsim.Sim, comm string) service {
	t.Helper()
	proc := filepath.Join(sim.Dir(), "host", "proc")
	all, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "comm"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == comm {
			return service{here: filepath.Dir(file), away: filepath.Join(t.TempDir(), "away")}
		}
	}
	t.Fatalf("no process %s", comm)
	return service{}
}

func (s service) stop(t *testing.T) {
	t.Helper()
	if err := os.Rename(s.here, s.away); err != nil {
		t.Fatal(err)
	}
}

func (s service) start(t *testing.T) {
	t.Helper()
	if err := os.Rename(s.away, s.here); err != nil {
		t.Fatal(err)
	}
}

func TestLeversAreLeftToWhoeverMovesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "locked")
		fast(t, sim)
		found, before := sim.Digest(), sim.Settings()
		ppd := serviceOf(t, sim, "power-profiles-")
		d, stop := start(t, sim, config.Default())
		defer stop() //nolint:errcheck // checked below
		leftTo(t, d, levers.Governor, "power-profiles-daemon")
		leftTo(t, d, levers.PackageLimit, "thermald")
		if _, err := d.Apply(t.Context(), daemon.Caller{}, false); err != nil {
			t.Error(err)
		}
		if sim.Digest() != found {
			t.Errorf("a lever of another daemon's was moved:\n%s", cmp.Diff(before, sim.Settings()))
		}

		// The owner's word outranks who runs.
		if _, _, err := d.SetLeverOwner(t.Context(), daemon.Caller{}, "governor", profiles.OwnerQuner, false); err != nil {
			t.Fatal(err)
		}
		leftTo(t, d, levers.Governor, "")
		leftTo(t, d, levers.EnergyPreference, "power-profiles-daemon")
		if held := ofKind(t, d, levers.Governor)[0]; held.State != levers.Held {
			t.Errorf("%+v", held)
		}

		// It goes, and the levers are quner's; it comes, and they are its.
		tenTicks := 10*config.Default().Tick + time.Second
		ppd.stop(t)
		time.Sleep(tenTicks)
		leftTo(t, d, levers.EnergyPreference, "")
		leftTo(t, d, levers.PackageLimit, "thermald")
		ppd.start(t)
		time.Sleep(tenTicks)
		leftTo(t, d, levers.EnergyPreference, "power-profiles-daemon")
		leftTo(t, d, levers.Governor, "")
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if sim.Digest() != found {
			t.Error("the host is not as it was found")
		}

		// What was decided survives the daemon.
		d, stop = start(t, sim, config.Default())
		leftTo(t, d, levers.Governor, "")
		leftTo(t, d, levers.EnergyPreference, "power-profiles-daemon")
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestADryRunOfLeversTakeLeavesThemToWhomTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "locked")
		fast(t, sim)
		d, stop := start(t, sim, config.Default())
		_, writes, err := d.SetLeverOwner(t.Context(), daemon.Caller{}, "governor", profiles.OwnerQuner, true)
		if err != nil || len(writes) == 0 {
			t.Errorf("%v, %v", writes, err)
		}
		report, err := d.Doctor(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range report.Levers {
			if l.Kind == levers.Governor && (l.Owner != "power-profiles-daemon" || l.State != levers.Yielded) {
				t.Errorf("%+v", l)
			}
		}
		if len(report.Conflicts) != 2 {
			t.Errorf("%+v", report.Conflicts)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A name is no identity: what any user may call his process moves no lever out of quner's hands.
func TestANameAloneTakesNoLever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "locked")
		thermald := serviceOf(t, sim, "thermald")
		cgroup := filepath.Join(thermald.here, "cgroup")
		if err := os.WriteFile(cgroup, []byte("0::/user.slice/user-1000.slice/session-1.scope\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		d, stop := start(t, sim, config.Default())
		leftTo(t, d, levers.PackageLimit, "")
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
