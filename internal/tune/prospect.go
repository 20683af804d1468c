package tune

import (
	"fmt"
	"math"
	"time"
)

// Prospect is what may still be gained by a sweep, and what it takes.
type Prospect struct {
	Watts  float64 // whole host, in the state found
	Saving float64 // the largest share of the joules per work that may still be saved
	Joules float64 // energy of the sweep: spent, and to come
}

// Payback is the time of work, at the largest saving, that saves what the sweep takes: Joules ÷ (Watts × Saving). It is the
// longest time there is where nothing can be saved.
func (p Prospect) Payback() time.Duration {
	seconds := p.Joules / (p.Watts * p.Saving)
	if !(seconds >= 0 && seconds < math.MaxInt64/float64(time.Second)) {
		return math.MaxInt64
	}
	return time.Duration(seconds * float64(time.Second))
}

// Pays tells whether the sweep could pay back within a time of work, and the arithmetic in words.
func (p Prospect) Pays(within time.Duration) (pays bool, words string) {
	if !(p.Saving > 0) {
		return false, fmt.Sprintf("nothing can be saved, and the sweep takes about %s", energy(p.Joules))
	}
	back := p.Payback()
	words = fmt.Sprintf("at most %.1f %% of %.3g W, that is %.2g W, can be saved; the sweep takes about %s, which that saves in %s of work",
		100*p.Saving, p.Watts, p.Watts*p.Saving, energy(p.Joules), lasting(back))
	if back > within {
		return false, words + ", more than " + lasting(within)
	}
	return true, words + ", within " + lasting(within)
}

// energy is joules for people.
func energy(joules float64) string {
	switch {
	case joules >= 1e6:
		return fmt.Sprintf("%.3g MJ", joules/1e6)
	case joules >= 1e3:
		return fmt.Sprintf("%.3g kJ", joules/1e3)
	}
	return fmt.Sprintf("%.3g J", joules)
}

// lasting is a time for people.
func lasting(d time.Duration) string {
	switch {
	case d >= 10*365*24*time.Hour:
		return "more than 10 years"
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
}

// usualWindows is about what an axis takes beyond its pre-check.
const usualWindows = 12

// hopeless is why the axis cannot pay back the sweep within the horizon, "" if it can or if nobody asked. No state can do
// with less than the power of the lowest at the speed of the highest, each as far off as its noise may have hidden.
func (x *search) hopeless() string {
	if x.opts.Horizon == 0 || x.opts.Objective == WorkPerSecond {
		return ""
	}
	d, _ := x.fit.diff(x.found(), 0, qWatts)
	if x.fit.n[x.found()] == 0 {
		d, _ = x.fit.diff(x.top, 0, qWatts)
	}
	t := x.quantile(x.opts.Confidence, x.fit.df+guessed)
	most := -math.Expm1(-(math.Abs(d) + t*x.guess(qWatts, x.top, 0)))
	perWindow := x.joules / float64(x.windows)
	p := Prospect{
		Watts: math.Exp(x.fit.mean[x.top][qWatts]), Saving: most,
		Joules: x.joules + perWindow*float64(min(usualWindows, x.limit-x.windows)),
	}
	if pays, words := p.Pays(x.opts.Horizon); !pays {
		return words
	}
	return ""
}
