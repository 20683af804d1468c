package meter

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// stepping is a counter that moves by grain every period, with normal noise of sd on each of its steps.
func stepping(seed uint64, period, sd, spacing, length time.Duration, grain unit.Energy) []poll {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var polls []poll
	value, next := unit.Energy(1e9), time.Duration(rnd.Int64N(int64(period)))
	for at := time.Duration(0); at < length; at += spacing {
		for next <= at {
			value += grain
			next += period + time.Duration(rnd.NormFloat64()*float64(sd))
		}
		polls = append(polls, poll{clock0.Add(at), value})
	}
	return polls
}

func near(got, want time.Duration, within float64) bool {
	off := float64(got - want)
	return max(off, -off) <= within*float64(want)
}

func TestPaceOfCounters(t *testing.T) {
	for seed := range uint64(20) {
		for _, c := range []struct {
			name                         string
			period, sd, spacing, length  time.Duration
			within                       float64
			jitterFrom, jitterTo, atMost time.Duration
		}{
			{"RAPL", time.Millisecond, 0, 50 * time.Microsecond, 20 * time.Millisecond, 0.02, 0, 20 * time.Microsecond, 0},
			{"RAPL, polled 0.8 ms apart", time.Millisecond, 0, 800 * time.Microsecond, 40 * time.Millisecond, 0.06, 0, 300 * time.Microsecond, 0},
			{"NVML of 20 ms", 20 * time.Millisecond, 0, time.Millisecond, 300 * time.Millisecond, 0.02, 0, 500 * time.Microsecond, 0},
			{"NVML of 100 ms", 100 * time.Millisecond, 0, time.Millisecond, time.Second, 0.01, 0, 500 * time.Microsecond, 0},
			{"a step that varies", 20 * time.Millisecond, 2 * time.Millisecond, time.Millisecond, 2 * time.Second, 0.05, time.Millisecond, 3 * time.Millisecond, 0},
			{"moves at each poll", 10 * time.Microsecond, 0, time.Millisecond, 100 * time.Millisecond, 0, 0, 0, time.Millisecond},
		} {
			p := paceOf(stepping(seed, c.period, c.sd, c.spacing, c.length, 61))
			if c.atMost > 0 {
				if !p.atMost || p.period != c.atMost {
					t.Errorf("%s, seed %d: %+v", c.name, seed, p)
				}
				continue
			}
			if p.atMost || !near(p.period, c.period, c.within) || p.jitter < c.jitterFrom || p.jitter > c.jitterTo || p.smallest != 61 {
				t.Errorf("%s, seed %d: %+v", c.name, seed, p)
			}
		}
	}
}

// A poll that came late, and steps at which nothing had been drawn, make intervals of several periods.
func TestPaceOverWhatWasNotSeen(t *testing.T) {
	all := stepping(3, 20*time.Millisecond, 0, time.Millisecond, time.Second, 1000)
	late := slices.Concat(all[:300], all[353:])
	if p := paceOf(late); !near(p.period, 20*time.Millisecond, 0.02) || p.jitter > time.Millisecond {
		t.Errorf("53 ms without a poll: %+v", p)
	}
	idle := append([]poll{}, all...)
	for i := range idle {
		if idle[i].value >= all[500].value { // one step less from there on
			idle[i].value -= 1000
		}
	}
	if p := paceOf(idle); !near(p.period, 20*time.Millisecond, 0.02) {
		t.Errorf("a step of nothing: %+v", p)
	}
}

func TestPaceOfWhatHasNone(t *testing.T) {
	still := stepping(1, time.Hour, 0, time.Millisecond, time.Second, 1)
	for i := range still {
		still[i].value = 7
	}
	if p := paceOf(still); p != (pace{}) {
		t.Errorf("a counter that stands: %+v", p)
	}
	if p := paceOf(nil); p != (pace{}) {
		t.Errorf("no poll: %+v", p)
	}
	few := stepping(1, 20*time.Millisecond, 0, time.Millisecond, 70*time.Millisecond, 5)
	if p := paceOf(few); p.period != 0 || p.smallest != 5 || p.steps >= fewIntervals {
		t.Errorf("three steps: %+v", p)
	}
}

// A fall is neither a step nor an increment.
func TestPaceOverAReset(t *testing.T) {
	polls := stepping(5, 20*time.Millisecond, 0, time.Millisecond, time.Second, 1000)
	for i := 510; i < len(polls); i++ {
		polls[i].value -= polls[510].value - 3
	}
	if p := paceOf(polls); !near(p.period, 20*time.Millisecond, 0.02) || p.smallest != 1000 {
		t.Errorf("%+v", p)
	}
}
