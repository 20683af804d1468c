package meter

import (
	"testing"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

func TestCrossCheck(t *testing.T) {
	j := unit.FromJoules
	const ten = 10 * time.Second
	for _, c := range []struct {
		name           string
		counter, power sourceFigure
		half           unit.Energy
		disagree       bool
	}{
		{"the same", sourceFigure{j(1000), j(10), ten}, sourceFigure{j(1000), j(20), ten}, j(10), false},
		{"5 % apart", sourceFigure{j(1050), 0, ten}, sourceFigure{j(1000), 0, ten}, 0, false},
		{"just more", sourceFigure{j(1050.001), 0, ten}, sourceFigure{j(1000), 0, ten}, j(50.001), true},
		{"the sensor above", sourceFigure{j(1000), j(5), ten}, sourceFigure{j(1200), j(10), ten}, j(210), true},
		{"explained by the counter's uncertainty", sourceFigure{j(1174), j(150), ten}, sourceFigure{j(1000), 0, ten}, j(150), false},
		{"explained by both", sourceFigure{j(1174), j(70), ten}, sourceFigure{j(1000), j(60), ten}, j(70), false},
		{"1.74 times at idle", sourceFigure{j(870), j(12), ten}, sourceFigure{j(500), j(5), ten}, j(375), true},
		{"1.74 times, the other way", sourceFigure{j(500), j(12), ten}, sourceFigure{j(870), j(5), ten}, j(375), true},
		{"nearly the same stretch", sourceFigure{j(1000), j(1), ten}, sourceFigure{j(900), j(1), 9 * time.Second}, j(1), false},
		{"nearly the same stretch, 1.74 times", sourceFigure{j(1740), j(1), ten}, sourceFigure{j(900), j(1), 9 * time.Second}, j(841), true},
		{"not the same stretch", sourceFigure{j(1740), j(1), ten}, sourceFigure{j(700), j(1), 7 * time.Second}, j(1), false},
		{"no samples", sourceFigure{j(1740), j(1), ten}, sourceFigure{}, j(1), false},
		{"no counter", sourceFigure{}, sourceFigure{j(900), j(1), ten}, 0, false},
		{"a counter that stands still", sourceFigure{0, j(5), ten}, sourceFigure{j(900), j(1), ten}, j(901), true},
		{"nothing at all", sourceFigure{0, 0, ten}, sourceFigure{0, 0, ten}, 0, false},
	} {
		half, disagree := crossCheck(c.counter, c.power)
		if half != c.half || disagree != c.disagree {
			t.Errorf("%s: ± %v, disagree %v; want ± %v, %v", c.name, half, disagree, c.half, c.disagree)
		}
	}
}

// FuzzCrossCheck: where the sources disagree the interval holds both, and it is never made narrower.
func FuzzCrossCheck(f *testing.F) {
	f.Add(int64(870e6), int64(12e6), int64(500e6), int64(5e6))
	f.Fuzz(func(t *testing.T, counter, half, power, powerHalf int64) {
		const most = int64(1e15)
		counter, power = counter%most, power%most
		half, powerHalf = max(half%most, -half%most), max(powerHalf%most, -powerHalf%most)
		got, disagree := crossCheck(sourceFigure{unit.Energy(counter), unit.Energy(half), time.Minute},
			sourceFigure{unit.Energy(power), unit.Energy(powerHalf), time.Minute})
		if got < unit.Energy(half) {
			t.Fatalf("narrower: %v", got)
		}
		lo, hi := counter-int64(got), counter+int64(got)
		const rounding = 2 // µJ
		if disagree && (power-powerHalf < lo-rounding || power+powerHalf > hi+rounding) {
			t.Fatalf("%d ± %d does not hold %d ± %d", counter, got, power, powerHalf)
		}
	})
}
