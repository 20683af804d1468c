package main

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/unit"
)

// minus is the sign that is as wide as a plus.
const minus = "\u2212"

// value prints a lever's value for people: 200000 mW is "200 W".
func value(text, unitName string) string {
	if text == "" {
		return ""
	}
	scale := map[string]float64{"uW": 1e-6, "µW": 1e-6, "mW": 1e-3, "W": 1}[unitName]
	n, err := strconv.ParseFloat(text, 64)
	if scale == 0 || err != nil {
		return strings.TrimSpace(text + " " + unitName)
	}
	return strconv.FormatFloat(math.Round(n*scale*1000)/1000, 'f', -1, 64) + " W"
}

// watts prints a power as one reads it off a meter.
func watts(p unit.Power) string { return strconv.FormatFloat(p.Watts(), 'f', 1, 64) + " W" }

// span prints a duration with two units at most: "45 s", "3 min", "2 h 5 min", "4 d".
func span(d time.Duration) string {
	two := func(n time.Duration, big string, rest time.Duration, small string) string {
		if rest == 0 {
			return fmt.Sprintf("%d %s", n, big)
		}
		return fmt.Sprintf("%d %s %d %s", n, big, rest, small)
	}
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
	case d < 100*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 0, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min", d.Round(time.Minute)/time.Minute)
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	}
	return fmt.Sprintf("%d d", d.Round(24*time.Hour)/(24*time.Hour))
}

// ago prints how long ago a moment was; "never" for none.
func ago(unixNs int64) string {
	if unixNs == 0 {
		return "never"
	}
	d := time.Since(time.Unix(0, unixNs))
	if d < 10*time.Second {
		return "just now"
	}
	return span(d) + " ago"
}

// quantity prints a figure and its half-width with the decimals that the half-width warrants: "1.23 kJ ± 0.05 kJ".
// Without a half-width there are four significant digits; one that is not known, as of a single reading, is a question.
func quantity(v, half float64, unitName string) string {
	if !finite(half) {
		return quantity(v, 0, unitName) + " ± ?"
	}
	prefix, size := "", 1.0
	switch a := math.Abs(v); {
	case a >= 1e12 || a < 1e-9 && a > 0: // no prefix reaches so far
		if half <= 0 {
			return fmt.Sprintf("%.4g %s", v, unitName)
		}
		return fmt.Sprintf("%.4g %s ± %.2g %s", v, unitName, half, unitName)
	case a >= 1e7:
		prefix, size = "M", 1e6
	case a >= 1e4:
		prefix, size = "k", 1e3
	case a < 1e-3 && a > 0:
		prefix, size = "µ", 1e-6
	case a < 0.1 && a > 0:
		prefix, size = "m", 1e-3
	}
	v, half = v/size, half/size
	digits := decimals(v, 4)
	if half > 0 {
		// An interval is never shown as nothing, if that takes a digit more than four.
		digits = max(min(digits, decimals(half, 2)), decimals(half, 1))
	}
	number := strings.Replace(strconv.FormatFloat(v, 'f', digits, 64), "-", minus, 1)
	if half <= 0 {
		return number + " " + prefix + unitName
	}
	return fmt.Sprintf("%s %s%s ± %s %s%s", number, prefix, unitName, strconv.FormatFloat(half, 'f', digits, 64), prefix, unitName)
}

// amount prints how much work was done: all digits, unless they were a line of noughts.
func amount(work float64) string {
	if work >= 1e15 || work < 1e-6 {
		return strconv.FormatFloat(work, 'g', -1, 64)
	}
	return strconv.FormatFloat(work, 'f', -1, 64)
}

// finite tells whether a figure is one.
func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// decimals is how many of them show n significant digits of v.
func decimals(v float64, n int) int {
	if v == 0 {
		return 0
	}
	return min(6, max(0, n-1-int(math.Floor(math.Log10(math.Abs(v))))))
}

// joules prints an energy with its 95 % half-width.
func joules(uj, halfUJ int64) string { return quantity(float64(uj)/1e6, float64(halfUJ)/1e6, "J") }

// percent prints a fraction with one decimal, and with a sign if it is a change.
func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 1, 64) + " %" }

func change(f float64) string {
	sign := "+"
	if f < 0 {
		sign = minus
	}
	return sign + percent(math.Abs(f))
}

// plural is "1 window", "3 windows".
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + many(thing)
}

// many is "windows", "batches", "queries": what a person counts work in is any word.
func many(thing string) string {
	ends := func(with ...string) bool {
		return slices.ContainsFunc(with, func(end string) bool { return strings.HasSuffix(strings.ToLower(thing), end) })
	}
	switch {
	case ends("s") && !ends("ss"): // they are many already
		return thing
	case ends("ss", "x", "z", "ch", "sh"):
		return thing + "es"
	case ends("y") && !ends("ay", "ey", "oy", "uy"):
		return thing[:len(thing)-1] + "ies"
	}
	return thing + "s"
}

