package profiles

import (
	"slices"
	"strconv"
	"strings"

	"github.com/qunerd/quner/internal/levers"
)

// Untuned says what training gets before it is tuned.
type Untuned string

// What training may get. The zero value is AsFound.
const (
	AsFound        Untuned = "found"       // everything as found
	AtFullThrottle Untuned = "performance" // the governor raised, on mains
)

// Circumstances are what a conservative default depends on.
type Circumstances struct {
	Driver   Driver
	Source   Source
	Training Untuned
	Found    map[string]levers.Value // value a lever had before quner, by name; the present one where it was never taken
}

// Default returns the point for a profile that was never tuned here: one that saves at rest and never hurts. A lever it
// does not name stays as found; power limits always do, since a limit saves nothing at rest.
func Default(p Profile, all []levers.Lever, c Circumstances) levers.Point {
	var settings []levers.Setting
	for _, l := range all {
		found, offered := c.Found[l.Name()], l.Span().Choices
		var want levers.Value
		switch l.Kind() {
		case levers.Governor:
			want = c.governor(p, offered, found)
		case levers.EnergyPreference:
			want = c.preference(p, found)
		}
		if want != "" && want != found && slices.Contains(offered, want) {
			settings = append(settings, levers.Setting{Lever: l.Name(), Value: want})
		}
	}
	return levers.NewPoint(settings...)
}

// preference chooses an energy preference, or "" for the one found. Only active-mode pstate drivers have any.
func (c Circumstances) preference(p Profile, found levers.Value) levers.Value {
	const want = "balance_power"
	if p != Idle || !c.Driver.Active() || thrift(found) >= thrift(want) {
		return ""
	}
	return want
}

// thrift orders energy preferences from the fastest to the slowest, by the number that Intel's driver gives the
// processor for each; a preference without a name is that number. One that is not known is believed to be slow.
func thrift(preference levers.Value) int {
	switch preference {
	case "performance":
		return 0
	case "balance_performance", "default":
		return 128
	case "balance_power":
		return 192
	}
	if n, err := strconv.Atoi(string(preference)); err == nil {
		return n
	}
	return 255
}

// governor chooses a governor, or "" for the one found.
func (c Circumstances) governor(p Profile, offered []levers.Value, found levers.Value) levers.Value {
	var want levers.Value
	switch {
	case found == "userspace":
		// Its frequency is a second setting, which is lost when another governor takes over.
		return ""
	case p == Training && c.Training == AtFullThrottle:
		if c.Source == Battery {
			return ""
		}
		return "performance"
	case p != Idle:
		return ""
	case c.Driver.Active():
		want = "powersave"
	case slices.Contains(offered, "schedutil"):
		want = "schedutil"
	case slices.Contains(offered, "ondemand"):
		want = "ondemand"
	}
	if c.faster(want, found) {
		return ""
	}
	return want
}

// faster reports whether a governor may run faster than the one found. One that is not known is believed to be slow.
func (c Circumstances) faster(want, found levers.Value) bool {
	if found == "" {
		return c.Source == Battery
	}
	return pace(want) > pace(found)
}

func pace(governor levers.Value) int {
	return slices.Index([]levers.Value{"powersave", "conservative", "schedutil", "performance"},
		levers.Value(strings.Replace(string(governor), "ondemand", "schedutil", 1)))
}
