package daemon

import (
	"fmt"
	"math"
	"strings"

	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/unit"
)

// statusLine is what the service manager was last told, for "systemctl status".
type statusLine struct {
	words string
	power unit.Power
	known bool
}

// tellManager tells the service manager how the machine is, when that is news: other words, or a power that differs by a
// tenth and a few watts.
func (d *Daemon) tellManager(s *state, now *Status) {
	line := statusLine{words: now.words()}
	line.power, line.known = now.power()
	moved := math.Abs(line.power.Watts() - s.line.power.Watts())
	if line.words == s.line.words && line.known == s.line.known && (moved < 5 || moved < s.line.power.Watts()/10) {
		return
	}
	s.line = line
	text := line.words
	if line.known {
		text += fmt.Sprintf(", %.0f W", line.power.Watts())
	}
	d.opts.Notify("STATUS=" + text)
}

// words are the profile, whence the operating point comes, and what is wrong first of all.
func (s *Status) words() string {
	profile := string(s.Profile)
	switch {
	case s.Mode.Mode == profiles.ModeOff:
		profile = "paused"
	case s.Profile == profiles.Unknown:
		profile = "starting"
	case s.Mode.Mode != profiles.ModeAuto:
		profile += " (held by hand)"
	}
	point := map[PointSource]string{
		PointFound: "machine as found", PointDefault: "default point", PointTuned: "tuned point", PointSweep: "a sweep runs",
	}[s.PointSource]
	words := profile + ", " + point
	if len(s.Degraded) > 0 {
		words = strings.ReplaceAll(s.Degraded[0], "\n", " ") + " | " + words
	}
	return words
}

// power is what the devices draw that a window charges by default; not known if none is.
func (s *Status) power() (sum unit.Power, known bool) {
	for _, d := range s.Devices {
		if d.Known && charged(d.Device) {
			sum, known = sum+d.Power, true
		}
	}
	return sum, known
}

// charged tells the devices that add up to the machine from those within them, or around them.
func charged(device string) bool {
	kind, rest, _ := strings.Cut(device, "/")
	_, domain, within := strings.Cut(rest, "/")
	return kind == "gpu" || kind == "cpu" && strings.HasPrefix(rest, "package-") && (!within || domain == "dram")
}
