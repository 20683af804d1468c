package meter

import (
	"math"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// fine is a sum that keeps its fraction however large it grows: a float64 alone would lose microjoules after a month.
type fine struct{ whole, frac float64 }

func (f fine) add(x float64) fine {
	w, r := math.Modf(x)
	f.whole += w
	f.frac += r
	if w, r = math.Modf(f.frac); w != 0 {
		f.whole, f.frac = f.whole+w, r
	}
	return f
}

func (f fine) since(g fine) float64 { return (f.whole - g.whole) + (f.frac - g.frac) }

// totals are running sums along a device's timeline; a window's part is a difference of two of them.
type totals struct {
	energy   fine          // µJ credited
	phi      fine          // µJ for each unit of weight open at the time
	psi      float64       // measured seconds for each unit of weight
	measured time.Duration // with the energy known
	together time.Duration // measured, with more than one window
}

// unitWeight is the weight 1: weights are whole numbers of thousandths, so that they add up exactly.
const unitWeight = 1000

// slice is a stretch of the timeline in which the windows were the same.
type slice struct {
	length  time.Duration
	weight  int64 // of the windows open
	count   int   // of the windows open
	left    int64 // weight of those that have ended since
	settled bool  // its energy has been credited
}

// stamp is a place on the timeline. Its totals may still change while the slices around it are remembered.
type stamp struct {
	totals
	at    time.Time
	index int // slices remembered before it
	era   int // of the memory it counts in
}

// note is something that happened to the counter in an interval.
type note struct {
	from, to time.Time
	reason   string
	gap      bool // without a reading
}

// member is a window's place on one device's timeline.
type member struct {
	weight int64 // 0: it only observes
	opened stamp
	blur   time.Duration // longest interval with one figure that an edge of the window cut
	cut    cutStep       // where the window began within a step
	joined bool
	slot   int // in timeline.members
}

// timeline is the life of one counter: edges of windows and readings cut it into slices, and each slice's energy goes to
// the windows open in it by weight. It is pure: readings come from outside, perhaps later than the edges that lie after
// them. What no window covered is loose.
type timeline struct {
	counter  counter
	hold     time.Duration // so much time after a reading is no gap: the next one is still to come
	lo, hi   float64       // µW: between these the device's power is expected to be
	fresh    time.Time     // of the newest reading there is, taken in or not yet
	now      stamp
	started  bool
	measured unit.Energy // all that was ever credited

	members []*member
	weight  int64
	sharers int
	loose   fine    // µJ no window paid for
	carry   float64 // µJ owed to the next window that ends, ±½: what rounding withheld

	// memory holds the slices since the base reading, or since the base before the last break while that may be
	// returned to. Those from open on have no energy yet.
	memory  []slice
	open    int
	top     int // the highest index of a stamp in this memory
	era     int
	trouble string // why the newest slices have no energy
	blind   time.Time

	notes []note
	marks []*stamp // places others want kept: the sampler's
	// epochs are the operating points since the oldest window opened; there is always one.
	epochs []epoch
	power  unit.Power // mean over the newest stretch of at least minPowerSpan
	since  totals     // begin of the stretch after that
}

const (
	maxMemory = 1 << 15 // slices; beyond, the counter's base is given up
	maxNotes  = 64
)

// cut takes a reading in: of this moment, which ends the current slice, or of an earlier one. why is the reason if it
// failed; p is what was drawn since the base, if more is known than the mean. A reading older than the base is ignored.
func (t *timeline) cut(r reading, why string, p profile) verdict {
	if t.started && r.at.Before(t.base()) {
		return unread
	}
	if !t.started {
		t.started, t.now.at, t.blind = true, r.at, r.at
	}
	base := t.counter.base.at
	end := t.bound(r.at)
	v, credit := t.counter.step(r)
	switch {
	case v == first:
		t.sees(r.at)
	case v == recovered:
		t.recover(credit, end)
	case v.credits():
		t.credit(credit, end, p)
		if v == ambiguous {
			t.note(note{base, r.at, ReasonAmbiguous, false})
		}
	case v.broke():
		t.breaks(v, base, r.at, end)
	case v == backward:
		t.trouble = ReasonBackward
	default:
		t.trouble = why
	}
	t.expire()
	return v
}

// base returns the moment of the newest good reading; before the first, where the timeline has got to.
func (t *timeline) base() time.Time {
	if t.counter.hasBase {
		return t.counter.base.at
	}
	return t.now.at
}

// bound makes a moment a boundary between slices and returns how many lie before it.
func (t *timeline) bound(at time.Time) int {
	t.pass(at)
	begin := t.now.at
	for i := len(t.memory); i > t.open; i-- {
		end := begin
		if !end.After(at) {
			return i
		}
		begin = end.Add(-t.memory[i-1].length)
		if begin.Before(at) {
			t.split(i-1, at.Sub(begin))
			return i
		}
	}
	return t.open
}

// split parts a slice in two.
func (t *timeline) split(i int, length time.Duration) {
	rest := t.memory[i]
	rest.length -= length
	t.memory[i].length = length
	t.memory = slices.Insert(t.memory, i+1, rest)
	t.top++
	t.eachStamp(func(s *stamp, _ *member) {
		if s.index > i {
			s.index++
		}
	})
}

// divided reports whether a boundary lies between the base and a later moment.
func (t *timeline) divided(at time.Time) bool {
	return t.open < len(t.memory) && t.base().Add(t.memory[t.open].length).Before(at)
}

// pass ends the current slice without a reading: the next one is shared out over it by time.
func (t *timeline) pass(at time.Time) {
	if t.started && at.After(t.now.at) {
		t.extend(at)
	}
}

// extend remembers the slice up to a moment. Before the first reading there is nothing to remember it for.
func (t *timeline) extend(at time.Time) {
	if t.counter.hasBase {
		t.memory = append(t.memory, slice{length: at.Sub(t.now.at), weight: t.weight, count: t.sharers})
	}
	t.now.at = at
}

// sees begins counting after a time without a base.
func (t *timeline) sees(at time.Time) {
	if at.After(t.blind) {
		t.note(note{t.blind, at, t.trouble, true})
	}
	t.trouble = ""
}

// credit shares energy out over the open slices up to one.
func (t *timeline) credit(e unit.Energy, end int, p profile) {
	t.share(e, t.open, end, p)
	t.trouble = ""
	t.open = end
	if !t.counter.hasOld {
		t.drop(end)
	}
	if stretch := t.now.measured - t.since.measured; stretch >= minPowerSpan {
		t.power = unit.Energy(t.now.energy.since(t.since.energy)).Per(stretch)
		t.since = t.now.totals
	}
}

// minPowerSpan is the shortest time whose mean power says something on any counter.
const minPowerSpan = 200 * time.Millisecond

// recover shares the difference a returned base makes over all that is remembered up to a slice, and takes the gap back.
func (t *timeline) recover(diff unit.Energy, end int) {
	from := t.counter.base.at
	for _, s := range t.memory[:end] {
		from = from.Add(-s.length)
	}
	t.share(diff, 0, end, nil)
	t.notes = slices.DeleteFunc(t.notes, func(n note) bool {
		return n.gap && !n.from.Before(from)
	})
	t.trouble = ""
	t.open = end
	t.drop(end)
}

// breaks loses the open slices up to one: they become a gap.
func (t *timeline) breaks(v verdict, from, to time.Time, end int) {
	reason := ReasonReset
	switch v {
	case jump:
		reason = ReasonJump
	case believed:
		reason = ReasonBackward
	}
	t.note(note{from, to, reason, true})
	t.trouble = ""
	// The counter remembers the newest base alone, so only the slices since that one can still be paid for.
	end -= t.open
	t.drop(t.open)
	t.open = end
}

// expire ends what has been remembered too long.
func (t *timeline) expire() {
	if !t.counter.hasOld && t.open > 0 {
		t.drop(t.open)
	}
	if len(t.memory) <= maxMemory {
		return
	}
	if t.counter.hasOld {
		t.counter.forget()
		t.drop(t.open)
	}
	if len(t.memory) > maxMemory {
		t.blind = t.counter.base.at
		t.counter.abandon()
		t.clear()
	}
}

// clear forgets all slices: every stamp is final.
func (t *timeline) clear() {
	t.memory, t.open, t.top = t.memory[:0], 0, 0
	t.era++
	t.now.index, t.now.era = 0, t.era
}

// drop forgets the first n slices. Stamps between them are final.
func (t *timeline) drop(n int) {
	if n == len(t.memory) {
		t.clear()
		return
	}
	if n == 0 {
		return
	}
	t.memory = append(t.memory[:0], t.memory[n:]...)
	t.open -= n
	t.top = max(0, t.top-n)
	t.eachStamp(func(s *stamp, _ *member) { s.index = max(0, s.index-n) })
}

func (t *timeline) note(n note) {
	if len(t.notes) == maxNotes {
		shortest := 0
		for i, m := range t.notes {
			if m.to.Sub(m.from) < t.notes[shortest].to.Sub(t.notes[shortest].from) {
				shortest = i
			}
		}
		t.notes = slices.Delete(t.notes, shortest, shortest+1)
	}
	t.notes = append(t.notes, n)
}

// eachStamp visits every stamp of this era.
func (t *timeline) eachStamp(f func(*stamp, *member)) {
	for _, m := range t.members {
		if m.opened.era == t.era {
			f(&m.opened, m)
		}
	}
	for _, s := range t.marks {
		if s.era == t.era {
			f(s, nil)
		}
	}
	for i := range t.epochs {
		if s := &t.epochs[i].begin; s.era == t.era {
			f(s, nil)
		}
	}
}

// troubles returns the longest time without a reading between two moments, and the reasons met there.
func (t *timeline) troubles(from, to time.Time) (longest time.Duration, reasons []string) {
	see := func(n note) {
		if n.to.Before(from) || !n.from.Before(to) || n.to.Equal(from) {
			return
		}
		if n.reason != "" {
			reasons = append(reasons, n.reason)
		}
		if n.gap {
			longest = max(longest, minTime(n.to, to).Sub(maxTime(n.from, from)))
		}
	}
	for _, n := range t.notes {
		see(n)
	}
	if !t.counter.hasBase {
		see(note{t.blind, to, t.trouble, true})
	} else if t.open < len(t.memory) && (t.trouble != "" || to.Sub(maxTime(t.counter.base.at, t.fresh)) > t.hold) {
		see(note{t.counter.base.at, to, t.trouble, true})
	}
	if longest > 0 {
		reasons = append(reasons, ReasonGap)
	}
	return longest, reasons
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
