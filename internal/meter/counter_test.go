package meter

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

var errIO = errors.New("input/output error")

// clock0 is when the tests begin.
var clock0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// A reading just before a step of the counter and one just after it have all that the step held between them.
func TestCounterStepBetweenTwoReadings(t *testing.T) {
	board := counter{limit: 450 * unit.Watt, blur: nvmlPeriod}
	zone := counter{limit: 450 * unit.Watt}
	for _, l := range []look{{0, 0, 0}, {1, 300e6, 0}} {
		board.step(l.reading())
		zone.step(l.reading())
	}
	after := look{1.001, 330e6, 0}.reading() // 300 W over 100 ms
	if v, e := board.step(after); v != ok || e != 30*unit.Joule {
		t.Errorf("a board: %v, %v", v, e)
	}
	if v, _ := zone.step(after); v != jump {
		t.Errorf("a zone, whose steps are short: %v", v)
	}
}

// look is one reading in a test: seconds since the first, µJ; a negative value is a read error.
type look struct {
	at     float64
	uj     int64
	asleep time.Duration
}

func (l look) reading() reading {
	r := reading{value: unit.Energy(l.uj), at: clock0.Add(time.Duration(l.at * float64(time.Second))), asleep: l.asleep}
	if l.uj < 0 {
		r.value, r.err = 0, errIO
	}
	return r
}

const kilojoule = int64(unit.Kilojoule)

