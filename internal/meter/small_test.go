package meter_test

import (
	"testing"
	"time"

	"github.com/qunerd/quner/internal/meter"
)

// A device whose share cannot be told from zero is none that was not measured: the sum holds it, and is judged as a sum.
func TestWhatIsTooSmallByItselfIsInTheSum(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		r.sim.SetLoad("gpu0", 1)
		time.Sleep(3 * time.Second)
		measured := func(floors map[string]float64) meter.Result {
			w := r.open(meter.OpenRequest{Exact: true, IdleWatts: floors})
			time.Sleep(20 * time.Second)
			return r.close(w, meter.CloseRequest{Synced: true, Work: 4})
		}
		rest := map[string]float64{}
		for _, d := range measured(nil).Devices {
			rest[d.Device] = d.Gross.Joules()/20 + 0.2 // a little more than it draws
		}
		nothing := measured(rest)
		if nothing.Method != meter.Unknown || !nothing.HasUpperBound || nothing.HasPerUnit {
			t.Errorf("nothing above the floors: %+v", nothing)
		}
		rest[r.gpu] = 30
		res := measured(rest)
		if d := device(t, res, "cpu/package-0/dram"); d.Method != meter.Unknown || d.Coverage != 1 {
			t.Errorf("the memory alone: %+v", d)
		}
		if d := device(t, res, r.gpu); d.Method != meter.Sampled || res.Method != meter.Sampled || res.HasUpperBound || !res.HasPerUnit {
			t.Errorf("the board is measured, and with it the sum: %+v", res)
		}
		var sum = res.Energy
		for _, d := range res.Devices {
			sum -= d.Energy
		}
		if sum != 0 {
			t.Errorf("%v of the sum are no device's", sum)
		}
		if s := meter.SumOf([]meter.Result{res, nothing}); s.Windows != 2 || s.Small != 1 || s.Unmeasured != 0 || s.Energy != res.Energy+nothing.Energy {
			t.Errorf("%+v", s)
		}
	})
}
