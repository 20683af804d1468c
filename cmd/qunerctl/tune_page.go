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

// perRun prints joules per run with four significant digits.
func perRun(j float64) string { return quantity(j, 0, "J") }

// rate prints a number with its half-width; three significant digits without one.
func rate(v, half float64) string {
	if !finite(half) {
		return rate(v, 0) + " ± ?"
	}
	if half <= 0 {
		return strconv.FormatFloat(v, 'f', decimals(v, 3), 64)
	}
	digits := decimals(half, 2)
	return strconv.FormatFloat(v, 'f', digits, 64) + " ± " + strconv.FormatFloat(half, 'f', digits, 64)
}

// planPage tells what a sweep will try.
func (s *screen) planPage(p *qunerv1.TunePlan) {
	for _, axis := range p.GetAxes() {
		states := slices.Clone(axis.GetStates())
		if i := int(axis.GetFound()); i < len(states) {
			states[i] += " (as found)"
		}
		s.printf("%s: %s of %s: %s\n", s.style(bold, "will try"), plural(len(states), "state"), axis.GetName(), strings.Join(states, ", "))
	}
	base := ""
	if p.GetBaseWatts() > 0 {
		base = fmt.Sprintf(", plus %.0f W for the rest of the host", p.GetBaseWatts())
	}
	devices := make([]string, len(p.GetDevices()))
	for i, d := range p.GetDevices() {
		devices[i] = short(d)
	}
	s.printf("%s: %s%s\n", s.style(bold, "measured"), orWord(strings.Join(devices, ", "), "no device: speeds alone"), base)
	s.printf("%s: at most %s\n\n", s.style(bold, "budget"), plural(int(p.GetMaxWindows()), "window"))
}

// tunePage tells how the sweep came out.
func (a *app) tunePage(r *qunerv1.TuneReport, f *tuneFlags, args []string) {
	joulesKnown := r.GetVerdict() != "no_energy"
	a.stateTable(r, joulesKnown)
	if joulesKnown {
		a.chart(r.GetStates())
	}
	a.out.printf("\n%s\n", verdictWords(r))
	for _, axis := range r.GetAxes() {
		if len(r.GetAxes()) > 1 || axis.GetVerdict() != r.GetVerdict() {
			a.out.printf("  %s: %s\n", axis.GetName(), axis.GetVerdict())
		}
	}
	if labels := r.GetChosenLabels(); len(labels) > 0 {
		a.out.printf("\n%s %s\n", a.out.style(bold, "chosen:"), a.out.style(green, strings.Join(labels, ", ")))
		a.out.printf("%s\n", savingWords(r))
	} else if joulesKnown {
		a.out.printf("The sweep took %s and cost %s.\n", plural(int(r.GetWindows()), "window"), joules(r.GetEnergyUj(), 0))
	}
	if r.GetNote() != "" {
		a.out.printf("%s\n", r.GetNote())
	}
	if r.GetPrinciple() != "" && joulesKnown {
		a.out.printf("\n%s\n", a.out.style(dim, r.GetPrinciple()))
	}
	a.out.printf("\n%s\n", a.afterwards(r, f, args))
}

func (a *app) stateTable(r *qunerv1.TuneReport, joulesKnown bool) {
	rows := make([][]cell, 0, len(r.GetStates()))
	for _, s := range r.GetStates() {
		measured := s.GetWindows() > 0
		var marks []string
		for _, m := range []struct {
			is   bool
			word string
		}{{s.GetChosen(), "chosen"}, {s.GetFound(), "as found"}, {!measured, "not measured"}, {measured && !s.GetAllowed(), "too slow"},
			{s.GetInBand() && joulesKnown, "in band"}} {
			if m.is {
				marks = append(marks, m.word)
			}
		}
		row := []cell{text(strings.Join(s.GetState(), ", ")), figure(""), figure(""), figure(""), figure(""),
			figure(strconv.Itoa(int(s.GetWindows()))), text(strings.Join(marks, ", "))}
		if measured {
			row[4] = figure(rate(s.GetWorkPerSecond(), s.GetWorkPerSecondHalfWidth()))
		}
		if measured && joulesKnown {
			row[1] = figure(quantity(s.GetJoulesPerWork(), s.GetJoulesPerWorkHalfWidth(), "J"))
			row[2] = figure(quantity(s.GetWatts(), s.GetWattsHalfWidth(), "W"))
			row[3] = figure(quantity(s.GetAchievedWatts(), 0, "W"))
		}
		if s.GetChosen() {
			row[0].look, row[6].look = bold, green
		}
		rows = append(rows, row)
	}
	a.out.table([]string{"STATE", "JOULES PER RUN", "HOST DRAWS", "DEVICE DRAWS", "RUNS PER SECOND", "WINDOWS", ""}, rows)
}

