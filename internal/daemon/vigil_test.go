package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host"
)

// A board's slowdowns void a window by what it says and by what it has counted, whichever it tells.
func TestWhatABoardTellsOfItsSlowdowns(t *testing.T) {
	untold := host.Throttling{NowErr: host.ErrNotSupported, SpentErr: host.ErrNotSupported}
	now := func(slow host.Slowdown) host.Throttling {
		return host.Throttling{Now: slow, SpentErr: host.ErrNotSupported}
	}
	spent := func(d time.Duration) host.Throttling { return host.Throttling{NowErr: host.ErrNotSupported, Spent: d} }
	for name, c := range map[string]struct {
		told []host.Throttling
		says string // empty: the window counts
	}{
		"nothing":                       {[]host.Throttling{untold, untold, untold}, ""},
		"cool":                          {[]host.Throttling{{Spent: 70}, {Spent: 70}}, ""},
		"hot at the begin":              {[]host.Throttling{now(host.SlowHeat), now(0)}, "slowed down by heat"},
		"hot in between":                {[]host.Throttling{now(0), now(host.SlowHotChip), now(0)}, "by heat (the chip's own guard)"},
		"braked at the end":             {[]host.Throttling{now(0), now(host.SlowPowerBrake)}, "by the power supply's brake"},
		"counted between looks":         {[]host.Throttling{spent(time.Hour), spent(time.Hour), spent(time.Hour + 20*time.Millisecond)}, "by heat or by the power supply for 20ms"},
		"seen and counted":              {[]host.Throttling{{Now: host.SlowHeat}, {Now: host.SlowHeat, Spent: time.Second}}, "by heat for 1s"},
		"the driver was loaded anew":    {[]host.Throttling{spent(time.Hour), spent(0)}, ""},
		"the counter became unreadable": {[]host.Throttling{spent(time.Hour), untold}, ""},
		"the chip's brake, in passing":  {[]host.Throttling{now(0), now(host.SlowChip), now(0), now(host.SlowChip)}, ""},
		"the chip's brake, for a while": {[]host.Throttling{now(0), now(host.SlowChip), now(host.SlowChip), now(0)}, "by the chip's own brake"},
	} {
		b := &boardHeat{first: c.told[0]}
		for _, t := range c.told {
			b.hear(t)
		}
		v := b.void("GPU-1")
		if v.is() != (c.says != "") || !strings.Contains(v.text, c.says) || v.is() && v.why != VoidThrottling {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
