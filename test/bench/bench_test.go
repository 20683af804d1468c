package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

const printed = `goos: linux
cpu: Some CPU
BenchmarkTick/plain-2         	     300	    410457 ns/op	    386843 cpu-ns/tick	   30086 B/op	     247 allocs/op
BenchmarkTick/plain-2         	     300	    420997 ns/op	    388710 cpu-ns/tick	   30007 B/op	     247 allocs/op
BenchmarkTick/un-named        	     300	    1e3 ns/op
PASS
`

func TestMetricsAreTakenByBenchmarkAndUnit(t *testing.T) {
	m := metrics{}
	if err := m.parse([]byte(printed)); err != nil {
		t.Fatal(err)
	}
	if got := m[metric{"BenchmarkTick/plain", "cpu-ns/tick"}]; len(got) != 2 || median(got) != 387776.5 {
		t.Errorf("cpu-ns/tick: %v, want two with the median 387776.5", got)
	}
	if got := m[metric{"BenchmarkTick/un-named", "ns/op"}]; len(got) != 1 || got[0] != 1000 {
		t.Errorf("un-named: %v, want 1000", got)
	}
	if err := m.parse([]byte("BenchmarkTick 300 410457 ns/op 7\n")); err == nil {
		t.Error("a value without a unit was taken")
	}
}

func FuzzMetrics(f *testing.F) {
	f.Add([]byte(printed))
	f.Add([]byte("BenchmarkX 1 NaN ns/op"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m := metrics{}
		if m.parse(text) != nil {
			return
		}
		for k := range m {
			if !strings.HasPrefix(k.bench, "Benchmark") || k.unit == "" {
				t.Errorf("%+v", k)
			}
		}
	})
}

func TestTheMedianIsTheMiddle(t *testing.T) {
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("of three: %g, want 5", got)
	}
	if got := median([]float64{9, 1, 5, 3}); got != 4 {
		t.Errorf("of four: %g, want 4", got)
	}
}

func TestStatusFieldIsTheWholeName(t *testing.T) {
	status := []byte("Name:\tqunerd\nnonvoluntary_ctxt_switches:\t7\nVmRSS:\t   20052 kB\nvoluntary_ctxt_switches:\t301\n")
	for name, want := range map[string]int64{"voluntary_ctxt_switches": 301, "VmRSS": 20052} {
		if got, err := statusField(status, name); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, want)
		}
	}
	if _, err := statusField(status, "RssAnon"); err == nil {
		t.Error("a line that is not there was found")
	}
}

func TestTheReportNamesWhatIsOver(t *testing.T) {
	var out strings.Builder
	o := options{rest: time.Minute, repeat: 3, json: true}
	err := report(&out, o, []figure{
		{key: "tick_cpu_ms", name: "tick", value: 1.23456, unit: "ms", bar: 1},
		{key: "rss_mib", name: "memory", value: 25, unit: "MiB", bar: 25},
		{key: "load_1m", name: "load", value: 0.5},
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for i, want := range []string{"tick 1.23 1 ms over", "memory 25 25 MiB ok", "load 0.5"} {
		if got := strings.Join(strings.Fields(lines[1+i]), " "); got != want {
			t.Errorf("line %q, want %q", got, want)
		}
	}
	var last struct {
		Tick float64  `json:"tick_cpu_ms"`
		Rest float64  `json:"rest_s"`
		Over []string `json:"over"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if last.Tick != 1.235 || last.Rest != 60 || len(last.Over) != 1 || last.Over[0] != "tick_cpu_ms" {
		t.Errorf("object %+v", last)
	}
}
