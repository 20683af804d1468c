package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// suite is one package's benchmark that is run, and the figures taken from what it reports.
type suite struct {
	pkg   string // below internal/
	bench string // as for -test.bench
	times string // as for -test.benchtime
	takes []take
}

// take is a figure made from a metric of a benchmark.
type take struct {
	figure
	from  string // the benchmark's name
	unit  string // of the metric
	scale float64
}

// suites are the timed loops. They live beside the code they measure, with `go test -bench` for whoever works on it.
func suites() []suite {
	const ns, µs = 1e-6, 1e-3 // to ms, to µs
	return []suite{
		{"daemon", "^BenchmarkTick$", "400x", []take{
			{figure{key: "tick_cpu_ms", name: "hot tick, plain files, CPU time", unit: "ms", bar: 1}, "BenchmarkTick/plain", "cpu-ns/tick", ns},
			{figure{key: "tick_simulated_cpu_ms", name: "  with the simulation's own share", unit: "ms", bar: 1}, "BenchmarkTick/simulated", "cpu-ns/tick", ns},
		}},
		{"server", "^BenchmarkSession$", "3000x", []take{
			{figure{key: "window_ratio", name: "open + close on a session ÷ two bare calls", unit: "×", bar: 1}, "BenchmarkSession", "ratio", 1},
			{figure{key: "window_us", name: "  open + close", unit: "µs"}, "BenchmarkSession", "ns/session-window", µs},
			{figure{key: "bare_calls_us", name: "  two bare unary calls", unit: "µs"}, "BenchmarkSession", "ns/two-bare-calls", µs},
		}},
		{"meter", "^BenchmarkOpenClose$", "500x", []take{
			{figure{key: "edge_us", name: "window edge beyond the counters' own read", unit: "µs", bar: 20}, "BenchmarkOpenClose/alone", "own-ns/edge", µs},
			{figure{key: "edge_beside_1000_us", name: "  beside 1000 open windows", unit: "µs", bar: 20}, "BenchmarkOpenClose/beside1000", "own-ns/edge", µs},
		}},
	}
}

// buildSuites compiles the tests once, so that compiling disturbs no measurement. It returns the programs by package.
func buildSuites(ctx context.Context, dir string) (map[string]string, error) {
	programs := map[string]string{}
	for _, s := range suites() {
		program := filepath.Join(dir, s.pkg+".test")
		c := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./internal/"+s.pkg)
		if text, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("tests of %s: %w\n%s", s.pkg, err, text)
		}
		programs[s.pkg] = program
	}
	return programs, nil
}

// measureLoops runs every suite in turn, again and again, so that a bad minute of the machine spoils no figure alone.
func measureLoops(ctx context.Context, o options, dir string, programs map[string]string) ([]figure, error) {
	seen := metrics{}
	for range o.repeat {
		for _, s := range suites() {
			c := exec.CommandContext(ctx, programs[s.pkg], "-test.run=^$", "-test.bench="+s.bench, "-test.benchtime="+s.times)
			c.Env = append(c.Environ(), "TMPDIR="+dir)
			c.Dir = filepath.Join("internal", s.pkg)
			text, err := c.CombinedOutput()
			if err != nil {
				return nil, fmt.Errorf("benchmark of %s: %w\n%s", s.pkg, err, text)
			}
			if err := seen.parse(text); err != nil {
				return nil, fmt.Errorf("benchmark of %s: %w", s.pkg, err)
			}
		}
	}
	var all []figure
	for _, s := range suites() {
		for _, t := range s.takes {
			values := seen[metric{t.from, t.unit}]
			if len(values) != o.repeat {
				return nil, fmt.Errorf("benchmark of %s: %s told %s %d times in %d runs (it has: %v)",
					s.pkg, t.from, t.unit, len(values), o.repeat, slices.Collect(maps.Keys(seen)))
			}
			t.value = median(values) * t.scale
			all = append(all, t.figure)
		}
	}
	return all, nil
}

// metric names a figure of a benchmark.
type metric struct{ bench, unit string }

// metrics are all values told of each.
type metrics map[metric][]float64

// parse takes in what a test program prints of benchmarks: lines "BenchmarkName-CPUS N VALUE UNIT VALUE UNIT …".
func (m metrics) parse(text []byte) error {
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		if len(f)%2 != 0 {
			return fmt.Errorf("line %q: a value without a unit", line)
		}
		name := plainName(f[0])
		for i := 2; i < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return fmt.Errorf("line %q: %w", line, err)
			}
			k := metric{name, f[i+1]}
			m[k] = append(m[k], v)
		}
	}
	return nil
}

// plainName is a benchmark's name without the number of CPUs, which stands there where it is not 1.
func plainName(name string) string {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return name
	}
	if _, err := strconv.ParseUint(name[i+1:], 10, 32); err != nil {
		return name
	}
	return name[:i]
}

// median returns the middle of some values, the mean of the two in the middle where their number is even.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
