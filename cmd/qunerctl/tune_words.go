package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// perRun prints joules per run with four significant digits.
func perRun(j float64) string { return quantity(j, 0, "J") }

// rate prints a number with its half-width; three significant digits without one.
func rate(v, half float64) string {
	if !(half > 0) || !finite(half) {
		return strconv.FormatFloat(v, 'f', decimals(v, 3), 64)
	}
	digits := decimals(half, 2)
	return strconv.FormatFloat(v, 'f', digits, 64) + " ± " + strconv.FormatFloat(half, 'f', digits, 64)
}

// verdictShort is a verdict in a few plain words.
func verdictShort(verdict string) string {
	switch verdict {
	case "interior":
		return "best inside the range"
	case "edge":
		return "best at an end of the range"
	case "flat":
		return "makes no difference"
	case "uncertified":
		return "not sure yet"
	case "no_energy":
		return "no energy counter"
	case "":
		return "ended with no result"
	default:
		return verdict
	}
}

// verdictWords say in plain words what the sweep has shown.
func verdictWords(r *qunerv1.TuneReport) string {
	what := "state"
	if axes := r.GetAxes(); len(axes) == 1 && axes[0].GetName() == "gpu" {
		what = "cap"
	}
	switch r.GetVerdict() {
	case "interior":
		return "The best " + what + " lies inside the range: both ends do less work per joule."
	case "edge":
		if !moreBeyond(r) {
			return "The best " + what + " is the one found, at an end of what may be set here."
		}
		return "The best " + what + " is at an end of the range; the optimum may lie beyond what the device offers."
	case "flat":
		return "The levers make no difference to this workload: nothing is chosen, and they stay as found."
	case "uncertified":
		if why := stoppedWords(r); why != "" {
			return why
		}
		s := "The measurements are too few or too noisy to be sure of a best " + what
		if n := int(r.GetMoreWindows()); n > 0 {
			s += fmt.Sprintf(": about %s would settle it", plural(n, "more window"))
		}
		for _, axis := range r.GetAxes() {
			if step := axis.GetNextStep(); step != "" && axis.GetStopped() == "" {
				s += "; " + step
			}
		}
		return s + "."
	case "no_energy":
		return "This machine shows no energy counter: only speeds are known, and nothing is applied or cached."
	default:
		return "Verdict: " + r.GetVerdict() + "."
	}
}

// moreBeyond tells whether a lever that was moved ended where what it can be set to ends. One that was left as found need
// not have: a state above that is not tried.
func moreBeyond(r *qunerv1.TuneReport) bool {
	return len(r.GetStates()) == 0 || slices.ContainsFunc(r.GetAxes(), func(axis *qunerv1.AxisReport) bool {
		return axis.GetVerdict() == "edge" && slices.ContainsFunc(r.GetStates(), func(s *qunerv1.StateReport) bool {
			return s.GetAxis() == axis.GetName() && s.GetChosen() && !s.GetFound()
		})
	})
}

// stoppedWords say why a sweep was not gone on with after its first look; empty if it was.
func stoppedWords(r *qunerv1.TuneReport) string {
	why := ""
	for _, axis := range r.GetAxes() {
		switch {
		case axis.GetStopped() != "":
			why = axis.GetStopped()
		case axis.GetVerdict() != "flat":
			return ""
		}
	}
	if why == "" {
		return ""
	}
	return "It is not worth the search: " + why + ". --force searches all the same."
}

// savingShort is the sentence people will quote. A saving whose interval is not known is none yet. The speed's own interval
// is told unless it would read ± 0.0 %.
func savingShort(saving, half, slowdown, slowdownHalf *float64, per string) string {
	if saving == nil || half == nil {
		return "saving not known yet"
	}
	s := fmt.Sprintf("%s ± %s joules per %s", change(-*saving), percent(*half), per)
	if slowdown != nil {
		s += " at " + change(-*slowdown)
		if slowdownHalf != nil && *slowdownHalf >= negligible {
			s += " ± " + percent(*slowdownHalf)
		}
		s += " speed"
	}
	return s
}

// costWords are what the sweep has burnt, if that was measured.
func costWords(r *qunerv1.TuneReport, lead string) string {
	if r.EnergyUj == nil {
		return ""
	}
	return lead + roundJoules(float64(r.GetEnergyUj())/1e6)
}

// roundJoules is an energy to two or three digits, for sentences.
func roundJoules(j float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e6, "MJ"}, {1e3, "kJ"}, {1, "J"}} {
		if j >= u.size || u.size == 1 {
			v := j / u.size
			return strconv.FormatFloat(v, 'f', min(1, decimals(v, 2)), 64) + " " + u.name
		}
	}
	return ""
}

// paybackWords say after how much work the sweep has paid for itself. Only a certified saving pays anything back.
func paybackWords(r *qunerv1.TuneReport) string {
	p := r.GetPaybackS()
	if r.EnergyUj == nil || !r.GetCertified() || !(p > 0) || p > math.MaxInt64/float64(time.Second) {
		return ""
	}
	return " and pays back after " + longSpan(time.Duration(p*float64(time.Second))) + " of this work"
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
	do := func(why, command string) string { return why + "\n  " + a.out.style(bold, command) }
	back := "The host was put back as found."
	switch {
	case r.GetApplied():
		return do(fmt.Sprintf("The chosen state is in force and cached for the %s profile. To undo:", f.profile), a.asRoot("apply --restore"))
	case r.GetVerdict() == "uncertified" && r.GetMoreWindows() > 0:
		return do(back+" To settle it:", a.retyped(args, fmt.Sprintf("--max-windows=%d", r.GetWindows()+r.GetMoreWindows())))
	case r.GetCertified() && len(r.GetChosenLabels()) > 0 && !f.start.GetApply():
		return do(back+" To keep the chosen state, sweep again with --apply:", a.retyped(args, "--apply"))
	default:
		return back
	}
}

// notKept is the error of a sweep that was to keep its point and has none to keep. Where the levers make no difference
// there is nothing to keep, and all is well.
func notKept(r *qunerv1.TuneReport) error {
	if r.GetApplied() || r.GetVerdict() == "flat" {
		return nil
	}
	why := "its best state is not certified"
	switch {
	case r.GetVerdict() == "no_energy":
		why = "there is no energy counter to judge by"
	case r.GetCertified():
		why = "qunerd kept no point"
	}
	return &failure{error: fmt.Errorf("nothing was applied: %s; the host is as it was found", why), code: exitError}
}
