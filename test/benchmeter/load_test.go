package benchmeter

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

func TestTheIntegralIsThatOfThePieces(t *testing.T) {
	l := NewLoad(50)
	l.Set(2*time.Second, 300)
	l.Set(3*time.Second+1, 50)
	for at, want := range map[time.Duration]int64{ // nJ
		-time.Second: 0, 0: 0, 1: 50, time.Second: 50e9, 2 * time.Second: 100e9, 2*time.Second + 1: 100e9 + 300,
		3*time.Second + 1: 400e9 + 300, 5*time.Second + 1: 500e9 + 300,
	} {
		if got := l.Drawn(at); got != want {
			t.Errorf("at %v: %d nJ, want %d", at, got, want)
		}
	}
	l.Set(time.Second, 10) // what was planned for later does not come
	if got := l.Joules(0, 11*time.Second); got != 150 {
		t.Errorf("11 s: %g J, want 150", got)
	}
}

func TestTheTelegraphIsWhatItsSeedSays(t *testing.T) {
	seeded := func() *Load { return NewTelegraph(rand.New(rand.NewPCG(1, 2))) }
	const long = 4000 * time.Second
	once, inTurn := seeded(), seeded()
	total := once.Drawn(long)
	var sum int64
	for at := time.Duration(0); at < long; at += 70 * time.Millisecond {
		to := min(long, at+70*time.Millisecond)
		sum += inTurn.Drawn(to) - inTurn.Drawn(at)
	}
	if sum != total {
		t.Errorf("piece by piece %d nJ, at once %d", sum, total)
	}
	if n := len(once.pieces); math.Abs(float64(n)/20000-1) > 0.03 {
		t.Errorf("%d dwells in %v, want one each %v", n, long, dwell)
	}
	var lasts float64
	for i, p := range once.pieces[1:] {
		lasts += math.Pow(float64(p.from-once.pieces[i].from)/float64(dwell), 2)
		if p.watts+once.pieces[i].watts != rest+busy {
			t.Fatalf("%d W after %d W", p.watts, once.pieces[i].watts)
		}
	}
	if m := lasts / float64(len(once.pieces)); math.Abs(m-2) > 0.15 { // of an exponential: twice the mean's square
		t.Errorf("mean square of a dwell: %.2f of the mean's, want 2", m)
	}
}

func TestTheCounterShowsItsLastStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(3, 4))
		for _, jitter := range []float64{0, 0.5, 0.99} {
			load := NewTelegraph(rand.New(rand.NewPCG(5, 6)))
			c := newCounter(load, Options{Jitter: jitter}, 20*time.Millisecond, rnd)
			zero := c.shows(0)
			for n := range int64(500) {
				step, next := c.step(n), c.step(n+1)
				if late := step - c.Phase - time.Duration(n)*c.Period; next <= step || late < 0 || late > c.Jitter {
					t.Fatalf("jitter %g: step %d at %v, the next at %v", jitter, n, step, next)
				}
				want := zero + unit.Energy(load.Drawn(step)/1e6)*unit.Millijoule
				for _, at := range []time.Duration{step, step + (next-step)/2, next - 1} {
					if c.Stepped(at) != step || c.shows(at) != want {
						t.Fatalf("jitter %g: at %v it shows %v of step %v, want %v of %v", jitter, at, c.shows(at), c.Stepped(at), want, step)
					}
				}
			}
		}
	})
}

func TestACallTakesItsTimeAndReadsInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := NewLoad(busy)
		c := newCounter(load, Options{Call: 10 * time.Millisecond}, time.Millisecond, rand.New(rand.NewPCG(7, 8)))
		time.Sleep(time.Second)
		want := c.shows(c.now() + 5*time.Millisecond)
		if got, err := c.Energy(); err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
		if now := c.now(); now != time.Second+10*time.Millisecond {
			t.Errorf("came back after %v", now-time.Second)
		}
		if p, err := c.Power(); err != nil || p != 300*unit.Watt {
			t.Errorf("power %v, %v; want 300 W", p, err)
		}
	})
}
