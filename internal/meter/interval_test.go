package meter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/unit"
)

// The interval of a figure holds the truth at least 95 times in 100, whatever the load does meanwhile.
func TestIntervalsHoldTheTruth(t *testing.T) {
	for _, c := range []struct {
		name string
		load func(rnd *rand.Rand, r *rig)
	}{
		{"steady", func(_ *rand.Rand, r *rig) { r.sim.SetLoad("gpu0", 1) }},
		{"any load at any time", func(rnd *rand.Rand, r *rig) { r.sim.SetLoad("gpu0", float64(rnd.IntN(2))) }},
	} {
		on(t, "workstation", func(r *rig) {
			rnd := rand.New(rand.NewPCG(3, 4))
			const windows = 300
			var inside [2]int
			var widths [2]unit.Energy
			for range windows {
				c.load(rnd, r)
				time.Sleep(time.Duration(rnd.Int64N(int64(time.Second))))
				gpu, cpu := r.sim.Truth("gpu0"), r.sim.Truth("package-0")
				w := r.open(meter.OpenRequest{Exact: true})
				for range 1 + rnd.IntN(3) {
					c.load(rnd, r)
					time.Sleep(200*time.Millisecond + time.Duration(rnd.Int64N(int64(time.Second))))
				}
				gpu, cpu = r.sim.Truth("gpu0")-gpu, r.sim.Truth("package-0")-cpu
				res := r.close(w, meter.CloseRequest{Synced: true})
				for i, want := range map[int]unit.Energy{0: cpu, 1: gpu} {
					d := device(t, res, []string{"cpu/package-0", r.gpu}[i])
					if diff := d.Energy - want; max(diff, -diff) <= d.HalfWidth {
						inside[i]++
					}
					widths[i] += d.HalfWidth / windows
				}
			}
			t.Logf("%s: package inside %d of %d (mean ± %v), board %d (± %v)", c.name, inside[0], windows, widths[0], inside[1], widths[1])
			for i, n := range inside {
				if n < windows*95/100 {
					t.Errorf("%s, device %d: %d of %d inside", c.name, i, n, windows)
				}
			}
		})
	}
}
