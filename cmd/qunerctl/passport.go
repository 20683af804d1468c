package main

import (
	"fmt"
	"strconv"
	"time"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// doctorPassports tells how the counters that are read move, and what their readings have come to.
func (a *app) doctorPassports(counters []*qunerv1.CounterReport) {
	var rows [][]cell
	for _, c := range counters {
		if p := c.GetPassport(); p.GetRead() {
			rows = append(rows, []cell{
				text(c.GetName()), text(stepWord(p)), text(energyWord(p.GetResolutionUj(), "unknown")), text(energyWord(p.GetSpanUj(), "never")),
				text(powerWord(p.GetLimitUw())), text(briefWord(p.GetReadCostNs())), text(readingsWord(p)),
			})
		}
	}
	if len(rows) > 0 {
		a.out.printf("\n%s\n", a.out.style(bold, "How the counters move"))
		a.out.table([]string{"COUNTER", "STEP EVERY", "UNIT", "WRAPS AT", "JUMP ABOVE", "A READING", "READINGS"}, rows)
	}
	for _, c := range counters {
		if why := scopeWord(c.GetPassport().GetScope()); why != "" {
			a.out.printf("  %s %s: %s (%s)\n", a.out.style(yellow, "-"), c.GetName(), why, c.GetPassport().GetScope())
		}
	}
}

// scopeWord says what a counter takes in beside its device.
func scopeWord(scope string) string {
	switch scope {
	case "mig":
		return "cut into slices (MIG): the energy is the whole board's, for none of them"
	case "module":
		return "takes in the whole module, CPU too: it overlaps what CPU counters say"
	}
	return ""
}

// stepWord is a counter's period as far as it is known.
func stepWord(p *qunerv1.CounterPassport) string {
	period := briefWord(p.GetPeriodNs())
	switch p.GetPeriodFrom() {
	case "measured":
		return period + " ± " + briefWord(p.GetJitterNs())
	case "at_most":
		return "under " + period
	}
	return period + ", not measured"
}

// readingsWord says how many readings there were, what was odd about how many, and what is missing of the time.
func readingsWord(p *qunerv1.CounterPassport) string {
	v := p.GetVerdicts()
	good := uint64(v.GetOk()) + uint64(v.GetWrap()) + uint64(v.GetAmbiguous()) + uint64(v.GetRecovered())
	out := strconv.FormatUint(good, 10) + " good"
	for _, odd := range []struct {
		n    uint32
		what string
	}{
		{v.GetWrap(), "over its end"}, {v.GetAmbiguous(), "ambiguous"}, {v.GetRecovered(), "recovered"}, {v.GetReset_(), "reset"},
		{v.GetJump(), "jump"}, {v.GetBackward(), "backward"}, {v.GetUnread(), "unread"},
	} {
		if odd.n > 0 {
			out += fmt.Sprintf(", %d %s", odd.n, odd.what)
		}
	}
	if gap := p.GetMaxGapNs(); gap > 0 {
		out += fmt.Sprintf(", longest gap %s, %.4g %% covered", briefWord(gap), 100*p.GetCoverage())
	}
	return out
}

// energyWord writes an energy of any size, or what none means.
func energyWord(uj int64, none string) string {
	switch j := float64(uj) / 1e6; {
	case uj == 0:
		return none
	case uj < 1000:
		return fmt.Sprintf("%d µJ", uj)
	case j < 1:
		return fmt.Sprintf("%.3g mJ", 1000*j)
	case j < 1000:
		return fmt.Sprintf("%.3g J", j)
	default:
		return fmt.Sprintf("%.0f kJ", j/1000)
	}
}

// powerWord writes a limit, which is whole watts.
func powerWord(uw int64) string { return fmt.Sprintf("%.0f W", float64(uw)/1e6) }

// briefWord writes a time with two digits or so.
func briefWord(ns int64) string {
	d := time.Duration(ns)
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
