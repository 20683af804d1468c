package meter

import (
	"slices"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// TestTimelineLapse: the energy before a lapse and after it is a window's; what lay between is a gap, and no energy.
func TestTimelineLapse(t *testing.T) {
	line := timeline{counter: counter{limit: unit.Kilowatt}}
	g := newIntegral(powerSensor{period: second})
	var m member
	m.weight = unitWeight
	see := func(s powerSample) {
		e, v := g.step(s)
		if v == split {
			line.lapse()
		}
		if v != missing {
			line.cut(reading{value: e, at: s.at}, "", nil)
		}
	}
	line.lapse() // nothing is known yet, and nothing is given up
	see(sampleOf(100, 0))
	line.join(&m)
	for i := range 5 {
		see(sampleOf(100, float64(i+1)))
	}
	line.pass(moment(6)) // an edge of another window, in what turns out to be the gap
	for i := range 5 {
		see(sampleOf(300, 10+float64(i)))
	}
	until := line.stamp()
	gap, reasons := line.troubles(m.opened.at, until.at)
	if gap != 5*time.Second || !slices.Contains(reasons, ReasonGap) || until.measured-m.opened.measured != 9*time.Second {
		t.Errorf("gap %v, reasons %v, measured %v", gap, reasons, until.measured-m.opened.measured)
	}
	if e := line.leave(&m, until, 1, forecast{}); e != 500*unit.Joule+1200*unit.Joule {
		t.Errorf("energy %v", e)
	}
	if line.measured != 1700*unit.Joule {
		t.Errorf("measured %v", line.measured)
	}
}
