package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/qunerd/quner/internal/meter"
)

// step is one step of a counter: from then on it says value.
type step struct {
	at    float64 // seconds since the recording began
	value float64 // joules
}

// figures are what a trace says of one counter.
type figures struct {
	Sensor    string       `json:"sensor"`
	Readings  int          `json:"readings"`
	Failed    int          `json:"failed"`
	Steps     int          `json:"steps"`
	Interval  spread       `json:"interval_ms"`  // between steps
	Increment spread       `json:"increment_mj"` // of a step
	Cost      spread       `json:"cost_us"`      // of a reading
	CounterW  float64      `json:"counter_watts"`
	PowerW    float64      `json:"power_watts"`   // integrated over the same time; 0: no power was recorded
	PowerAt   int          `json:"power_samples"` //
	Windows   []windowErrs `json:"windows"`
}

// spread is a distribution in a few figures.
type spread struct {
	Least  float64 `json:"least"`
	P5     float64 `json:"p5"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Most   float64 `json:"most"`
}

// windowErrs is how far the plain difference of two readings is from what was drawn between them, in parts of it.
type windowErrs struct {
	Length time.Duration `json:"length_ns"`
	Mean   float64       `json:"mean"`
	SD     float64       `json:"sd"`
	P95    float64       `json:"p95"` // of the size
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	at := func(q float64) float64 { return values[int(q*float64(len(values)-1)+0.5)] }
	return spread{values[0], at(0.05), at(0.5), at(0.95), values[len(values)-1]}
}

// analyse makes the figures of each energy counter of a trace.
func analyse(t meter.Trace) []figures {
	var all []figures
	for i, s := range t.Sensors {
		if s.Kind != meter.TraceEnergy {
			continue
		}
		f := figures{Sensor: s.Name}
		steps := stepsOf(t, i, &f)
		f.Cost = spreadOf(values(t, s.Name, meter.TraceCost, 1e-3))
		if f.Steps = len(steps); f.Steps >= 2 {
			f.measure(t, steps)
		}
		all = append(all, f)
	}
	return all
}

// stepsOf finds a counter's steps, each in the middle of the two readings around it. A fall ends what can be compared: only
// what follows the last one is returned.
func stepsOf(t meter.Trace, sensor int, f *figures) []step {
	var steps []step
	var last meter.TraceReading
	for _, r := range t.Readings {
		if r.Sensor != sensor {
			continue
		}
		if r.Err != "" {
			f.Failed++
			continue
		}
		if f.Readings++; f.Readings > 1 && r.Value != last.Value {
			if r.Value < last.Value {
				steps = nil
			} else {
				steps = append(steps, step{(last.At + (r.At-last.At)/2).Seconds(), float64(r.Value) / 1e6})
			}
		}
		last = r
	}
	return steps
}

// values are the readings of the sensor of a name and kind.
func values(t meter.Trace, name string, kind meter.TraceKind, scale float64) []float64 {
	var out []float64
	for _, r := range t.Readings {
		if r.Sensor >= 0 && r.Err == "" && t.Sensors[r.Sensor].Name == name && t.Sensors[r.Sensor].Kind == kind {
			out = append(out, float64(r.Value)*scale)
		}
	}
	return out
}

func (f *figures) measure(t meter.Trace, steps []step) {
	var intervals, increments []float64
	for i := 1; i < len(steps); i++ {
		intervals = append(intervals, 1e3*(steps[i].at-steps[i-1].at))
		increments = append(increments, 1e3*(steps[i].value-steps[i-1].value))
	}
	f.Interval, f.Increment = spreadOf(intervals), spreadOf(increments)
	first, last := steps[0], steps[len(steps)-1]
	f.CounterW = (last.value - first.value) / (last.at - first.at)
	f.PowerW, f.PowerAt = integrated(t, f.Sensor, first.at, last.at)
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, ms := range []int{20, 50, 100, 200, 500, 1000} {
		if w, ok := windows(steps, time.Duration(ms)*time.Millisecond, rnd); ok {
			f.Windows = append(f.Windows, w)
		}
	}
}

// integrated is the mean of a board's power between two moments, by trapezoids, and from how many samples.
func integrated(t meter.Trace, name string, from, to float64) (watts float64, samples int) {
	var sum, length, at, w float64
	for _, r := range t.Readings {
		if r.Sensor < 0 || r.Err != "" || t.Sensors[r.Sensor].Name != name || t.Sensors[r.Sensor].Kind != meter.TracePower {
			continue
		}
		now, p := r.At.Seconds(), float64(r.Value)/1e6
		if now < from || now > to {
			continue
		}
		if samples++; samples > 1 {
			sum, length = sum+(now-at)*(w+p)/2, length+now-at
		}
		at, w = now, p
	}
	if length == 0 {
		return 0, samples
	}
	return sum / length, samples
}

// manyWindows is how many windows of a length are tried.
const manyWindows = 4000

// windows compares the plain difference of the counter over windows of random phase with the line through its steps.
func windows(steps []step, length time.Duration, rnd *rand.Rand) (windowErrs, bool) {
	room := steps[len(steps)-1].at - steps[0].at - length.Seconds()
	if room <= 0 {
		return windowErrs{}, false
	}
	var errs, sizes []float64
	for range manyWindows {
		from := steps[0].at + rnd.Float64()*room
		to := from + length.Seconds()
		drawn := along(steps, to) - along(steps, from)
		if drawn <= 0 {
			continue
		}
		e := (shown(steps, to)-shown(steps, from))/drawn - 1
		errs, sizes = append(errs, e), append(sizes, math.Abs(e))
	}
	if len(errs) < 2 {
		return windowErrs{}, false
	}
	mean, squares := 0.0, 0.0
	for _, e := range errs {
		mean += e / float64(len(errs))
	}
	for _, e := range errs {
		squares += (e - mean) * (e - mean)
	}
	return windowErrs{length, mean, math.Sqrt(squares / float64(len(errs)-1)), spreadOf(sizes).P95}, true
}

// shown is what the counter said at a moment.
func shown(steps []step, at float64) float64 { return steps[before(steps, at)].value }

// along is the energy at a moment on the line through the steps.
func along(steps []step, at float64) float64 {
	i := min(before(steps, at), len(steps)-2)
	a, b := steps[i], steps[i+1]
	return a.value + (b.value-a.value)*(at-a.at)/(b.at-a.at)
}

// before is the number of the newest step at a moment.
func before(steps []step, at float64) int {
	return max(0, sort.Search(len(steps), func(i int) bool { return steps[i].at > at })-1)
}

// print writes the figures for people.
func (f figures) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %d readings kept, %d failed, %d steps\n", f.Sensor, f.Readings, f.Failed, f.Steps)
	for _, row := range []struct {
		what string
		s    spread
	}{{"between steps, ms", f.Interval}, {"a step, mJ", f.Increment}, {"a reading costs, µs", f.Cost}} {
		fmt.Fprintf(w, "  %-20s least %.4g, 5 %% %.4g, median %.4g, 95 %% %.4g, most %.4g\n",
			row.what, row.s.Least, row.s.P5, row.s.Median, row.s.P95, row.s.Most)
	}
	if f.Steps < 2 {
		return
	}
	fmt.Fprintf(w, "  counter %.2f W", f.CounterW)
	if f.PowerW > 0 {
		fmt.Fprintf(w, ", power integrated %.2f W (%d samples): %+.2f %%", f.PowerW, f.PowerAt, 100*(f.PowerW/f.CounterW-1))
	}
	fmt.Fprintln(w)
	for _, e := range f.Windows {
		fmt.Fprintf(w, "  plain difference over %7v: mean %+.2f %%, sd %.2f %%, 95 %% within %.2f %%\n", e.Length, 100*e.Mean, 100*e.SD, 100*e.P95)
	}
}
