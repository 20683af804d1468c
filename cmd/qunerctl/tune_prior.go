package main

import (
	"fmt"
	"strings"
	"time"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// priorWords tell from which point a search starts, and why what was found then is measured again.
func priorWords(p *qunerv1.PriorPoint) string {
	return fmt.Sprintf("the point of %s: %s; measured again because %s", time.Unix(0, p.GetTunedAtUnixNs()).Format(time.DateOnly),
		strings.Join(p.GetChosenLabels(), ", "), changedWords(p.GetChanged()))
}

// changedWords make a clause of the facts that have changed: "kernel: 6.1.0 → 6.6.0" is "the kernel (6.1.0 → 6.6.0) changed".
func changedWords(facts []string) string {
	if len(facts) == 0 {
		return "the kernel, the microcode or the driver changed"
	}
	words := make([]string, len(facts))
	for i, fact := range facts {
		words[i] = "the " + fact
		if name, how, ok := strings.Cut(fact, ": "); ok {
			words[i] = "the " + strings.Replace(name, "gpu", "GPU", 1) + " (" + how + ")"
		}
	}
	return strings.Join(words, " and ") + " changed"
}

// startedFrom tells what has become of the point that a search started from.
func (a *app) startedFrom(r *qunerv1.TuneReport) {
	p := r.GetPrior()
	if p == nil {
		return
	}
	became := "that point holds"
	var moved []string
	for _, axis := range r.GetAxes() {
		if axis.GetMoved() != "" {
			moved = append(moved, axis.GetMoved())
		} else if axis.GetFrom() != "" && axis.GetFrom() != axis.GetChosen() {
			became = "the best is beside it now"
		}
	}
	switch {
	case len(moved) > 0:
		became = "that is not what it was (" + strings.Join(moved, "; ") + "), so the search went on over all states"
	case !r.GetCertified():
		became = "whether that point holds is not sure yet"
	}
	a.out.para("", plain, fmt.Sprintf("It started from the point of %s (%s), since %s: %s.",
		time.Unix(0, p.GetTunedAtUnixNs()).Format(time.DateOnly), strings.Join(p.GetChosenLabels(), ", "), changedWords(p.GetChanged()), became))
}

// negligible is the least half-width, of a share, that does not read as 0.0 %.
const negligible = 0.0005

// speedDoubt says that the loss of speed may be greater than was allowed: the limit goes by the estimate. Empty if it cannot.
func speedDoubt(r *qunerv1.TuneReport) string {
	if r.Slowdown == nil || r.SlowdownHalfWidth == nil || asFound(r) {
		return ""
	}
	most := r.GetSlowdown() + r.GetSlowdownHalfWidth()
	if most < r.GetMaxSlowdown()+negligible {
		return ""
	}
	return fmt.Sprintf("The loss of speed may be up to %s: the limit of %s goes by the estimate.", percent(most), percent(r.GetMaxSlowdown()))
}
