package doctor

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
)

const policy = "sys/devices/system/cpu/cpufreq/policy0/"

// desktop is a host with one policy and no GPU.
func desktop() map[string]string {
	return map[string]string{
		"proc/cpuinfo":                         "model name : Example CPU\x1b[31m\n\n",
		"proc/sys/kernel/osrelease":            "6.12.8\n",
		policy + "scaling_governor":            "powersave\n",
		policy + "scaling_available_governors": "performance powersave\n",
	}
}

func aHost(t *testing.T, files map[string]string) *host.Host {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return host.Real(root, nil)
}

// look has the host examined.
func look(t *testing.T, h *host.Host) Report {
	t.Helper()
	r, err := Look(t.Context(), h, levers.Options{}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func aMeter(t *testing.T, h *host.Host) *meter.Meter {
	t.Helper()
	m, err := meter.New(t.Context(), h, meter.Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestExamine(t *testing.T) {
	r := look(t, aHost(t, desktop()))
	if r.Host != "Example CPU?[31m, Linux 6.12.8" {
		t.Errorf("host %q", r.Host)
	}
	want := []Lever{
		{Name: "cpufreq/policy0", Kind: levers.Governor, Present: true, Readable: true, Writable: true,
			Value: "powersave", Range: "performance powersave"},
		{Name: "epp", Kind: levers.EnergyPreference, Reason: host.NotSupported, Why: "the cpufreq driver has no energy preference",
			Detail: "the cpufreq driver has no energy preference"},
		{Name: "rapl", Kind: levers.PackageLimit, Reason: host.Absent, Why: "the kernel offers no such control", Detail: "the kernel offers no such control"},
		{Name: "nvml", Kind: levers.GPUCap, Reason: host.Absent, Why: "no NVIDIA GPU", Detail: "no NVIDIA GPU"},
		{Name: "amdgpu", Kind: levers.AMDCap, Reason: host.Absent, Why: "no AMD GPU", Detail: "no AMD GPU"},
	}
	if diff := cmp.Diff(want, r.Levers); diff != "" {
		t.Error(diff)
	}
	if r.Usable() != 1 {
		t.Errorf("%d usable", r.Usable())
	}
}

func TestExamineAHostWithNothing(t *testing.T) {
	r := look(t, aHost(t, nil))
	if r.Usable() != 0 || r.Host == "" {
		t.Errorf("%+v", r)
	}
	for _, l := range r.Levers {
		if l.Reason == "" || l.Present {
			t.Errorf("a missing lever without a reason: %+v", l)
		}
	}
	for _, c := range r.Counters {
		if c.Counted || c.Reason == "" {
			t.Errorf("a missing counter without a reason: %+v", c)
		}
	}
	var page bytes.Buffer
	if err := r.Print(&page); err != nil {
		t.Fatal(err)
	}
	for _, l := range r.Levers {
		if !strings.Contains(page.String(), what(l)) || !strings.Contains(page.String(), string(l.Reason)) {
			t.Errorf("%s is not on the page:\n%s", l.Name, &page)
		}
	}
}

// stubborn is a lever that says of itself what a test wants.
type stubborn struct {
	levers.Lever
	name string
	kind levers.Kind
	span levers.Span
	now  levers.Value
	err  error
}

func (s stubborn) Name() string                              { return s.name }
func (s stubborn) Kind() levers.Kind                         { return s.kind }
func (s stubborn) Span() levers.Span                         { return s.span }
func (s stubborn) Get(context.Context) (levers.Value, error) { return s.now, s.err }

func TestExamineSaysWhyALeverIsOfNoUse(t *testing.T) {
	capped := levers.Span{Lo: 100_000, Hi: 300_000, Step: 1000, Unit: "mW"}
	unprivileged := desktop()
	unprivileged["proc/self/status"] = "Name:\tx\nCapEff:\t0000000000000000\n"
	root := desktop()
	root["proc/self/status"] = "CapEff:\t000001ffffffffff\n"
	for name, c := range map[string]struct {
		files map[string]string
		lever stubborn
		want  Lever
	}{
		"a board as root": {root,
			stubborn{name: "nvml/GPU-1", kind: levers.GPUCap, span: capped, now: "250000"},
			Lever{Present: true, Readable: true, Writable: true, Value: "250.0 W", Range: "100.0 W … 300.0 W"}},
		"a board without the right": {unprivileged,
			stubborn{name: "nvml/GPU-1", kind: levers.GPUCap, span: capped, now: "250000"},
			Lever{Present: true, Readable: true, Value: "250.0 W", Range: "100.0 W … 300.0 W", Reason: host.NoPermission}},
		"a board that hangs": {root,
			stubborn{name: "nvml/GPU-1", kind: levers.GPUCap, span: capped, err: host.ErrHung},
			Lever{Present: true, Range: "100.0 W … 300.0 W", Reason: host.Hung}},
	} {
		t.Run(name, func(t *testing.T) {
			h := aHost(t, c.files)
			state := levers.State{Name: c.lever.name, Kind: c.lever.kind, Span: c.lever.span, Unit: c.lever.span.Unit, Value: c.lever.now,
				Err: c.lever.err, Reason: host.ReasonOf(c.lever.err)}
			if c.lever.err != nil {
				state.Note = c.lever.err.Error()
			}
			v := View{Levers: []levers.Lever{c.lever}, States: []levers.State{state}}
			got := Examine(t.Context(), h, v, aMeter(t, h)).Levers[0]
			if (got.Reason == "") != (got.Detail == "") || got.Reason != "" && got.Remedy == "" {
				t.Errorf("reason %q, detail %q, remedy %q", got.Reason, got.Detail, got.Remedy)
			}
			c.want.Name, c.want.Kind, c.want.Detail, c.want.Why, c.want.Remedy = got.Name, got.Kind, got.Detail, got.Why, got.Remedy
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExamineWritesNothing(t *testing.T) {
	h := aHost(t, desktop())
	h.Sys = host.NewDir(filepath.Dir(h.Sys.Path()), func(a host.Access) error {
		if a.Op.Changes() {
			t.Errorf("%v %s", a.Op, a.Name)
		}
		return nil
	}).Sub("sys")
	look(t, h)
}

func FuzzCapabilities(f *testing.F) {
	f.Add("CapEff:\t000001ffffffffff\n")
	f.Add("CapEff: x")
	f.Add("CapInh:\t0\n")
	f.Fuzz(func(t *testing.T, status string) {
		if _, err := capabilities(status); err == nil && !strings.Contains(status, "CapEff:") {
			t.Error("found what is not there")
		}
	})
}

func TestWithoutRootItSaysWhatRootWouldAdd(t *testing.T) {
	r := Report{
		Levers:   []Lever{{Name: "cpufreq/policy0", Present: true, Readable: true, Reason: host.NoPermission}},
		Counters: []Counter{{Name: "cpu/package-0", Reason: meter.ReasonPermission}},
	}
	note := withRoot(r, true, true)
	for _, word := range []string{"levers can be moved", "energy counters", "quner has changed", "power daemons", "sudo qunerd doctor"} {
		if !strings.Contains(note, word) {
			t.Errorf("%q does not say %q", note, word)
		}
	}
	if note := withRoot(Report{}, false, false); note != "" {
		t.Errorf("root is told %q", note)
	}
}

func TestAJournalOutOfReachIsLeftAlone(t *testing.T) {
	files := desktop()
	files["var/lib/quner/rollback.json"] = "no journal at all"
	h := aHost(t, files)
	r := look(t, h)
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "No lever is moved") {
		t.Errorf("notes %q", r.Notes)
	}
	names, err := h.Var.List("")
	if err != nil || len(names) != 1 || names[0] != "rollback.json" {
		t.Errorf("the state directory holds %q, %v", names, err)
	}
}
