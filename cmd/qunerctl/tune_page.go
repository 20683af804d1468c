package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// chartWidth is the length of the longest bar.
const chartWidth = 40

// planPage tells what a sweep will try.
func (s *screen) planPage(p *qunerv1.TunePlan) {
	if prior := p.GetPrior(); prior != nil {
		s.para("starts from: ", plain, priorWords(prior))
	}
	for _, axis := range p.GetAxes() {
		states := slices.Clone(axis.GetStates())
		if i := int(axis.GetFound()); i < len(states) {
			states[i] += " (as found)"
		}
		s.para("will try: ", plain, fmt.Sprintf("%s of %s: %s", plural(len(states), "state"), axis.GetName(), strings.Join(states, ", ")))
	}
	base := ""
	if p.GetBaseWatts() > 0 {
		base = fmt.Sprintf(", plus %.0f W for the rest of the host", p.GetBaseWatts())
	}
	devices := make([]string, len(p.GetDevices()))
	for i, d := range p.GetDevices() {
		devices[i] = short(d)
	}
	s.para("measured: ", plain, orWord(strings.Join(devices, ", "), "no device: speeds alone")+base)
	budget := "at most " + plural(int(p.GetMaxWindows()), "window")
	if b := time.Duration(p.GetBudgetNs()); b > 0 {
		budget += " and " + longSpan(b)
	}
	s.printf("budget: %s\n\n", budget)
}

// tunePage tells how the sweep came out.
func (a *app) tunePage(r *qunerv1.TuneReport, f *tuneFlags, args []string) {
	joulesKnown := r.GetVerdict() != "no_energy"
	a.stateTable(r, joulesKnown)
	if slices.ContainsFunc(r.GetStates(), noInterval) {
		a.out.printf("\n  %s\n", a.out.style(dim, "1 window: no interval, and so nothing that is sure"))
	}
	a.unmeasured(r)
	a.uncounted(r)
	if joulesKnown {
		for _, axis := range r.GetAxes() {
			a.chart(r, axis)
		}
	}
	a.out.printf("\n")
	a.out.para("", plain, verdictWords(r))
	if len(r.GetAxes()) > 1 {
		for _, axis := range r.GetAxes() {
			a.out.para("  "+axis.GetName()+": ", plain, verdictShort(axis.GetVerdict()))
		}
	}
	a.startedFrom(r)
	a.outcome(r, joulesKnown)
	if r.GetNote() != "" {
		a.out.para("", plain, r.GetNote())
	}
	a.out.printf("\n%s\n", a.afterwards(r, f, args))
	if r.GetPrinciple() != "" && joulesKnown {
		a.out.printf("\n")
		a.out.para("", dim, r.GetPrinciple())
	}
}

// unitOf is what the work of a sweep is counted in, in the singular.
func unitOf(r *qunerv1.TuneReport) string { return orWord(r.GetWorkUnit(), "run") }

// outcome names the chosen state and what it brings, or what the search for one has cost.
func (a *app) outcome(r *qunerv1.TuneReport, joulesKnown bool) {
	labels := r.GetChosenLabels()
	if len(labels) == 0 {
		if joulesKnown {
			a.out.printf("The sweep took %s%s.\n", plural(int(r.GetWindows()), "window"), costWords(r, " and cost "))
		}
		return
	}
	name, look := "chosen:", green
	if !r.GetCertified() {
		name, look = "best so far:", plain
	}
	a.out.printf("\n%s %s\n", a.out.style(bold, name), a.out.style(look, strings.Join(labels, ", ")))
	a.out.para("", plain, quoteLine(r)+".")
	if doubt := speedDoubt(r); doubt != "" {
		a.out.para("", plain, doubt)
	}
}

// quoteLine is what a sweep has brought and what it has cost, in the one line that people quote.
func quoteLine(r *qunerv1.TuneReport) string {
	certified := "not certified"
	if r.GetCertified() {
		certified = "certified"
	}
	var saved string
	switch {
	case len(r.GetChosenLabels()) == 0:
		return "Nothing was chosen" + costWords(r, "; the sweep cost ")
	case !asFound(r):
		saved = strings.Replace(savingShort(r.Saving, r.SavingHalfWidth, r.Slowdown, r.SlowdownHalfWidth, unitOf(r)), "saving", "Saving", 1) + ", " + certified
	case r.GetCertified():
		saved = "That is the state found: there is nothing to save, " + certified
	default:
		saved = "That is the state found; no other is known to be better"
	}
	return saved + costWords(r, "; the sweep cost ") + paybackWords(r)
}

