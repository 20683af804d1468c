package main

import (
	"reflect"
	"testing"

	"github.com/qunerd/quner/internal/tune"
)

// The bars hold on every measured curve.
func TestBars(t *testing.T) {
	curves, _, err := ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	b := Bench{Curves: curves, Seeds: 5, Sigmas: []float64{barSigma}, Rates: []float64{0, 0.5}}
	r, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, bar := range bars(r.Scores[Cell{nameCertified, barSigma, 0}]) {
		if !bar.Met {
			t.Errorf("%s: %v, limit %v", bar.Name, bar.Value, bar.Limit)
		}
	}
	// Noise on work/s leaves where the speed floor runs in doubt.
	if s := r.Scores[Cell{nameCertified, barSigma, 0.5}]; s.InBand < 0.96 || s.MeanWindows > 17 || s.SlowViolations > 0.06 {
		t.Errorf("with noise on work/s: %+v", s)
	}
	// From what an earlier sweep has left it takes far fewer windows where that holds, and is as right in any case.
	whole := r.Scores[Cell{nameCertified, barSigma, 0}]
	for name, most := range map[string]float64{nameKept: 0.8, nameAgain: 0.8, nameTwoOff: 1.1} {
		s := r.Scores[Cell{name, barSigma, 0}]
		if s.InBand < 0.99 || s.WrongCertified > 0.01 || s.FlatRecall < 0.98 || s.SlowViolations > 0.01 || s.Certified < 0.97 {
			t.Errorf("%s: %+v", name, s)
		}
		if s.MeanWindows > most*whole.MeanWindows {
			t.Errorf("%s: %.1f windows, from nothing %.1f", name, s.MeanWindows, whole.MeanWindows)
		}
	}
	second, err := b.Run(t.Context())
	if err != nil || !reflect.DeepEqual(r, second) {
		t.Errorf("equal seeds gave other figures: %v", err)
	}
}

// Curves of all kinds that boards have, and of some that none should have.
func TestSyntheticCurves(t *testing.T) {
	const each, seeds = 40, 5
	limits := map[string]struct{ inBand, windows, wrong float64 }{
		"smooth":                 {0.99, 15, 0.02},
		"fine grid":              {0.97, 19, 0.05},
		"finer than an axis":     {0.80, 19, 0.20}, // the best of all points may be none of the 25 that an axis has
		"two or three states":    {0.99, 7, 0.02},
		"caps above do not bind": {0.99, 13, 0.02},
		"monotone":               {0.98, 11, 0.02},
		"two optima":             {0.95, 18, 0.05},
		"floor not honoured":     {0.99, 15, 0.02},
		"noisily published":      {0.98, 15, 0.03},
		"flat":                   {0, 0, 0},
	}
	for i, kind := range kinds() {
		limit, ok := limits[kind.name]
		if !ok {
			t.Errorf("%s has no limits", kind.name)
		}
		b := Bench{Curves: Synthetic(each)[i*each : (i+1)*each], Seeds: seeds}
		var sum, kept, off tally
		for _, c := range b.Curves {
			if err := c.check(); err != nil {
				t.Fatal(err)
			}
			if err := b.one(t.Context(), Cell{nameCertified, barSigma, 0}, c, &sum); err != nil {
				t.Fatal(err)
			}
			for name, to := range map[string]*tally{nameKept: &kept, nameTwoOff: &off} {
				if err := b.one(t.Context(), Cell{name, barSigma, 0}, c, to); err != nil {
					t.Fatal(err)
				}
			}
		}
		s := sum.score()
		t.Logf("%-24s in band %.3f, %.1f windows, wrong %.3f, flat recall %.3f, too slow %.3f", kind.name, s.InBand, s.MeanWindows, s.WrongCertified, s.FlatRecall, s.SlowViolations)
		if s.InBand < limit.inBand || s.MeanWindows > limit.windows || s.WrongCertified > limit.wrong || s.FlatRecall < 0.98 || s.SlowViolations > 0.01 {
			t.Errorf("%s: %+v", kind.name, s)
		}
		for name, a := range map[string]Score{nameKept: kept.score(), nameTwoOff: off.score()} {
			t.Logf("%-24s %s: in band %.3f, %.1f windows, wrong %.3f", kind.name, name, a.InBand, a.MeanWindows, a.WrongCertified)
			if a.InBand < s.InBand-0.02 || a.WrongCertified > limit.wrong || a.MeanWindows > 1.1*s.MeanWindows || a.SlowViolations > 0.01 {
				t.Errorf("%s, %s: %+v; from nothing %+v", kind.name, name, a, s)
			}
		}
	}
}

// On a curve without noise the simple searches do what their names say.
func TestRivals(t *testing.T) {
	// The first rise, from 400 W to 350 W, is not the last fall.
	bumpy := Curve{Name: "bumpy", Caps: []float64{200, 250, 300, 350, 400}, Rate: []float64{0.85, 0.93, 0.96, 0.97, 1}, Watts: []float64{200, 250, 300, 350, 355}}
	for name, want := range map[string]struct{ chosen, windows int }{
		nameExhaustive: {1, 5}, nameThree: {1, 15}, nameGreedy: {4, 2}, nameTernary: {1, 5},
	} {
		o, err := searchers(Noise{})[name](t.Context(), bumpy, bumpy.trial(1, Noise{}), 1)
		if err != nil || o.Chosen != want.chosen || o.Windows != want.windows {
			t.Errorf("%s: %+v, %v; want %+v", name, o, err, want)
		}
	}
}

func TestScore(t *testing.T) {
	c := Curve{Name: "c", Caps: []float64{1, 2, 3}, Rate: []float64{0.8, 0.95, 1}, Watts: []float64{60, 100, 120}}
	flat := Curve{Name: "flat", Caps: []float64{1, 2}, Rate: []float64{1, 1}, Watts: []float64{100, 101}}
	var sum tally
	for _, o := range []Outcome{
		{Chosen: 1, Windows: 4, Certified: true, Path: []int{2, 2, 1, 1}},
		{Chosen: 2, Windows: 6, Certified: true, Path: []int{2, 2, 2, 2, 2, 2}},
		{Chosen: 0, Windows: 5},
		{Chosen: 1, Windows: 5},
	} {
		sum.add(c, o)
	}
	sum.add(flat, Outcome{Flat: true})
	sum.add(flat, Outcome{})
	s := sum.score()
	want := Score{
		InBand: 0.75, MeanWindows: 5, MeanRegret: c.regret(2) / 4, P99Regret: c.regret(2), Certified: 0.5, WrongCertified: 0.5,
		FlatRecall: 5. / 6, SlowViolations: 0.25, Sweeps: 4,
	}
	if s.ByBudget[1] != 0 || s.ByBudget[2] != 0.25 || s.ByBudget[budgets-1] != 0.25 {
		t.Errorf("by budget: %v", s.ByBudget)
	}
	s.ByBudget = nil
	if !reflect.DeepEqual(s, want) || c.regret(2) <= tune.Band {
		t.Errorf("%+v, want %+v", s, want)
	}
}
