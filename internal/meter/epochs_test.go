package meter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/unit"
)

// However windows and operating points overlap, the floor is taken once a device: what all windows were charged for rest is
// the floor of each moment at which one was open, and nothing else.
func TestTheFloorIsTakenOnceWhateverOverlaps(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			on(t, "workstation", func(r *rig) {
				ctx, rng := context.Background(), rand.New(rand.NewPCG(seed, 1))
				watts := map[string]float64{"": 31, "a": 20, "b": 27, "c": 40}
				var floors []meter.Floor
				for condition, w := range watts {
					floors = append(floors, certificate(r.gpu, condition, w, 0), certificate("cpu/package-0", condition, w/2, 0))
				}
				r.SetFloors(floors)
				r.sim.SetLoad("gpu0", 0.5)
				r.sim.SetLoad("gpu0", 0)
				time.Sleep(2 * time.Second)
				var open []*meter.Window
				now, due, charged := "", 0.0, map[string]unit.Energy{}
				finish := func(i int) {
					res := r.close(open[i], meter.CloseRequest{Synced: true})
					for _, d := range res.Devices {
						charged[d.Device] += d.Floor
						if d.FloorFrom == "none" || d.Energy+d.Floor != d.Gross {
							t.Errorf("%+v", d)
						}
					}
					open = slices.Delete(open, i, i+1)
				}
				for range 120 {
					pause := time.Duration(rng.IntN(900)+1) * time.Millisecond
					time.Sleep(pause)
					if len(open) > 0 {
						due += watts[now] * pause.Seconds()
					}
					switch n := rng.IntN(5); {
					case n < 2:
						q := meter.OpenRequest{Exact: true, Weight: float64(rng.IntN(9)+1) / 2, Devices: []string{"gpu", "cpu/package-0"}}
						open = append(open, r.open(q))
					case n == 2 && len(open) > 0:
						finish(rng.IntN(len(open)))
					case n == 3 && len(open) > 0:
						if _, err := open[rng.IntN(len(open))].Mark(ctx, "stage"); err != nil {
							t.Fatal(err)
						}
					default:
						now = []string{"", "a", "b", "c"}[rng.IntN(4)]
						r.SetCondition(ctx, now)
					}
				}
				for len(open) > 0 {
					finish(0)
				}
				within(t, "floors of the board", charged[r.gpu], unit.FromJoules(due), 100)
				within(t, "floors of the package", charged["cpu/package-0"], unit.FromJoules(due/2), 100)
			})
		})
	}
}
