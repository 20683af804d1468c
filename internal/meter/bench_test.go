package meter

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// board100W is a driver with one board, whose calls cost nothing but the actor.
type board100W struct{ began time.Time }

func (b *board100W) Init() error                     { return nil }
func (b *board100W) Shutdown() error                 { return nil }
func (b *board100W) Version() (string, error)        { return "1", nil }
func (b *board100W) Devices() ([]host.Device, error) { return []host.Device{b}, nil }
func (b *board100W) Info() (host.GPUInfo, error) {
	return host.GPUInfo{UUID: "GPU-bench", PCI: "0000:01:00.0"}, nil
}
func (b *board100W) Energy() (unit.Energy, error) {
	return (100 * unit.Watt).Over(time.Since(b.began)), nil
}
func (b *board100W) Power() (unit.Power, error)         { return 100 * unit.Watt, nil }
func (b *board100W) Utilisation() (float64, error)      { return 1, nil }
func (b *board100W) Limit() (unit.Power, error)         { return 300 * unit.Watt, nil }
func (b *board100W) EnforcedLimit() (unit.Power, error) { return 300 * unit.Watt, nil }
func (b *board100W) DefaultLimit() (unit.Power, error)  { return 300 * unit.Watt, nil }
func (b *board100W) SetLimit(unit.Power) error          { return host.ErrNoPermission }
func (b *board100W) Processes() ([]int, error)          { return nil, nil }
func (b *board100W) LimitRange() (lo, hi unit.Power, err error) {
	return 100 * unit.Watt, 300 * unit.Watt, nil
}

// benchMeter runs on real files and one board.
func benchMeter(b *testing.B) *Meter {
	tr := powercapTree(b, nil, "intel-rapl:0 package-0", "intel-rapl:0:0 dram")
	tr.h.GPUs = host.NewGPUs(&board100W{began: time.Now()})
	if err := tr.h.GPUs.Open(context.Background()); err != nil {
		b.Fatal(err)
	}
	m, err := New(context.Background(), tr.h, Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = tr.h.GPUs.Close() })
	return m
}

// BenchmarkOpenClose is a window's two edges on package, dram and board, beside the bare reads of the same three
// counters: "own-ns/edge" is what the meter adds.
func BenchmarkOpenClose(b *testing.B) {
	m := benchMeter(b)
	ctx := context.Background()
	for _, others := range []int{0, 1000} {
		name := "alone"
		if others > 0 {
			name = "beside1000"
		}
		b.Run(name, func(b *testing.B) {
			var open []*Window
			for range others {
				w, err := m.Open(ctx, OpenRequest{Name: "other", Exact: true})
				if err != nil {
					b.Fatal(err)
				}
				open = append(open, w)
			}
			b.ReportAllocs()
			var bare time.Duration
			for b.Loop() {
				w, err := m.Open(ctx, OpenRequest{Name: "bench", Owner: 1, Exact: true})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := w.Close(ctx, CloseRequest{Synced: true}); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				bare += bareReads(ctx, b, m)
				b.StartTimer()
			}
			both, reads := b.Elapsed()/time.Duration(b.N), bare/time.Duration(b.N)
			b.ReportMetric(float64(both-reads)/2, "own-ns/edge")
			b.ReportMetric(float64(both)/float64(reads), "x-bare")
			for _, w := range open {
				w.Abandon()
			}
		})
	}
}

// bareReads is what the same two edges cost with nothing but the counters.
func bareReads(ctx context.Context, b *testing.B, m *Meter) time.Duration {
	began := time.Now()
	for range 2 {
		for _, d := range m.devices() {
			if _, _, err := d.source.energy(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	return time.Since(began)
}

// BenchmarkZoneRead is one counter read, held open.
func BenchmarkZoneRead(b *testing.B) {
	m := benchMeter(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := m.devices()[0].source.energy(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJournal writes a thousand windows down, as each heartbeat does.
func BenchmarkJournal(b *testing.B) {
	m := benchMeter(b)
	m.journal = m.openJournal()
	ctx := context.Background()
	for range 1000 {
		if _, err := m.Open(ctx, OpenRequest{Name: "window", Exact: true, Unit: "token", IdleWatts: map[string]float64{"gpu": 50}}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		m.beat(ctx)
		m.writeJournal(ctx)
	}
	if m.JournalTrouble() != nil {
		b.Fatal(m.JournalTrouble())
	}
}
