package server

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/tune"
)

func planOut(p daemon.TunePlan) *qunerv1.TunePlan {
	return &qunerv1.TunePlan{
		Axes: each(p.Axes, func(a tune.Axis) *qunerv1.TuneAxis {
			return &qunerv1.TuneAxis{Name: a.Name, States: a.States, Found: count(a.Found)}
		}),
		MaxWindows: count(p.MaxWindows), BaseWatts: p.Base.Watts(), Devices: p.Devices,
		BudgetNs: int64(p.Budget), Prior: priorOut(p.Prior),
	}
}

// priorOut is the point from which a search starts; nil if there is none.
func priorOut(p *daemon.PriorPoint) *qunerv1.PriorPoint {
	if p == nil {
		return nil
	}
	return &qunerv1.PriorPoint{Id: p.ID, TunedAtUnixNs: unixNano(p.TunedAt), ChosenLabels: p.Labels, Changed: p.Changed}
}

func progressOut(p daemon.Progress, best string) *qunerv1.TuneProgress {
	s := p.Sample
	out := &qunerv1.TuneProgress{
		Window: count(p.Window), MaxWindows: count(p.Max), State: []string{p.Label}, Best: best, Voided: printable(s.Void),
		Phase: string(p.Phase), VoidedWhy: string(p.Why), WorkUnit: p.WorkUnit,
	}
	hasEnergy := s.Joules > 0
	if s.Seconds > 0 {
		out.WorkPerSecond, out.Watts = finite(s.Work/s.Seconds), known(s.Joules/s.Seconds, hasEnergy)
	}
	if s.Work > 0 {
		out.JoulesPerWork = known(s.Joules/s.Work, hasEnergy)
	}
	return out
}

// best is the label of the state that would be chosen now; empty while none would, as where there is no energy to judge by.
func best(axes []tune.Axis, p tune.Progress) string {
	if p.Sample.Void == "" && !(p.Sample.Joules > 0) {
		return ""
	}
	i := slices.IndexFunc(axes, func(a tune.Axis) bool { return a.Name == p.Axis })
	if i < 0 || p.Best < 0 || p.Best >= len(axes[i].States) {
		return ""
	}
	return axes[i].States[p.Best]
}

// reportOut is a sweep's end; units are those of the levers' values. Of an axis that makes no difference nothing is
// chosen: it stays as it was found.
func reportOut(r daemon.TuneReport, spec daemon.TuneSpec, units map[string]string) *qunerv1.TuneReport {
	res := r.Result
	out := &qunerv1.TuneReport{
		Chosen: settingsOut(r.Chosen, units), Verdict: string(r.Verdict()), Certified: r.Certified(),
		Saving: finite(res.Saved.Value), SavingHalfWidth: half(res.Saved), Slowdown: finite(res.Slowdown.Value),
		SlowdownHalfWidth: half(res.Slowdown),
		Windows:           count(res.Windows), Voided: count(res.Voided), Applied: r.Applied,
		EnergyUj:  known(int64(r.Energy), r.Energy > 0 && r.Verdict() != tune.NoEnergy),
		Principle: res.Principle, Objective: res.Objective.String(), MaxSlowdown: spec.MaxSlowdown,
		Note: sentences(r.Note, res.Note), WorkUnit: cmp.Or(r.WorkUnit, spec.WorkUnit, "run"), Prior: priorOut(r.Plan.Prior),
		VoidedBy: each(r.Voids, func(v daemon.VoidCount) *qunerv1.VoidedWindows {
			return &qunerv1.VoidedWindows{Why: string(v.Why), Windows: count(v.Windows), Last: printable(v.Last)}
		}),
		Unwatched: r.Unwatched,
	}
	if back := r.Payback(); r.Certified() && back > 0 {
		out.PaybackS = finite(back)
	}
	if res.Saved.High == res.Saved.Low && !r.Certified() { // of the state found against itself
		out.Saving, out.SavingHalfWidth, out.Slowdown, out.SlowdownHalfWidth = nil, nil, nil, nil
	}
	if r.Verdict() == tune.Flat {
		out.Chosen, out.Note = nil, sentences(res.Note)
	}
	for i, a := range res.Axes {
		axis := &qunerv1.AxisReport{Name: a.Name, Verdict: string(a.Verdict), NextStep: a.NextStep, Stopped: a.Stopped, Moved: a.Moved}
		if r.Plan.Prior != nil && a.From >= 0 && a.From < len(a.States) {
			axis.From = a.States[a.From].Label
		}
		if a.Chosen >= 0 && a.Chosen < len(a.States) && a.Verdict != tune.Flat {
			axis.Chosen = a.States[a.Chosen].Label
		}
		out.Axes = append(out.Axes, axis)
		out.States = append(out.States, statesOut(a)...)
		out.MoreWindows += count(a.MoreWindows)
		if i < len(res.Chosen) && axis.Chosen != "" {
			out.ChosenLabels = append(out.ChosenLabels, axis.Chosen)
		}
	}
	return out
}

// statesOut are the states of an axis: those that were not measured have the reason for that, and no figures.
func statesOut(a tune.AxisResult) []*qunerv1.StateReport {
	var out []*qunerv1.StateReport
	for i, s := range a.States {
		state := &qunerv1.StateReport{
			Axis: a.Name, State: []string{s.Label}, Windows: count(s.Windows), Skipped: s.Skipped,
			WorkPerSecond: finite(s.WorkPerSecond.Value), WorkPerSecondHalfWidth: half(s.WorkPerSecond),
			Watts: finite(s.Watts.Value), WattsHalfWidth: half(s.Watts),
			JoulesPerWork: finite(s.JoulesPerWork.Value), JoulesPerWorkHalfWidth: half(s.JoulesPerWork),
			AchievedWatts: finite(s.Achieved), Allowed: s.Allowed, InBand: s.InBand, Found: i == a.Found, Chosen: i == a.Chosen && a.Verdict != tune.Flat,
		}
		if s.SameAs >= 0 && s.SameAs < len(a.States) {
			state.SameAs = a.States[s.SameAs].Label
		}
		out = append(out, state)
	}
	return out
}

// half is the larger half of an interval; absent while the interval has no end.
func half(i tune.Interval) *float64 { return finite(i.Half()) }

// sentences makes whole sentences of notes and joins them.
func sentences(notes ...string) string {
	var said []string
	for _, n := range notes {
		if n == "" {
			continue
		}
		first, rest := utf8.DecodeRuneInString(n)
		said = append(said, string(unicode.ToUpper(first))+strings.TrimSuffix(n[rest:], ".")+".")
	}
	return strings.Join(said, " ")
}
