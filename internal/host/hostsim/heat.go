package hostsim

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
)

// stretch is a time, from one instant to another.
type stretch struct{ from, to time.Duration }

// Throttle lets heat slow a device down, "cpu" or a board, until it is healed: of its work, and of its power beyond what it
// draws at rest, share is left. The device says so where such devices do: an NVIDIA board by its reasons and its counter of
// time, CPUs by thermal_throttle if the machine has those. It panics on a device the machine does not have.
func (s *Sim) Throttle(device string, share float64) (heal func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.fix.device(device)
	if err != nil {
		panic(err)
	}
	s.hot[d] = append(s.hot[d], stretch{s.now(), never})
	nth := len(s.hot[d]) - 1
	s.slow(d, share)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hot[d][nth].to == never {
			s.hot[d][nth].to = s.now()
			s.slow(d, 1)
		}
	}
}

// slow puts a device's speed in force now.
func (s *Sim) slow(device int, share float64) {
	k := s.line.knobsAt(s.now())
	slow := make([]float64, len(s.hot))
	for i := range slow {
		slow[i] = k.speed(i)
	}
	slow[device] = share
	k.slow = slow
	s.turn(k)
}

// heat is how often heat has slowed a device down, for how long in all, and for how long in those times that are over.
func (s *Sim) heat(device int, now time.Duration) (times int, spent, over time.Duration) {
	for _, h := range s.hot[device] {
		times++
		spent += min(h.to, now) - h.from
		if h.to <= now {
			over += h.to - h.from
		}
	}
	return times, spent, over
}

// Throttling is what the driver tells of slowdowns.
func (b *board) Throttling() host.Throttling {
	var t host.Throttling
	_, t.NowErr = ask(b, "throttling", func() bool {
		now, hot := b.sim.now(), b.sim.hot[1+b.index]
		if slices.ContainsFunc(hot, func(h stretch) bool { return h.from <= now && now < h.to }) {
			t.Now = host.SlowHeat
		}
		_, t.Spent, _ = b.sim.heat(1+b.index, now)
		return true
	})
	t.SpentErr = t.NowErr
	return t
}

// isHeatCounter reports whether a file is one of the kernel's counters of a CPU's slowdowns.
func isHeatCounter(name string) bool {
	return path.Base(path.Dir(name)) == "thermal_throttle" && strings.Contains(path.Base(name), "_throttle_")
}

// heatText is such a counter now: heat is of the packages, and every CPU counts it. The time of a slowdown is added when it
// ends, as the kernel does.
func (s *Sim) heatText(name string, now time.Duration) string {
	n := firstNumber(strings.Fields(s.began[name]))
	times, _, over := s.heat(0, now)
	switch path.Base(name) {
	case "package_throttle_count":
		n += uint64(times)
	case "package_throttle_total_time_ms":
		n += uint64(over / time.Millisecond)
	}
	return strconv.FormatUint(n, 10) + "\n"
}
