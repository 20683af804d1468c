package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/qunerd/quner/internal/doctor"
	"github.com/qunerd/quner/internal/meter"
)

// A board's counter that takes in more than one would think says so, and is still the board's.
func TestPassportOfSlicesAndModules(t *testing.T) {
	source, err := os.ReadFile("../host/hostsim/hosts/workstation.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, scope, says string }{
		{"mig = true", meter.ScopeMIG, "the energy is the whole board's"},
		{"module = true", meter.ScopeModule, "it overlaps what CPU counters say"},
		{"", "", ""},
	} {
		file := filepath.Join(t.TempDir(), "board.txtar")
		text := strings.Replace(string(source), "\nidle_w = 31.0", "\n"+c.line+"\nidle_w = 31.0", 1)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			r := report(t, simulated(t, file).Host())
			for _, one := range r.Counters {
				if one.Backend == meter.NVMLCounter && (one.Scope != c.scope || !one.Counted || one.Reason != "") {
					t.Errorf("%q: %+v", c.line, one)
				}
			}
			var b strings.Builder
			if err := r.Print(&b); err != nil {
				t.Fatal(err)
			}
			if c.says != "" && !strings.Contains(b.String(), c.says) {
				t.Errorf("%q: the page does not say %q:\n%s", c.line, c.says, &b)
			}
		})
	}
}

// Without a daemon too the report tells what was measured; a zone that is inside another is not read.
func TestPassportsInTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := report(t, simulated(t, "workstation").Host())
		seen := map[string]*doctor.Moves{}
		for _, c := range r.Counters {
			seen[c.Name] = c.Moves
		}
		m := seen["cpu/package-0"]
		if m == nil || m.PeriodFrom != meter.PeriodMeasured || m.Verdicts.OK == 0 || m.Coverage != 1 || m.Smallest == 0 {
			t.Errorf("cpu/package-0: %+v", m)
		}
		if m, is := seen["cpu/package-0/core"]; !is || m != nil {
			t.Errorf("cpu/package-0/core: %t, %+v", is, m)
		}
	})
}
