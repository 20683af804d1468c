package main

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/meter"
)

// steady is a counter that steps each 100 ms at 300 W, read each millisecond, and a power sensor that says 306 W.
func steady() meter.Trace {
	t := meter.Trace{Sensors: []meter.TraceSensor{
		{Name: "gpu/0", Kind: meter.TraceEnergy}, {Name: "gpu/0", Kind: meter.TraceCost}, {Name: "gpu/0", Kind: meter.TracePower},
	}}
	for ms := range int64(10_000) {
		at := time.Duration(ms) * time.Millisecond
		t.Readings = append(t.Readings,
			meter.TraceReading{At: at, Sensor: 0, Value: 1e12 + ms/100*30_000_000},
			meter.TraceReading{At: at, Sensor: 1, Value: 400_000},
			meter.TraceReading{At: at, Sensor: 2, Value: 306_000_000})
	}
	return t
}

func TestAnalyse(t *testing.T) {
	f := analyse(steady())[0]
	if f.Steps != 99 || math.Abs(f.Interval.Median-100) > 0.01 || math.Abs(f.Increment.Median-30_000) > 0.01 || f.Cost.Median != 400 {
		t.Errorf("%+v", f)
	}
	if math.Abs(f.CounterW-300) > 0.01 || math.Abs(f.PowerW-306) > 0.01 {
		t.Errorf("%v W by the counter, %v W by the sensor", f.CounterW, f.PowerW)
	}
	// Over windows of random phase a counter of period T is right in the mean, and off by up to T at each end: the sum
	// of two even errors that depend on each other. Over half a period it says nothing or a whole step.
	for _, w := range f.Windows {
		k := w.Length.Seconds() / 0.1
		frac := k - math.Floor(k)
		sd := math.Sqrt(frac*(1-frac)) / k
		if math.Abs(w.Mean) > 0.1*sd+0.01 || math.Abs(w.SD-sd) > 0.05*sd+0.01 {
			t.Errorf("%v: mean %.4f, sd %.4f, want sd %.4f", w.Length, w.Mean, w.SD, sd)
		}
	}
	if len(f.Windows) != 6 {
		t.Errorf("%d lengths of windows", len(f.Windows))
	}
}

func TestAnalyseSkipsWhatFailedAndFell(t *testing.T) {
	tr := steady()
	for i := range tr.Readings {
		if r := &tr.Readings[i]; r.Sensor == 0 && r.At >= 3*time.Second {
			r.Value -= 1e12 // the driver was loaded anew
			if r.At < 3500*time.Millisecond {
				r.Value, r.Err = 0, "EIO"
			}
		}
	}
	f := analyse(tr)[0]
	if f.Failed != 500 || math.Abs(f.CounterW-300) > 0.01 || f.Interval.Most > 100.1 {
		t.Errorf("%+v", f)
	}
}

// The whole of it against the fake library: traces and figures come to be, and nothing of the board is changed.
func TestOnTheFakeLibrary(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: the fake libnvidia-ml.so.1 cannot be built")
	}
	dir := t.TempDir()
	lib, board := filepath.Join(dir, "libnvidia-ml.so.1"), filepath.Join(dir, "machine", "0")
	out, err := exec.Command(gcc, "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-o", lib, "../fakenvml/fakenvml.c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	if err := os.MkdirAll(board, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"power_mw": "280000", "instant_mw": "280000", "limit_mw": "300000", "min_mw": "100000", "max_mw": "300000",
		"default_mw": "300000", "name": "NVIDIA A40", "persistence": "0", "mig": "0", "util_pct": "0"}
	for name, value := range files {
		if err := os.WriteFile(filepath.Join(board, name), []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("FAKENVML", filepath.Join(dir, "machine"))
	var page bytes.Buffer
	o := options{out: filepath.Join(dir, "live"), length: time.Second, settle: 10 * time.Millisecond, load: "sleep 60"}
	if err := run(t.Context(), host.Real(filepath.Join(dir, "root"), host.NVML(lib)), o, &page); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"How the counters move", "\nrest\n", "\nload\n", "gpu/0: ", "power integrated 280.00 W", "a reading costs", "plain difference over"} {
		if !strings.Contains(page.String(), word) {
			t.Errorf("the page does not say %q:\n%s", word, &page)
		}
	}
	for _, state := range []string{"rest", "load"} {
		f, err := os.Open(filepath.Join(o.out, state+".trace"))
		if err != nil {
			t.Fatal(err)
		}
		trace, err := meter.ParseTrace(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := analyse(trace)[0]; got.Failed > 0 || math.Abs(got.CounterW-280) > 70 { // at full load of this machine a reading's time is out by much
			t.Errorf("%s: %+v", state, got)
		}
	}
	for name, value := range files {
		if now, err := os.ReadFile(filepath.Join(board, name)); err != nil || string(now) != value+"\n" {
			t.Errorf("%s says %q now, %v", name, now, err)
		}
	}
}
