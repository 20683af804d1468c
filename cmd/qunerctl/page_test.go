package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func TestReasonsAreAllInPlainWords(t *testing.T) {
	reasons := constants(t, "../../internal/meter/types.go", "Reason")
	reasons = append(reasons, strings.Fields("floor_suspect sources_disagree averaging_longer_than_window daemon_restarted daemon_unreachable refused")...)
	if len(reasons) < 25 {
		t.Errorf("found only %d reasons", len(reasons))
	}
	for _, reason := range reasons {
		if got := reasonWords(reason); got == strings.ReplaceAll(reason, "_", " ") {
			t.Errorf("%s has no words", reason)
		}
	}
	if got := reasonWords("of_a_newer_daemon"); got != "of a newer daemon" {
		t.Errorf("an unknown reason reads %q", got)
	}
}

func TestVerdictsAreAllInPlainWords(t *testing.T) {
	r := new(qunerv1.TuneReport)
	for _, verdict := range []string{"interior", "edge", "flat", "uncertified", "no_energy"} {
		r.Verdict = verdict
		if verdictShort(verdict) == verdict || strings.Contains(verdictWords(r), verdict) {
			t.Errorf("%s is told in the API's word", verdict)
		}
	}
}

// What is best where it was found need not be at an end of what the device offers: states above it are not tried.
func TestTheStateFoundIsNoEndOfTheDevice(t *testing.T) {
	for _, c := range []struct {
		found  bool
		beyond string
	}{{true, "is the one found"}, {false, "beyond what the device offers"}} {
		r := &qunerv1.TuneReport{
			Verdict: "edge",
			Axes:    []*qunerv1.AxisReport{{Name: "gpu", Verdict: "interior"}, {Name: "governor", Verdict: "edge"}},
			States: []*qunerv1.StateReport{
				{Axis: "gpu", State: []string{"200 W"}, Chosen: true},
				{Axis: "governor", State: []string{"schedutil"}, Chosen: true, Found: c.found},
			},
		}
		if got := verdictWords(r); !strings.Contains(got, c.beyond) {
			t.Errorf("found %v: %s", c.found, got)
		}
	}
}

func TestWhatIsInDoubtIsSaidOfItsAxisOnce(t *testing.T) {
	r := &qunerv1.TuneReport{Verdict: "uncertified", MoreWindows: 7, Axes: []*qunerv1.AxisReport{
		{Name: "gpu", Verdict: "uncertified", NextStep: "gpu: 3 of 9 states have not been measured"},
	}}
	if got := verdictWords(r); strings.Count(got, "gpu") != 1 {
		t.Error(got)
	}
}

// Two states that draw the same share their figures, which one window of the one alone could not have given.
func TestAStateThatIsOneWithAnotherSaysSo(t *testing.T) {
	r := tuneReport("interior", false)
	r.States[0].SameAs, r.States[0].Windows = "300 W", 1
	if got := marks(r, r.States[0], foundStates(r)["gpu"], true); !slices.Contains(got, "draws what 300 W draws") {
		t.Error(got)
	}
}

func TestWorkIsCountedInAnyWord(t *testing.T) {
	for one, more := range map[string]string{
		"token": "tokens", "tokens": "tokens", "batch": "batches", "query": "queries", "survey": "surveys", "pass": "passes", "box": "boxes",
	} {
		if got := many(one); got != more {
			t.Errorf("%s: %s", one, got)
		}
	}
}

// constants are the values of a Go file's string constants whose names begin so.
func constants(t *testing.T, file, prefix string) (values []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) == 0 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			s, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, s)
		}
		return true
	})
	return values
}

// eachVerb visits the commands that a person can find.
func eachVerb(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			eachVerb(sub, visit)
		}
	}
}

func TestEveryVerbHasAnExample(t *testing.T) {
	eachVerb(new(app).root(), func(c *cobra.Command) {
		if !strings.Contains(c.Example, "qunerctl") {
			t.Errorf("%s has no example", c.CommandPath())
		}
	})
}

func TestHelpIsNoWiderThanAPage(t *testing.T) {
	eachVerb(new(app).root(), func(c *cobra.Command) {
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > pageWidth && !strings.HasPrefix(c.CommandPath(), "qunerctl completion") {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
	})
}

func TestNoPageIsWiderThanItMayBe(t *testing.T) {
	long := strings.Repeat("a reason that goes on and on, ", 8)
	s := (&daemon{machine: "workstation"}).status()
	for _, l := range s.GetLevers() {
		l.Note = long
	}
	s.Degraded = []string{long}
	s.Mode.Mode = qunerv1.Mode_MODE_AUTO
	report := tuneReport("one-window", false)
	report.Note = long
	report.Axes = append(report.Axes, &qunerv1.AxisReport{Name: "cpu", Verdict: "uncertified"})
	for _, state := range report.GetStates() {
		if state.GetSkipped() != "" {
			state.Skipped = long
		}
	}
	window := windowResult("workstation", &qunerv1.OpenWindow{}, &qunerv1.CloseWindow{})
	window.Reasons = append(window.Reasons, "coarse")
	for _, width := range []int{0, 120} {
		for name, show := range map[string]func(*app){
			"home":   func(a *app) { a.out.table(nil, a.facts(s)); a.out.printf("%s\n", a.next(s)) },
			"status": func(a *app) { a.statusPage(s) },
			"tune":   func(a *app) { a.tunePage(report, new(tuneFlags), []string{"true"}) },
			"plan":   func(a *app) { a.out.planPage(tunePlan()) },
			"meter":  func(a *app) { meterDevices(a.out, window); a.out.para("note: ", plain, notes(window)[0]) },
		} {
			var page strings.Builder
			out := &screen{Writer: &page, width: width}
			show(&app{out: out, err: out})
			for line := range strings.Lines(page.String()) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > out.columns() {
					t.Errorf("%s at %d columns: %d wide: %s", name, out.columns(), n, line)
				}
			}
		}
	}
}

