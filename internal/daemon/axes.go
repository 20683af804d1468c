package daemon

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/tune"
	"github.com/qunerd/quner/internal/unit"
)

// axis is a tune.Axis together with what each of its states means here.
type axis struct {
	tune.Axis
	settings [][]levers.Setting // by state
}

// capStates is how many caps an axis aims at; the step is rounded up to whole 5 W, so that there may be fewer.
const capStates = 9

// capStep is the granularity of caps, in mW. Boards take single watts, but no curve known to us turns within 5 W.
const capStep = 5000

// governorOrder is how governors are lined up from the lowest power to the highest. userspace is never chosen.
func governorOrder() []levers.Value {
	return []levers.Value{"powersave", "conservative", "schedutil", "ondemand", "performance"}
}

// axesOf groups the host's levers into the axes that a sweep may move.
func axesOf(states []levers.State, noGPU, noCPU bool) []axis {
	var axes []axis
	if !noGPU {
		axes = append(axes, capAxes(states)...)
	}
	if !noCPU {
		if a, ok := governorAxis(states); ok {
			axes = append(axes, a)
		}
	}
	return axes
}

// usable reports whether a sweep may move a lever in this state.
func usable(s levers.State) bool {
	return s.Err == nil && (s.State == levers.Free || s.State == levers.Held)
}

// original is the value a lever had before quner took it.
func original(s levers.State) levers.Value {
	if s.Found != "" {
		return s.Found
	}
	return s.Value
}

// capAxes makes an axis of each group of boards that share a range and a cap found: equal boards move together.
func capAxes(states []levers.State) []axis {
	type group struct {
		lo, hi int64
		found  levers.Value
	}
	members := map[group][]levers.State{}
	var order []group
	for _, s := range states {
		if s.Kind != levers.GPUCap || !usable(s) || s.Span.Lo >= s.Span.Hi {
			continue
		}
		g := group{s.Span.Lo, s.Span.Hi, original(s)}
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], s)
	}
	var axes []axis
	for i, g := range order {
		name := string(levers.GPUCap)
		if len(order) > 1 {
			name += strconv.Itoa(i)
		}
		a := axis{Axis: tune.Axis{Name: name, Found: -1}}
		for _, mw := range capGrid(g.lo, g.hi) {
			v := levers.Value(strconv.FormatInt(mw, 10))
			if v == g.found {
				a.Found = len(a.States)
			}
			var set []levers.Setting
			for _, m := range members[g] {
				set = append(set, levers.Setting{Lever: m.Name, Value: v})
			}
			a.States = append(a.States, fmt.Sprintf("%g W", (unit.Power(mw)*unit.Milliwatt).Watts()))
			a.settings = append(a.settings, set)
		}
		if a.Found >= 0 {
			axes = append(axes, a)
		}
	}
	return axes
}

// capGrid returns the caps to try, in mW, ascending; the last is hi, which is the cap found.
func capGrid(lo, hi int64) []int64 {
	step := (hi - lo + capStates - 2) / (capStates - 1)
	step = max(capStep, (step+capStep-1)/capStep*capStep)
	var grid []int64
	for mw := hi; mw >= lo; mw -= step {
		grid = append(grid, mw)
	}
	slices.Reverse(grid)
	return grid
}

// governorAxis moves all policies together over the governors that each of them offers.
func governorAxis(states []levers.State) (axis, bool) {
	var policies []levers.State
	for _, s := range states {
		if s.Kind == levers.Governor && usable(s) {
			policies = append(policies, s)
		}
	}
	a := axis{Axis: tune.Axis{Name: string(levers.Governor), Found: -1}}
	if len(policies) == 0 {
		return a, false
	}
	for _, gov := range governorOrder() {
		offered := func(p levers.State) bool { return slices.Contains(p.Span.Choices, gov) }
		if slices.ContainsFunc(policies, func(p levers.State) bool { return !offered(p) }) {
			continue
		}
		if original(policies[0]) == gov {
			a.Found = len(a.States)
		}
		var set []levers.Setting
		for _, p := range policies {
			set = append(set, levers.Setting{Lever: p.Name, Value: gov})
		}
		a.States = append(a.States, string(gov))
		a.settings = append(a.settings, set)
	}
	// Policies found with different governors have no common state to compare against.
	mixed := slices.ContainsFunc(policies, func(p levers.State) bool { return original(p) != original(policies[0]) })
	return a, !mixed && a.Found >= 0 && len(a.States) > 1
}

// pointAt turns an index a axis into an operating point, on top of the settings that no axis moves.
func pointAt(rest levers.Point, axes []axis, state []int) levers.Point {
	settings := slices.Clone(rest)
	for i, a := range axes {
		settings = append(settings, a.settings[state[i]]...)
	}
	return levers.NewPoint(settings...)
}

// labels names a state, one label an axis.
func labels(axes []axis, state []int) []string {
	out := make([]string, len(axes))
	for i, a := range axes {
		out[i] = a.States[state[i]]
	}
	return out
}
