package meter

import (
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// steps knows when a counter that moves in regular steps does so: at phase + k·period, give or take what is not known.
// It is told readings in their order and learns from pairs of them: a value that has changed holds a step in between, one
// that has not holds none. It is pure.
type steps struct {
	period    time.Duration // 0: not known yet
	jitter    time.Duration // the largest deviation from the grid that was met
	irregular bool          // no grid fits

	locked bool
	phase  time.Time     // a step was at phase+e, lo ≤ e ≤ hi
	lo, hi time.Duration //
	drift  float64       // what lo and hi widen by for each unit of time
	seen   time.Time     // when they were last right
	met    int           // steps since the lock
	strays int           // steps off the grid, of late

	anchor      time.Time // a step's time some steps ago, for the period
	anchorWidth time.Duration

	last     sight     // the newest reading
	changed  time.Time // when a reading last had another value than the one before
	hasLast  bool
	brackets []bracket // of steps in a row, while the period is not known
	searched int       // readings since the last step, while it is searched for
}

// sight is one reading of a counter: the value is of some instant between asking and getting it.
type sight struct {
	asked, got time.Time
	value      unit.Energy
	power      unit.Power // of a power sensor
}

// bracket holds one step: after from, not after to.
type bracket struct{ from, to time.Time }

func (b bracket) mid() time.Time { return b.from.Add(b.to.Sub(b.from) / 2) }

const (
	// fineStep is the period up to which a counter needs no following: an edge is as good as any reading.
	fineStep = 3 * time.Millisecond
	// longStep is more than any counter's period.
	longStep = 2 * time.Second
	// wideBracket is too long a time between two readings to learn a period from.
	wideBracket = 20 * time.Millisecond
	// drift0 is how far two clocks may run apart, and how far a period may be out after a long time of following.
	drift0 = 1e-4
	// strayDrift is how far a period may be out once a step was not where it was expected.
	strayDrift = 1e-2
	// maxStrays is how many steps off the grid, less one in 64 steps met, end the belief in it. A grid that is nearly right
	// would give figures with intervals too narrow.
	maxStrays = 4
)

// see takes a reading in. Values must not fall; who has reason to doubt one calls lose instead.
func (s *steps) see(l sight) {
	before := s.last
	s.last = l
	if !s.hasLast {
		s.hasLast = true
		return
	}
	if l.value == before.value {
		s.still(l)
		return
	}
	s.searched, s.changed = 0, l.asked
	b := bracket{before.asked, l.got}
	if s.period == 0 {
		s.gather(b)
		return
	}
	if b.to.Sub(b.from) >= s.period {
		return // perhaps more steps than one
	}
	if !s.locked || s.width(b.to) > s.period/3 {
		s.unlock()
		s.lock(b)
		return
	}
	s.narrow(b)
}

// still is a reading of the value there was before: a step that is due has not come yet.
func (s *steps) still(b sight) {
	s.searched++
	if !s.locked || s.width(b.got) > s.period/3 {
		return
	}
	step := s.nearest(b.asked)
	if s.changed.Sub(step).Abs() < s.period/2 {
		return // this one has been seen
	}
	if s.lo = max(s.lo, b.asked.Sub(step)); s.lo > s.hi {
		by := s.lo - s.hi
		s.stray(by)
		s.hi = s.lo + max(by, s.fine())
	}
}

// gather collects steps until they tell the period.
func (s *steps) gather(b bracket) {
	n := len(s.brackets)
	if b.to.Sub(b.from) > wideBracket || n > 0 && b.from.Sub(s.brackets[n-1].to) > longStep {
		s.brackets = s.brackets[:0]
	}
	if b.to.Sub(b.from) > wideBracket {
		return
	}
	s.brackets = append(s.brackets, b)
	if n < 3 {
		return
	}
	first, last := s.brackets[0], s.brackets[n]
	period := last.mid().Sub(first.mid()) / time.Duration(n)
	worst := time.Duration(0)
	for i, b := range s.brackets {
		worst = max(worst, (b.mid().Sub(first.mid())-time.Duration(i)*period).Abs()-(b.to.Sub(b.from)+first.to.Sub(first.from))/2)
	}
	switch {
	case worst <= period/20:
		s.period = period
		s.anchor, s.anchorWidth = first.mid(), first.to.Sub(first.from)
		s.jitter = max(0, worst)
		s.drift = max(drift0, float64(s.anchorWidth+last.to.Sub(last.from)+2*s.jitter)/float64(last.to.Sub(first.to)))
		s.lock(last)
		s.brackets = nil
	case n >= 12:
		s.irregular = true
		for i := range n {
			s.period = max(s.period, s.brackets[i+1].to.Sub(s.brackets[i].from))
		}
		s.brackets = nil
	}
}

// lock takes a bracket for the grid's phase.
func (s *steps) lock(b bracket) {
	mid := b.mid()
	half := b.to.Sub(b.from)/2 + s.jitter
	s.locked, s.phase, s.lo, s.hi, s.seen, s.met = true, mid, -half, half, b.to, 0
	if s.anchor.IsZero() {
		s.anchor, s.anchorWidth = mid, b.to.Sub(b.from)
	}
}

// narrow meets the grid with a bracket of one of its steps.
func (s *steps) narrow(b bracket) {
	s.age(b.to)
	step := s.nearest(b.mid())
	lo, hi := max(s.lo, b.from.Sub(step)-s.jitter), min(s.hi, b.to.Sub(step)+s.jitter)
	if lo > hi {
		s.stray(max(b.from.Sub(step)-s.hi, s.lo-b.to.Sub(step)))
		if s.locked {
			s.lock(b)
		}
		return
	}
	s.lo, s.hi = lo, hi
	s.met++
	s.recentre(step)
}

// recentre counts from the newest step, and from its most likely time.
func (s *steps) recentre(step time.Time) {
	mid := s.lo + (s.hi-s.lo)/2
	s.phase = step.Add(mid)
	s.lo, s.hi = s.lo-mid, s.hi-mid
	s.jitter -= s.jitter / 64
	if s.met%64 == 0 && s.strays > 0 {
		s.strays--
	}
	if s.anchor.IsZero() {
		s.anchor, s.anchorWidth = s.phase, s.hi-s.lo
		return
	}
	n := roundDiv(s.phase.Sub(s.anchor), s.period)
	if n < 4 {
		return
	}
	if err := float64(s.anchorWidth+s.hi-s.lo+2*s.jitter) / float64(s.phase.Sub(s.anchor)); err < s.drift {
		s.period = s.phase.Sub(s.anchor) / time.Duration(n)
		s.drift = max(drift0, err)
	}
	if n > 256 {
		s.anchor, s.anchorWidth = s.phase, s.hi-s.lo
	}
}

// age widens what is known of the phase by the time since.
func (s *steps) age(now time.Time) {
	if since := now.Sub(s.seen); since > 0 {
		w := time.Duration(float64(since) * s.drift)
		s.lo, s.hi, s.seen = s.lo-w, s.hi+w, now
	}
}

// stray is a step by so much off the grid.
func (s *steps) stray(by time.Duration) {
	s.jitter = max(s.jitter, by)
	s.drift, s.anchor = max(s.drift, strayDrift), time.Time{}
	if s.strays++; s.strays > maxStrays {
		s.irregular = true
	}
	if s.jitter > s.period/8 {
		s.jitter = 0
		s.unlock()
	}
}

// unlock gives the phase up, but not the period.
func (s *steps) unlock() { s.locked, s.anchor, s.searched = false, time.Time{}, 0 }

// lose forgets the newest reading: the one after it is compared with none.
func (s *steps) lose() { s.hasLast = false }

// nearest returns the middle of the step nearest to an instant.
func (s *steps) nearest(at time.Time) time.Time {
	return s.phase.Add(time.Duration(roundDiv(at.Sub(s.phase), s.period)) * s.period)
}

// width is how well the phase is known now.
func (s *steps) width(now time.Time) time.Duration {
	s.age(now)
	return s.hi - s.lo
}

// before returns the time of the last step that a reading holds. ok is false where the reading was taken too close to a
// step to say which side it is on.
func (s *steps) before(l sight) (at time.Time, ok bool) {
	s.age(l.got)
	step := s.nearest(l.asked)
	middle := step.Add(s.lo + (s.hi-s.lo)/2)
	switch {
	case l.got.Before(step.Add(s.lo)):
		return middle.Add(-s.period), true
	case !l.asked.Before(step.Add(s.hi)):
		return middle, true
	}
	return middle, false
}

// fine is the width to which the phase is narrowed down, at the cost of a few readings more.
func (s *steps) fine() time.Duration { return max(s.period/500, 100*time.Microsecond) + 2*s.jitter }

// near reports whether the next step can be told well enough to look for it there.
func (s *steps) near(now time.Time) bool { return s.locked && s.width(now) <= s.period/8 }

// steady reports whether readings can be put on the grid: the phase is known finely, or after some steps as well as it can
// be here, where readings come late or steps do.
func (s *steps) steady(now time.Time) bool {
	return s.near(now) && (s.hi-s.lo <= 2*s.fine() || s.met >= 3)
}

// poll is the time between readings while a step is searched for.
func (s *steps) poll() time.Duration {
	if s.period == 0 {
		return time.Millisecond
	}
	return min(2*time.Millisecond, max(s.period/64, time.Millisecond/4))
}

// next returns when to read next for the most knowledge at the least cost. n counts the steps followed, and known is the
// newest of them: one that was missed is read at once, while the counter still shows it.
func (s *steps) next(now time.Time, n int, known time.Time) time.Time {
	if !s.near(now) {
		return now.Add(s.poll())
	}
	step := s.nearest(now)
	if !step.Add(s.hi).After(now) {
		step = step.Add(s.period)
	}
	if s.steady(now) && step.Sub(known) > 3*s.period/2 {
		return maxTime(now, s.last.got.Add(s.poll()))
	}
	margin := min(s.period/64, 200*time.Microsecond)
	early, mid, late := step.Add(s.lo-margin-2*s.jitter), step.Add((s.lo+s.hi)/2), step.Add(s.hi+margin)
	switch {
	case s.hi-s.lo > s.fine() && mid.After(now):
		return mid
	case n%4 == 0 && early.After(now):
		return early
	}
	return late
}

func roundDiv(a, b time.Duration) int64 {
	half := b / 2
	if a < 0 {
		half = -half
	}
	return int64((a + half) / b)
}
