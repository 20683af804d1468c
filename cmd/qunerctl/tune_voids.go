package main

import (
	"fmt"
	"strings"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// uncounted tells how many windows did not count and for what, and what nobody could watch.
func (a *app) uncounted(r *qunerv1.TuneReport) {
	if n := r.GetVoided(); n > 0 {
		was := "were"
		if n == 1 {
			was = "was"
		}
		a.out.printf("\n")
		a.out.para("", plain, fmt.Sprintf("%d of %s did not count, and %s measured again:", n, plural(int(r.GetWindows()), "window"), was))
		for _, v := range r.GetVoidedBy() {
			words := fmt.Sprintf("%d × %s", v.GetWindows(), voidedWords(v.GetWhy()))
			if v.GetLast() != "" {
				words += " (" + v.GetLast() + ")"
			}
			a.out.para("  ", dim, words)
		}
	}
	if d := r.GetUnwatched(); len(d) > 0 {
		names := make([]string, len(d))
		for i := range d {
			names[i] = short(d[i])
		}
		a.out.printf("\n")
		a.out.para("", dim, "Whether heat slowed it down is not known of "+strings.Join(names, ", ")+": it does not tell.")
	}
}

// voidedWords are a kind of reason for windows not to count, in plain words.
func voidedWords(why string) string {
	switch why {
	case "levers":
		return "a lever did not stay as set"
	case "call":
		return "somebody asked for something else"
	case "load":
		return "somebody else was at work"
	case "throttling":
		return "something slowed a device down"
	case "work":
		return "the workload did not run as asked"
	case "measurement":
		return "a device did not measure all of it"
	default:
		return why
	}
}
