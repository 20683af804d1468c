package meter

import (
	"math"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// Sum is what windows come to together.
type Sum struct {
	Windows    int
	Small      int           // of these, not told from nothing each by itself; they are in the sum, or it were biased
	Unmeasured int           // of these, with a device of which nothing was measured, and which is not in the sum
	Duration   time.Duration // of all windows, also where they overlap

	Energy    unit.Energy // gross less floor, signed; when Known
	HalfWidth unit.Energy // of the 95 % interval
	Gross     unit.Energy
	Floor     unit.Energy
	Known     bool // something was measured
	AboveIdle bool // every device of every window had a floor
	Terms     Terms
	// UpperBound is Energy and HalfWidth with what was not measured at its most; when HasUpperBound.
	UpperBound    unit.Energy
	HasUpperBound bool // of all that was not measured it is known what it was at most

	Work             float64 // 0 where units differ, or a window was told of none
	Unit             string
	PerUnit          float64 // joules, when HasPerUnit
	PerUnitHalfWidth float64
	HasPerUnit       bool
}

// SumOf adds windows up by their devices' measured figures; an estimate is no part of it. Edges and clocks are accidents of
// their own and add in quadrature. A floor that is wrong is wrong in each window that it was taken off, and so is a
// sensor's gain: they add linearly for each certificate, and for each sensor, and in quadrature between those.
func SumOf(results []Result) Sum {
	s := Sum{Windows: len(results), AboveIdle: len(results) > 0, HasUpperBound: len(results) > 0}
	var edges, clocks float64
	var unseenMost unit.Energy
	floors, gains := map[string]float64{}, map[string]float64{}
	for i := range results {
		r := &results[i]
		s.Duration += r.Duration
		s.count(r, i == 0)
		missing := len(r.Devices) == 0
		s.HasUpperBound = s.HasUpperBound && !missing
		for j := range r.Devices {
			d := &r.Devices[j]
			if d.Method == Unknown && d.Coverage <= 0 {
				missing = true
				unseenMost += d.bound
				s.HasUpperBound = s.HasUpperBound && d.bound > 0
				continue
			}
			s.Known = true
			s.Energy, s.Gross, s.Floor = s.Energy+d.Energy, s.Gross+d.Gross, s.Floor+d.Floor
			s.AboveIdle = s.AboveIdle && d.FloorFrom != floorNone
			edges += sq(float64(d.Terms.Edges))
			clocks += sq(float64(d.Terms.Clock))
			floors[d.FloorFrom] += float64(d.Terms.Floor)
			gains[d.Device] += float64(d.Terms.Gain)
		}
		switch {
		case missing:
			s.Unmeasured++
		case r.Method != Sampled:
			s.Small++
		}
	}
	s.AboveIdle = s.AboveIdle && s.Known
	s.Terms = Terms{
		Edges: root(edges), Clock: root(clocks), Floor: root(squares(floors)), Gain: root(squares(gains)), GainFrom: "assumed",
	}
	s.HalfWidth = root(edges + clocks + squares(floors) + squares(gains))
	s.UpperBound = max(0, s.Energy+s.HalfWidth+unseenMost)
	if s.HasPerUnit = s.Known && s.Unmeasured == 0 && s.Work > 0; s.HasPerUnit {
		s.PerUnit, s.PerUnitHalfWidth, s.HasPerUnit = perUnit(s.Energy, s.HalfWidth, s.Work)
	}
	return s
}

// perUnit divides energy by work. Next to no work has no such figure.
func perUnit(energy, half unit.Energy, work float64) (joules, halfWidth float64, ok bool) {
	joules, halfWidth = energy.Joules()/work, half.Joules()/work
	if math.IsNaN(joules+halfWidth) || math.IsInf(joules, 0) || math.IsInf(halfWidth, 0) {
		return 0, 0, false
	}
	return joules, halfWidth, true
}

// count adds a window's work, as long as all are counted in one unit.
func (s *Sum) count(r *Result, first bool) {
	switch {
	case first:
		s.Work, s.Unit = r.Work, r.Unit
	case s.Work == 0 || r.Work == 0 || s.Unit != r.Unit:
		s.Work, s.Unit = 0, ""
	default:
		s.Work += r.Work
	}
	if math.IsInf(s.Work, 0) {
		s.Work, s.Unit = 0, ""
	}
}

func root(square float64) unit.Energy { return unit.Energy(math.Ceil(math.Sqrt(square))) }

func squares(parts map[string]float64) float64 {
	sum := 0.0
	for _, p := range parts {
		sum += sq(p)
	}
	return sum
}
