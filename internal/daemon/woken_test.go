package daemon_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/profiles"
)

func TestASleepingBoardIsLetInOnceItsOwnWorkHasWokenIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "laptop")
		cfg := config.Default()
		_, stop := start(t, sim, cfg)
		time.Sleep(time.Hour)
		synctest.Wait()
		if gpus := sim.Host().GPUs; len(gpus.All()) != 0 || len(gpus.Waiting()) == 0 || sim.Wakes("gpu0") != 0 {
			t.Errorf("%d boards, waiting for %v, %d wakes", len(gpus.All()), gpus.Waiting(), sim.Wakes("gpu0"))
		}
		sim.SetLoad("gpu0", 1)
		time.Sleep(cfg.Tick)
		synctest.Wait() // the tick of this very instant
		if gpus := sim.Host().GPUs; len(gpus.All()) != 1 || gpus.Waiting() != nil || sim.Wakes("gpu0") != 0 || gpus.Wakes() != 0 {
			t.Errorf("awake: %d boards, waiting for %v, %d wakes", len(gpus.All()), gpus.Waiting(), sim.Wakes("gpu0"))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A laptop at rest gets the slower preference behind the dynamic governor, and both back.
func TestIdleOnAnActiveModeDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "laptop")
		before := sim.Settings()
		d, stop := start(t, sim, config.Default())
		if _, err := d.SetMode(t.Context(), daemon.Caller{}, daemon.ModeChange{Mode: profiles.ModeIdle}); err != nil {
			t.Fatal(err)
		}
		policies := 0
		for name, value := range sim.Settings() {
			want := map[string]string{"scaling_governor": "powersave\n", "energy_performance_preference": "balance_power\n"}[name[strings.LastIndex(name, "/")+1:]]
			if want == "" {
				continue
			}
			policies++
			if value != want {
				t.Errorf("%s is %q, found %q", name, value, before[name])
			}
		}
		if policies == 0 {
			t.Error("no policy")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		for name, value := range sim.Settings() {
			if value != before[name] {
				t.Errorf("after the stop %s is %q, was %q", name, value, before[name])
			}
		}
	})
}
