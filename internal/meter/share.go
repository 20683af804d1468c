package meter

import (
	"math"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// share gives energy to the slices from one on and to the windows in each by weight: to those without energy yet, by
// their length.
func (t *timeline) share(e unit.Energy, from int) {
	t.measured += e
	span := t.memory[from:]
	if len(span) == 1 {
		t.now.totals = t.pay(t.now.totals, &span[0], float64(e))
		return
	}
	var all time.Duration
	for _, s := range span {
		all += s.unpaid()
	}
	before := t.now.totals
	reached := make([]totals, len(span)+1)
	reached[0] = before
	for i := range span {
		part := float64(e) / float64(len(span))
		if all > 0 {
			part = float64(e) * (float64(span[i].unpaid()) / float64(all))
		}
		reached[i+1] = t.pay(reached[i], &span[i], part)
	}
	t.now.totals = reached[len(span)]
	// A stamp inside the span has all of what lies before it.
	t.eachStamp(func(s *stamp, m *member) {
		if s.index <= from {
			return
		}
		s.totals = s.plus(reached[s.index-from], before)
		if into := reached[s.index-from].measured - before.measured; m != nil && into > 0 && into < all {
			m.blur = max(m.blur, all)
		}
	})
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
	return s
}

// join takes a window in, from the newest cut on.
func (t *timeline) join(m *member) {
	m.opened = t.stamp()
	m.staged = m.opened
	m.joined, m.slot = true, len(t.members)
	t.members = append(t.members, m)
	t.weight += m.weight
	if m.weight > 0 {
		t.sharers++
	}
}

// leave lets a window go at the newest cut and charges it up to the stamp given; what it would have had beyond is loose,
// as is what rounding to a whole number of steps takes. It returns the window's gross energy.
func (t *timeline) leave(m *member, until stamp, step unit.Energy) unit.Energy {
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
		return m.seen(m.opened, until, step)
	}
	t.sharers--
	first := 0
	if m.opened.era == t.era {
		first = m.opened.index
	}
	for i := range t.memory[first:] {
		t.memory[first+i].left += m.weight
	}
	due := float64(m.weight) / unitWeight * until.phi.since(m.opened.phi)
	beyond := float64(m.weight) / unitWeight * t.now.phi.since(until.phi)
	paid := math.Round(due + t.carry)
	if step > 1 {
		paid = math.Round(due/float64(step)) * float64(step)
		t.loose = t.loose.add(due - paid)
	} else {
		t.carry += due - paid
	}
	t.loose = t.loose.add(beyond)
	return unit.Energy(paid)
}

// share returns what a window is charged between two stamps, rounded to whole steps.
func (m *member) share(from, to stamp, step unit.Energy) unit.Energy {
	if m.weight == 0 {
		return m.seen(from, to, step)
	}
	return rounded(float64(m.weight)/unitWeight*to.phi.since(from.phi), step)
}

// seen returns what the device drew between two stamps, whoever caused it.
func (m *member) seen(from, to stamp, step unit.Energy) unit.Energy {
	return rounded(to.energy.since(from.energy), step)
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