// asFound tells whether each chosen state is the one found.
func asFound(r *qunerv1.TuneReport) bool {
	return !slices.ContainsFunc(r.GetStates(), func(s *qunerv1.StateReport) bool { return s.GetChosen() && !s.GetFound() })
}

func (a *app) stateTable(r *qunerv1.TuneReport, joulesKnown bool) {
	var rows [][]cell
	found := foundStates(r)
	for _, s := range r.GetStates() {
		if s.GetWindows() == 0 && !chosen(r, s) {
			continue
		}
		row := []cell{text(axisOf(r, s)), text(strings.Join(s.GetState(), ", ")), figure(""), figure(""), figure(""), figure(""),
			figure(strconv.Itoa(int(s.GetWindows()))), text(strings.Join(marks(r, s, found[s.GetAxis()], joulesKnown), ", "))}
		if s.WorkPerSecond != nil {
			row[5] = figure(rate(s.GetWorkPerSecond(), s.GetWorkPerSecondHalfWidth()))
		}
		if joulesKnown {
			row[2] = measuredFigure(s.JoulesPerWork, s.JoulesPerWorkHalfWidth, "J")
			row[3] = measuredFigure(s.Watts, s.WattsHalfWidth, "W")
			row[4] = measuredFigure(s.AchievedWatts, nil, "W")
		}
		if chosen(r, s) {
			row[1].look, row[7].look = bold, green
		}
		rows = append(rows, row)
	}
	a.out.table([]string{"LEVERS", "STATE", "JOULES PER " + strings.ToUpper(unitOf(r)), "HOST DRAWS", "DEVICE", strings.ToUpper(many(unitOf(r))) + "/S", "WINDOWS", ""}, rows)
}

// axisOf names the axis of a state where there are several.
func axisOf(r *qunerv1.TuneReport, s *qunerv1.StateReport) string {
	if len(r.GetAxes()) < 2 {
		return ""
	}
	return s.GetAxis()
}

func measuredFigure(v, half *float64, unitName string) cell {
	switch {
	case v == nil:
		return figure("")
	case half == nil:
		return figure(quantity(*v, 0, unitName))
	}
	return figure(quantity(*v, *half, unitName))
}

// chosen tells whether a state was chosen. On an axis that makes no difference nothing is: it stays as it was found.
func chosen(r *qunerv1.TuneReport, s *qunerv1.StateReport) bool {
	return s.GetChosen() && !slices.ContainsFunc(r.GetAxes(), func(axis *qunerv1.AxisReport) bool {
		return axis.GetName() == s.GetAxis() && axis.GetVerdict() == "flat"
	}) && r.GetVerdict() != "flat"
}

// foundStates are the states that the axes were found in.
func foundStates(r *qunerv1.TuneReport) map[string]*qunerv1.StateReport {
	found := make(map[string]*qunerv1.StateReport)
	for _, s := range r.GetStates() {
		if s.GetFound() {
			found[s.GetAxis()] = s
		}
	}
	return found
}

// marks are what is to be said of a state beside its figures.
func marks(r *qunerv1.TuneReport, s, found *qunerv1.StateReport, joulesKnown bool) []string {
	measured := s.GetWindows() > 0
	best := "chosen"
	if !r.GetCertified() {
		best = "best so far"
	}
	slow := measured && !s.GetAllowed() && !s.GetFound()
	surely := slow && tooSlow(s, found, r.GetMaxSlowdown())
	var words []string
	for _, m := range []struct {
		is   bool
		word string
	}{
		{chosen(r, s), best}, {s.GetFound(), "as found"}, {!measured, "not measured"},
		{surely, "too slow"}, {slow && !surely, "maybe too slow"},
		{s.GetInBand() && joulesKnown && r.GetVerdict() != "flat" && s.JoulesPerWorkHalfWidth != nil, "in band"},
		{noInterval(s), "1 window"},
		{measured && s.GetSameAs() != "", "draws what " + s.GetSameAs() + " draws"}, // the figures are of both together
	} {
		if m.is {
			words = append(words, m.word)
		}
	}
	return words
}