// The page of a meter fits the smallest terminal, with everything that it can show.
func TestMeterFitsEightyColumns(t *testing.T) {
	for _, open := range []*qunerv1.OpenWindow{{}, {IdleWatts: map[string]float64{"gpu": 50}}, {IdleWatts: map[string]float64{"gpu": 50, "cpu": 20}}} {
		w := windowResult("workstation", open, &qunerv1.CloseWindow{Work: 12_345_678})
		w.Unit, w.Share, w.Coverage = "tokens", "shared", 0.9
		w.Reasons = append(w.Reasons, "coarse", "sources_disagree", "short_window", "ambiguous", "unsynced", "point_changed")
		var page strings.Builder
		out := &screen{Writer: &page, width: 80}
		(&app{out: out, err: out}).meterPage(nil, out, client.Result{Window: w}, metering{words: "train --steps 20", args: []string{"train"}})
		for line := range strings.Lines(page.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%d wide: %s", n, line)
			}
		}
		if t.Failed() {
			t.Log(page.String())
		}
	}
}

func TestAHintOfRepetitionLastsForASecond(t *testing.T) {
	for _, c := range []struct {
		took   time.Duration
		reason string
		want   string
	}{
		{48 * time.Millisecond, "short_window", "do it 50 times in one go: qunerctl meter --work 50 --unit runs -- sh -c 'for i in $(seq 50); do ls '\\''a b'\\''; done'"},
		{time.Microsecond, "short_window", "do it 1000 times in one go: qunerctl meter --work 1000 --unit runs -- sh -c 'for i in $(seq 1000); do ls '\\''a b'\\''; done'"},
		{900 * time.Millisecond, "short_window", "do it 2 times in one go: qunerctl meter --work 2 --unit runs -- sh -c 'for i in $(seq 2); do ls '\\''a b'\\''; done'"},
		{48 * time.Millisecond, "gap", ""},
	} {
		w := &qunerv1.WindowResult{DurationNs: int64(c.took), Method: qunerv1.Method_METHOD_UNKNOWN, Reasons: []string{c.reason}}
		if got := advice(w, metering{args: []string{"ls", "a b"}}); got != c.want {
			t.Errorf("%v, %s: %q, want %q", c.took, c.reason, got, c.want)
		}
	}
}

func TestMeteringForAWhileIsSeenToGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		a := &app{err: &screen{Writer: &said, tty: true}}
		began := time.Now()
		a.await(t.Context(), 90*time.Second)
		if took := time.Since(began); took != 90*time.Second {
			t.Errorf("it took %v", took)
		}
		if !strings.Contains(said.String(), "\rmetering … 1m5s of 1m30s, 25s left; Ctrl-C ends it early, with the result") || !strings.HasSuffix(said.String(), "\r\x1b[K") {
			t.Errorf("%q", said.String())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		a.await(ctx, time.Hour)
		if took := time.Since(began); took != 92*time.Second {
			t.Errorf("interrupted after %v", took-90*time.Second)
		}
	})
}

