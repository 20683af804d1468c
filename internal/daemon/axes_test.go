package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/qunerd/quner/internal/levers"
)

func ranged(name string, kind levers.Kind, found string, lo, hi int64, unit string) levers.State {
	return levers.State{Name: name, Kind: kind, Value: levers.Value(found), Span: levers.Span{Lo: lo, Hi: hi, Step: 1, Unit: unit}}
}

func limit(name, found string, lo, hi int64) levers.State {
	s := ranged(name, levers.PackageLimit, found, lo, hi, "µW")
	s.Span.Step = 125_000
	return s
}

func governed(name, found string, choices ...levers.Value) levers.State {
	return levers.State{Name: name, Kind: levers.Governor, Value: levers.Value(found), Span: levers.Span{Choices: choices}}
}

// text is an axis as one line: its name, its states with the one found in brackets, and what the first of them sets.
func text(a axis) string {
	states := make([]string, len(a.States))
	for i, s := range a.States {
		states[i] = s
		if i == a.Found {
			states[i] = "[" + s + "]"
		}
	}
	return fmt.Sprintf("%s: %s; %s", a.Name, strings.Join(states, ", "), levers.NewPoint(a.settings[0]...).Key())
}

func TestAxes(t *testing.T) {
	gpu := ranged("nvml/GPU-1", levers.GPUCap, "300000", 100000, 300000, "mW")
	amd := ranged("amdgpu/1", levers.AMDCap, "220000000", 120000000, 220000000, "µW")
	free := func(s levers.State, span int64) levers.State { s.Span.Hi = span; return s }
	yielded := limit("rapl/package-1", "80000000", 20000000, 80000000)
	yielded.State = levers.Yielded
	for name, c := range map[string]struct {
		states       []levers.State
		noGPU, noCPU bool
		want         []string
	}{
		"a board": {states: []levers.State{gpu}, want: []string{
			"gpu: 100 W, 125 W, 150 W, 175 W, 200 W, 225 W, 250 W, 275 W, [300 W]; nvml/GPU-1=100000"}},
		"a board that may be raised": {states: []levers.State{free(gpu, 350000)}, want: []string{
			"gpu: 125 W, 160 W, 195 W, 230 W, 265 W, [300 W], 335 W, 350 W; nvml/GPU-1=125000"}},
		"a package that may be raised": {states: []levers.State{free(limit("rapl/package-0", "50000000", 16250000, 50000000), 65000000)}, want: []string{
			"package: 20 W, 25 W, 30 W, 35 W, 40 W, 45 W, [50 W], 55 W, 60 W, 65 W; rapl/package-0=20000000"}},
		"two packages, one at its maximum": {
			states: []levers.State{free(limit("rapl/package-0", "50000000", 16250000, 50000000), 57000000), limit("rapl/package-1", "50000000", 16250000, 50000000)},
			want:   []string{"package: 40 %, 50 %, 60 %, 70 %, 80 %, 90 %, [100 %], 110 %, 114 %; rapl/package-0=20000000 rapl/package-1=20000000"}},
		"an AMD card": {states: []levers.State{amd}, want: []string{
			"gpu: 130 W, 145 W, 160 W, 175 W, 190 W, 205 W, [220 W]; amdgpu/1=130000000"}},
		"one of each make": {states: []levers.State{gpu, amd}, want: []string{
			"gpu0: 100 W, 125 W, 150 W, 175 W, 200 W, 225 W, 250 W, 275 W, [300 W]; nvml/GPU-1=100000",
			"gpu1: 130 W, 145 W, 160 W, 175 W, 190 W, 205 W, [220 W]; amdgpu/1=130000000"}},
		"both interfaces of a package": {
			states: []levers.State{limit("rapl/package-0", "65000000", 16250000, 65000000), limit("rapl-mmio/package-0", "65000000", 16250000, 65000000)},
			want:   []string{"package: 26 W, 32.5 W, 39 W, 45.5 W, 52 W, 58.5 W, [65 W]; rapl-mmio/package-0=26000000 rapl/package-0=26000000"}},
		"limits that are not alike": {
			states: []levers.State{limit("rapl/package-0", "65000000", 16250000, 65000000), limit("rapl-mmio/package-0", "45100000", 11375000, 45100000)},
			want:   []string{"package: 40 %, 50 %, 60 %, 70 %, 80 %, 90 %, [100 %]; rapl-mmio/package-0=18000000 rapl/package-0=26000000"}},
		"a limit found above all that can be chosen": {states: []levers.State{limit("rapl/package-0", "3400000000000000", 31250000, 125000000)},
			want: []string{"package: 50 W, 62.5 W, 75 W, 87.5 W, 100 W, 112.5 W, [125 W]; rapl/package-0=50000000"}},
		"a high minimum": {states: []levers.State{limit("rapl/package-0", "65000000", 50000000, 65000000)},
			want: []string{"package: 50 W, 52 W, 58.5 W, [65 W]; rapl/package-0=50000000"}},
		"someone else's package": {states: []levers.State{yielded}},
		"all there is": {
			states: []levers.State{gpu, limit("rapl/package-0", "65000000", 16250000, 65000000), governed("cpufreq/policy0", "powersave", "performance", "powersave")},
			want: []string{
				"gpu: 100 W, 125 W, 150 W, 175 W, 200 W, 225 W, 250 W, 275 W, [300 W]; nvml/GPU-1=100000",
				"governor: [powersave], performance; cpufreq/policy0=powersave",
				"package: 26 W, 32.5 W, 39 W, 45.5 W, 52 W, 58.5 W, [65 W]; rapl/package-0=26000000"}},
		"the CPU left out": {states: []levers.State{gpu, limit("rapl/package-0", "65000000", 16250000, 65000000)}, noCPU: true, want: []string{
			"gpu: 100 W, 125 W, 150 W, 175 W, 200 W, 225 W, 250 W, 275 W, [300 W]; nvml/GPU-1=100000"}},
		"the boards left out": {states: []levers.State{gpu, amd}, noGPU: true},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range axesOf(c.states, c.noGPU, c.noCPU) {
				got = append(got, text(a))
				if len(a.settings) != len(a.States) {
					t.Errorf("%s: %d settings of %d states", a.Name, len(a.settings), len(a.States))
				}
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
