package meter

import (
	"math"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// profile is what a device is taken to have drawn between two readings, piece after piece. It is nil where nothing is
// known but the mean.
type profile []piece

// piece is a stretch of a profile: from the end of the one before to until, at a power that goes from one to the other.
type piece struct {
	until    time.Time
	from, to float64 // µW
}

// energy returns what a profile that begins at start comes to between two moments of it, in µJ.
func (p profile) energy(start, from, to time.Time) float64 {
	sum := 0.0
	for _, q := range p {
		length := q.until.Sub(start).Seconds()
		a := max(0, from.Sub(start).Seconds())
		b := min(length, to.Sub(start).Seconds())
		if b > a {
			at := func(x float64) float64 { return q.from + (q.to-q.from)*x/length }
			sum += (at(a) + at(b)) / 2 * (b - a)
		}
		start = q.until
	}
	return sum
}

// stepProfile is what happened within one step of a counter, of which the mean power is known and those of the steps
// around it: a change from the one to the other within the step if the mean lies between them. Without a step after,
// after is negative.
func stepProfile(start, end time.Time, before, mean, after float64) profile {
	if after < 0 || before == after || (mean-before)*(after-mean) < 0 {
		return profile{{end, mean, mean}}
	}
	at := start.Add(time.Duration(float64(end.Sub(start)) * (after - mean) / (after - before)))
	return profile{{at, before, before}, {end, after, after}}
}

// ramp is what lay between two samples of a power sensor.
func ramp(end time.Time, from, to unit.Power) profile {
	return profile{{end, float64(from), float64(to)}}
}

// cutStep is a step of the counter in which a window began: so long before and after that moment, with so much energy in
// all. Where in the step the energy was drawn is not known.
type cutStep struct {
	pre, post time.Duration
	energy    float64 // µJ; of the device
	given     float64 // of it, to what lies after
	lo, hi    float64 // µW: between these it was expected to be then
}

// doubt returns by how much the energy after the cut can be wrong, if the power was within lo and hi µW.
func (c cutStep) doubt(lo, hi float64) float64 {
	if c.pre <= 0 || c.post <= 0 {
		return 0
	}
	pre, post := c.pre.Seconds(), c.post.Seconds()
	mean := c.energy / (pre + post)
	lo, hi = max(0, min(lo, c.lo, mean)), max(hi, c.hi, mean)
	least := max(lo*post, c.energy-hi*pre)
	most := min(hi*post, c.energy-lo*pre)
	return max(most-c.given, c.given-least, 0)
}

// powerRange remembers what power a device drew lately, from reading to reading.
type powerRange struct {
	ring [64]float64 // µW
	n    int
}

func (r *powerRange) add(uw float64) {
	r.ring[r.n%len(r.ring)] = uw
	r.n++
}

// span returns the least and the most. With few to go by the range is taken to be wider than what was seen.
func (r *powerRange) span() (lo, hi float64) {
	lo, hi = math.Inf(1), 0
	for _, p := range r.ring[:min(r.n, len(r.ring))] {
		lo, hi = min(lo, p), max(hi, p)
	}
	if r.n == 0 {
		return 0, 0
	}
	margin := (hi - lo) / float64(4*min(r.n, len(r.ring)))
	return max(0, lo-margin), hi + margin
}
