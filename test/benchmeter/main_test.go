package benchmeter

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// settings are what `make bench-meter` decides. Without -windows the bench does not run, and the rest are ordinary tests.
type settings struct {
	Options
	windows int
	json    bool
	check   bool
	loads   string
	steps   string
	spans   string
	modes   string
	report  Report
}

// asked is global since a test gets no arguments.
var asked settings

// batch is how many windows one meter measures at most: the counter's phase is another in each batch.
const batch = 500

func TestMain(m *testing.M) {
	s := &asked
	flag.IntVar(&s.windows, "windows", 0, "run the bench with so many windows a cell")
	flag.BoolVar(&s.json, "json", false, "one JSON object as the last line")
	flag.BoolVar(&s.check, "check", false, "exit with 1 if a bar is missed")
	flag.StringVar(&s.loads, "loads", "constant,step,telegraph", "the `loads` to measure")
	flag.StringVar(&s.steps, "steps", "10,20,100", "the counter's `periods` in ms")
	flag.StringVar(&s.spans, "spans", "50,100,200,300,500,1000,2000,5000,10000", "the windows' `durations` in ms")
	flag.StringVar(&s.modes, "modes", "aligned,wait_edge,plain", "the `modes` of the meter")
	flag.Uint64Var(&s.Seed, "seed", 1, "of everything that is random")
	flag.Float64Var(&s.Jitter, "jitter", 0, "of the counter's steps, a `share` of its period below 1")
	flag.Float64Var(&s.Vary, "vary", 0, "windows are longer by any `share` of a step up to this")
	flag.DurationVar(&s.Call, "call", 0, "how long a call of the driver takes")
	flag.Parse()
	code := m.Run()
	if s.windows > 0 && code == 0 {
		code = s.tell()
	}
	os.Exit(code)
}

// tell prints the report and returns the exit status.
func (s *settings) tell() int {
	s.report.Summarise()
	s.report.Print(os.Stdout)
	fmt.Printf("\n%d windows a cell, seed %d, jitter %g of a step, vary %g of a step, %v a driver call. Errors are of the mean truth.\n",
		s.windows, s.Seed, s.Jitter, s.Vary, s.Call)
	missed := slices.ContainsFunc(s.report.Bars(), func(b Bar) bool { return !b.Met })
	if s.json {
		line, err := s.report.JSON(s.conditions())
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench-meter:", err)
			return 1
		}
		fmt.Printf("%s\n", line)
	}
	if s.check && missed {
		return 1
	}
	return 0
}

// conditions are told beside the figures.
func (s *settings) conditions() map[string]any {
	return map[string]any{
		"windows": s.windows, "seed": s.Seed, "jitter": s.Jitter, "vary": s.Vary, "call_us": s.Call.Microseconds(),
	}
}

// cells are all combinations of the lists, the longest first: one of those at the end would keep one processor waiting.
func (s *settings) cells() ([]Cell, error) {
	var all []Cell
	if !(s.Jitter >= 0 && s.Jitter < 1) || !(s.Vary >= 0 && s.Vary <= 1) || s.Call < 0 {
		return nil, fmt.Errorf("jitter %g, vary %g, call %v: allowed are 0 to less than 1, 0 to 1, and 0 or more", s.Jitter, s.Vary, s.Call)
	}
	steps, err := millis(s.steps)
	if err != nil {
		return nil, err
	}
	spans, err := millis(s.spans)
	if err != nil {
		return nil, err
	}
	for _, load := range strings.Split(s.loads, ",") {
		if !slices.Contains([]string{Constant, Step, StepUp, StepDown, Telegraph}, load) {
			return nil, fmt.Errorf("load %q: not constant, step, step_up, step_down or telegraph", load)
		}
		for _, mode := range strings.Split(s.modes, ",") {
			if !slices.Contains(modes(), mode) {
				return nil, fmt.Errorf("mode %q: not aligned, wait_edge or plain", mode)
			}
			for _, step := range steps {
				for _, window := range spans {
					all = append(all, Cell{Load: load, Step: step, Window: window, Mode: mode})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Cell) int { return int(b.Window/b.Step - a.Window/a.Step) })
	return all, nil
}

func millis(list string) ([]time.Duration, error) {
	var all []time.Duration
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q: not a number of milliseconds", s)
		}
		all = append(all, time.Duration(n)*time.Millisecond)
	}
	return all, nil
}

// TestBench measures all cells. Its verdict is in the report.
func TestBench(t *testing.T) {
	if asked.windows <= 0 {
		t.Skip("needs `make bench-meter`: it takes minutes")
	}
	cells, err := asked.cells()
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Int64
	for _, c := range cells {
		measure(t, c, asked.Options, asked.windows, &asked.report, func() {
			if n := int(done.Add(1)); n*10/len(cells) > (n-1)*10/len(cells) {
				fmt.Fprintf(os.Stderr, "bench-meter: %d of %d cells\n", n, len(cells))
			}
		})
	}
}

// measure adds n windows of a cell to the report, in batches that run beside others, and calls done after the last.
func measure(t *testing.T, c Cell, o Options, n int, r *Report, done func()) {
	batches := (n + batch - 1) / batch
	var left atomic.Int64
	left.Store(int64(batches))
	for i := range batches {
		t.Run(fmt.Sprintf("%v/%d", c, i), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				figures, err := c.Measure(context.Background(), o, t.TempDir(), i, min(batch, n-i*batch))
				if err != nil {
					t.Error(err)
				}
				r.Add(c, i, figures)
			})
			if left.Add(-1) == 0 {
				done()
			}
		})
	}
}
