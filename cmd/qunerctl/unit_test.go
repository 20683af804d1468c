package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func TestJSONHasEveryFieldUnderItsProtoName(t *testing.T) {
	seen := 0
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		m := mt.New()
		if m.Descriptor().ParentFile().Package() != "quner.v1" {
			return true
		}
		seen++
		text := appendMessage(nil, m)
		var got map[string]any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v in %s", m.Descriptor().Name(), err, text)
		}
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			fd := fields.Get(i)
			_, has := got[string(fd.Name())]
			if member := fd.ContainingOneof() != nil && !fd.ContainingOneof().IsSynthetic(); has == member {
				t.Errorf("%s.%s is there: %t", m.Descriptor().Name(), fd.Name(), has)
			}
		}
		return true
	})
	if seen < 20 {
		t.Errorf("looked at %d messages only", seen)
	}
}

func TestJSONIsWhatIsPromised(t *testing.T) {
	bound := int64(5)
	for _, c := range []struct {
		m    proto.Message
		want string
	}{
		{&qunerv1.WindowResult{Method: qunerv1.Method_METHOD_SAMPLED, EnergyUj: proto.Int64(-math.MaxInt64)}, `"method":"sampled"`},
		{&qunerv1.WindowResult{EnergyUj: proto.Int64(-math.MaxInt64)}, `"energy_uj":-9223372036854775807`},
		{&qunerv1.WindowResult{}, `"energy_uj":null`},
		{&qunerv1.WindowResult{}, `"platform_uj":null`},
		{&qunerv1.Signal{}, `"gpu_utilisation":null`},
		{&qunerv1.TuneReport{}, `"saving_half_width":null`},
		{&qunerv1.WindowResult{}, `"upper_bound_uj":null`},
		{&qunerv1.WindowResult{UpperBoundUj: &bound}, `"upper_bound_uj":5`},
		{&qunerv1.WindowResult{}, `"reasons":[]`},
		{&qunerv1.WindowResult{Coverage: math.NaN()}, `"coverage":null`},
		{&qunerv1.WindowResult{Coverage: 0.1}, `"coverage":0.1`},
		{&qunerv1.WindowResult{Name: "a\"\n"}, `"name":"a\"\n"`},
		{&qunerv1.Status{Profile: qunerv1.Profile_PROFILE_TRAINING}, `"profile":"training"`},
		{&qunerv1.Status{}, `"profile":"unspecified"`},
		{&qunerv1.Status{Profile: 77}, `"profile":"77"`},
		{&qunerv1.Status{}, `"mode":null`},
		{&qunerv1.OpenWindow{IdleWatts: map[string]float64{"gpu": 50, "cpu": 20.5}}, `"idle_watts":{"cpu":20.5,"gpu":50}`},
		{&qunerv1.TuneResponse{Message: &qunerv1.TuneResponse_Plan{Plan: &qunerv1.TunePlan{}}}, `{"plan":{"axes":[]`},
		{&qunerv1.TuneResponse{}, `{}`},
	} {
		got := string(appendMessage(nil, c.m.ProtoReflect()))
		if !strings.Contains(got, c.want) || !json.Valid([]byte(got)) {
			t.Errorf("%s is not in %s", c.want, got)
		}
	}
}

func TestQuantityShowsNoMoreDigitsThanItsInterval(t *testing.T) {
	for _, c := range []struct {
		v, half float64
		want    string
	}{
		{1234.567, 12.3, "1235 J ± 12 J"},
		{12_345, 120, "12.35 kJ ± 0.12 kJ"},
		{42_000, 0, "42.00 kJ"},
		{25e6, 0, "25.00 MJ"},
		{0.1234, 0.0012, "0.1234 J ± 0.0012 J"},
		{0.0123, 0, "12.30 mJ"},
		{-3.2, 5, "\u22123.2 J ± 5.0 J"},
		{0, 0, "0 J"},
		{0, 3, "0 J ± 3 J"},
		{9.99, 120, "10 J ± 120 J"},
		{212.04, 0.0264, "212.04 J ± 0.03 J"},
		{2797, 3.6, "2797 J ± 4 J"},
		{4.2e-307, 6e-310, "4.2e-307 J ± 6e-310 J"},
		{4.1e301, 0, "4.1e+301 J"},
		{74.87, math.Inf(1), "74.87 J ± ?"},
		{74.87, math.NaN(), "74.87 J ± ?"},
	} {
		if got := quantity(c.v, c.half, "J"); got != c.want {
			t.Errorf("%g ± %g prints %q, want %q", c.v, c.half, got, c.want)
		}
	}
}

func TestAmountsOfWorkFitALine(t *testing.T) {
	for work, want := range map[float64]string{20: "20", 123456789.125: "123456789.125", 1e308: "1e+308", 1e-300: "1e-300"} {
		if got := amount(work); got != want {
			t.Errorf("%g prints %q, want %q", work, got, want)
		}
	}
}

