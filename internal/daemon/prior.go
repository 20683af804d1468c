package daemon

import (
	"math"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
)

// PriorPoint is the point from which a search starts: it was tuned for the same before the kernel, the microcode or the
// driver changed.
type PriorPoint struct {
	ID      string
	TunedAt time.Time
	Labels  []string // of the states chosen, one for each axis that made a difference
	Changed []string // since then, in words; empty where it is not known what
}

// startFrom gives the axes what the point that is to be validated again has left of them, and returns that point; nil if
// there is none, or if it was sought in another way.
func (t *sweep) startFrom(s *state) *PriorPoint {
	if t.spec.Fresh {
		return nil
	}
	source, hard, soft := profiles.PowerSource(t.d.host), s.print.Hard.Key(), s.print.Soft.Key()
	all := s.points.All()
	i := slices.IndexFunc(all, func(p profiles.TunedPoint) bool {
		return p.Hard == hard && p.Profile == t.spec.Profile && p.Workload == t.spec.Workload && p.PowerSource == source
	})
	if i < 0 || all[i].Soft == soft || !t.alike(all[i]) {
		return nil
	}
	p := all[i]
	start := &PriorPoint{ID: p.ID, TunedAt: p.TunedAt, Changed: p.SoftFacts.Changes(s.print.Soft)}
	priors := make([]*tune.Prior, len(t.axes))
	for n, was := range p.Axes {
		a := t.axes[n].Axis
		top := a.Found
		if t.d.cfg.AllowRaise {
			top = len(a.States) - 1
		}
		if was.Verdict == string(tune.Flat) || top == 0 {
			continue // there is nothing to look at again
		}
		if priors[n] = priorOf(p.Evidence, was, a); priors[n] == nil || !priors[n].Covers(0, a.Found, top) {
			return nil
		}
		start.Labels = append(start.Labels, was.Chosen)
	}
	if len(start.Labels) == 0 {
		return nil
	}
	for n := range t.axes {
		t.axes[n].Prior = priors[n]
	}
	return start
}

// alike tells whether a certified point was sought as this sweep seeks: over the same axes, with the same objective.
func (t *sweep) alike(p profiles.TunedPoint) bool {
	return p.Certified && p.Objective == t.spec.Objective.String() && p.MaxSlowdown == t.spec.MaxSlowdown && p.Base == t.d.cfg.Base &&
		slices.EqualFunc(p.Axes, t.axes, func(was profiles.AxisEvidence, a axis) bool { return was.Name == a.Name })
}

// priorOf is what the evidence of a point says of an axis that made a difference then; nil if its states are others now.
func priorOf(e profiles.Evidence, was profiles.AxisEvidence, a tune.Axis) *tune.Prior {
	p := &tune.Prior{State: slices.Index(a.States, was.Chosen)}
	if p.State < 0 {
		return nil
	}
	for _, s := range e.States {
		if s.Axis != a.Name {
			continue
		}
		i := slices.Index(a.States, s.Label)
		if i < 0 || s.Found != (i == a.Found) {
			return nil
		}
		p.Seen = append(p.Seen, tune.Seen{
			State: i, WorkPerSecond: intervalOf(s.WorkPerSecond), Watts: intervalOf(s.Watts), JoulesPerWork: intervalOf(s.JoulesPerWork),
		})
	}
	return p
}

// intervalOf is a figure of a file as it was measured: the reverse of figureOf.
func intervalOf(f *profiles.Figure) tune.Interval {
	switch {
	case f == nil:
		return tune.Interval{Value: math.NaN(), Low: math.NaN(), High: math.NaN()}
	case f.Half == nil:
		return tune.Interval{Value: f.Value, Low: math.Inf(-1), High: math.Inf(1)}
	}
	return tune.Interval{Value: f.Value, Low: f.Value - *f.Half, High: f.Value + *f.Half}
}
