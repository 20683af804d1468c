package journey

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/profiles"
)

// errCtrlC is what the caller of a sweep goes away with.
var errCtrlC = errors.New("the caller has pressed Ctrl-C")

// caller goes away at the n-th thing that happens in a sweep: an access of the daemon's to the machine or its own files,
// or something that the caller is told or does.
type caller struct {
	reads  bool // count too
	mu     sync.Mutex
	n, at  int
	cancel context.CancelCauseFunc
	stored bool // the point found is being written down
	late   bool // it has been when the caller went
	went   string
}

func (c *caller) happens(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n == c.at {
		c.went, c.late = what, c.stored
		c.cancel(errCtrlC)
	}
}

func (c *caller) access(name string, changes bool) {
	if changes && strings.HasPrefix(filepath.Base(name), pointsFile) {
		c.mu.Lock()
		c.stored = true
		c.late = c.late || c.went != "" && c.n == c.at // it went at the look at the directory, which is the first step of it
		c.mu.Unlock()
	}
	switch {
	case changes:
		c.happens("a change of " + name)
	case c.reads:
		c.happens("a read of " + name)
	}
}

// pointsFile is where tuned points are kept.
const pointsFile = "points.json"

// stages are the machines, and the states of them, in which a sweep is ended.
func stages() map[string]struct {
	host   string
	boards []string
	tuned  bool
} {
	type stage = struct {
		host   string
		boards []string
		tuned  bool
	}
	return map[string]stage{
		"workstation":        {"workstation", []string{"gpu0"}, false},
		"workstation, tuned": {"workstation", []string{"gpu0"}, true},
		"server":             {"server", []string{"gpu0", "gpu1"}, false},
		"server, tuned":      {"server", []string{"gpu0"}, true},
	}
}

// A sweep that is called off leaves the machine and what the daemon knows as they were, wherever it was; one that has kept
// its point has kept all of it. The next sweep may begin at once.
func TestASweepMayBeCalledOffAnywhere(t *testing.T) {
	for name, c := range stages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sim := machine(t, c.host, 1)
				found := sim.Digest()
				d, stop := start(t, sim)
				e := &ends{t: t, d: d, sim: sim, boards: c.boards}
				if c.tuned {
					e.tuned()
				}
				for at := 1; e.callOff(at, false) && !t.Failed(); at += everyChange {
				}
				for at := 1; e.callOff(at, true) && !t.Failed(); at += everyAccess {
				}
				t.Logf("called off at %d moments, kept at %d", e.offs, e.kepts)
				if r, err := e.sweep(t.Context(), nil); err != nil || !r.Applied {
					t.Errorf("a last sweep: applied %v, %v", r.Applied, err)
				}
				stop()
				if sim.Digest() != found {
					t.Errorf("after the stop: %v", sim.Settings())
				}
			})
		})
	}
}

// A sweep's last moments decide what is kept: they are looked at one by one, on machines that have seen no other sweep.
func TestASweepMayBeCalledOffInItsLastMoments(t *testing.T) {
	for name, c := range stages() {
		if c.tuned {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			callOff := func(at int) (e *ends, lasted bool) {
				synctest.Test(t, func(t *testing.T) {
					sim := machine(t, c.host, 1)
					d, stop := start(t, sim)
					e = &ends{t: t, d: d, sim: sim, boards: c.boards}
					lasted = e.callOff(at, true)
					stop()
				})
				return e, lasted
			}
			e, _ := callOff(1 << 62)
			offs, kept := 0, 0
			for at := e.lasts - lastMoments; !t.Failed(); at += everyLast {
				e, lasted := callOff(at)
				if !lasted {
					break
				}
				offs, kept = offs+e.offs, kept+e.kepts
			}
			t.Logf("called off at %d moments, kept at %d", offs, kept)
			if offs == 0 || kept == 0 {
				t.Error("these are not the moments that decide")
			}
		})
	}
}

// lastMoments is how many of the things that happen are a sweep's last: from within its last window on.
const lastMoments = 250

// ends ends sweeps.
type ends struct {
	t      *testing.T
	d      *daemon.Daemon
	sim    *hostsim.Sim
	boards []string

	offs, kepts int // sweeps that were called off, and that had kept their point when their caller went
	lasts       int // how much happens in a sweep that nobody calls off
}

// sweep runs one whose caller may go away.
func (e *ends) sweep(ctx context.Context, c *caller) (daemon.TuneReport, error) {
	w := &work{t: e.t, sim: e.sim, boards: e.boards}
	if c != nil {
		w.event = c.happens
		e.sim.OnAccess(c.access)
		defer e.sim.OnAccess(nil)
	}
	s := spec()
	s.Workload = "job"
	return e.d.Tune(ctx, s, w)
}

// tuned brings a point into force, which an earlier sweep has found.
func (e *ends) tuned() {
	e.t.Helper()
	if r, err := e.sweep(e.t.Context(), nil); err != nil || !r.Applied {
		e.t.Fatalf("applied %v, %v", r.Applied, err)
	}
	if _, err := e.d.SetMode(e.t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); err != nil {
		e.t.Fatal(err)
	}
}

// picture is all that a sweep that was called off must leave as it was.
type picture struct {
	digest  string
	store   string
	mode    profiles.Mode
	profile profiles.Profile
	source  daemon.PointSource
}

