package meter

import (
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// stepper follows a counter whose readings stand still for longer than an edge of a window may be out: it learns when
// the counter moves, gives the timeline the readings of those moments, and lets edges lie between them. It belongs to its
// device's gate.
type stepper struct {
	device  *device
	sampler bool // of a power sensor: each reading is of its own moment
	plain   bool // only the period is wanted
	steps   steps
	off     bool // no grid fits, or none is needed: edges are readings
	active  bool // the follower reads
	since   time.Time

	raw     []sight // not placed yet, each of another value
	knot    reading // the newest placed
	hasKnot bool
	mean    float64    // µW from the knot before to this one
	level   float64    // µW expected after it
	sample  unit.Power // at the knot, by the sensor
	pending bool       // the knot is not with the timeline yet: the power after it may say what happened before
	before  float64    // µW before the timeline's base
	seen    powerRange
	count   int // knots while active

	falls   int           // readings that could not be placed and were given as they are
	found   time.Duration // how far off the steps may have been when they were found
	waiters []*waiter
	watch   chan struct{} // a window has opened
}

// waiter is an edge that waits for the counter's next step.
type waiter struct {
	part  *part
	after time.Time
	ends  bool // the window ends; else it begins
	end   end
	done  chan struct{}
}

func newStepper(d *device) *stepper {
	return &stepper{device: d, sampler: d.sampler != nil, watch: make(chan struct{}, 1)}
}

// rouse sets the follower to work.
func (s *stepper) rouse() {
	if s.active {
		return
	}
	s.active, s.since, s.count = true, time.Now(), 0
	select {
	case s.watch <- struct{}{}:
	default:
	}
}

// observe takes a good reading in.
func (s *stepper) observe(l sight) {
	d := s.device
	if s.off {
		s.glance(l)
		return
	}
	if !s.plausible(l) {
		s.falter(l)
		return
	}
	if s.sampler {
		s.steps.last, s.steps.hasLast = l, true
		s.place(l, l.asked)
		return
	}
	s.steps.see(l)
	d.line.fresh = l.asked
	if s.steps.period > 0 {
		d.moves(s.steps.period)
	}
	switch {
	case s.steps.irregular || s.plain && s.steps.period > 0 || s.steps.period > 0 && s.steps.period < fineStep:
		s.turnOff(l)
	case s.steps.steady(l.got):
		if len(s.raw) > 0 {
			s.found = s.blur(l.got)
		}
		s.since = l.got
		for _, r := range s.raw {
			s.onGrid(r)
		}
		s.raw = s.raw[:0]
		s.onGrid(l)
	case !s.active:
		s.fallBack(l)
	case s.searching(l.got) > max(4*s.period(), 400*time.Millisecond):
		s.fallBack(l)
	case len(s.raw) == 0 || s.raw[len(s.raw)-1].value != l.value:
		s.raw = append(s.raw, l)
	}
}

// glance takes a reading that is its own edge, and remembers what power it speaks of.
func (s *stepper) glance(l sight) {
	d := s.device
	d.line.cut(d.reading(l.value, maxTime(l.asked, d.line.base())), "", nil)
	last := s.steps.last
	if stretch := l.asked.Sub(last.asked); stretch >= s.period() {
		if rise := l.value - last.value; rise >= 0 && stretch < 5*s.period()/2 {
			s.seen.add(float64(rise) / stretch.Seconds())
		}
		s.steps.last = l
	}
}

// period is that of the counter's steps, as far as is known.
func (s *stepper) period() time.Duration {
	if s.steps.period > 0 {
		return s.steps.period
	}
	return s.device.period
}

// searching is for how long the counter has been followed without a grid.
func (s *stepper) searching(now time.Time) time.Duration { return now.Sub(s.since) }

// plausible reports whether a reading is a rise that the device can have drawn.
func (s *stepper) plausible(l sight) bool {
	if !s.steps.hasLast {
		return true
	}
	last := s.steps.last
	rise := l.value - last.value
	return rise >= 0 && rise <= s.device.limit.Over(l.got.Sub(last.asked)+s.period())
}

// lapse starts over after a time of which nothing is known.
func (s *stepper) lapse() {
	s.flush(-1)
	s.steps.lose()
	s.hasKnot = false
	s.device.line.lapse()
}

// falter gives the timeline a reading that its rule must judge, and starts over.
func (s *stepper) falter(l sight) {
	s.flush(-1)
	s.steps.lose()
	s.steps.unlock()
	s.since = l.got
	s.falls++
	d := s.device
	r := d.reading(l.value, maxTime(l.asked, d.line.base()))
	d.line.cut(r, "", nil)
	s.knot, s.hasKnot = r, true
	s.steps.last, s.steps.hasLast = l, d.line.counter.base.value == l.value
	s.raw = s.raw[:0]
}

// fallBack gives the timeline a reading as of the middle of the step that it may be from.
func (s *stepper) fallBack(l sight) {
	s.flush(-1)
	if s.active {
		s.falls++
	}
	d := s.device
	at := maxTime(l.asked.Add(-s.period()/2), d.line.base())
	s.raw = s.raw[:0]
	if s.steps.locked && s.steps.width(l.got) <= s.period()/8 {
		if step, ok := s.steps.before(l); ok {
			at = maxTime(step, d.line.base())
		}
	}
	s.advance(d.reading(l.value, at), l.power)
	s.flush(-1)
}

// turnOff ends following for good.
func (s *stepper) turnOff(l sight) {
	s.flush(-1)
	d := s.device
	for _, r := range s.raw {
		d.line.cut(d.reading(r.value, maxTime(r.asked, d.line.base())), "", nil)
	}
	s.raw, s.off = nil, true
	s.falls++
	d.moves(s.steps.period)
	d.line.hold = 0
	s.glance(l)
	s.wake(l.asked)
}

// onGrid places a reading at the step it is from.
func (s *stepper) onGrid(l sight) {
	at, ok := s.steps.before(l)
	if s.hasKnot && s.active && l.value == s.knot.value {
		return // no step since, though one may be due
	}
	if !ok && (!s.hasKnot || s.knot.at.Before(at.Add(-s.period()*3/2))) {
		return // on either side of a step, and nothing to tell by
	}
	s.place(l, at)
}

// place takes a reading in as of a moment.
func (s *stepper) place(l sight, at time.Time) {
	if s.hasKnot && at.Sub(s.knot.at) < s.period()/2 && !s.sampler {
		return // of the same step
	}
	if at.Before(s.device.line.base()) || s.hasKnot && !at.After(s.knot.at) {
		return
	}
	s.advance(s.device.reading(l.value, at), l.power)
	s.count++
	s.wake(at)
}

// advance makes a reading the newest knot, with what the sensor said if it is one.
func (s *stepper) advance(r reading, sample unit.Power) {
	mean := -1.0
	if stretch := r.at.Sub(s.knot.at); s.hasKnot && r.value >= s.knot.value && stretch > 0 {
		mean = float64(r.value-s.knot.value) / stretch.Seconds()
		switch {
		case stretch < 3*s.period()/4 && !s.sampler: // the knot before was only near its step
			mean = s.mean
		case stretch < 5*s.period()/2:
			s.seen.add(mean)
		}
	}
	s.flush(mean)
	line := &s.device.line
	line.lo, line.hi = s.powers()
	line.bound(r.at)
	last := s.sample
	s.knot, s.hasKnot, s.mean, s.sample, s.pending = r, true, max(0, mean), sample, true
	s.level = s.mean
	switch {
	case s.sampler:
		s.level, s.pending = float64(sample), false
		line.cut(r, "", ramp(r.at, last, sample))
	case !line.divided(r.at):
		s.flush(-1)
	}
}

// flush gives the timeline the knot that was kept back; after is the power after it in µW, negative if unknown.
func (s *stepper) flush(after float64) {
	if !s.pending {
		return
	}
	s.pending = false
	line := &s.device.line
	var p profile
	if base := line.counter.base.at; line.counter.hasBase && line.divided(s.knot.at) {
		p = stepProfile(base, s.knot.at, s.before, s.mean, after)
	}
	line.cut(s.knot, "", p)
	s.before = s.mean
}

// blur is how far off the moments of the counter's steps may be, once they are known.
func (s *stepper) blur(now time.Time) time.Duration {
	if s.off || s.sampler || !s.steps.steady(now) {
		return 0
	}
	return (s.steps.hi-s.steps.lo)/2 + s.steps.jitter
}

// live reports whether an edge may lie between readings: the follower is at work and has seen the last step.
func (s *stepper) live(now time.Time) bool {
	return s.active && s.hasKnot && s.device.last.err == nil && len(s.raw) == 0 &&
		(s.sampler || s.steps.steady(now)) && now.Sub(s.knot.at) <= 2*s.period()+slack/10
}

// plan says when the follower should read next; on is false when there is nobody to read for.
func (s *stepper) plan(now, calibrate time.Time) (at time.Time, on bool) {
	d := s.device
	wanted := len(d.line.members) > 0 || len(s.waiters) > 0
	if !wanted && !s.off && !s.sampler && !d.restless && now.Before(calibrate) {
		wanted = !s.steps.steady(now) || s.count < 10
	}
	if !wanted || s.off && s.period() < fineStep {
		s.idle()
		return now, false
	}
	if !s.active {
		s.rouse()
	}
	switch {
	case d.last.err != nil:
		return now.Add(time.Second), true
	case s.sampler || s.off:
		return now.Add(s.period()), true
	case s.searching(now) > max(8*s.period(), 2*time.Second) && !s.steps.steady(now) && s.steps.searched > 500:
		return now.Add(s.period() / 2), true // it does not move
	}
	return s.steps.next(now, s.count, s.knot.at), true
}

// idle ends a time of following.
func (s *stepper) idle() {
	s.flush(-1)
	s.active, s.raw = false, s.raw[:0]
}

// wake ends the waiting of edges for a step at a moment.
func (s *stepper) wake(at time.Time) {
	rest := s.waiters[:0]
	late := time.Since(at) > s.period()/4 // it was put on the grid afterwards: nobody can begin to work there
	for _, w := range s.waiters {
		if at.Before(w.after) || late && !w.ends {
			rest = append(rest, w)
			continue
		}
		s.serve(w, at)
	}
	clear(s.waiters[len(rest):])
	s.waiters = rest
}

// serve ends one wait: the window begins or ends on the device here.
func (s *stepper) serve(w *waiter, at time.Time) {
	if w.ends {
		w.end = w.part.leave(at)
	} else {
		w.part.join(at)
	}
	close(w.done)
}

// forgo takes a waiter back; it reports false if it has been served.
func (s *stepper) forgo(w *waiter) bool {
	for i, x := range s.waiters {
		if x == w {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			return true
		}
	}
	return false
}
