package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/unit"
)

// restingBoard is a driver with one board at rest, whose answers come from memory.
type restingBoard struct{ limit unit.Power }

func (b *restingBoard) Init() error                     { return nil }
func (b *restingBoard) Shutdown() error                 { return nil }
func (b *restingBoard) Version() (string, error)        { return "550.54.15", nil }
func (b *restingBoard) Devices() ([]host.Device, error) { return []host.Device{b}, nil }
func (b *restingBoard) Info() (host.GPUInfo, error) {
	return host.GPUInfo{UUID: "GPU-bench", PCI: "0000:01:00.0", Name: "NVIDIA A40"}, nil
}
func (b *restingBoard) Energy() (unit.Energy, error)       { return unit.Joule, nil }
func (b *restingBoard) Power() (unit.Power, error)         { return 30 * unit.Watt, nil }
func (b *restingBoard) Utilisation() (float64, error)      { return 0, nil }
func (b *restingBoard) Limit() (unit.Power, error)         { return b.limit, nil }
func (b *restingBoard) EnforcedLimit() (unit.Power, error) { return b.limit, nil }
func (b *restingBoard) DefaultLimit() (unit.Power, error)  { return 300 * unit.Watt, nil }
func (b *restingBoard) SetLimit(p unit.Power) error        { b.limit = p; return nil }
func (b *restingBoard) Processes() ([]int, error)          { return nil, nil }
func (b *restingBoard) LimitRange() (lo, hi unit.Power, err error) {
	return 100 * unit.Watt, 300 * unit.Watt, nil
}

// BenchmarkTick is one tick at rest, the loop's whole work each ten seconds, in CPU time of the process: the loop, the
// board's actor and the collector. "plain" is a workstation's tree as real files and a board that answers from memory:
// what the daemon costs. "simulated" is the same with the simulation that demo and tests run on.
func BenchmarkTick(b *testing.B) {
	fixture, err := hostsim.Load("workstation")
	if err != nil {
		b.Fatal(err)
	}
	simulated := func(b *testing.B) *hostsim.Sim {
		sim, err := hostsim.New(b.TempDir(), fixture, hostsim.Options{Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		return sim
	}
	b.Run("plain", func(b *testing.B) {
		tree := filepath.Join(simulated(b).Dir(), "host")
		benchTick(b, host.Real(tree, &restingBoard{limit: 300 * unit.Watt}))
	})
	b.Run("simulated", func(b *testing.B) { benchTick(b, simulated(b).Host()) })
}

func benchTick(b *testing.B, h *host.Host) {
	ctx := context.Background()
	d, err := New(ctx, h, config.Default(), Options{Version: "bench"}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	d.tick(ctx, d.base) // the first one decides and moves levers
	if s := d.Status(); len(s.Degraded) > 0 || len(s.Devices) < 3 || len(s.Levers) < 9 {
		b.Fatalf("not the workstation at rest: %d devices, %d levers, degraded %q", len(s.Devices), len(s.Levers), s.Degraded)
	}
	b.ReportAllocs()
	began := cpuTime(b)
	for b.Loop() {
		d.tick(ctx, d.base)
	}
	b.ReportMetric(float64((cpuTime(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/tick")
}

// cpuTime is what this process has computed so far, in user and kernel mode.
func cpuTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
