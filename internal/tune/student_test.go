package tune

import (
	"math"
	"testing"
)

// Two-sided 95 % and 99 % and one-sided 95 % points as printed in any table of Student's t.
func TestTQuantileAgainstTables(t *testing.T) {
	rows := []struct{ df, p95, p975, p995 float64 }{
		{1, 6.313752, 12.706205, 63.656741},
		{2, 2.919986, 4.302653, 9.924843},
		{3, 2.353363, 3.182446, 5.840909},
		{4, 2.131847, 2.776445, 4.604095},
		{5, 2.015048, 2.570582, 4.032143},
		{6, 1.943180, 2.446912, 3.707428},
		{7, 1.894579, 2.364624, 3.499483},
		{8, 1.859548, 2.306004, 3.355387},
		{9, 1.833113, 2.262157, 3.249836},
		{10, 1.812461, 2.228139, 3.169273},
		{12, 1.782288, 2.178813, 3.054540},
		{15, 1.753050, 2.131450, 2.946713},
		{20, 1.724718, 2.085963, 2.845340},
		{25, 1.708141, 2.059539, 2.787436},
		{30, 1.697261, 2.042272, 2.749996},
		{40, 1.683851, 2.021075, 2.704459},
		{60, 1.670649, 2.000298, 2.660283},
		{120, 1.657651, 1.979930, 2.617421},
		{1e7, 1.644854, 1.959964, 2.575830},
	}
	for _, r := range rows {
		for p, want := range map[float64]float64{0.95: r.p95, 0.975: r.p975, 0.995: r.p995} {
			if got := tQuantile(p, r.df); math.Abs(got-want) > 2e-6*want {
				t.Errorf("tQuantile(%v, %v) = %.6f, want %.6f", p, r.df, got, want)
			}
			if got := tQuantile(1-p, r.df); math.Abs(got+want) > 2e-6*want {
				t.Errorf("tQuantile(%v, %v) = %.6f, want %.6f", 1-p, r.df, got, -want)
			}
		}
	}
}

// df 1 is the Cauchy distribution and df 2 has a closed form: exact truths at every p, the far tails included.
func TestTQuantileClosedForms(t *testing.T) {
	for _, p := range []float64{1e-6, 0.001, 0.3, 0.5, 0.75, 0.999, 1 - 1e-6} {
		cauchy := math.Tan(math.Pi * (p - 0.5))
		two := (2*p - 1) * math.Sqrt2 / math.Sqrt(4*p*(1-p))
		for df, want := range map[float64]float64{1: cauchy, 2: two} {
			if got := tQuantile(p, df); math.Abs(got-want) > 1e-8*max(1, math.Abs(want)) {
				t.Errorf("tQuantile(%v, %v) = %v, want %v", p, df, got, want)
			}
		}
	}
	if got := tQuantile(0.975, 0); !math.IsInf(got, 1) {
		t.Errorf("tQuantile(0.975, 0) = %v, want +Inf: one window knows no spread", got)
	}
}