func TestCounterRule(t *testing.T) {
	const span = unit.Energy(262143328850 + 61)
	for _, c := range []struct {
		name   string
		span   unit.Energy
		looks  []look
		want   []verdict
		credit []unit.Energy
	}{
		{"first", span, []look{{0, 7, 0}}, []verdict{first}, []unit.Energy{0}},
		{"read error keeps the base", span,
			[]look{{0, 100e9, 0}, {10, -1, 0}, {20, 100_000_600_000, 0}},
			[]verdict{first, unread, ok}, []unit.Energy{0, 0, 600 * unit.Millijoule}},
		{"read error before the first reading", span,
			[]look{{0, -1, 0}, {1, 5, 0}}, []verdict{unread, first}, []unit.Energy{0, 0}},
		{"rise at the bound", span,
			[]look{{0, 0, 0}, {1, 1050e6, 0}}, []verdict{first, ok}, []unit.Energy{0, 1050 * unit.Joule}},
		{"rise above the bound", span,
			[]look{{0, 0, 0}, {1, 1050e6 + 1, 0}}, []verdict{first, jump}, []unit.Energy{0, 0}},
		{"a jump moves the base", span,
			[]look{{0, 0, 0}, {1, 12e9, 0}, {2, 12e9 + 50e6, 0}},
			[]verdict{first, jump, ok}, []unit.Energy{0, 0, 50 * unit.Joule}},
		{"rise that one more wrap would fit as well", span,
			[]look{{0, 0, 0}, {300, 10e9, 0}}, []verdict{first, ambiguous}, []unit.Energy{0, 10 * unit.Kilojoule}},
		{"the same rise on a counter that never wraps", 0,
			[]look{{0, 0, 0}, {300, 10e9, 0}}, []verdict{first, ok}, []unit.Energy{0, 10 * unit.Kilojoule}},
		{"wrap", span,
			[]look{{0, 262143000000, 0}, {1, 99671150, 0}},
			[]verdict{first, wrap}, []unit.Energy{0, 100_000_061}},
		{"wrap that one more would fit as well", span,
			[]look{{0, 262143000000, 0}, {300, 99671150, 0}},
			[]verdict{first, ambiguous}, []unit.Energy{0, 100_000_061}},
		{"a fall over a sleep is no wrap", span,
			[]look{{0, 262143000000, 0}, {1, 99671150, time.Hour}},
			[]verdict{first, reset}, []unit.Energy{0, 0}},
		{"a rise over a sleep counts", span,
			[]look{{0, 1e6, 0}, {1, 9e6, time.Hour}}, []verdict{first, ok}, []unit.Energy{0, 8 * unit.Joule}},
		{"without a span every small fall is a reset", 0,
			[]look{{0, 262143000000, 0}, {1, 99671150, 0}}, []verdict{first, reset}, []unit.Energy{0, 0}},
		{"reset", span,
			[]look{{0, 200e9, 0}, {5, 5e6, 0}, {6, 15e6, 0}},
			[]verdict{first, reset, ok}, []unit.Energy{0, 0, 10 * unit.Joule}},
		{"driver reload", 0,
			[]look{{0, 5_000_000_000_000, 0}, {1, 12_000_000, 0}}, []verdict{first, reset}, []unit.Energy{0, 0}},
		{"fall to anything else keeps the base", span,
			[]look{{0, 200e9, 0}, {1, 150e9, 0}, {2, 200e9 + 30e6, 0}},
			[]verdict{first, backward, ok}, []unit.Energy{0, 0, 30 * unit.Joule}},
		{"the third such fall is believed", span,
			[]look{{0, 200e9, 0}, {1, 150e9, 0}, {2, 150e9 + 1e6, 0}, {3, 150e9 + 2e6, 0}, {4, 150e9 + 3e6, 0}},
			[]verdict{first, backward, backward, believed, ok}, []unit.Energy{0, 0, 0, 0, unit.Joule}},
		{"glitch to 0", 0,
			[]look{{0, 55_800_000 * kilojoule / 1000, 0}, {60, 0, 0}, {120, 55_800_000*kilojoule/1000 + 6e6, 0}},
			[]verdict{first, reset, recovered}, []unit.Energy{0, 0, 6 * unit.Joule}},
		{"glitch with energy credited meanwhile", span,
			[]look{{0, 100e9, 0}, {1, 0, 0}, {2, 5e6, 0}, {3, 100e9 + 12e6, 0}},
			[]verdict{first, reset, ok, recovered}, []unit.Energy{0, 0, 5 * unit.Joule, 7 * unit.Joule}},
		{"glitch upwards", span,
			[]look{{0, 1e9, 0}, {1, 90e9, 0}, {2, 1e9 + 4e6, 0}},
			[]verdict{first, jump, recovered}, []unit.Energy{0, 0, 4 * unit.Joule}},
		{"too late to recover", 0,
			[]look{{0, 1000e9, 0}, {60, 0, 0}, {120.001, 1000e9 + 6e6, 0}},
			[]verdict{first, reset, jump}, []unit.Energy{0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := counter{span: c.span, limit: unit.Kilowatt}
			for i, l := range c.looks {
				v, e := n.step(l.reading())
				if v != c.want[i] || e != c.credit[i] {
					t.Errorf("reading %d (%d µJ at %g s): %v, %v; want %v, %v", i, l.uj, l.at, v, e, c.want[i], c.credit[i])
				}
			}
		})
	}
}

// A 15.26 µJ counter of 32 bits wraps every 94 s at 700 W.
func TestCounterOverManyWraps(t *testing.T) {
	const unitUJ = 15.258789
	truth := func(s int) float64 { return 700e6 * float64(s) }
	largest := unit.Energy(math.Round(unitUJ * (1<<32 - 1)))
	n := counter{span: spanOf(largest), limit: unit.Kilowatt}
	var sum unit.Energy
	wraps := 0
	for s := range 1796 {
		raw := uint32(uint64(truth(s)/unitUJ) & (1<<32 - 1))
		v, e := n.step(look{at: float64(s), uj: int64(float64(raw) * unitUJ)}.reading())
		if v == wrap {
			wraps++
		}
		sum += e
	}
	if diff := sum - 1_256_500*unit.Joule; diff < -unit.Joule || diff > unit.Joule {
		t.Errorf("1795 s at 700 W: %v, off by %v", sum, diff)
	}
	if wraps < 18 {
		t.Errorf("%d wraps seen, want 19 or so", wraps)
	}
}
