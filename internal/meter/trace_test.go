package meter

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// update is for go test -run Traces -update: what is recorded becomes the traces in testdata.
var update = flag.Bool("update", false, "write the traces of testdata anew")

// outcome is what a counter of a trace comes to.
type outcome struct {
	Energy   unit.Energy   // credited
	Gap      time.Duration // without
	Verdicts Verdicts
}

// replay has the counter rule judge the readings of a trace, as it does those of a live counter.
func replay(t Trace) map[string]outcome {
	counters := make([]*counter, len(t.Sensors))
	results := make([]outcome, len(t.Sensors))
	lost := make([]time.Duration, len(t.Sensors)) // since the base that may be returned to
	for i, s := range t.Sensors {
		counters[i] = &counter{span: s.Span, limit: s.Limit}
		if s.Backend == NVMLCounter {
			counters[i].blur = s.Period // as for a live board
		}
	}
	asleep := time.Duration(0)
	for _, r := range t.Readings {
		if r.Sensor < 0 {
			asleep = time.Duration(r.Value)
			continue
		}
		c, out := counters[r.Sensor], &results[r.Sensor]
		in := reading{value: unit.Energy(r.Value), at: clock0.Add(r.At), asleep: asleep}
		if r.Err != "" {
			in.value, in.err = 0, errors.New(r.Err)
		}
		base := c.base.at
		v, credit := c.step(in)
		out.Energy += credit
		switch {
		case v == recovered:
			out.Gap -= lost[r.Sensor]
		case v.broke():
			lost[r.Sensor] = in.at.Sub(base)
			out.Gap += lost[r.Sensor]
		}
	}
	all := map[string]outcome{}
	for i, s := range t.Sensors {
		if s.Kind == TraceEnergy {
			results[i].Verdicts = counters[i].tally.public()
			all[s.Name] = results[i]
		}
	}
	return all
}

// record records a host in faked time; meanwhile plays while it does.
func record(t *testing.T, m *Meter, length time.Duration, meanwhile func()) string {
	t.Helper()
	var text bytes.Buffer
	done := make(chan error)
	go func() {
		done <- m.Record(context.Background(), &text, RecordOptions{For: length, Remark: "a simulated machine\nfor a test"})
	}()
	meanwhile()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// recorded is a trace of testdata: how it comes to be, and what it has to come to.
type recorded struct {
	name   string
	record func(*testing.T) (text string, truth map[string]unit.Energy)
	slack  unit.Energy // what the counters' steps at both ends may hide
	gap    time.Duration
	odd    func(Verdicts) bool
	of     string // the sensor that gap and odd are about
}

func traces() []recorded {
	return []recorded{
		{
			name: "load", slack: 60 * unit.Joule, of: "gpu/0", odd: func(v Verdicts) bool { return v == Verdicts{OK: v.OK} && v.OK > 30 },
			record: func(t *testing.T) (string, map[string]unit.Energy) {
				m, sim := simulated(t, "workstation", 250*time.Millisecond)
				before := map[string]unit.Energy{}
				for name, device := range map[string]string{"cpu/package-0": "package-0", "gpu/0": "gpu0"} {
					before[name] = -sim.Truth(device)
				}
				text := record(t, m, 4*time.Second, func() {
					time.Sleep(time.Second)
					sim.SetLoad("gpu0", 1)
					time.Sleep(2 * time.Second)
					sim.SetLoad("gpu0", 0)
					time.Sleep(time.Second)
					before["cpu/package-0"] += sim.Truth("package-0")
					before["gpu/0"] += sim.Truth("gpu0")
				})
				return text, before
			},
		}, {
			name: "eio", slack: 20 * unit.Joule, of: "cpu/package-0", odd: func(v Verdicts) bool { return v.Unread > 5 && v.OK > 10 && v.Reset+v.Jump == 0 },
			record: func(t *testing.T) (string, map[string]unit.Energy) {
				m, sim := simulated(t, "workstation", 250*time.Millisecond)
				before := -sim.Truth("package-0")
				text := record(t, m, 3*time.Second, func() {
					time.Sleep(time.Second)
					heal := sim.Fail(host.OpRead, "sys/class/powercap/intel-rapl:0/energy_uj", unix.EIO)
					time.Sleep(time.Second)
					heal()
					time.Sleep(time.Second)
					before += sim.Truth("package-0")
				})
				return text, map[string]unit.Energy{"cpu/package-0": before}
			},
		}, {
			name: "reset", slack: 0, of: "cpu/package-0", gap: 100 * time.Millisecond,
			odd: func(v Verdicts) bool { return v.Reset == 1 && v.Recovered == 0 },
			record: playing(2*time.Second, 19, func(tr *tree, tick int64) {
				value := 200e9 + 2e6*tick // 20 W
				if tick > 10 {
					value = 2e6 * (tick - 10)
				}
				tr.set("intel-rapl:0", value)
			}),
		}, {
			name: "glitch", slack: 0, of: "cpu/package-0",
			odd: func(v Verdicts) bool { return v.Reset == 1 && v.Recovered == 1 },
			record: playing(2*time.Second, 20, func(tr *tree, tick int64) {
				value := 200e9 + 2e6*tick
				if tick == 10 {
					value = 0
				}
				tr.set("intel-rapl:0", value)
			}),
		}, {
			name: "wrap", slack: 0, of: "cpu/package-0",
			odd: func(v Verdicts) bool { return v.Wrap == 1 && v.Reset == 0 },
			record: playing(2*time.Second, 20, func(tr *tree, tick int64) {
				tr.set("intel-rapl:0", (262143328850-10e6+2e6*tick)%262143328911)
			}),
		},
	}
}

// playing records a zone whose counter set gives a value each 100 ms, in which 2 J are drawn; credited is how many of
// them a trace of that length can tell of.
func playing(length time.Duration, credited int64, set func(tr *tree, tick int64)) func(*testing.T) (string, map[string]unit.Energy) {
	return func(t *testing.T) (string, map[string]unit.Energy) {
		tr := powercapTree(t, nil, "intel-rapl:0 package-0")
		set(tr, 0)
		m := tr.meter()
		text := record(t, m, length, func() {
			time.Sleep(10*time.Millisecond + zonePoll/2) // between the recorder's own readings
			for tick := int64(1); tick <= int64(length/(100*time.Millisecond)); tick++ {
				set(tr, tick)
				time.Sleep(100 * time.Millisecond)
			}
		})
		return text, map[string]unit.Energy{"cpu/package-0": unit.Energy(credited) * 2 * unit.Joule}
	}
}

// What is recorded is what testdata has, and replayed it comes to what was drawn.
func TestTraces(t *testing.T) {
	for _, c := range traces() {
		t.Run(c.name, func(t *testing.T) {
			var text string
			var truth map[string]unit.Energy
			synctest.Test(t, func(t *testing.T) { text, truth = c.record(t) })
			file := filepath.Join("testdata", "traces", c.name+".trace")
			if *update {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Errorf("%s: another recording; if it is right: go test ./internal/meter -run Traces -update\n%s", file, diff)
			}
			trace, err := ParseTrace(bytes.NewReader(want))
			if err != nil {
				t.Fatal(err)
			}
			all := replay(trace)
			for name, e := range truth {
				if off := all[name].Energy - e; off > c.slack || off < -c.slack {
					t.Errorf("%s: %v replayed, %v drawn", name, all[name].Energy, e)
				}
			}
			if got := all[c.of]; got.Gap != c.gap || !c.odd(got.Verdicts) {
				t.Errorf("%s: %+v", c.of, got)
			}
		})
	}
}

// A trace tells how often the counter steps, and no UUID.
func TestTraceTellsTheStep(t *testing.T) {
	text, err := os.ReadFile("testdata/traces/load.trace")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("GPU-")) {
		t.Error("a trace has a UUID in it")
	}
	trace, err := ParseTrace(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]time.Duration{"cpu/package-0": time.Millisecond, "gpu/0": 100 * time.Millisecond}
	for i, s := range trace.Sensors {
		if want[s.Name] == 0 || s.Kind != TraceEnergy {
			continue
		}
		var polls []poll
		for _, r := range trace.Readings {
			if r.Sensor == i && (s.Name != "cpu/package-0" || r.At < zoneBurst) {
				polls = append(polls, poll{clock0.Add(r.At), unit.Energy(r.Value)})
			}
		}
		if p := paceOf(polls); !near(p.period, want[s.Name], 0.1) {
			t.Errorf("%s: %+v", s.Name, p)
		}
	}
}

