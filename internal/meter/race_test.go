package meter

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// Windows that come and go from many goroutines at once, beside heartbeats, ticks and changes of condition, are charged
// all that the board drew, and no more.
func TestEnergyIsConservedUnderConcurrency(t *testing.T) {
	tr := powercapTree(t, nil, "intel-rapl:0 package-0", "intel-rapl:1 psys")
	tr.h.GPUs = host.NewGPUs(&board100W{began: time.Now()})
	ctx, cancel := context.WithCancel(context.Background())
	if err := tr.h.GPUs.Open(ctx); err != nil {
		t.Fatal(err)
	}
	m := tr.meter()
	m.opts.Heartbeat = 3 * time.Millisecond
	var all, service sync.WaitGroup
	service.Go(func() { _ = m.Run(ctx) })
	service.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			m.Tick(ctx)
			m.SetCondition(ctx, []string{"a", "b"}[i%2])
			_, _ = m.Power(), m.Sensors()
			time.Sleep(time.Millisecond)
		}
	})
	var mu sync.Mutex
	var charged unit.Energy
	for worker := range 8 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 2))
			for range 100 {
				w, err := m.Open(ctx, OpenRequest{Name: "test", Exact: worker%2 == 0, Owner: uint32(worker), Weight: 1 + rnd.Float64()})
				if err != nil {
					t.Error(err)
					return
				}
				if rnd.IntN(3) == 0 {
					_, _ = w.Mark(ctx, "stage")
				}
				r, err := w.Close(ctx, CloseRequest{Synced: true})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				charged += r.Devices[len(r.Devices)-1].Gross
				mu.Unlock()
			}
		})
	}
	all.Wait()
	cancel()
	service.Wait()
	line := &m.device("gpu/GPU-bench").line
	if len(line.members) != 0 || m.OpenCount() != 0 || line.weight != 0 {
		t.Errorf("%d members, %d windows left", len(line.members), m.OpenCount())
	}
	sum := float64(charged) + line.loose.whole + line.loose.frac + line.carry
	if math.Abs(sum-float64(line.measured)) > 1 || charged == 0 {
		t.Errorf("charged %v and %v unattributed of %v", charged, unit.Energy(line.loose.whole), line.measured)
	}
	if err := tr.h.GPUs.Close(); err != nil {
		t.Error(err)
	}
}
