// Package journey follows sweeps from their first window to their end, on simulated machines and on the simulation's own
// time: what they choose is held against the machine's true curves, and each may be ended anywhere.
package journey

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
)

// machine sets up a simulated host for a test.
func machine(t *testing.T, name string, seed uint64) *hostsim.Sim {
	t.Helper()
	f, err := hostsim.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := hostsim.New(t.TempDir(), f, hostsim.Options{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return sim
}

// start runs a daemon on sim until stop is called.
func start(t *testing.T, sim *hostsim.Sim) (d *daemon.Daemon, stop func()) {
	t.Helper()
	d, err := daemon.New(t.Context(), sim.Host(), config.Default(), daemon.Options{Version: "test"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, metered := make(chan error, 1), make(chan struct{})
	go func() { ended <- d.Run(ctx) }()
	go func() {
		defer close(metered)
		_ = d.Meter().Run(ctx)
	}()
	<-d.Ready()
	return d, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-metered
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// work is a sweep's workload on some boards of a machine, each at work by itself; what they do is counted together.
type work struct {
	t      *testing.T
	sim    *hostsim.Sim
	boards []string
	event  func(what string) // called before and after all that a caller does; may be nil

	windows map[string]int // by axis
}

func (w *work) happens(what string) {
	if w.event != nil {
		w.event(what)
	}
}

func (w *work) Plan(daemon.TunePlan) error {
	w.happens("the plan")
	return nil
}

func (w *work) Progress(p daemon.Progress) {
	if w.windows == nil {
		w.windows = map[string]int{}
	}
	w.windows[p.Axis]++
	w.happens("progress of " + string(p.Phase))
}

func (w *work) Run(ctx context.Context, r daemon.TuneRun) (daemon.TuneWork, error) {
	w.happens("a run begins")
	defer w.happens("a run has ended")
	amount := 0.0
	for _, b := range w.boards {
		w.sim.SetLoad(b, 1)
		defer w.sim.SetLoad(b, 0)
	}
	for _, b := range w.boards {
		amount += w.sim.Rate(b) * r.AtLeast.Seconds()
	}
	for range 2 {
		select {
		case <-time.After(r.AtLeast / 2):
		case <-ctx.Done():
			return daemon.TuneWork{}, context.Cause(ctx)
		}
		w.happens("a run goes on")
	}
	return daemon.TuneWork{Amount: amount}, nil
}
