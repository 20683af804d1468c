package meter

import (
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// outlook is what is expected of the time from the timeline's base to a moment, as far as one may expect anything.
func (s *stepper) outlook(until time.Time) profile {
	line := &s.device.line
	if s.off || !line.counter.hasBase || s.device.last.err != nil {
		return nil
	}
	base := line.counter.base
	if len(s.raw) > 0 {
		return s.guess(base, until)
	}
	var p profile
	at := base.at
	if s.pending {
		p = stepProfile(at, s.knot.at, s.before, s.mean, -1)
		at = s.knot.at
	}
	if end := minTime(until, at.Add(s.period()*3/2)); end.After(at) {
		p = append(p, piece{end, s.level, s.level})
	}
	return p
}

// guess is the outlook from readings that are not placed yet: between two of them their mean.
func (s *stepper) guess(base reading, until time.Time) profile {
	var p profile
	at, value, mean := base.at, base.value, 0.0
	for _, r := range s.raw {
		if r.value < value || !r.asked.After(at) {
			continue
		}
		mean = float64(r.value-value) / r.asked.Sub(at).Seconds()
		p = append(p, piece{r.asked, mean, mean})
		at, value = r.asked, r.value
	}
	if until.After(at) && len(p) > 0 {
		p = append(p, piece{until, mean, mean})
	}
	return p
}

// strongest is the greatest mean power among the readings that are not placed yet, over a period at least.
func (s *stepper) strongest() unit.Power {
	most := 0.0
	for i, r := range s.raw {
		for _, q := range s.raw[i+1:] {
			length := max(q.asked.Sub(r.asked), s.period())
			most = max(most, float64(q.value-r.value)/length.Seconds())
		}
	}
	return unit.Power(most)
}

// tail is how much of the energy of a window that ends now is expected rather than read, in µJ, as the half-width of what
// it can be wrong by.
func (s *stepper) tail(until time.Time) float64 {
	lo, hi := s.powers()
	if !s.hasKnot {
		return hi * s.period().Seconds()
	}
	return max(hi-s.level, s.level-lo, 0) * max(0, until.Sub(s.knot.at).Seconds())
}

// powers is between what the device's power is expected to be, in µW.
func (s *stepper) powers() (lo, hi float64) {
	lo, hi = s.seen.span()
	return min(lo, s.before, s.level), max(hi, s.before, s.level)
}