// noInterval tells whether a state's figures rest on one window, and no other state's windows tell how far they spread.
func noInterval(s *qunerv1.StateReport) bool {
	return s.GetWindows() == 1 && s.WorkPerSecondHalfWidth == nil
}

// tooSlow tells whether the loss of speed against the state found is greater than allowed beyond the doubt of both
// speeds' intervals. A single window has none, and proves nothing.
func tooSlow(s, found *qunerv1.StateReport, allowed float64) bool {
	if found == nil || s.WorkPerSecondHalfWidth == nil || found.WorkPerSecondHalfWidth == nil ||
		s.GetWorkPerSecond() <= 0 || found.GetWorkPerSecond() <= 0 || allowed >= 1 {
		return false
	}
	doubt := math.Hypot(s.GetWorkPerSecondHalfWidth()/s.GetWorkPerSecond(), found.GetWorkPerSecondHalfWidth()/found.GetWorkPerSecond())
	return math.Log(s.GetWorkPerSecond()/found.GetWorkPerSecond())+doubt < math.Log1p(-allowed)
}

// unmeasured names the states that were left out, a line for each reason.
func (a *app) unmeasured(r *qunerv1.TuneReport) {
	var left []*qunerv1.StateReport
	for _, s := range r.GetStates() {
		if s.GetWindows() == 0 {
			left = append(left, s)
		}
	}
	for i, g := range grouped(left, func(s *qunerv1.StateReport) string { return s.GetAxis() + "\x00" + leftOut(s) }) {
		if i == 0 {
			a.out.printf("\n")
		}
		labels := make([]string, len(g))
		for i, s := range g {
			labels[i] = strings.Join(s.GetState(), ", ")
		}
		axis := axisOf(r, g[0])
		if axis != "" {
			axis += " "
		}
		a.out.para("  not measured: ", dim, axis+strings.Join(labels, ", ")+" ("+leftOut(g[0])+")")
	}
}

func leftOut(s *qunerv1.StateReport) string {
	if s.GetSkipped() == "" && s.GetSameAs() != "" {
		return "draws what " + s.GetSameAs() + " draws"
	}
	return orWord(s.GetSkipped(), "not reached")
}

// chart draws joules per run by state, from zero on: a bar that began elsewhere would exaggerate.
func (a *app) chart(r *qunerv1.TuneReport, axis *qunerv1.AxisReport) {
	most, wide := 0.0, 0
	var states []*qunerv1.StateReport
	for _, s := range r.GetStates() {
		if s.JoulesPerWork == nil || s.GetAxis() != axis.GetName() {
			continue
		}
		states = append(states, s)
		most = max(most, s.GetJoulesPerWork())
		wide = max(wide, len([]rune(strings.Join(s.GetState(), ", "))))
	}
	if most <= 0 || len(states) < 2 {
		return
	}
	of := "state"
	if len(r.GetAxes()) > 1 {
		of = "state of " + axis.GetName()
	}
	found := foundStates(r)[axis.GetName()]
	a.out.printf("\n%s\n", a.out.style(bold, "Joules per "+unitOf(r)+", by "+of+" (less is better)"))
	for _, s := range states {
		look := plain
		words := marks(r, s, found, false)
		switch {
		case chosen(r, s):
			look, words[0] = green, "◀ "+words[0]
		case !s.GetAllowed():
			look = dim
		}
		line := fmt.Sprintf("  %*s  %8s  %s  %s", wide, strings.Join(s.GetState(), ", "), perRun(s.GetJoulesPerWork()),
			a.out.style(look, bar(s.GetJoulesPerWork()/most, chartWidth)), strings.Join(words[:min(1, len(words))], ""))
		a.out.printf("%s\n", strings.TrimRight(line, " "))
	}
}

// bar is a share of width columns, to an eighth of one.
func bar(share float64, width int) string {
	eighths := int(math.Round(min(1, max(0, share)) * float64(width) * 8))
	full := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		full += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return full
}
