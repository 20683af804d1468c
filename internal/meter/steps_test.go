package meter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// stepped is a counter at 100 W that moves every period, each time up to late after its due.
type stepped struct {
	period, phase, late time.Duration
	rnd                 *rand.Rand
	delays              map[int64]time.Duration
}

func (c *stepped) at(n int64) time.Duration {
	if c.late > 0 {
		if _, ok := c.delays[n]; !ok {
			c.delays[n] = time.Duration(c.rnd.Int64N(int64(c.late)))
		}
	}
	return c.phase + time.Duration(n)*c.period + c.delays[n]
}

// last returns the last step at a moment.
func (c *stepped) last(now time.Duration) int64 {
	n := int64((now - c.phase) / c.period)
	for c.at(n) > now {
		n--
	}
	for c.at(n+1) <= now {
		n++
	}
	return n
}

func (c *stepped) look(now, took time.Duration) sight {
	e := (100 * unit.Watt).Over(time.Duration(c.last(now)) * c.period)
	return sight{asked: clock0.Add(now), got: clock0.Add(now + took), value: e}
}

// follow reads a counter as steps would have it, until a moment; it returns when and with how many readings the rhythm was
// known finely.
func follow(s *steps, c *stepped, from, to, took time.Duration) (steady time.Duration, reads int) {
	known := clock0
	for now := from; now < to; reads++ {
		l := c.look(now, took)
		s.see(l)
		if s.steady(l.got) {
			if steady == 0 {
				steady = now
			}
			known, _ = s.before(l)
		}
		now = max(now+took, s.next(l.got, reads, known).Sub(clock0))
	}
	return steady, reads
}

func TestStepsAreLearned(t *testing.T) {
	for _, c := range []struct {
		name               string
		period, late, took time.Duration
		off                time.Duration // of the phase, at most
	}{
		{"100 ms", 100 * time.Millisecond, 0, 0, 300 * time.Microsecond},
		{"20 ms", 20 * time.Millisecond, 0, 0, 200 * time.Microsecond},
		{"10 ms", 10 * time.Millisecond, 0, 0, 200 * time.Microsecond},
		{"slow calls", 100 * time.Millisecond, 0, 200 * time.Microsecond, 600 * time.Microsecond},
		{"late steps", 100 * time.Millisecond, 2 * time.Millisecond, 0, 5 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(40) {
				rnd := rand.New(rand.NewPCG(seed, 5))
				counter := &stepped{
					period: c.period, phase: time.Duration(rnd.Int64N(int64(c.period))), late: c.late, rnd: rnd, delays: map[int64]time.Duration{},
				}
				var s steps
				steady, reads := follow(&s, counter, 0, 5*time.Second, c.took)
				if c.late > 0 && s.irregular {
					continue // it is not believed in
				}
				if steady == 0 || steady > time.Second {
					t.Errorf("seed %d: the rhythm was known after %v (%d readings)", seed, steady, reads)
				}
				if off := (s.period - c.period).Abs(); off > c.period/200 {
					t.Errorf("seed %d: a period of %v, want %v", seed, s.period, c.period)
				}
				end := clock0.Add(5 * time.Second)
				due := clock0.Add(counter.at(counter.last(5 * time.Second)))
				if off := s.nearest(due).Add((s.lo + s.hi) / 2).Sub(due).Abs(); off > c.off || off > s.width(end)/2+s.jitter+c.late {
					t.Errorf("seed %d: a step is %v off, said to be within %v ± %v", seed, off, s.width(end)/2, s.jitter)
				}
			}
		})
	}
}

// A counter that moves at every look has no rhythm to follow, and one that moves anyhow none that can be.
func TestStepsWithoutARhythm(t *testing.T) {
	var s steps
	for i := range 50 {
		now := time.Duration(i) * time.Millisecond
		s.see(sight{asked: clock0.Add(now), got: clock0.Add(now), value: unit.Energy(i)})
	}
	if s.period == 0 || s.period >= fineStep {
		t.Errorf("moves at every look: period %v", s.period)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	var wild steps
	now, value, next := time.Duration(0), unit.Energy(0), time.Duration(0)
	for range 5000 {
		now += time.Millisecond
		if now >= next {
			value++
			next = now + time.Duration(20+rnd.IntN(100))*time.Millisecond
		}
		wild.see(sight{asked: clock0.Add(now), got: clock0.Add(now), value: value})
	}
	if !wild.irregular {
		t.Errorf("moves anyhow, and a period of %v was found", wild.period)
	}
}

func TestStepProfile(t *testing.T) {
	end := clock0.Add(100 * time.Millisecond)
	at := func(ms int) time.Time { return clock0.Add(time.Duration(ms) * time.Millisecond) }
	near := func(name string, got, want float64) {
		t.Helper()
		if d := got - want; d > 1 || d < -1 {
			t.Errorf("%s: %g µJ, want %g", name, got, want)
		}
	}
	p := stepProfile(clock0, end, 50e6, 200e6, 300e6) // 50 W until 40 ms, then 300 W
	near("before the change", p.energy(clock0, clock0, at(40)), 2e6)
	near("after it", p.energy(clock0, at(40), end), 18e6)
	near("across", p.energy(clock0, at(30), at(50)), 3.5e6)
	p = stepProfile(clock0, end, 50e6, 400e6, 300e6) // above both: nobody knows when
	near("even", p.energy(clock0, at(0), at(25)), 10e6)
	p = ramp(end, 100*unit.Watt, 200*unit.Watt)
	near("ramp", p.energy(clock0, at(0), at(50)), 6.25e6)
	c := cutStep{pre: 40 * time.Millisecond, post: 60 * time.Millisecond, energy: 20e6, given: 18e6}
	if d := c.doubt(50e6, 300e6); d < 10e6 || d > 11e6 { // from 8 to 18 J may lie after the cut
		t.Errorf("doubt %g", d)
	}
}