func (e *ends) picture() picture {
	e.t.Helper()
	store, err := os.ReadFile(filepath.Join(e.sim.Dir(), "var", pointsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		e.t.Fatal(err)
	}
	s := e.d.Status()
	return picture{e.sim.Digest(), string(store), s.Mode.Mode, s.Profile, s.PointSource}
}

// callOff has the caller of a sweep go away at some moment, of which reads are some or not, and reports whether the sweep
// lasted as long.
func (e *ends) callOff(at int, reads bool) bool {
	t := e.t
	t.Helper()
	before := e.picture()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	c := &caller{at: at, cancel: cancel, reads: reads}
	r, err := e.sweep(ctx, c)
	if c.went == "" && err != nil {
		t.Fatalf("with nobody gone: %v", err)
	}
	after := e.picture()
	if c.went == "" {
		e.lasts = c.n
	} else if err != nil {
		e.offs++
	} else {
		e.kepts++
	}
	switch {
	case err == nil && !r.Applied:
		t.Errorf("gone at %d, %s: no error, and nothing is kept: %q", at, c.went, r.Note)
	case err == nil && c.went != "" && !c.late:
		t.Errorf("gone at %d, %s, before the point was stored: it is kept", at, c.went)
	case err == nil:
		e.kept(before, after)
	case !errors.Is(err, errCtrlC) || r.Applied:
		t.Errorf("gone at %d, %s: applied %v, %v", at, c.went, r.Applied, err)
	case after != before:
		t.Errorf("gone at %d, %s: after the sweep %+v; before %+v", at, c.went, after, before)
	}
	if s := e.d.Status(); s.Tune.Running || e.d.Meter().OpenCount() != 0 || len(s.Degraded) > 0 {
		t.Errorf("gone at %d, %s: running %v, %d windows open, degraded %v", at, c.went, s.Tune.Running, e.d.Meter().OpenCount(), s.Degraded)
	}
	for _, b := range e.boards {
		if e.sim.Rate(b) != 0 {
			t.Errorf("gone at %d, %s: %s is at work", at, c.went, b)
		}
	}
	return c.went != ""
}

// kept makes sure that a point that was kept is so wholly, and goes back to before it.
func (e *ends) kept(before, after picture) {
	e.t.Helper()
	if after.store == before.store || after.source != daemon.PointTuned || after.digest == before.digest && before.source != daemon.PointTuned {
		e.t.Errorf("half kept: %+v", after)
	}
	if before.source == daemon.PointTuned {
		return // the same job, tuned again
	}
	points, _, err := e.d.Points(e.t.Context())
	if err != nil || len(points) != 1 {
		e.t.Fatalf("%d points, %v", len(points), err)
	}
	if _, err := e.d.Forget(e.t.Context(), daemon.Caller{}, nil, true, false); err != nil {
		e.t.Error(err)
	}
	time.Sleep(time.Minute) // the profile falls back to what the machine does
	if now := e.sim.Digest(); now != before.digest {
		e.t.Errorf("forgotten, and yet: %v", e.sim.Settings())
	}
}

// A machine that cannot be put back is never said to be.
func TestAMachineThatCannotBePutBackIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation", 1)
		before := sim.Digest()
		d, stop := start(t, sim)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		heal := func() {}
		w := &work{t: t, sim: sim, boards: []string{"gpu0"}}
		runs := 0
		w.event = func(what string) {
			if what != "a run goes on" {
				return
			}
			if runs++; runs == 4 { // in the second window: the cap is elsewhere
				heal = sim.FailGPU("*", "set_limit", errors.New("no such luck"))
				cancel(errCtrlC)
			}
		}
		s := spec()
		s.NoCPU = true
		_, err := d.Tune(ctx, s, w)
		if !errors.Is(err, daemon.ErrNotBack) || !errors.Is(err, errCtrlC) {
			t.Errorf("%v", err)
		}
		if sim.Digest() == before || len(d.Status().Degraded) == 0 {
			t.Errorf("degraded %v, settings %v", d.Status().Degraded, sim.Settings())
		}
		heal()
		time.Sleep(time.Minute) // what was refused is tried again
		if sim.Digest() != before {
			t.Errorf("healed, and yet: %v", sim.Settings())
		}
		stop()
	})
}

// What a sweep's own load has looked like neither flips the profile after it, nor keeps real work from doing so.
func TestASweepsOwnLoadIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation", 1)
		d, stop := start(t, sim)
		s := spec()
		s.Apply = false
		if _, err := d.Tune(t.Context(), s, &work{t: t, sim: sim, boards: []string{"gpu0"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if p := d.Status().Profile; p != profiles.Idle {
			t.Errorf("after the sweep the profile is %s", p)
		}
		if _, err := d.Tune(t.Context(), s, &work{t: t, sim: sim, boards: []string{"gpu0"}}); err != nil {
			t.Fatal(err)
		}
		sim.SetLoad("gpu0", 1)
		time.Sleep(2 * time.Minute)
		if p := d.Status().Profile; p != profiles.Training {
			t.Errorf("at work since the sweep: the profile is %s", p)
		}
		sim.SetLoad("gpu0", 0)
		stop()
	})
}
