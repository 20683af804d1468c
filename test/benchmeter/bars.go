package benchmeter

import (
	"fmt"
	"math"
	"time"
)

// Bar is something that must hold, and whether it does.
type Bar struct {
	Name  string  `json:"name"`
	Limit string  `json:"limit"`
	Value float64 `json:"value"` // the worst there is
	Where string  `json:"where,omitempty"`
	Met   bool    `json:"met"`
}

// fewest is how many measurements a cell must have for its coverage to say something.
const fewest = 100

// worst is the value of a bar while it is being looked for.
type worst struct {
	value float64
	where string
	found bool
}

// see takes a value that is worse than those before, if it is: higher.
func (w *worst) see(v float64, where string) {
	if !w.found || v > w.value {
		*w = worst{v, where, true}
	}
}

// bar makes the bar of it. Where nothing was measured there is none.
func (w worst) bar(name string, sign float64, limit string, most float64) []Bar {
	if !w.found {
		return nil
	}
	return []Bar{{Name: name, Limit: limit, Value: sign * w.value, Where: w.where, Met: w.value <= most}}
}

// Bars holds what was measured against what the meter promises.
func (r *Report) Bars() []Bar {
	var known, unbound, astray worst
	cover := map[string]*worst{Aligned: {}, WaitEdge: {}, Plain: {}}
	sampled, inside := 0, 0
	unknown, above := 0, 0                                // of 3 steps or more: all, and those that cost more than their upper bound
	at := map[string]*[2]worst{Aligned: {}, WaitEdge: {}} // at one second and steps of 100 ms: error, half-width
	for _, c := range r.cells() {
		s, where := r.summaries[c], c.String()
		if !c.Short() {
			sampled, inside = sampled+s.sampled, inside+s.inside
			if s.sampled >= fewest {
				cover[c.Mode].see(-*s.Coverage, where)
			}
		}
		if s.short > 0 {
			known.see(-float64(s.shortUnknown)/float64(s.short), where)
		}
		if s.shortUnknown > 0 {
			unbound.see(float64(s.shortUnbound)/float64(s.shortUnknown), where)
		}
		longer := s.N - s.sampled - s.shortUnknown
		unknown, above = unknown+longer, above+s.unbound-s.shortUnbound
		if c.Mode == WaitEdge {
			astray.see(float64(s.astray)/float64(s.N), where)
		}
		if w := at[c.Mode]; w != nil && c.Step == 100*time.Millisecond && c.Window == time.Second {
			w[0].see(math.Abs(s.MeanError), where)
			w[1].see(width(s), where)
		}
	}
	var over worst
	if sampled > 0 {
		over.see(-float64(inside)/float64(sampled), fmt.Sprintf("%d measurements", sampled))
	}
	var all []Bar
	for _, m := range modes() {
		name := "interval holds the truth, the worst cell of 3 steps or more, " + m
		all = append(all, cover[m].bar(name, -1, "≥ 94 %", -0.94)...)
	}
	all = append(all, over.bar("  over all of them", -1, "≥ 95 %", -0.95)...)
	all = append(all, at[Aligned][0].bar("1 s at 100 ms: mean error", 1, "≤ 1 %", 0.01)...)
	all = append(all, at[Aligned][1].bar("  half-width", 1, "≤ 10 %", 0.10)...)
	all = append(all, at[WaitEdge][0].bar("1 s at 100 ms with wait_edge: mean error", 1, "≤ 1 %", 0.01)...)
	all = append(all, at[WaitEdge][1].bar("  half-width", 1, "≤ 1 %", 0.01)...)
	all = append(all, known.bar("under 3 steps: unknown", -1, "100 %", -1)...)
	all = append(all, unbound.bar("  upper bound untrue", 1, "0 %", 0)...)
	var bounds worst
	if unknown > 0 {
		bounds.see(float64(above)/float64(unknown), fmt.Sprintf("%d windows", unknown))
	}
	all = append(all, bounds.bar("3 steps and more, unknown: upper bound untrue", 1, "≤ 5 %", 0.05)...)
	// An edge asked for in the very moment of a step may get the one after.
	return append(all, astray.bar("wait_edge: ends elsewhere than at the next step", 1, "≤ 5 %", 0.05)...)
}

// width is the mean half-width; without a measurement there is no width, which is too wide.
func width(s Summary) float64 {
	if s.HalfWidth == nil {
		return math.MaxFloat64
	}
	return *s.HalfWidth
}
