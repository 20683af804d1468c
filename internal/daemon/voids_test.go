package daemon_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/meter"
)

// rivalled is a sweep's workload on a machine where somebody else moves the cap in the midst of some windows.
type rivalled struct {
	worker
	in    func(window int) bool
	voids []string
}

func (w *rivalled) Run(ctx context.Context, r daemon.TuneRun) (daemon.TuneWork, error) {
	work, err := w.worker.Run(ctx, r)
	if w.in(r.Window) {
		err = errors.Join(err, w.sim.Foreign("gpu0/limit_mw", "111000"))
	}
	return work, err
}

func (w *rivalled) Progress(p daemon.Progress) {
	w.worker.Progress(p)
	w.voids = append(w.voids, p.Sample.Void)
}

// A competitor who moves the cap in the midst of a window spoils that window, and is noticed.
func TestAWindowInWhichSomebodyElseMovedTheCapDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		w := &rivalled{worker: worker{t: t, sim: sim}, in: func(n int) bool { return n >= 3 }}
		r, err := d.Tune(t.Context(), gpuSweep(), w)
		if len(w.voids) < 3 || w.voids[0] != "" || w.voids[1] != "" || !strings.Contains(w.voids[2], "reads 111000, not") {
			t.Errorf("voids %q", w.voids)
		}
		if !errors.Is(err, daemon.ErrVoided) || r.Applied || r.Result.Voided < 2 {
			t.Errorf("%v, applied %v, %d voided", err, r.Applied, r.Result.Voided)
		}
		for _, v := range w.voids[2:] {
			if v == "" {
				t.Errorf("a window under somebody else's cap counts: %q", w.voids)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Somebody's open window vetoes nothing.
func TestAnOpenWindowIsNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		found := sim.Settings()
		d, stop := start(t, sim, config.Default())
		w, err := d.Meter().Open(t.Context(), meter.OpenRequest{Name: "somebody", Owner: 1000, Exact: true})
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Tune(t.Context(), gpuSweep(), worker{t: t, sim: sim})
		if err != nil || !r.Applied || r.Result.Voided > 0 {
			t.Errorf("%v, applied %v, %d voided", err, r.Applied, r.Result.Voided)
		}
		w.Abandon()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(found, sim.Settings()); diff != "" {
			t.Errorf("after the stop:\n%s", diff)
		}
	})
}

// Somebody's load in between does: what it draws is not the workload's.
func TestAWindowUnderSomebodysLoadDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		w := &rivalled{worker: worker{t: t, sim: sim}, in: func(n int) bool { return false }}
		w.before = func(r daemon.TuneRun) error {
			switch r.Window {
			case 3:
				sim.SetLoad("cpu", 1)
			case 5:
				sim.SetLoad("cpu", 0)
			}
			return nil
		}
		r, err := d.Tune(t.Context(), gpuSweep(), w)
		if err != nil || !r.Applied {
			t.Errorf("%v, applied %v", err, r.Applied)
		}
		for i, v := range w.voids {
			if foreign := strings.Contains(v, "somebody else's load"); foreign != (i == 3) && i != 4 && i != 2 {
				t.Errorf("window %d: %q", i+1, v)
			}
		}
		if len(w.voids) < 4 || !strings.Contains(w.voids[3], "somebody else's load on the CPUs") {
			t.Errorf("voids %q", w.voids)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
