package daemon_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/profiles"
)

// raised is a configuration in which training moves every governor.
func raised() config.Config {
	cfg := config.Default()
	cfg.UntunedTraining = "performance"
	return cfg
}

func TestAPoweroffLeavesTheLeversAndTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		before := sim.Digest()
		opts := daemon.Options{GoingDown: func(context.Context) bool { return true }}
		d, err := daemon.New(t.Context(), sim.Host(), raised(), opts, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); err != nil {
			t.Fatal(err)
		}
		_, writes := sim.Touches("sys/devices/system/cpu/cpufreq")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, now := sim.Touches("sys/devices/system/cpu/cpufreq"); now != writes {
			t.Errorf("%d writes on the way down", now-writes)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		// A machine that came up after all, by kexec say, has its journal to go by.
		_, stopped := start(t, sim, config.Default())
		if err := stopped(); err != nil {
			t.Error(err)
		}
		if sim.Digest() != before {
			t.Errorf("after the next stop: %v", sim.Settings())
		}
	})
}

func TestAPanicOfTheLoopPutsTheHostBackFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		before := sim.Digest()
		ticks := 0
		opts := daemon.Options{Notify: func(state string) {
			if state == "WATCHDOG=1" {
				if ticks++; ticks == 3 {
					panic("a fault in the loop")
				}
			}
		}}
		d, err := daemon.New(t.Context(), sim.Host(), raised(), opts, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		died := make(chan any, 1)
		go func() {
			defer func() { died <- recover() }()
			_ = d.Run(t.Context())
		}()
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeTraining}); err != nil {
			t.Fatal(err)
		}
		if sim.Digest() == before {
			t.Fatal("nothing was moved, so nothing can be put back")
		}
		if p := <-died; p != "a fault in the loop" {
			t.Errorf("the loop ended with %v", p)
		}
		if sim.Digest() != before {
			t.Errorf("after the panic: %v", sim.Settings())
		}
		if _, err := d.Rollback(t.Context()); err == nil {
			t.Error("a daemon without a loop answers")
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPauseEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		before := sim.Digest()
		d, stop := start(t, sim, raised())
		set := func(m daemon.ModeChange) {
			t.Helper()
			if _, err := d.SetMode(t.Context(), daemon.Caller{UID: 7}, m); err != nil {
				t.Fatal(err)
			}
		}
		set(daemon.ModeChange{Mode: profiles.ModeTraining})
		moved := sim.Digest()
		set(daemon.ModeChange{Mode: profiles.ModeOff, Pause: time.Minute})
		if sim.Digest() != before {
			t.Errorf("paused, and yet: %v", sim.Settings())
		}
		time.Sleep(59 * time.Second)
		if m := d.Status().Mode; m.Mode != profiles.ModeOff || m.UID != 7 {
			t.Errorf("after 59 s: %+v", m)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if m := d.Status().Mode; m.Mode != profiles.ModeTraining || sim.Digest() != moved {
			t.Errorf("after the pause: %+v, %v", m, sim.Settings())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheModeOutlivesTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, raised())
		if _, err := d.SetMode(t.Context(), daemon.Caller{UID: 1000}, daemon.ModeChange{Mode: profiles.ModeTraining}); err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		again, stop := start(t, sim, raised())
		s := again.Status()
		if s.Mode.Mode != profiles.ModeTraining || s.Mode.UID != 1000 || s.Profile != profiles.Training {
			t.Errorf("after a restart: mode %+v, profile %s", s.Mode, s.Profile)
		}
		events, err := again.History(t.Context(), 0)
		if err != nil || len(events) < 10 || events[len(events)-1].From != "schedutil" {
			t.Errorf("history after a restart: %v, %v", events, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
