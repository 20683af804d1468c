package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/unit"
)

// Passport is what is known of how a counter moves, and what its readings have come to since whoever reports began.
type Passport struct {
	Scope      string      `json:"scope,omitempty"`         // meter.ScopeMIG, meter.ScopeModule; empty: its device alone
	Resolution unit.Energy `json:"resolution_uj,omitempty"` // its unit; 0 where that is not known
	Span       unit.Energy `json:"span_uj"`                 // where it wraps; 0: never
	Limit      unit.Power  `json:"limit_uw,omitempty"`      // a steeper rise is a jump
	Moves      *Moves      `json:"moves,omitempty"`         // nil of one that is not read
}

// Moves is the part of a passport that reading the counter has told.
type Moves struct {
	Period     time.Duration  `json:"period_ns"`
	PeriodFrom string         `json:"period_from"`           // meter.PeriodMeasured, …
	Jitter     time.Duration  `json:"jitter_ns"`             // standard deviation of the intervals between steps
	Smallest   unit.Energy    `json:"smallest_uj,omitempty"` // least rise seen while it was polled
	ReadCost   time.Duration  `json:"read_cost_ns"`          // median of a reading
	Coverage   float64        `json:"coverage"`              // 0…1, since the first look
	MaxGap     time.Duration  `json:"max_gap_ns"`
	Verdicts   meter.Verdicts `json:"verdicts"`
}

func passportOf(s meter.Sensor) Passport {
	p := Passport{Scope: s.Scope, Resolution: s.Resolution, Span: s.Span, Limit: s.Limit}
	if s.Read {
		p.Moves = &Moves{
			Period: s.Period, PeriodFrom: s.PeriodFrom, Jitter: s.Jitter, Smallest: s.Smallest, ReadCost: s.ReadCost,
			Coverage: s.Coverage, MaxGap: s.MaxGap, Verdicts: s.Verdicts,
		}
	}
	return p
}

// scopeWhy says in plain words what a counter takes in beside its device.
func scopeWhy(scope string) string {
	switch scope {
	case meter.ScopeMIG:
		return "cut into slices (MIG): the energy is the whole board's, for none of them"
	case meter.ScopeModule:
		return "takes in the whole module, CPU too: it overlaps what CPU counters say"
	}
	return ""
}

// printPassports writes how the counters that are read move.
func (r Report) printPassports(b *strings.Builder) {
	rows := [][]string{{"  COUNTER", "STEP EVERY", "UNIT", "WRAPS AT", "JUMP ABOVE", "A READING", "READINGS"}}
	for _, c := range r.Counters {
		if m := c.Moves; m != nil {
			rows = append(rows, []string{"  " + c.Name, m.step(), energy(c.Resolution), wraps(c.Span), fmt.Sprintf("%.0f W", c.Limit.Watts()), brief(m.ReadCost), m.readings()})
		}
	}
	if len(rows) > 1 {
		b.WriteString("\nHow the counters move\n")
		table(b, rows)
	}
	for _, c := range r.Counters {
		if why := scopeWhy(c.Scope); why != "" {
			fmt.Fprintf(b, "  - %s: %s (%s)\n", c.Name, why, c.Scope)
		}
	}
}

// step is the counter's period as far as it is known: "1.02 ms ± 0.03 ms", "under 55 µs", "1 ms, not measured".
func (m *Moves) step() string {
	switch m.PeriodFrom {
	case meter.PeriodMeasured:
		return brief(m.Period) + " ± " + brief(m.Jitter)
	case meter.PeriodAtMost:
		return "under " + brief(m.Period)
	}
	return brief(m.Period) + ", not measured"
}

// readings says how many there were, and what was wrong with how many.
func (m *Moves) readings() string {
	v := m.Verdicts
	out := strconv.FormatUint(uint64(v.OK)+uint64(v.Wrap)+uint64(v.Ambiguous)+uint64(v.Recovered), 10) + " good"
	for _, odd := range []struct {
		n    uint32
		what string
	}{
		{v.Wrap, "over its end"}, {v.Ambiguous, "ambiguous"}, {v.Recovered, "recovered"}, {v.Reset, "reset"}, {v.Jump, "jump"},
		{v.Backward, "backward"}, {v.Unread, "unread"},
	} {
		if odd.n > 0 {
			out += fmt.Sprintf(", %d %s", odd.n, odd.what)
		}
	}
	if m.MaxGap > 0 {
		out += fmt.Sprintf(", longest gap %s, %.4g %% covered", brief(m.MaxGap), 100*m.Coverage)
	}
	return out
}

// wraps says where a counter starts over.
func wraps(span unit.Energy) string {
	if span == 0 {
		return "never"
	}
	return energy(span)
}

// energy writes an energy of any size for people, with three digits or so.
func energy(e unit.Energy) string {
	switch {
	case e == 0:
		return "unknown"
	case e < unit.Millijoule:
		return fmt.Sprintf("%d µJ", int64(e))
	case e < unit.Joule:
		return fmt.Sprintf("%.3g mJ", float64(e)/float64(unit.Millijoule))
	case e < unit.Kilojoule:
		return fmt.Sprintf("%.3g J", e.Joules())
	}
	return fmt.Sprintf("%.0f kJ", e.Joules()/1000)
}

// brief writes a time with two digits or so.
func brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", (d+500*time.Nanosecond)/time.Microsecond)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