// chart draws joules per run by state, from zero on: a bar that began elsewhere would exaggerate.
func (a *app) chart(states []*qunerv1.StateReport) {
	most, wide := 0.0, 0
	for _, s := range states {
		if !finite(s.GetJoulesPerWork()) {
			continue
		}
		most = max(most, s.GetJoulesPerWork())
		wide = max(wide, len([]rune(strings.Join(s.GetState(), ", "))))
	}
	if most <= 0 {
		return
	}
	a.out.printf("\n%s\n", a.out.style(bold, "Joules per run, by state (less is better)"))
	for _, s := range states {
		if !finite(s.GetJoulesPerWork()) {
			continue
		}
		look, mark := plain, ""
		switch {
		case s.GetChosen():
			look, mark = green, "  ◀ chosen"
		case !s.GetAllowed():
			look, mark = dim, "  too slow"
		case s.GetFound():
			mark = "  as found"
		}
		a.out.printf("  %*s  %8s  %s%s\n", wide, strings.Join(s.GetState(), ", "), perRun(s.GetJoulesPerWork()),
			a.out.style(look, bar(s.GetJoulesPerWork()/most, chartWidth)), mark)
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

// verdictWords say in plain words what the sweep has shown.
func verdictWords(r *qunerv1.TuneReport) string {
	switch r.GetVerdict() {
	case "interior":
		return "The best state lies inside the range: both ends do less work per joule."
	case "edge":
		return "The best state is at an end of the range; the optimum may lie beyond what the device offers."
	case "flat":
		return "The levers make no difference to this workload: every state costs the same, so none is chosen."
	case "uncertified":
		s := "The measurements are too noisy to be sure of a best state"
		if n := int(r.GetMoreWindows()); n > 0 {
			s += fmt.Sprintf(": about %s would settle it", plural(n, "more window"))
		}
		return s + "."
	case "no_energy":
		return "This machine shows no energy counter: only speeds are known, and nothing is applied or cached."
	default:
		return "verdict: " + r.GetVerdict()
	}
}

// savingWords are the sentence people will quote.
func savingWords(r *qunerv1.TuneReport) string {
	certified := "not certified"
	if r.GetCertified() {
		certified = "certified"
	}
	if !finite(r.GetSaving()) || !finite(r.GetSlowdown()) {
		return fmt.Sprintf("What it saves was not measured, %s; the sweep cost %s", certified, joules(r.GetEnergyUj(), 0))
	}
	s := fmt.Sprintf("%s ± %s joules per run at %s speed, %s; the sweep cost %s",
		change(-r.GetSaving()), percent(r.GetSavingHalfWidth()), change(-r.GetSlowdown()), certified, joules(r.GetEnergyUj(), 0))
	if p := r.GetPaybackS(); p > 0 {
		s += fmt.Sprintf(" and pays back after %s of this work", longSpan(time.Duration(p*float64(time.Second))))
	}
	return s
}

// longSpan spells minutes out, for sentences.
func longSpan(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return plural(int(math.Ceil(d.Seconds())), "second")
	case d < 2*time.Hour:
		return plural(int(math.Round(d.Minutes())), "minute")
	default:
		return plural(int(math.Round(d.Hours())), "hour")
	}
}

// afterwards says how the host is now and what to do next.
func (a *app) afterwards(r *qunerv1.TuneReport, f *tuneFlags, args []string) string {
	again := func(flags ...string) string {
		words := append(a.tuneWords(len(args)), flags...)
		words = append(words, "--")
		for _, arg := range args {
			words = append(words, quote(arg))
		}
		return a.out.style(bold, strings.Join(words, " "))
	}
	back := "The host was put back as found."
	switch {
	case r.GetApplied():
		return fmt.Sprintf("The chosen state is in force and cached for the %s profile. To undo:\n  %s", f.profile, a.out.style(bold, a.asRoot("apply --restore")))
	case r.GetVerdict() == "uncertified" && r.GetMoreWindows() > 0:
		return fmt.Sprintf("%s To settle it:\n  %s", back, again("--max-windows", strconv.Itoa(int(r.GetWindows()+r.GetMoreWindows()))))
	case len(r.GetChosenLabels()) > 0 && !f.start.GetApply():
		return fmt.Sprintf("%s To keep the chosen state, sweep again with --apply:\n  %s", back, again("--apply"))
	default:
		return back
	}
}

// tuneWords are what was typed up to the workload: the command comes last, as given, with or without "--".
func (a *app) tuneWords(command int) []string {
	words := []string{a.asRoot("")}
	typed := a.args[:max(0, len(a.args)-command)]
	if n := len(typed); n > 0 && typed[n-1] == "--" {
		typed = typed[:n-1]
	}
	for _, w := range typed {
		words = append(words, quote(w))
	}
	return words
}
