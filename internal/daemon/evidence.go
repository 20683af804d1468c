package daemon

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
)

// tunedPoint is the chosen point with the evidence behind it.
func (t *sweep) tunedPoint(s *state, r *TuneReport) profiles.TunedPoint {
	res := r.Result
	units := map[string]string{}
	for _, l := range s.bank.Levers() {
		if u := l.Span().Unit; u != "" {
			units[l.Name()] = u
		}
	}
	return profiles.TunedPoint{
		Units:   units,
		Profile: t.spec.Profile, Workload: t.spec.Workload, PowerSource: profiles.PowerSource(t.d.host),
		Point: r.Chosen, Verdict: string(r.Verdict()), Certified: r.Certified(), Objective: res.Objective.String(),
		Saving: res.Saved.Value, SavingHalfWidth: res.Saved.Half(), Slowdown: res.Slowdown.Value,
		Windows: res.Windows, Energy: r.Energy, TunedAt: time.Now(),
		Hard: s.print.Hard.Key(), Soft: s.print.Soft.Key(),
		Evidence: t.evidence(s.print, r),
	}
}

func (t *sweep) evidence(here profiles.Fingerprint, r *TuneReport) profiles.Evidence {
	res := r.Result
	e := profiles.Evidence{
		UID: t.spec.WorkloadUID, WorkUnit: cmp.Or(t.spec.WorkUnit, "run"), SlowdownHalfWidth: known(res.Slowdown.Half()),
		MaxSlowdown: t.spec.MaxSlowdown, Payback: known(r.Payback()), Base: t.plan.Base, Voided: res.Voided, Watts: known(wattsOf(res)),
		HardFacts: here.Hard, SoftFacts: here.Soft,
	}
	for _, a := range res.Axes {
		flat := a.Verdict == tune.Flat
		axis := profiles.AxisEvidence{Name: a.Name, Verdict: string(a.Verdict)}
		for i, st := range a.States {
			if i == a.Chosen && !flat {
				axis.Chosen = st.Label
			}
			if st.Windows == 0 {
				continue
			}
			seen := profiles.StateEvidence{
				Axis: a.Name, Label: st.Label, Windows: st.Windows, Allowed: st.Allowed, InBand: st.InBand,
				WorkPerSecond: figureOf(st.WorkPerSecond), Watts: figureOf(st.Watts), JoulesPerWork: figureOf(st.JoulesPerWork),
				Achieved: figureOf(tune.Interval{Value: st.Achieved, High: math.Inf(1)}), Found: i == a.Found, Chosen: i == a.Chosen && !flat,
			}
			if st.SameAs >= 0 && st.SameAs < len(a.States) {
				seen.SameAs = a.States[st.SameAs].Label
			}
			e.States = append(e.States, seen)
		}
		e.Axes = append(e.Axes, axis)
	}
	return e
}

// known is a figure for a file: 0 where it is none.
func known(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// figureOf is an interval as it is kept, nil where nothing was measured; one that has no end has no half-width.
func figureOf(i tune.Interval) *profiles.Figure {
	if math.IsNaN(i.Value) || math.IsInf(i.Value, 0) {
		return nil
	}
	f := &profiles.Figure{Value: i.Value}
	if half := i.Half(); !math.IsInf(half, 0) && !math.IsNaN(half) {
		f.Half = &half
	}
	return f
}

// wattsOf is what the whole host draws in the chosen states: as the last axis was searched, with the others held where
// they were chosen; NaN where that was not measured.
func wattsOf(res tune.Result) float64 {
	for _, a := range slices.Backward(res.Axes) {
		if a.Chosen < 0 || a.Chosen >= len(a.States) {
			continue
		}
		at := a.States[a.Chosen]
		if at.SameAs >= 0 && at.SameAs < len(a.States) && at.Windows == 0 {
			at = a.States[at.SameAs]
		}
		if !math.IsNaN(at.Watts.Value) {
			return at.Watts.Value
		}
	}
	return math.NaN()
}