func TestParseTraceRefuses(t *testing.T) {
	const good = "quner-trace 1\nsensor 0 energy cpu/package-0 backend=rapl span=10 limit=3 unit=1\n"
	if _, err := ParseTrace(strings.NewReader(good + "# all of it\n\n0 0 5\n1 0 !EIO\n1 slept 7\n")); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "quner-trace 2\n", "5 0 1\n", good + "0 1 5\n", good + "0 -1 5\n", good + "0 0 -5\n", good + "0 0 x\n", good + "-1 0 5\n", good + "0 0\n",
		good + "5 0 1\n4 0 1\n", good + "0 slept !EIO\n", good + "0 0 !\n", good + "0 0 !a/b\n", good + "sensor 2 energy x\n",
		good + "sensor 1 colour x\n", good + "sensor 1 energy\n", good + "sensor 1 energy x span=-1\n", good + "sensor 1 energy x taste=1\n",
		good + "0 0 5 5\n", good + "0 0 99999999999999999999\n", good + "# " + strings.Repeat("x", 2000) + "\n",
	} {
		if tr, err := ParseTrace(strings.NewReader(bad)); err == nil {
			t.Errorf("%.80q is taken for %+v", bad, tr)
		} else if bad != "" && !strings.Contains(err.Error(), "line ") {
			t.Errorf("%.80q: no line in %q", bad, err)
		}
	}
}

// Whatever is a trace is the same trace when written and read again, and the rule survives it.
func FuzzTrace(f *testing.F) {
	files, err := filepath.Glob("testdata/traces/*.trace")
	if err != nil || len(files) == 0 {
		f.Fatal("no traces", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:min(len(text), 4000)])
	}
	f.Add([]byte("quner-trace 1\nsensor 0 energy a span=4294967296 limit=1\n0 0 1\n9223372036854775807 0 9223372036854775807\n5 slept 9\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		trace, err := ParseTrace(bytes.NewReader(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if n, err := trace.WriteTo(&again); err != nil || n != int64(again.Len()) {
			t.Fatalf("%d bytes, %v", n, err)
		}
		same, err := ParseTrace(&again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(trace, same); diff != "" {
			t.Error(diff)
		}
		for name, o := range replay(trace) {
			if n := o.Verdicts; int(n.OK+n.Ambiguous+n.Wrap+n.Reset+n.Jump+n.Backward+n.Recovered+n.Unread) > len(trace.Readings) {
				t.Errorf("%s: more verdicts than readings: %+v", name, n)
			}
		}
	})
}
