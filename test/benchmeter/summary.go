package benchmeter

import "math"

// Summary is what the figures of one cell come to, as shares of the mean truth.
type Summary struct {
	N         int      `json:"n"`
	MeanError float64  `json:"mean_error"` // of all figures, also those that are no measurement: they are kept for sums
	SD        float64  `json:"sd"`
	Coverage  *float64 `json:"coverage"`   // share of the measurements whose interval holds the truth; nil where there is none
	HalfWidth *float64 `json:"half_width"` // of the measurements, in the mean
	Unknown   float64  `json:"unknown"`    // share that is no measurement
	Bound     *float64 `json:"bound"`      // share of those that have an upper bound and are below it in truth

	sampled, inside int
	short           int // of a stretch that is too short to measure
	shortUnknown    int
	shortUnbound    int // of those, without a true upper bound
	unbound         int // no measurement, and no true upper bound
	astray          int
}

// Summarise puts figures together.
func Summarise(figures []Figure) Summary {
	s := Summary{N: len(figures)}
	var truth, sum, squares, widths float64
	for _, f := range figures {
		truth += f.Truth
		err := f.Energy - f.Truth
		sum += err
		squares += err * err
		if f.Short {
			s.short++
		}
		if f.Astray {
			s.astray++
		}
		switch {
		case f.Sampled:
			s.sampled++
			widths += f.HalfWidth
			if math.Abs(err) <= f.HalfWidth {
				s.inside++
			}
		case !f.bounded():
			s.unbound++
		}
		if f.Short && !f.Sampled {
			s.shortUnknown++
			if !f.bounded() {
				s.shortUnbound++
			}
		}
	}
	n := float64(s.N)
	mean := truth / n
	s.MeanError = sum / n / mean
	s.SD = math.Sqrt(max(0, squares/n-sum*sum/n/n)) / mean
	unknown := s.N - s.sampled
	s.Unknown = float64(unknown) / n
	s.Coverage = share(s.inside, s.sampled)
	s.Bound = share(unknown-s.unbound, unknown)
	if s.sampled > 0 {
		width := widths / float64(s.sampled) / mean
		s.HalfWidth = &width
	}
	return s
}

// bounded reports whether the figure has an upper bound, and a true one.
func (f Figure) bounded() bool { return f.Bounded && f.Bound >= f.Truth }

// share is a part of a whole, or nil where there is no whole.
func share(part, whole int) *float64 {
	if whole == 0 {
		return nil
	}
	v := float64(part) / float64(whole)
	return &v
}

// Differences makes of the figures what somebody gets who takes two readings of the counter and subtracts. The interval is
// the one of an edge that is anywhere in the counter's step: ± 0.776 steps at the mean power, within which 95 in 100 of
// the differences of two such edges lie.
func Differences(c Cell, figures []Figure) []Figure {
	half := (1 - math.Sqrt(0.05)) * c.Step.Seconds() / c.Window.Seconds()
	all := make([]Figure, 0, len(figures))
	for _, f := range figures {
		all = append(all, Figure{
			Truth: f.DifferenceTruth, Energy: f.Difference, HalfWidth: half * f.Difference, Sampled: true, Short: f.Short,
		})
	}
	return all
}