func TestWrapLosesNoWord(t *testing.T) {
	text := "one two threethreethree four"
	lines := wrap(text, 8)
	if want := []string{"one two", "threethreethree", "four"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
	if got := wrap("", 8); !slices.Equal(got, []string{""}) {
		t.Errorf("nothing is %q", got)
	}
}

func TestSlowIsOnlyWhatTheIntervalsProve(t *testing.T) {
	speed := func(v float64, half *float64) *qunerv1.StateReport {
		return &qunerv1.StateReport{WorkPerSecond: &v, WorkPerSecondHalfWidth: half}
	}
	for _, c := range []struct {
		state, found *qunerv1.StateReport
		want         bool
	}{
		{speed(80, new(1.0)), speed(100, new(1.0)), true},
		{speed(89.5, new(1.0)), speed(100, new(1.0)), false}, // below 90, within the doubt
		{speed(50, nil), speed(100, new(1.0)), false},        // a single window
		{speed(50, new(1.0)), speed(100, nil), false},
		{speed(50, new(1.0)), nil, false},
	} {
		if got := tooSlow(c.state, c.found, 0.1); got != c.want {
			t.Errorf("%v against %v: %t, want %t", c.state, c.found, got, c.want)
		}
	}
}

func TestMixedGovernorsAreCounted(t *testing.T) {
	var levers []*qunerv1.LeverState
	for i := range 8 {
		l := &qunerv1.LeverState{Name: fmt.Sprintf("cpufreq/policy%d", i), Kind: "governor", Value: "schedutil"}
		if i < 2 {
			l.Value = "performance"
		}
		levers = append(levers, l)
	}
	if got, want := leversNow(levers), "CPU governor performance (2), schedutil (6)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAPictureThatIsOldSaysSo(t *testing.T) {
	s := &qunerv1.Status{TimeUnixNs: time.Now().Add(-30 * time.Second).UnixNano()}
	if got := asOf(s); got != ", as of 30 s ago" {
		t.Errorf("%q", got)
	}
	s.TimeUnixNs = time.Now().UnixNano()
	if got := asOf(s); got != "" {
		t.Errorf("fresh, yet %q", got)
	}
	if got := signalWords(&qunerv1.Status{Signal: &qunerv1.Signal{Cpus: 2}}); !strings.HasPrefix(got, "no GPU, load") {
		t.Errorf("%q", got)
	}
	if got := sweepWords(&qunerv1.TuneState{LastUnixNs: time.Now().UnixNano()}); !strings.HasPrefix(got, "ended with no result") {
		t.Errorf("%q", got)
	}
}

func TestNothingIsTunedWhereAllIsLeftToOthers(t *testing.T) {
	s := (&daemon{machine: "workstation"}).status()
	if !worthTuning(s) {
		t.Error("a machine that trains untuned is worth tuning")
	}
	for _, l := range s.GetLevers() {
		l.State = "yielded"
	}
	if worthTuning(s) || leftToOthers(s.GetLevers()) != 9 {
		t.Error("levers of others are not to be tuned")
	}
}

func TestRetypedFlagsTakeTheNewValue(t *testing.T) {
	for _, c := range []struct {
		typed, flags []string
		want         string
	}{
		{[]string{"tune", "--", "x", "--apply"}, []string{"--apply"}, "sudo qunerctl tune --apply -- x --apply"},
		{[]string{"tune", "--apply", "x", "--apply"}, []string{"--apply"}, "sudo qunerctl tune --apply -- x --apply"},
		{[]string{"tune", "--max-windows", "3", "--no-cpu", "--", "x", "--apply"}, []string{"--max-windows=9"}, "sudo qunerctl tune --no-cpu --max-windows 9 -- x --apply"},
		{[]string{"tune", "--max-windows=3", "x", "--apply"}, []string{"--max-windows=9"}, "sudo qunerctl tune --max-windows 9 -- x --apply"},
	} {
		if got := (&app{args: c.typed}).retyped([]string{"x", "--apply"}, c.flags...); got != c.want {
			t.Errorf("%q with %q: %s, want %s", c.typed, c.flags, got, c.want)
		}
	}
}

func TestDurationsHaveDaysAndNoSurprises(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "2h": 2 * time.Hour, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "1h30m": 90 * time.Minute,
		"": 0, "0s": 0, "0d": 0, "-5m": 0, "2hours": 0, "d": 0, "1d-2h": 0, "5": 0,
	} {
		if got, err := parseDuration(in); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %v (%v), want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{"2hours": "2h", "90sec": "90s", "-5m": "5m", "3 days": "3d", "5": "5m", "forever": "30m", "99999h": "30m",
		"999msec": "1s", "2000 ms": "2s", "3us": "1s", "1.5hours": "1h30m", "2 months": "2m", "0": "30m", "..": "30m"} {
		if got := likeDuration(in); got != want {
			t.Errorf("%q is meant to be %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"999ms": "1s", "1ns": "1s", "25h": "24h", "2d": "24h", "-5m": "5m", "soon": "30m", "90": "90m", "0s": "30m"} {
		if got := likeSpan(in); got != want {
			t.Errorf("--for %q is meant to be %q, want %q", in, got, want)
		}
	}
	if got := shortDuration(time.Hour); got != "1h" {
		t.Errorf("an hour is %q", got)
	}
}

func TestServiceIsStartedOnlyWhereItIsInstalled(t *testing.T) {
	t.Setenv("QUNER_SOCKET", "")
	dir := t.TempDir()
	a := &app{units: []string{t.TempDir(), dir}}
	if got := a.startHint(); got != "sudo qunerd run" {
		t.Errorf("no unit: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "qunerd.service"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := a.startHint(); got != "sudo systemctl start qunerd" {
		t.Errorf("a unit: %q", got)
	}
	a.superuser = true
	if got := a.startHint() + ", " + a.asRoot("resume"); got != "systemctl start qunerd, qunerctl resume" {
		t.Errorf("for root: %q", got)
	}
}

func TestMomentsOfTodayNeedNoDay(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)
	for want, at := range map[string]time.Time{
		"11:59:58": now.Add(-2 * time.Second), "Nov  1 12:00": now.AddDate(0, 0, -29), "2025-11-30": now.AddDate(-1, 0, 0),
	} {
		if got := moment(at.UnixNano(), now); got != want {
			t.Errorf("%v is %q, want %q", at, got, want)
		}
	}
}
