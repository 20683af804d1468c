package meter

import (
	"math"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// share gives energy to the slices from one to another and to the windows in each by weight: to those without energy
// yet, as a profile of the time since the base says, else by their length.
func (t *timeline) share(e unit.Energy, from, end int, p profile) {
	t.measured += e
	span := t.memory[from:end]
	before := t.now.totals
	if len(span) == 1 && t.top <= from {
		t.now.totals = t.pay(before, &span[0], float64(e))
		return
	}
	var all time.Duration
	for _, s := range span {
		all += s.unpaid()
	}
	parts := divide(span, float64(e), all, p, t.counter.base.at.Add(-all))
	reached := make([]totals, len(span)+1)
	reached[0] = before
	for i := range span {
		reached[i+1] = t.pay(reached[i], &span[i], parts[i])
	}
	t.now.totals = reached[len(span)]
	// A stamp inside the span or after it has all of what lies before it.
	t.eachStamp(func(s *stamp, m *member) {
		if s.index <= from {
			return
		}
		to := reached[min(s.index, end)-from]
		s.totals = s.plus(to, before)
		into := to.measured - before.measured
		switch {
		case m == nil || into <= 0 || into >= all:
		case p == nil:
			m.blur = max(m.blur, all)
		default:
			m.cut = cutStep{into, all - into, float64(e), t.now.energy.since(to.energy), t.lo, t.hi}
		}
	})
}

// divide splits energy over slices that begin at a moment: as the profile says, else by their length without energy.
func divide(span []slice, e float64, all time.Duration, p profile, at time.Time) []float64 {
	parts := make([]float64, len(span))
	sum := 0.0
	if p != nil {
		begin := at
		for i, s := range span {
			end := begin.Add(s.length)
			parts[i] = p.energy(at, begin, end)
			sum += parts[i]
			begin = end
		}
	}
	for i, s := range span {
		switch {
		case sum > 0:
			parts[i] *= e / sum
		case all > 0:
			parts[i] = e * (float64(s.unpaid()) / float64(all))
		default:
			parts[i] = e / float64(len(span))
		}
	}
	return parts
}

// forecast is what a window is expected to be charged for slices whose energy is not known yet.
type forecast struct {
	share   float64 // µJ
	total   float64 // µJ, the device's
	seconds float64 // that the window answers for
	known   time.Duration
	shared  bool
}

// forecast charges a window for the open slices up to a moment, from a profile that begins at the base.
func (t *timeline) forecast(m *member, until time.Time, p profile) forecast {
	var f forecast
	if len(p) == 0 || !t.counter.hasBase {
		return f
	}
	until = minTime(until, p[len(p)-1].until)
	first := t.open
	if m.opened.era == t.era {
		first = max(first, m.opened.index)
	}
	start, begin := t.base(), t.base()
	for i, s := range t.memory[t.open:] {
		end := minTime(begin.Add(s.length), until)
		if t.open+i >= first && end.After(begin) {
			length := end.Sub(begin)
			e := p.energy(start, begin, end)
			part := 1.0
			if m.weight > 0 {
				part = ratio(float64(m.weight), float64(s.weight))
			}
			f.share += part * e
			f.total += e
			f.seconds += part * length.Seconds()
			f.known += length
			f.shared = f.shared || s.count > 1
		}
		begin = begin.Add(s.length)
	}
	return f
}

// unpaid returns the length of a slice without energy.
func (s slice) unpaid() time.Duration {
	if s.settled {
		return 0
	}
	return s.length
}

// pay credits one slice and returns the totals after it.
func (t *timeline) pay(sum totals, s *slice, e float64) totals {
	sum.energy = sum.energy.add(e)
	switch {
	case s.weight > 0:
		sum.phi = sum.phi.add(e * unitWeight / float64(s.weight))
		t.loose = t.loose.add(e * float64(s.left) / float64(s.weight))
	default:
		t.loose = t.loose.add(e)
	}
	if s.settled {
		return sum
	}
	s.settled = true
	sum.measured += s.length
	if s.count > 1 {
		sum.together += s.length
	}
	if s.weight > 0 {
		sum.psi += s.length.Seconds() * unitWeight / float64(s.weight)
	}
	return sum
}

// plus returns s with the difference of two totals added.
func (s totals) plus(to, from totals) totals {
	s.energy = s.energy.add(to.energy.since(from.energy))
	s.phi = s.phi.add(to.phi.since(from.phi))
	s.psi += to.psi - from.psi
	s.measured += to.measured - from.measured
	s.together += to.together - from.together
	return s
}

// stamp returns the present place on the timeline.
func (t *timeline) stamp() stamp {
	s := t.now
	s.index, s.era = len(t.memory), t.era
	t.top = len(t.memory)
	return s
}

// stampAt returns the place of a moment that is not before the base.
func (t *timeline) stampAt(at time.Time) stamp {
	i := t.bound(at)
	s := t.stamp()
	if s.at.After(at) {
		s.at, s.index = at, i
	}
	return s
}

// join takes a window in, from the newest cut on.
func (t *timeline) join(m *member) { t.joinAt(m, t.now.at) }

// joinAt takes a window in from a moment on that is not before the base.
func (t *timeline) joinAt(m *member, at time.Time) {
	m.opened = t.stampAt(at)
	m.joined, m.slot = true, len(t.members)
	t.members = append(t.members, m)
	if m.weight == 0 {
		return
	}
	t.weight += m.weight
	t.sharers++
	for i := m.opened.index; i < len(t.memory); i++ {
		t.memory[i].weight += m.weight
		t.memory[i].count++
	}
}

// leave lets a window go at the newest cut and charges it up to the stamp given and for what is forecast; what it would
// have had beyond is loose, as is what rounding to a whole number of steps takes, and the difference when what was
// forecast is known. It returns the window's gross energy.
func (t *timeline) leave(m *member, until stamp, step unit.Energy, f forecast) unit.Energy {
	last := len(t.members) - 1
	t.members[m.slot] = t.members[last]
	t.members[m.slot].slot = m.slot
	t.members[last] = nil
	t.members = t.members[:last]
	t.weight -= m.weight
	m.joined = false
	if len(t.members) == 0 {
		t.notes = t.notes[:0]
	}
	if m.weight == 0 {
		return rounded(until.energy.since(m.opened.energy)+f.total, step)
	}
	t.sharers--
	first := 0
	if m.opened.era == t.era {
		first = m.opened.index
	}
	for i := range t.memory[first:] {
		t.memory[first+i].left += m.weight
	}
	due := float64(m.weight)/unitWeight*until.phi.since(m.opened.phi) + f.share
	beyond := float64(m.weight) / unitWeight * t.now.phi.since(until.phi)
	paid := math.Round(due + t.carry)
	if step > 1 {
		paid = math.Round(due/float64(step)) * float64(step)
		t.loose = t.loose.add(due - paid)
	} else {
		t.carry += due - paid
	}
	t.loose = t.loose.add(beyond - f.share)
	return unit.Energy(paid)
}

// seconds returns the measured time a window answers for between two stamps: its share of each slice.
func (m *member) seconds(from, to stamp) float64 {
	if m.weight == 0 {
		return (to.measured - from.measured).Seconds()
	}
	return float64(m.weight) / unitWeight * (to.psi - from.psi)
}

func rounded(uj float64, step unit.Energy) unit.Energy {
	step = max(step, 1)
	return unit.Energy(math.Round(uj/float64(step))) * step
}