func TestSpanReadsLikeSpeech(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1500 * time.Millisecond: "1.50 s", 45 * time.Second: "45 s", 3 * time.Minute: "3 min",
		2*time.Hour + 5*time.Minute: "2 h 5 min", 3 * time.Hour: "3 h", 100 * time.Hour: "4 d",
	} {
		if got := span(d); got != want {
			t.Errorf("%v prints %q, want %q", d, got, want)
		}
	}
}

func TestLeverValueIsReadInItsUnit(t *testing.T) {
	for _, c := range [][3]string{
		{"200000", "mW", "200 W"}, {"62500000", "uW", "62.5 W"}, {"performance", "", "performance"}, {"", "mW", ""}, {"128", "", "128"},
	} {
		if got := value(c[0], c[1]); got != c[2] {
			t.Errorf("%s %s prints %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestFamilyNamesWhatBelongsTogether(t *testing.T) {
	for want, names := range map[string][]string{
		"cpufreq/policy0-2":            {"cpufreq/policy0", "cpufreq/policy1", "cpufreq/policy2"},
		"cpufreq/policy0 and 2 more":   {"cpufreq/policy0", "cpufreq/policy4", "cpufreq/policy8"},
		"cpufreq/policy7":              {"cpufreq/policy7"},
		"nvml/GPU-5f0c6a1e":            {"nvml/GPU-5f0c6a1e-0000-4000-8000-000000000001"},
		"nvml/GPU-5f0c6a1e and 1 more": {"nvml/GPU-5f0c6a1e-0000-4000-8000-000000000001", "nvml/GPU-5f0c6a1e-0000-4000-8000-000000000002"},
	} {
		if got := family(names); got != want {
			t.Errorf("%v is %q, want %q", names, got, want)
		}
	}
}

func TestBarIsProportional(t *testing.T) {
	for share, want := range map[float64]string{0: "", 0.5: "████", 1: "████████", 2: "████████", 0.53125: "████▎", -1: ""} {
		if got := bar(share, 8); got != want {
			t.Errorf("%g of 8 is %q, want %q", share, got, want)
		}
	}
}

func TestErrorsHaveTheirExitCodeAndRemedy(t *testing.T) {
	t.Setenv(client.EnvSocket, "")
	unreachable := func(cause error) error {
		return fmt.Errorf("/run/quner-admin/admin.sock: %w: %w", client.ErrUnreachable, cause)
	}
	for _, c := range []struct {
		err  error
		code int
		hint string
	}{
		{unreachable(fs.ErrNotExist), exitUnreachable, "sudo qunerd run"},
		{unreachable(syscall.ECONNREFUSED), exitUnreachable, "sudo qunerd run"},
		{unreachable(syscall.EACCES), exitDenied, "sudo qunerctl tune -- sh -c 'make -j'"},
		{unreachable(client.ErrPeer), exitError, "run qunerctl as the user who runs that daemon, or without --socket and QUNER_SOCKET"},
		{status.Error(codes.PermissionDenied, "no"), exitDenied, "sudo qunerctl tune -- sh -c 'make -j'"},
		{fmt.Errorf("wrapped: %w", status.Error(codes.FailedPrecondition, "no")), exitRefused, "qunerctl status shows what stands in the way"},
		{status.Error(codes.FailedPrecondition, "others train; --force overrides"), exitRefused, "wait, or repeat with --force: also while others train"},
		{status.Error(codes.FailedPrecondition, "no lever to tune"), exitRefused, "qunerctl doctor shows each lever with its reason"},
		{status.Error(codes.FailedPrecondition, "refused: quner is paused; resume first"), exitRefused, "sudo qunerctl resume"},
		{status.Error(codes.Aborted, "tune: another sweep or measurement holds the levers"), exitRefused, "wait for it to end, or: sudo qunerctl pause"},
		{status.Error(codes.Aborted, "the lever did not take it"), exitError, "qunerctl status shows what the machine does now"},
		{status.Error(codes.Unavailable, "gone"), exitUnreachable, "sudo qunerd run"},
		{status.Error(codes.Internal, "no"), exitError, "the standard error of qunerd says more"},
		{status.Error(codes.InvalidArgument, "no"), exitUsage, "qunerctl tune --help"},
		{status.Error(codes.Canceled, ""), exitInterrupted, ""},
		{errors.New("odd"), exitError, ""},
	} {
		a := &app{args: []string{"tune", "--", "sh", "-c", "make -j"}}
		cmd, _, err := a.root().Find([]string{"tune"})
		if err != nil {
			t.Fatal(err)
		}
		f := a.classify(cmd, c.err)
		if f.code != c.code || f.hint != c.hint {
			t.Errorf("%v: exit %d, hint %q; want %d, %q", c.err, f.code, f.hint, c.code, c.hint)
		}
	}
}

func TestWhoMayNotUseTheAdminSocketIsToldWhoseItIs(t *testing.T) {
	t.Setenv(client.EnvSocket, "")
	a := &app{args: []string{"pause", "2h"}}
	err := fmt.Errorf("/run/quner-admin/admin.sock: %w: %w", client.ErrUnreachable, syscall.EACCES)
	f := a.classify(a.root(), err)
	if !strings.HasPrefix(f.Error(), "the admin socket is for root: ") || f.hint != "sudo qunerctl pause 2h" || f.code != exitDenied {
		t.Errorf("exit %d, %q, hint %q", f.code, f.Error(), f.hint)
	}
	a.superuser = true
	if f := a.classify(a.root(), err); f.hint != "" {
		t.Errorf("root is told %q", f.hint)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	tail := new(tailWriter)
	var all strings.Builder
	for i := range 5000 {
		line := fmt.Sprintf("line %d\n", i)
		all.WriteString(line)
		_, _ = tail.Write([]byte(line))
	}
	want := all.String()[all.Len()-tailSize:]
	if got := tail.String(); got != want {
		t.Errorf("kept %d bytes that end in %q", len(got), got[max(0, len(got)-20):])
	}
	_, _ = tail.Write(make([]byte, 10*tailSize))
	if got := len(tail.String()); got != tailSize {
		t.Errorf("kept %d bytes, want %d", got, tailSize)
	}
}

func TestWaitingGivesASignOfLifeAfterASecond(t *testing.T) {
	for _, c := range []struct {
		tty  bool
		took time.Duration
		want string
	}{
		{false, 900 * time.Millisecond, ""},
		{true, 900 * time.Millisecond, ""},
		{false, 2500 * time.Millisecond, "asking …\n"},
		{true, 2500 * time.Millisecond, "\rasking … 1 s\x1b[K\rasking … 2 s\x1b[K\r\x1b[K"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			stop := (&app{err: &screen{Writer: &said, tty: c.tty}}).waiting("asking")
			time.Sleep(c.took)
			stop()
			if said.String() != c.want {
				t.Errorf("terminal %t, %v: said %q, want %q", c.tty, c.took, said.String(), c.want)
			}
		})
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[2J", "\u202e", "a\xffb", "\u009b31m", "tab\there", "\ufffd", "grün ±"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
				t.Fatalf("%q lets %U through", s, r)
			}
		}
		if again := clean(got); again != got {
			t.Errorf("%q is cleaned again to %q", got, again)
		}
	})
}

func FuzzParseIdleWatts(f *testing.F) {
	for _, s := range []string{"gpu=50±2,cpu=20", "gpu=50+-2W", "gpu/GPU-1=1", "", "gpu", "=1", "gpu=NaN", "gpu=1,gpu=2", "gpu=1±-2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		watts, plus, err := parseIdleWatts(s)
		if err != nil {
			if watts != nil || plus != nil {
				t.Error("an error and a value")
			}
			return
		}
		for device, w := range watts {
			if device == "" || !(w >= 0) || math.IsInf(w, 0) {
				t.Errorf("%q: %q = %g", s, device, w)
			}
		}
		for device := range plus {
			if _, ok := watts[device]; !ok {
				t.Errorf("%q: ± of %q without its watts", s, device)
			}
		}
	})
}