// listed ends a sentence about n things that are listed below it.
func listed(n int) string {
	if n == 0 {
		return "."
	}
	return ":"
}

// short cuts a board's UUID to what tells two boards of one machine apart.
func short(name string) string {
	return regexp.MustCompile(`((?:GPU|MIG)-[0-9a-fA-F]{8})-[0-9a-fA-F-]{8,}`).ReplaceAllString(name, "$1")
}

func profileWord(p qunerv1.Profile) string {
	if p == qunerv1.Profile_PROFILE_UNSPECIFIED {
		return "not known yet"
	}
	return enumWord(p.Descriptor(), p.Number())
}

// modeWords say who decides the profile.
func modeWords(m *qunerv1.ModeState) string {
	who := ""
	if m.GetSetAtUnixNs() != 0 {
		who = fmt.Sprintf(", set by uid %d %s", m.GetSetByUid(), ago(m.GetSetAtUnixNs()))
		if m.GetSetByUid() == uint32(os.Getuid()) {
			who = ", set by you " + ago(m.GetSetAtUnixNs())
		}
	}
	switch m.GetMode() {
	case qunerv1.Mode_MODE_OFF:
		until := "until qunerctl resume"
		if at := m.GetUntilUnixNs(); at != 0 {
			until = "for another " + span(max(0, time.Until(time.Unix(0, at))))
		}
		return "paused " + until + who
	case qunerv1.Mode_MODE_IDLE, qunerv1.Mode_MODE_TRAINING:
		return "held by hand" + who
	default:
		return "chosen automatically"
	}
}

// pointWords say what a point source means.
func pointWords(source string) string {
	switch source {
	case "tuned":
		return "tuned on this machine"
	case "default":
		return "the cautious default"
	case "found":
		return "as the host was found"
	case "sweep":
		return "a sweep is trying states"
	case "floor":
		return "idle floors are being measured"
	default:
		return source
	}
}

// reasonWords turn a machine-readable reason into a sentence.
func reasonWords(reason string) string {
	sentence, ok := map[string]string{
		"coarse":                       "CPU energy is told exactly to members of group quner only, to others by the daemon's ticks (CVE-2020-8694)",
		"no_gpu":                       "this machine shows no GPU that tells its energy",
		"no_counter":                   "the device has no energy counter",
		"contained":                    "another counter contains this one",
		"twin":                         "another interface shows the same counter",
		"platform":                     "it is the whole platform's, told apart and never part of a sum",
		"short_window":                 "fewer than three steps of the counter: too short to be told from nothing; more work at once gives a figure, and --wait-edge a closer one",
		"reset":                        "a counter was reset meanwhile",
		"backward":                     "a counter ran backwards",
		"jump":                         "a counter jumped by more than the device can draw",
		"gap":                          "a counter could not be read for a while",
		"ambiguous":                    "a counter may have wrapped once more than was seen: it was at least this much",
		"mirrored":                     "two dies show one counter: it is counted once",
		"frozen":                       "the counter does not move: it measures nothing here",
		"permission":                   "the daemon may not read a counter",
		"no_powercap":                  "this machine shows no CPU energy counter",
		"sleeping":                     "a GPU slept and was not woken",
		"lost":                         "a GPU fell off the bus",
		"hung":                         "a GPU's driver did not answer",
		"floor_none":                   "no idle floor is known at this operating point: the figure holds what the machine burns at rest too; qunerctl floor measure (--all-points) finds it, or give --idle-watts",
		"floor_caller":                 "the idle floor is yours (--idle-watts)",
		"floor_suspect":                "the idle floor looks too high: three windows were below it; qunerctl floor measure finds it anew",
		"point_changed":                "the operating point changed meanwhile",
		"unsynced":                     "GPU work may still have been running at the end",
		"shared":                       "others used the device too: this is a share of it",
		"sources_disagree":             "counter and power sensor differ by more than 5 %: the interval covers both",
		"averaging_longer_than_window": "the power sensor tells a mean over longer than this took",
		"orphaned":                     "its client went away: the figure ends there",
		"time_limit":                   "it was not closed in time and ended by itself",
		"daemon_restarted":             "the daemon was restarted meanwhile",
		"daemon_unreachable":           "no daemon answered",
		"refused":                      "the daemon had no room for another window, or failed",
		"suspended":                    "it sleeps, and is not woken for this", "no_permission": "the daemon may not read it",
		"no_driver": "its driver is not loaded", "absent": "the host has none", "not_supported": "the device cannot tell",
		"unreadable": "it is there and reading it fails",
	}[strings.ToLower(reason)]
	if !ok {
		return strings.ReplaceAll(reason, "_", " ")
	}
	return sentence
}
