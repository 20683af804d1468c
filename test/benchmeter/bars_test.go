package benchmeter

import (
	"strings"
	"testing"
	"time"
)

// The bars of `make bench-meter` where it is hardest, on fewer windows: so few that the coverage of one cell may be lower
// by chance.
func TestTheMeterMeetsItsBars(t *testing.T) {
	const windows = 150
	r := new(Report)
	t.Run("cells", func(t *testing.T) {
		for _, load := range []string{Constant, Step, Telegraph} {
			for _, mode := range modes() {
				for _, window := range []time.Duration{100, 300, 1000} {
					c := Cell{load, 100 * time.Millisecond, window * time.Millisecond, mode}
					measure(t, c, Options{Seed: 1}, windows, r, func() {})
				}
			}
		}
	})
	r.Summarise()
	for _, b := range r.Bars() {
		if !b.Met && !strings.Contains(b.Name, "the worst cell") {
			t.Errorf("%s: %.2f %% at %s, want %s", strings.TrimSpace(b.Name), 100*b.Value, b.Where, b.Limit)
		}
	}
	for _, c := range r.cells() {
		if s := r.summaries[c]; !c.Short() && s.Coverage != nil && *s.Coverage < 0.9 {
			t.Errorf("%v: the interval holds the truth in %.1f %% of %d windows, want 90 %% or more", c, 100**s.Coverage, windows)
		}
	}
}