func TestIdleWatts(t *testing.T) {
	watts, plus, err := parseIdleWatts("gpu=50±2, cpu=20W,gpu/GPU-1=30+-1.5")
	if err != nil || len(watts) != 3 || watts["gpu"] != 50 || watts["cpu"] != 20 || watts["gpu/GPU-1"] != 30 || len(plus) != 2 || plus["gpu"] != 2 || plus["gpu/GPU-1"] != 1.5 {
		t.Errorf("%v ± %v, %v", watts, plus, err)
	}
}

func TestQuotedWordsSurviveAShell(t *testing.T) {
	for in, want := range map[string]string{"a-b_c.d/e=f": "a-b_c.d/e=f", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "~": "'~'", "±": "'±'"} {
		if got := quote(in); got != want {
			t.Errorf("%q is quoted %s, want %s", in, got, want)
		}
	}
}

func TestWindowIsNamedAfterItsCommand(t *testing.T) {
	for in, want := range map[string]string{"train.py": "train.py", "a b±": "a_b_", strings.Repeat("x", 80): strings.Repeat("x", 64)} {
		if got := label(in); got != want {
			t.Errorf("%q is named %q, want %q", in, got, want)
		}
	}
}

func TestUnitsAreSpokenOfInTheSingular(t *testing.T) {
	got := []string{singular("tokens"), singular("request"), singular("ms"), singular("glass"), singular("")}
	if want := []string{"token", "request", "ms", "glass", "unit"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAStoppedProcessNoticesThatItStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchStall()
		time.Sleep(3 * time.Second)
		if got := w.end(); got != 0 {
			t.Errorf("a process that ran says it stood still for %v", got)
		}
	})
}
