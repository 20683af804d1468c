package host

import (
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

const someStat = "4242 (%s) %c 17 4242 17 34816 4242 4194304 118 0 0 0 0 0 0 0 20 0 1 0 887766 3411968 420\n"

func statOf(name, state string) string {
	return strings.NewReplacer("%s", name, "%c", state).Replace(someStat)
}

func TestProcessLine(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Process
		bad        bool
	}{
		{"plain", statOf("python3", "S"), Process{PID: 4242, Parent: 17, Name: "python3", Started: 887766}, false},
		{"a name that looks like more", statOf("a) S 1 (b", "R"), Process{PID: 4242, Parent: 17, Name: "a) S 1 (b", Started: 887766}, false},
		{"a name that clears screens", statOf("x\x1b[2J\n\xff", "R"), Process{PID: 4242, Parent: 17, Name: "x?[2J??", Started: 887766}, false},
		{"nobody has waited for it", statOf("sh", "Z"), Process{PID: 4242, Parent: 17, Name: "sh", Started: 887766, Ended: true}, false},
		{"cut short", "4242 (sh) S 17", Process{}, true},
		{"no name", "4242 S 17 1 1 1", Process{}, true},
		{"no number", strings.Replace(statOf("sh", "S"), "17", "x", 1), Process{}, true},
		{"nothing", "", Process{}, true},
	} {
		got, err := parseProcess(strings.NewReader(c.text))
		if diff := cmp.Diff(c.want, got); diff != "" || c.bad != (err != nil) {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
	}
}

func TestThisProcess(t *testing.T) {
	h := Real("/", nil)
	p, err := h.Process(os.Getpid())
	if err != nil || p.PID != os.Getpid() || p.Parent != os.Getppid() || p.UID != uint32(os.Getuid()) || p.Started == 0 || p.Ended {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestProcessUID(t *testing.T) {
	for text, want := range map[string]uint32{
		"Name:\tsh\nPPid:\t1\nUid:\t1000\t0\t0\t0\nGid:\t7\t7\t7\t7\n": 1000,
		"Name:\tUid: 5\nUid:\t4294967294\t1\t1\t1\n":                   4294967294,
	} {
		if got, err := parseProcessUID(strings.NewReader(text)); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "Uid:\n", "Uid:\t-1\t0\n", "Uid:\t4294967296\t0\n", "Gid:\t1\n"} {
		if got, err := parseProcessUID(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func FuzzParseProcess(f *testing.F) {
	f.Add(statOf("sh", "S"))
	f.Add("Name:\tsh\nUid:\t1000\t0\t0\t0\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseProcess(strings.NewReader(text))
		if err == nil && (p.PID <= 0 || p.Parent < 0 || strings.ContainsFunc(p.Name, func(r rune) bool { return !unicode.IsPrint(r) })) {
			t.Errorf("%q: %+v", text, p)
		}
		_, _ = parseProcessUID(strings.NewReader(text)) // any uid is one
	})
}
