package benchmeter

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestASummaryIsOfTheMeanTruth(t *testing.T) {
	s := Summarise([]Figure{
		{Truth: 100, Energy: 104, HalfWidth: 5, Sampled: true},
		{Truth: 100, Energy: 92, HalfWidth: 5, Sampled: true},
		{Truth: 300, Energy: 302, HalfWidth: 8, Sampled: true},
		{Truth: 300, Energy: 310, HalfWidth: 900, Bound: 320, Bounded: true},
		{Truth: 200, Energy: 192, Bound: 199, Bounded: true, Short: true},
	})
	sd := math.Sqrt((16. + 64 + 4 + 100 + 64) / 5)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"mean error", s.MeanError, 0}, {"sd", s.SD, sd / 200}, {"coverage", *s.Coverage, 2. / 3}, {"half-width", *s.HalfWidth, 6. / 200},
		{"unknown", s.Unknown, 0.4}, {"bound", *s.Bound, 0.5},
	} {
		if math.Abs(c.got-c.want) > 1e-12 {
			t.Errorf("%s: %g, want %g", c.what, c.got, c.want)
		}
	}
	if s := Summarise([]Figure{{Truth: 1, Bound: 2, Bounded: true}}); s.Coverage != nil || s.HalfWidth != nil || *s.Bound != 1 {
		t.Errorf("without a measurement: %+v", s)
	}
}

// good are figures that meet every bar.
func good(c Cell) []Figure {
	var all []Figure
	for i := range 200 {
		f := Figure{Truth: 100, Energy: 100.1, HalfWidth: 0.5, Sampled: true, Short: c.Short()}
		if i%25 == 0 {
			f.Energy = 99
		}
		if f.Short {
			f = Figure{Truth: 100, Energy: 90, Bound: 300, Bounded: true, Short: true}
		}
		f.Difference, f.DifferenceTruth = 95, 100
		all = append(all, f)
	}
	return all
}

// measured is a report on good figures, spoilt for one cell.
func measured(spoil func(*Figure), of Cell) *Report {
	r := new(Report)
	for _, mode := range modes() {
		for _, window := range []time.Duration{100, 1000} {
			c := Cell{Load: Telegraph, Step: 100 * time.Millisecond, Window: window * time.Millisecond, Mode: mode}
			all := good(c)
			for i := range all {
				if c == of {
					spoil(&all[i])
				}
			}
			r.Add(c, 1, all[100:])
			r.Add(c, 0, all[:100])
		}
	}
	r.Summarise()
	return r
}

func TestEachBarIsMissedByWhatItForbids(t *testing.T) {
	at := func(window time.Duration, mode string) Cell {
		return Cell{Telegraph, 100 * time.Millisecond, window * time.Millisecond, mode}
	}
	covers := "interval holds the truth, the worst cell of 3 steps or more, "
	for _, c := range []struct {
		name  string
		cell  Cell
		spoil func(*Figure)
		want  []string
	}{
		{name: "nothing"},
		{"outside", at(1000, Plain), func(f *Figure) { f.HalfWidth = 0 }, []string{covers + Plain, "  over all of them"}},
		{"biased", at(1000, Aligned), func(f *Figure) { f.Energy, f.HalfWidth = 102, 2 }, []string{"1 s at 100 ms: mean error"}},
		{"biased at an edge", at(1000, WaitEdge), func(f *Figure) { f.Energy, f.HalfWidth = 98.5, 2 },
			[]string{"1 s at 100 ms with wait_edge: mean error", "  half-width"}},
		{"wide", at(1000, Aligned), func(f *Figure) { f.HalfWidth = 11 }, []string{"  half-width"}},
		{"nothing measured", at(1000, Aligned), func(f *Figure) { f.Sampled, f.Bounded, f.Bound = false, true, 400 }, []string{"  half-width"}},
		{"short and known", at(100, WaitEdge), func(f *Figure) { f.Sampled = true }, []string{"under 3 steps: unknown"}},
		{"unknown above its bound", at(1000, Plain), func(f *Figure) { f.Sampled, f.Bounded, f.Bound = false, true, 99 },
			[]string{"3 steps and more, unknown: upper bound untrue"}},
		{"no bound", at(100, Plain), func(f *Figure) { f.Bounded = false }, []string{"  upper bound untrue"}},
		{"a false bound", at(100, Plain), func(f *Figure) { f.Bound = 99 }, []string{"  upper bound untrue"}},
		{"astray", at(1000, WaitEdge), func(f *Figure) { f.Astray = true }, []string{"wait_edge: ends elsewhere than at the next step"}},
	} {
		var missed []string
		bars := measured(c.spoil, c.cell).Bars()
		for _, b := range bars {
			if !b.Met {
				missed = append(missed, b.Name)
			}
		}
		if !slices.Equal(missed, c.want) {
			t.Errorf("%s: missed %q, want %q", c.name, missed, c.want)
		}
		if len(bars) < 10 {
			t.Errorf("%s: %d bars, want 10 or more", c.name, len(bars))
		}
	}
}

