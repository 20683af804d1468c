package daemon_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/config"
)

// A sweep ends when its time is up, before a window that would not fit, and the host is put back.
func TestASweepEndsWhenItsTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		found := sim.Settings()
		d, stop := start(t, sim, config.Default())
		defer func() { _ = stop() }()
		spec := gpuSweep()
		spec.Budget = 20 * time.Second
		began := time.Now()
		r, err := d.Tune(t.Context(), spec, worker{t: t, sim: sim})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		if took > spec.Budget || took < spec.Budget*2/3 || r.Result.Windows == 0 {
			t.Errorf("took %v for %d windows; want about %v", took, r.Result.Windows, spec.Budget)
		}
		if r.Applied || r.Certified() || !strings.Contains(r.Note, "the time of 20s was up") {
			t.Errorf("applied %v, certified %v, note %q", r.Applied, r.Certified(), r.Note)
		}
		if diff := cmp.Diff(found, sim.Settings()); diff != "" {
			t.Errorf("after the sweep:\n%s", diff)
		}
	})
}
