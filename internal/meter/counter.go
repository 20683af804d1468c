package meter

import (
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// verdict is what one reading of a counter says about the energy since the reading before.
type verdict uint8

const (
	first     verdict = iota // nothing to compare with
	unread                   // no reading: the next good one spans this interval too
	ok                       // a rise the device can have drawn
	ambiguous                // a rise, but one more wrap would fit as well: a lower bound
	jump                     // a rise beyond what the device can draw
	wrap                     // the counter passed its end
	reset                    // the counter started anew
	backward                 // a fall nothing explains
	believed                 // the same fall again and again: it counts from here
	recovered                // what looked like a jump or a reset was a glitch
)

func (v verdict) String() string {
	return [...]string{"first", "unread", "ok", "ambiguous", "jump", "wrap", "reset", "backward", "backward", "recovered"}[v]
}

// credits reports whether the energy up to the reading is known.
func (v verdict) credits() bool { return v == ok || v == ambiguous || v == wrap || v == recovered }

// broke reports whether the interval up to the reading is lost, unless a later one recovers it.
func (v verdict) broke() bool { return v == jump || v == reset || v == believed }

const (
	slack          = 50 * time.Millisecond  // a counter's own update period, on top of the time between readings
	memory         = 120 * time.Second      // how long the base before a break may be returned to
	patience       = 3                      // impossible falls in a row until the new value is believed
	sleepTolerance = 100 * time.Millisecond // two clocks read one after the other differ by less
)

// reading is one look at a counter.
type reading struct {
	value  unit.Energy
	err    error         // nothing was read
	at     time.Time     // carries the monotonic clock
	asleep time.Duration // how long the machine had slept by then
}

// counter judges the readings of one energy counter. It is pure: what it knows it was told.
type counter struct {
	span  unit.Energy   // where it wraps; 0: never
	limit unit.Power    // more than the device can draw
	blur  time.Duration // how far off the times of two readings may be, beyond slack

	base    reading // what rises are counted from
	hasBase bool
	falls   int // impossible ones in a row

	old      reading     // the base before the last break
	hasOld   bool        //
	credited unit.Energy // since old

	tally tally
}

// tally is what a counter's readings have come to so far.
type tally struct {
	verdicts [recovered + 1]uint32
	newest   reading   // the newest good one
	moved    time.Time // of the newest good one that differed from the one before, or of the first
	still    int       // good ones since, all the same
}

const (
	frozenReads = 3               // readings of one value, the first not counted, before a counter is taken to stand
	frozenTime  = 5 * time.Second // and the time they must span: whatever is powered draws something
)

// add counts a reading and its verdict.
func (t *tally) add(r reading, v verdict) {
	t.verdicts[v]++
	switch {
	case r.err != nil:
		return
	case t.moved.IsZero() || r.value != t.newest.value:
		t.moved, t.still = r.at, 0
	default:
		t.still++
	}
	t.newest = r
}

// frozen reports whether the counter stands still. Time that the machine slept is not among the readings' times.
func (t *tally) frozen() bool {
	return t.still >= frozenReads && t.newest.at.Sub(t.moved) >= frozenTime
}

// step takes a reading and returns what it says and the energy to credit. After recovered the energy replaces what was
// credited since the base that was returned to: it is the difference, and may be negative.
func (c *counter) step(r reading) (verdict, unit.Energy) {
	v, credit := c.weigh(r)
	c.tally.add(r, v)
	return v, credit
}

func (c *counter) weigh(r reading) (verdict, unit.Energy) {
	if r.err != nil {
		return unread, 0
	}
	if !c.hasBase {
		c.base, c.hasBase = r, true
		return first, 0
	}
	if c.hasOld && r.at.Sub(c.old.at) > memory {
		c.forget()
	}
	v, credit := c.judge(c.base, r)
	if !v.credits() && c.hasOld {
		if old, whole := c.judge(c.old, r); old.credits() {
			credit = whole - c.credited
			c.forget()
			c.move(r)
			return recovered, credit
		}
	}
	if v == backward {
		if c.falls++; c.falls < patience {
			return backward, 0
		}
		v = believed
	}
	if v.broke() {
		c.old, c.hasOld, c.credited = c.base, true, 0
	}
	c.move(r)
	if c.hasOld {
		c.credited += credit
	}
	return v, credit
}

// judge compares a reading with a base and changes nothing.
func (c *counter) judge(base, r reading) (verdict, unit.Energy) {
	bound := c.limit.Over(r.at.Sub(base.at) + slack + c.blur)
	slept := r.asleep-base.asleep > sleepTolerance
	rise := r.value - base.value
	switch {
	case rise >= 0 && rise > bound:
		return jump, 0
	case rise >= 0 && c.fitsOnceMore(rise, bound):
		return ambiguous, rise
	case rise >= 0:
		return ok, rise
	case c.span > 0 && !slept && rise+c.span >= 0 && rise+c.span <= bound:
		if c.fitsOnceMore(rise+c.span, bound) {
			return ambiguous, rise + c.span
		}
		return wrap, rise + c.span
	case r.value <= bound:
		return reset, 0
	}
	return backward, 0
}

func (c *counter) fitsOnceMore(rise, bound unit.Energy) bool {
	return c.span > 0 && rise <= bound-c.span
}

func (c *counter) move(r reading) { c.base, c.falls = r, 0 }

// forget gives up the base before the last break.
func (c *counter) forget() { c.hasOld, c.old, c.credited = false, reading{}, 0 }

// abandon gives up the base: the next reading is a first one.
func (c *counter) abandon() {
	c.forget()
	c.hasBase, c.base, c.falls = false, reading{}, 0
}