func TestTheReportIsForPeopleAndPrograms(t *testing.T) {
	r := measured(nil, Cell{})
	line, err := r.JSON(map[string]any{"seed": 1})
	if err != nil {
		t.Fatal(err)
	}
	type levels map[string]struct {
		Step map[string]struct {
			Window map[string]map[string]map[string]*float64 `json:"window_ms"`
		} `json:"step_ms"`
	}
	var o struct{ Load, Difference levels }
	if err := json.Unmarshal(line, &o); err != nil {
		t.Fatal(err)
	}
	cells := o.Load["telegraph"].Step["100"].Window
	for _, key := range []string{"mean_error", "sd", "coverage", "half_width", "n", "unknown"} {
		for _, mode := range modes() {
			if cells["1000"][mode][key] == nil {
				t.Errorf("%s of %s: not there", key, mode)
			}
		}
	}
	if c := cells["1000"]["aligned"]["coverage"]; *c != 0.96 {
		t.Errorf("coverage %g, want 0.96", *c)
	}
	if c := cells["100"]["aligned"]; c["coverage"] != nil || *c["unknown"] != 1 || *c["bound"] != 1 {
		t.Errorf("too short: %v", c)
	}
	if len(o.Difference["telegraph"].Step["100"].Window) == 0 {
		t.Error("no comparison")
	}
	var out strings.Builder
	r.Print(&out)
	for _, want := range []string{"telegraph, the counter steps every 100ms", "96.0", "subtracted", "upper bound untrue 0.00 % 0 % met"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

// What a cell comes to is decided by its seed, and the truth by the load.
func TestACellCanBeRepeated(t *testing.T) {
	measure := func(c Cell, o Options, i int) (figures []Figure) {
		synctest.Test(t, func(t *testing.T) {
			var err error
			if figures, err = c.Measure(context.Background(), o, t.TempDir(), i, 20); err != nil {
				t.Fatal(err)
			}
		})
		return figures
	}
	c := Cell{Load: Constant, Step: 100 * time.Millisecond, Window: time.Second, Mode: Plain}
	first := measure(c, Options{Seed: 1}, 0)
	// Which of two goroutines reads first in one moment may differ, and with it how wide an interval is.
	alike := func(a, b Figure) bool {
		return a.Truth == b.Truth && a.Difference == b.Difference && a.Short == b.Short
	}
	if again := measure(c, Options{Seed: 1}, 0); !slices.EqualFunc(first, again, alike) {
		t.Errorf("%v\nand then\n%v", first, again)
	}
	if other := measure(c, Options{Seed: 1}, 1); slices.Equal(first, other) {
		t.Errorf("batch 1 is batch 0: %v", first)
	}
	for _, f := range first {
		if f.Truth != 300 || f.Short {
			t.Errorf("300 W for 1 s: %+v", f)
		}
		if f.Difference > 300.001 || f.Difference < 274.999 {
			t.Errorf("the difference of two readings: %g J, want 275 to 300", f.Difference)
		}
	}
	c.Load = StepUp
	for _, f := range measure(c, Options{Seed: 1, Vary: 1}, 0) {
		if f.Truth < 50 || f.Truth > 330 {
			t.Errorf("up from 50 W to 300 W within 1.1 s at most: %+v", f)
		}
	}
}
