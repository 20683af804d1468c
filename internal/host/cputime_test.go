package host

import (
	"strings"
	"testing"
)

func TestCPUTimeCountsWorkAndNotGuestsTwice(t *testing.T) {
	for _, c := range []struct {
		name, text  string
		busy, total float64
		fails       bool
	}{
		{"all fields", "cpu  100 10 50 1000 40 5 5 20 7 3\ncpu0 1 1 1 1 1 1 1 1 1 1\n", 1.90, 12.30, false},
		{"an old kernel", "cpu 100 0 50 850\n", 1.50, 10, false},
		{"one CPU's line", "cpu0 100 0 50 850\n", 0, 0, true},
		{"no number", "cpu 100 0 x 850\n", 0, 0, true},
		{"negative", "cpu -1 0 0 850\n", 0, 0, true},
		{"nothing", "", 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseCPUTime(strings.NewReader(c.text))
			if (err != nil) != c.fails || !near(got.Busy, c.busy) || !near(got.Total, c.total) {
				t.Errorf("busy %v of %v s, %v; want %v of %v", got.Busy, got.Total, err, c.busy, c.total)
			}
		})
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

func FuzzParseCPUTime(f *testing.F) {
	f.Add("cpu  100 10 50 1000 40 5 5 20 7 3\n")
	f.Add("cpu 18446744073709551615 18446744073709551615 0 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseCPUTime(strings.NewReader(text))
		if err == nil && !(got.Busy >= 0 && got.Busy <= got.Total) {
			t.Errorf("%q: busy %v of %v", text, got.Busy, got.Total)
		}
	})
}
