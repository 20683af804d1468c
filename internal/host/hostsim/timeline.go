package hostsim

import (
	"math"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// cell is the time for which noise stays the same, and a board's update period.
const cell = 100 * time.Millisecond

// never is the end of a load that goes on.
const never = time.Duration(math.MaxInt64)

// sum is energy to the femtojoule: µW times ns. Whole numbers, so that it does not matter in which pieces it was added up.
type sum struct {
	uj unit.Energy
	fj int64 // below 1e9
}

func (s *sum) add(p unit.Power, d time.Duration) {
	s.fj += int64(p) * int64(d)
	s.uj += unit.Energy(s.fj / 1e9)
	s.fj %= 1e9
}

// knobs are the settings the power model looks at. A value is never changed, only replaced.
type knobs struct {
	governors   []string     // one a policy
	preferences []string     // of energy, one a policy; "" where there is none
	limits      []unit.Power // PL1 in force, one a package; 0: none
	caps        []unit.Power // one a board
	slow        []float64    // one a device, 0…1: what heat leaves of its work and of its power beyond rest; nil: all
}

// load is work that lasts from one instant to another.
type load struct {
	name     string
	device   int // 0: cpu; 1 + i: board i
	share    float64
	from, to time.Duration
	pid      int
}

// change is the settings in force from an instant on.
type change struct {
	at    time.Duration
	knobs knobs
}

// timeline is what the machine has done: sums up to a settled instant and all that happened since. Instants are since
// the beginning of the simulation.
type timeline struct {
	parts   *parts
	settled time.Duration
	sums    []sum
	changes []change // the first is at or before settled
	loads   []*load  // none ended before settled, nor did a board stay awake for it
}

// memory is how far back the past may still be changed, by a load reported late.
const memory = time.Second

// speed is what heat leaves of a device's work.
func (k knobs) speed(device int) float64 {
	if device < len(k.slow) {
		return k.slow[device]
	}
	return 1
}

func (l *timeline) knobsAt(at time.Duration) knobs {
	k := l.changes[0].knobs
	for _, c := range l.changes[1:] {
		if c.at > at {
			break
		}
		k = c.knobs
	}
	return k
}

// drawAt returns the picture of the machine at an instant.
func (l *timeline) drawAt(at time.Duration) picture {
	return l.parts.picture(l.knobsAt(at), l.loads, at)
}

// until returns the sums up to an instant that is not before the settled one.
func (l *timeline) until(at time.Duration) []sum {
	sums := slices.Clone(l.sums)
	l.integrate(sums, l.settled, at)
	return sums
}

// settle moves the settled instant close to now and forgets what lies before it.
func (l *timeline) settle(now time.Duration) {
	to := now - memory
	if to < l.settled+memory {
		return
	}
	l.integrate(l.sums, l.settled, to)
	l.settled = to
	for len(l.changes) > 1 && l.changes[1].at <= to {
		l.changes = l.changes[1:]
	}
	l.loads = slices.DeleteFunc(l.loads, func(x *load) bool { return l.parts.awakeUntil(x) <= to })
}

// integrate adds what was drawn in [from, to) to sums.
func (l *timeline) integrate(sums []sum, from, to time.Duration) {
	for from < to {
		end := l.nextEvent(from, to)
		p := l.drawAt(from)
		for from < end {
			n := int64(from / cell)
			stop := min(end, time.Duration(n+1)*cell)
			for i, w := range p.watts {
				sums[i].add(l.parts.noisy(i, n, w), stop-from)
			}
			from = stop
		}
	}
}

// nextEvent returns the first instant in (from, to) at which anything changes, or to.
func (l *timeline) nextEvent(from, to time.Duration) time.Duration {
	end := to
	for _, c := range l.changes {
		if c.at > from {
			end = min(end, c.at)
		}
	}
	for _, x := range l.loads {
		if x.from > from {
			end = min(end, x.from)
		}
		if x.to > from {
			end = min(end, x.to)
		}
		if asleep := l.parts.awakeUntil(x); asleep > from {
			end = min(end, asleep)
		}
	}
	return end
}
