package daemon_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/meter"
)

// complaints keeps the log lines that somebody ought to look at.
type complaints struct {
	mu    sync.Mutex
	lines []string
}

func (*complaints) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (c *complaints) WithAttrs([]slog.Attr) slog.Handler         { return c }
func (c *complaints) WithGroup(string) slog.Handler              { return c }

func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	c.lines = append(c.lines, line)
	return nil
}

func (c *complaints) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines)
}

// pictures counts how often the daemon publishes until ctx ends.
func pictures(ctx context.Context, d *daemon.Daemon) int {
	_, changed := d.Changed()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return n
		case <-changed:
			_, changed = d.Changed()
		}
	}
}

func TestAHostWithNoLeverLivesTenQuietMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "vm")
		before := sim.Digest()
		heard := new(complaints)
		cfg := config.Default()
		notified := map[string]int{}
		d, err := daemon.New(t.Context(), sim.Host(), cfg, daemon.Options{
			Version: "test", Notify: func(state string) { notified[state]++ },
		}, slog.New(heard))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		ended := make(chan error, 2)
		go func() { ended <- d.Run(ctx) }()
		go func() { ended <- d.Meter().Run(ctx) }()
		<-d.Ready()

		w, err := d.Meter().Open(t.Context(), meter.OpenRequest{Name: "ten-minutes"})
		if err != nil {
			t.Fatal(err)
		}
		reads, writes := sim.Touches("")
		life, over := context.WithTimeout(t.Context(), 10*time.Minute)
		defer over()
		published := pictures(life, d)
		ticks := int(10 * time.Minute / cfg.Tick)

		// One picture a tick; one more or less at the edges.
		if published < ticks-1 || published > ticks+1 {
			t.Errorf("%d pictures in ten minutes, want one a tick: %d", published, ticks)
		}
		readsNow, writesNow := sim.Touches("")
		perTick := func(n int) float64 { return float64(n) / float64(ticks) }
		t.Logf("a tick: %.1f reads, %.1f writes", perTick(readsNow-reads), perTick(writesNow-writes))
		// The load, the power source, the status file: nothing that a tick does may be done over and over between ticks.
		if perTick(readsNow-reads) > 20 || perTick(writesNow-writes) > 5 {
			t.Errorf("a tick makes %.1f reads and %.1f writes on a machine with nothing to read", perTick(readsNow-reads), perTick(writesNow-writes))
		}
		r, err := w.Close(t.Context(), meter.CloseRequest{Synced: true})
		if err != nil {
			t.Fatal(err)
		}
		if r.Method != meter.Unknown || len(r.Devices) != 0 || len(r.Reasons) == 0 || r.Duration < 10*time.Minute {
			t.Errorf("window of %v: method %s, devices %v, reasons %v; want unknown, none, some reasons", r.Duration, r.Method, r.Devices, r.Reasons)
		}
		s := d.Status()
		if len(s.Levers) != 0 || len(s.Missing) == 0 || len(s.Degraded) != 0 || s.Profile != "idle" {
			t.Errorf("levers %v, missing %v, degraded %v, profile %q; want none, reasons, none, idle", s.Levers, s.Missing, s.Degraded, s.Profile)
		}
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if notified["READY=1"] != 1 || notified["STOPPING=1"] != 1 || notified["WATCHDOG=1"] < ticks || notified["WATCHDOG=1"] > ticks+2 {
			t.Errorf("systemd was told %v", notified)
		}
		if lines := heard.all(); len(lines) > 0 {
			t.Errorf("complaints: %q", lines)
		}
		if sim.Digest() != before {
			t.Errorf("the host is not as found: %v", sim.Settings())
		}
	})
}
