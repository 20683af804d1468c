package server

import (
	"cmp"
	"slices"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/profiles"
)

// pointsOut says of each point whether it fits the host with this fingerprint, and what has changed since.
func pointsOut(points []profiles.TunedPoint, here profiles.Fingerprint) []*qunerv1.TunedPoint {
	hard, soft := here.Hard.Key(), here.Soft.Key()
	return each(points, func(p profiles.TunedPoint) *qunerv1.TunedPoint {
		return &qunerv1.TunedPoint{
			Id: p.ID, Profile: profileOut(p.Profile), Workload: p.Workload, PowerSource: string(p.PowerSource),
			Settings: settingsOut(p.Point, p.Units), Verdict: p.Verdict, Certified: p.Certified, Objective: p.Objective,
			Saving: finite(p.Saving), SavingHalfWidth: finite(p.SavingHalfWidth), Slowdown: finite(p.Slowdown), Windows: count(p.Windows),
			SweepEnergyUj: int64(p.Energy), TunedAtUnixNs: unixNano(p.TunedAt), Fingerprint: p.Hard, SoftFingerprint: p.Soft,
			Fits: p.Hard == hard, Revalidate: p.Hard == hard && p.Soft != soft,
			Changed: slices.Concat(p.HardFacts.Changes(here.Hard), p.SoftFacts.Changes(here.Soft)),
			States:  each(p.States, evidenceOut),
			Axes: each(p.Axes, func(a profiles.AxisEvidence) *qunerv1.AxisReport {
				return &qunerv1.AxisReport{Name: a.Name, Verdict: a.Verdict, Chosen: a.Chosen}
			}),
			Voided: count(p.Voided), WorkUnit: cmp.Or(p.WorkUnit, "run"), PaybackS: known(p.Payback, p.Certified && p.Payback > 0),
			SlowdownHalfWidth: known(p.SlowdownHalfWidth, p.SlowdownHalfWidth > 0), BaseWatts: p.Base.Watts(), MaxSlowdown: p.MaxSlowdown,
		}
	})
}

// evidenceOut is one state as it was measured.
func evidenceOut(s profiles.StateEvidence) *qunerv1.StateReport {
	out := &qunerv1.StateReport{
		Axis: s.Axis, State: []string{s.Label}, Windows: count(s.Windows), SameAs: s.SameAs,
		Allowed: s.Allowed, InBand: s.InBand, Found: s.Found, Chosen: s.Chosen,
	}
	out.WorkPerSecond, out.WorkPerSecondHalfWidth = figureOut(s.WorkPerSecond)
	out.Watts, out.WattsHalfWidth = figureOut(s.Watts)
	out.JoulesPerWork, out.JoulesPerWorkHalfWidth = figureOut(s.JoulesPerWork)
	out.AchievedWatts, _ = figureOut(s.Achieved)
	return out
}

func figureOut(f *profiles.Figure) (value, half *float64) {
	if f == nil {
		return nil, nil
	}
	return &f.Value, f.Half
}
