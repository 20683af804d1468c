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

// capStep is the granularity of caps. Boards take single watts, but no curve known to us turns within 5 W.
const capStep = 5 * unit.Watt

// packageShares are the states of the package axis, in percent of what each limit was found at. Below 40 % processors
// run at their lowest clocks whatever the load.
func packageShares() []int64 { return []int64{40, 50, 60, 70, 80, 90, 100} }

// governorOrder is how governors are lined up from the lowest power to the highest. userspace is never chosen.
func governorOrder() []levers.Value {
	return []levers.Value{"powersave", "conservative", "schedutil", "ondemand", "performance"}
}

// axesOf groups the host's levers into the axes that a sweep may move. Energy preferences have none: they are moved by
// conservative defaults alone.
func axesOf(states []levers.State, noGPU, noCPU bool) []axis {
	var axes []axis
	if !noGPU {
		axes = append(axes, capAxes(states)...)
	}
	if !noCPU {
		if a, ok := governorAxis(states); ok {
			axes = append(axes, a)
		}
		if a, ok := packageAxis(states); ok {
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

// capAxes makes an axis of each group of boards, of any make, that share a range and a cap found: equal boards move
// together.
func capAxes(states []levers.State) []axis {
	type group struct {
		unit   string
		lo, hi int64
		found  levers.Value
	}
	members := map[group][]levers.State{}
	var order []group
	for _, s := range states {
		if s.Kind != levers.GPUCap && s.Kind != levers.AMDCap || !usable(s) || s.Span.Lo >= s.Span.Hi {
			continue
		}
		g := group{s.Span.Unit, s.Span.Lo, s.Span.Hi, original(s)}
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
		size := sizeOf(g.unit)
		a := axis{Axis: tune.Axis{Name: name, Found: -1}}
		for _, n := range capGrid(g.lo, g.hi, number(g.found), int64(capStep/size)) {
			v := levers.Value(strconv.FormatInt(n, 10))
			if v == g.found {
				a.Found = len(a.States)
			}
			var set []levers.Setting
			for _, m := range members[g] {
				set = append(set, levers.Setting{Lever: m.Name, Value: v})
			}
			a.States = append(a.States, watts(unit.Power(n)*size))
			a.settings = append(a.settings, set)
		}
		if a.Found >= 0 {
			axes = append(axes, a)
		}
	}
	return axes
}

// sizeOf is what one of a lever's unit amounts to.
func sizeOf(of string) unit.Power {
	if of == "mW" {
		return unit.Milliwatt
	}
	return unit.Microwatt
}

// number is a value as a number; 0 if it is none.
func number(v levers.Value) int64 {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func watts(p unit.Power) string { return fmt.Sprintf("%g W", p.Watts()) }

// capGrid returns the caps to try, ascending, in a lever's unit, of which grain are 5 W. The cap found is one of them. It
// is the highest, unless the owner allows more: then the most that the hardware takes is.
func capGrid(lo, hi, found, grain int64) []int64 {
	step := (hi - lo + capStates - 2) / (capStates - 1)
	step = max(grain, (step+grain-1)/grain*grain)
	var grid []int64
	for n := found; n >= lo; n -= step {
		grid = append(grid, n)
	}
	slices.Reverse(grid)
	for n := found + step; n < hi; n += step {
		grid = append(grid, n)
	}
	if found < hi {
		grid = append(grid, hi)
	}
	return grid
}

// packageAxis moves the power limits of all packages and dies together, each to the same share of what it was found at.
// The two interfaces to one package are two levers of it; the lower binds, so both move.
func packageAxis(states []levers.State) (axis, bool) {
	var limits []levers.State
	for _, s := range states {
		if s.Kind == levers.PackageLimit && usable(s) && s.Span.Lo < s.Span.Hi {
			limits = append(limits, s)
		}
	}
	a := axis{Axis: tune.Axis{Name: string(levers.PackageLimit)}}
	if len(limits) == 0 {
		return a, false
	}
	alike := !slices.ContainsFunc(limits, func(s levers.State) bool {
		return original(s) != original(limits[0]) || s.Span.Hi != limits[0].Span.Hi
	})
	for _, share := range sharesFor(limits) {
		if share == 100 {
			a.Found = len(a.States)
		}
		var set []levers.Setting
		label := fmt.Sprintf("%d %%", share)
		for _, s := range limits {
			v := shareOf(s, share)
			set = append(set, levers.Setting{Lever: s.Name, Value: v})
			if alike {
				label = watts(unit.Power(number(v)) * sizeOf(s.Span.Unit))
			}
		}
		// A span that ends above the lowest shares makes one state of them.
		if n := len(a.settings); n > 0 && slices.Equal(a.settings[n-1], set) {
			a.States[n-1] = label
			a.Found = min(a.Found, n-1)
			continue
		}
		a.States = append(a.States, label)
		a.settings = append(a.settings, set)
	}
	return a, len(a.States) > 1
}

// sharesFor are the shares that the limits can have: more than what they were found at where the owner allows that, up to
// what the hardware takes of the one that can be raised most. The last step may be a small one.
func sharesFor(limits []levers.State) []int64 {
	shares := packageShares()
	most := int64(100)
	for _, s := range limits {
		if found := number(original(s)); found > 0 && s.Span.Hi > found {
			most = max(most, (100*s.Span.Hi+found-1)/found)
		}
	}
	for n := int64(110); n < most+10 && most > 100; n += 10 {
		shares = append(shares, min(n, most))
	}
	return shares
}

// shareOf is a percentage of what a limit was found at, as far as it can be chosen: the value found itself at 100 %. A
// limit that was found above all that can be chosen is taken to be as high as can be chosen.
func shareOf(s levers.State, percent int64) levers.Value {
	found := number(original(s))
	if percent == 100 && found <= s.Span.Hi {
		return original(s)
	}
	n := min(found, s.Span.Hi) * percent / 100
	n = min(s.Span.Hi, max(s.Span.Lo, n-n%max(1, s.Span.Step)))
	return levers.Value(strconv.FormatInt(n, 10))
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
