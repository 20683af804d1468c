package hostsim

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/host"
)

// TestThrottle: heat takes its share of work and of power, and the device says so.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, quiet(t))
		before := s.Digest()
		h := s.Host()
		if err := h.GPUs.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer h.GPUs.Close()
		g := h.GPUs.All()[0]
		ask := func() host.Throttling {
			t.Helper()
			got, err := g.Throttling(t.Context())
			if err != nil || got.NowErr != nil || got.SpentErr != nil {
				t.Fatalf("%+v, %v", got, err)
			}
			return got
		}
		cpu := func() host.CPUHeat {
			t.Helper()
			all, err := h.CPUHeat()
			if err != nil || len(all) != 8 {
				t.Fatalf("%v, %v", all, err)
			}
			return all[5]
		}
		s.SetLoad("gpu0", 1)
		rate, power, cool := s.Rate("gpu0"), s.Power(), cpu()
		if got := ask(); got != (host.Throttling{}) {
			t.Errorf("a cool board says %+v", got)
		}
		heal := s.Throttle("gpu0", 0.5)
		time.Sleep(3 * time.Second)
		if got := ask(); got.Now != host.SlowHeat || got.Spent != 3*time.Second {
			t.Errorf("a hot board says %+v", got)
		}
		if got := s.Rate("gpu0"); got != rate/2 || s.Power() >= power {
			t.Errorf("a hot board does %g of %g units/s; the machine draws %v of %v", got, rate, s.Power(), power)
		}
		heal()
		time.Sleep(time.Second)
		if got := ask(); got.Now != 0 || got.Spent != 3*time.Second || s.Rate("gpu0") != rate {
			t.Errorf("a board that is cool again says %+v and does %g units/s", got, s.Rate("gpu0"))
		}
		heal = s.Throttle("cpu", 0.5)
		time.Sleep(time.Second)
		if got := cpu(); got.Events != cool.Events+1 || got.Spent != cool.Spent {
			t.Errorf("a hot CPU: %+v, before %+v", got, cool)
		}
		heal()
		if got := cpu(); got.Events != cool.Events+1 || got.Spent != cool.Spent+time.Second {
			t.Errorf("a CPU that is cool again: %+v, before %+v", got, cool)
		}
		if got := s.Digest(); got != before {
			t.Error("heat is a setting of the machine")
		}
	})
}

// TestSpawn: a process is on its board and in /proc until it ends.
func TestSpawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, quiet(t))
		before := s.Digest()
		h := s.Host()
		if err := h.GPUs.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer h.GPUs.Close()
		pids := func() []int {
			t.Helper()
			got, err := h.GPUs.All()[0].Processes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		rest := s.Power()
		end := s.Spawn(Process{PID: 4_200_001, Parent: 17, Name: "jupyter", UID: 1001, Device: "gpu0"})
		got, err := h.Process(4_200_001)
		got.Started = 0
		if diff := cmp.Diff(host.Process{PID: 4_200_001, Parent: 17, Name: "jupyter", UID: 1001}, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
		if diff := cmp.Diff([]int{4_200_001}, pids()); diff != "" || s.Rate("gpu0") != 0 || s.Power() != rest {
			t.Errorf("a process that does nothing: %s, %v", diff, s.Power())
		}
		stop := s.Spawn(Process{PID: 4_200_002, Parent: 1, Name: "train", UID: 1001, Device: "gpu0", Share: 1})
		if diff := cmp.Diff([]int{4_200_001, 4_200_002}, pids()); diff != "" || s.Rate("gpu0") == 0 {
			t.Errorf("a process at work: %s", diff)
		}
		if s.Digest() != before {
			t.Error("processes are settings of the machine")
		}
		stop()
		end()
		if _, err := h.Process(4_200_001); !os.IsNotExist(err) || len(pids()) != 0 || s.Digest() != before {
			t.Errorf("after their ends: %v, %v", err, pids())
		}
	})
}
