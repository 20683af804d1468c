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
			// Of several windows the last one speaks for all of its kind.
			a.out.para("  ", dim, fmt.Sprintf("%d × %s: %s", v.GetWindows(), v.GetWhy(), v.GetLast()))
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
