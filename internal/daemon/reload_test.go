package daemon_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
)

func good(cfg config.Config) func() (config.Config, error) {
	return func() (config.Config, error) { return cfg, nil }
}

func governor(sim *hostsim.Sim) string {
	return strings.TrimSpace(sim.Settings()["sys/devices/system/cpu/cpufreq/policy0/scaling_governor"])
}

func TestAReloadHoldsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		before := sim.Digest()
		d, stop := start(t, sim, config.Default())
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); err != nil {
			t.Fatal(err)
		}
		if g := governor(sim); g == "performance" || g == "" {
			t.Fatalf("governor %q before the reload", g)
		}
		next := raised()
		next.Tick, next.Detector.Ticks, next.Limits.Windows = 2*time.Second, 5, 1
		if err := d.Reload(t.Context(), good(next)); err != nil {
			t.Fatal(err)
		}
		if g := governor(sim); g != "performance" {
			t.Errorf("governor %q, want what the new configuration says", g)
		}
		if n := d.Status().Signal.Needed; n != 5 {
			t.Errorf("%d ticks must agree, want 5", n)
		}
		seen := d.Status().Time
		time.Sleep(2100 * time.Millisecond)
		synctest.Wait()
		if !d.Status().Time.After(seen) {
			t.Error("the new tick does not hold")
		}
		w, err := d.Meter().Open(t.Context(), meter.OpenRequest{Name: "one"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Meter().Open(t.Context(), meter.OpenRequest{Name: "two"}); !errors.Is(err, meter.ErrTooMany) {
			t.Errorf("a second window: %v", err)
		}
		w.Abandon()
		if err := stop(); err != nil || sim.Digest() != before {
			t.Errorf("stopped with %v: %v", err, sim.Settings())
		}
	})
}

func TestABadReloadChangesNothingAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, raised())
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); err != nil {
			t.Fatal(err)
		}
		bad := errors.New("quner.toml:3: unknown key \"nonsense\"")
		if err := d.Reload(t.Context(), func() (config.Config, error) { return config.Config{}, bad }); !errors.Is(err, bad) {
			t.Errorf("%v", err)
		}
		if g := governor(sim); g != "performance" {
			t.Errorf("governor %q: the old configuration no longer holds", g)
		}
		if !slices.ContainsFunc(d.Status().Degraded, func(s string) bool { return strings.Contains(s, "nonsense") }) {
			t.Errorf("degraded %q", d.Status().Degraded)
		}
		if err := d.Reload(t.Context(), good(raised())); err != nil || len(d.Status().Degraded) > 0 {
			t.Errorf("after a good one: %v, degraded %q", err, d.Status().Degraded)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Who asks for a reload logs what is wrong with it; twice would be once too often.
func TestABadReloadIsLoggedByWhoAsksForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, told, stop := observer(t, machine(t, "workstation"), daemon.Options{Version: "test"})
		bad := errors.New("quner.toml:3: unknown key \"nonsense\"")
		if err := d.Reload(t.Context(), func() (config.Config, error) { return config.Config{}, bad }); !errors.Is(err, bad) {
			t.Errorf("%v", err)
		}
		if err := stop(); err != nil || strings.Contains(told.String(), "nonsense") {
			t.Errorf("%v; the daemon logged it too:\n%s", err, told)
		}
	})
}

// journal is a log that a test reads while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) Reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text.Reset()
}

// observer runs a daemon whose log can be read.
func observer(t *testing.T, sim *hostsim.Sim, o daemon.Options) (d *daemon.Daemon, told *journal, stop func() error) {
	t.Helper()
	told = new(journal)
	d, err := daemon.New(t.Context(), sim.Host(), raised(), o, slog.New(slog.NewTextHandler(told, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	<-d.Ready()
	return d, told, func() error {
		cancel()
		return errors.Join(<-ended, d.Close())
	}
}

func TestObservingMovesNothingAndSaysWhatItWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		before := sim.Digest()
		const why = "No lever is moved: for a reason."
		d, told, stop := observer(t, sim, daemon.Options{Observe: why})
		if !slices.Contains(d.Status().Degraded, why) {
			t.Errorf("degraded %q", d.Status().Degraded)
		}
		sim.SetLoad("gpu0", 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := d.Status(); s.Profile != profiles.Training || s.PointSource != daemon.PointFound || len(s.Devices) == 0 {
			t.Errorf("profile %s, point %s, %d devices: it is to detect and to meter", s.Profile, s.PointSource, len(s.Devices))
		}
		for name, call := range map[string]func() error{
			"profile": func() error {
				_, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining})
				return err
			},
			"apply":    func() error { _, err := d.Apply(t.Context(), daemon.Caller{}, false); return err },
			"selftest": func() error { _, err := d.Selftest(t.Context(), daemon.Caller{}, false); return err },
			"tune": func() error {
				_, err := d.Tune(t.Context(), daemon.TuneSpec{Force: true}, nil)
				return err
			},
		} {
			if err := call(); !errors.Is(err, daemon.ErrRefused) || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := stop(); err != nil || sim.Digest() != before {
			t.Errorf("stopped with %v: %v", err, sim.Settings())
		}
		if n := strings.Count(told.String(), "lever=cpufreq/policy0 from=schedutil to=performance"); n != 1 {
			t.Errorf("what it would write is said %d times:\n%s", n, told)
		}
		if strings.Contains(told.String(), `msg="lever moved"`) {
			t.Error("a lever was moved")
		}
	})
}

func TestWhatAnEarlierLifeHasLeft(t *testing.T) {
	for _, dry := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			sim := machine(t, "workstation")
			before := sim.Digest()
			d, err := daemon.New(t.Context(), sim.Host(), raised(), daemon.Options{GoingDown: func(context.Context) bool { return true }}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			ctx, die := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- d.Run(ctx) }()
			if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); err != nil {
				t.Fatal(err)
			}
			die()
			if err := errors.Join(<-ended, d.Close()); err != nil {
				t.Fatal(err)
			}
			_, _, stop := observer(t, sim, daemon.Options{Observe: "why", DryRun: dry})
			if g := governor(sim); g != "performance" {
				t.Errorf("dry run %v: governor %q after the start", dry, g)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if back := sim.Digest() == before; back == dry {
				t.Errorf("dry run %v: put back at the end: %v", dry, back)
			}
		})
	}
}

func TestTheServiceManagerHearsNewsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		var lines []string
		d, _, stop := observer(t, sim, daemon.Options{Notify: func(state string) {
			if s, ok := strings.CutPrefix(state, "STATUS="); ok {
				lines = append(lines, s)
			}
		}})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(lines) == 0 || len(lines) > 4 || !strings.HasPrefix(lines[len(lines)-1], "idle, default point, ") || !strings.HasSuffix(lines[len(lines)-1], " W") {
			t.Errorf("at rest: %q", lines)
		}
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeOff}); err != nil {
			t.Fatal(err)
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "paused, machine as found") {
			t.Errorf("paused: %q", last)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
