package meter

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// poll is one of many readings of a counter, made so fast that it stands still between most of them.
type poll struct {
	at    time.Time
	value unit.Energy
}

// pace is how a counter moves, as its polls tell.
type pace struct {
	period   time.Duration // mean between two steps; 0: fewer than fewIntervals were seen
	jitter   time.Duration // standard deviation of the intervals between steps, less what the polls' spacing adds
	steps    int           // intervals between steps that were seen
	smallest unit.Energy   // least that it rose by; 0: it did not move
	// atMost: it had moved at every poll. Its period is no longer than that, and may be much shorter.
	atMost bool
}

// fewIntervals is how many intervals between steps make a period.
const fewIntervals = 3

// paceOf measures how a counter moves. A step happened between two polls, in the middle as far as anyone knows; a fall is
// no step, and what lies on its two sides is not compared.
func paceOf(polls []poll) pace {
	var p pace
	var spacings, intervals []time.Duration
	var last time.Time // of the step before
	for i := 1; i < len(polls); i++ {
		a, b := polls[i-1], polls[i]
		spacings = append(spacings, b.at.Sub(a.at))
		rise := b.value - a.value
		if rise < 0 {
			last = time.Time{}
			continue
		}
		if rise == 0 {
			continue
		}
		if p.smallest == 0 || rise < p.smallest {
			p.smallest = rise
		}
		at := a.at.Add(b.at.Sub(a.at) / 2)
		if !last.IsZero() {
			intervals = append(intervals, at.Sub(last))
		}
		last = at
	}
	p.steps = len(intervals)
	if p.steps < fewIntervals {
		return p
	}
	spacing := median(spacings)
	if p.steps == len(polls)-2 {
		p.atMost, p.period = true, spacing
		return p
	}
	p.period, p.jitter = rhythm(intervals, spacing)
	return p
}

// rhythm returns the period behind intervals and how much they vary about it. Where steps are clear of each other, an
// interval of several periods is one in which some steps added nothing, or nobody looked.
func rhythm(intervals []time.Duration, spacing time.Duration) (period, jitter time.Duration) {
	middle := median(intervals)
	times := func(d time.Duration) float64 {
		if middle < 4*spacing {
			return 1
		}
		return max(1, math.Round(float64(d)/float64(middle)))
	}
	total, count := 0.0, 0.0
	for _, d := range intervals {
		total, count = total+float64(d), count+times(d)
	}
	mean, squares := total/count, 0.0
	for _, d := range intervals {
		off := float64(d) - times(d)*mean
		squares += off * off
	}
	// Each end of an interval is known to within a spacing, evenly: two of them add spacing²/6.
	variance := squares/float64(len(intervals)-1) - float64(spacing)*float64(spacing)/6
	return time.Duration(mean), time.Duration(math.Sqrt(max(0, variance)))
}

// median returns the lower middle of values, which it leaves as they are; 0 of none.
func median[T cmp.Ordered](values []T) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
