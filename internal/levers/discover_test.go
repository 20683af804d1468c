package levers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

func TestDiscover(t *testing.T) {
	const cpufreq = "sys/devices/system/cpu/cpufreq"
	tests := []struct {
		name    string
		change  func(*machine)
		levers  []string
		missing []string // "name REASON"
	}{
		{"as it is", func(*machine) {}, []string{policy0, policy1, boardCap}, nil},
		{"more than ten policies", func(m *machine) { m.addPolicy(10, "powersave", "performance powersave") },
			[]string{policy0, policy1, "cpufreq/policy10", boardCap}, nil},
		{"other things beside policies", func(m *machine) {
			m.put(cpufreq+"/boost", "1")
			m.put(cpufreq+"/policyX/scaling_governor", "powersave")
		},
			[]string{policy0, policy1, boardCap}, nil},
		{"virtual machine", func(m *machine) {
			_ = os.RemoveAll(filepath.Join(m.root, cpufreq))
			m.put("proc/cpuinfo", "flags\t\t: fpu hypervisor sse2\n")
		}, []string{boardCap}, []string{"cpufreq VM"}},
		{"virtual machine of another architecture", func(m *machine) {
			_ = os.RemoveAll(filepath.Join(m.root, cpufreq))
			m.put("sys/class/dmi/id/product_name", "KVM Virtual Machine\n")
		}, []string{boardCap}, []string{"cpufreq VM"}},
		{"no cpufreq", func(m *machine) { _ = os.RemoveAll(filepath.Join(m.root, cpufreq)) },
			[]string{boardCap}, []string{"cpufreq ABSENT"}},
		{"offline policy", func(m *machine) { m.failRead(governorFile(0), unix.EBUSY) },
			[]string{policy1, boardCap}, []string{policy0 + " UNREADABLE"}},
		{"unreadable policy", func(m *machine) { m.failRead(governorFile(1), unix.EACCES) },
			[]string{policy0, boardCap}, []string{policy1 + " NO_PERMISSION"}},
		{"empty governor", func(m *machine) { m.setGovernor(0, "") },
			[]string{policy1, boardCap}, []string{policy0 + " UNREADABLE"}},
		{"one governor only", func(m *machine) { m.addPolicy(0, "performance", "performance") },
			[]string{policy1, boardCap}, []string{policy0 + " ZERO_RANGE"}},
		{"strange governors only", func(m *machine) { m.addPolicy(0, "interactive", "interactive userspace") },
			[]string{policy1, boardCap}, []string{policy0 + " NOT_SUPPORTED"}},
		{"no driver", func(m *machine) { m.board.initErr = host.ErrNoDriver },
			[]string{policy0, policy1}, []string{"nvml NO_DRIVER"}},
		{"library without boards", func(m *machine) { m.board.initErr = fmt.Errorf("no device: %w", host.ErrNotSupported) },
			[]string{policy0, policy1}, []string{"nvml ABSENT"}},
		{"slice of a board", func(m *machine) { m.board.uuid = "MIG-1" },
			[]string{policy0, policy1}, []string{"nvml/MIG-1 MIG"}},
		{"laptop board", func(m *machine) { m.board.rangeErr = host.ErrNotSupported },
			[]string{policy0, policy1}, []string{boardCap + " EC_MANAGED"}},
		{"fixed cap", func(m *machine) { m.board.lo = m.board.hi },
			[]string{policy0, policy1}, []string{boardCap + " ZERO_RANGE"}},
		{"lost board", func(m *machine) { m.board.lost = true },
			[]string{policy0, policy1}, []string{boardCap + " LOST"}},
		{"board that tells no cap", func(m *machine) { m.board.limit = 0 },
			[]string{policy0, policy1}, []string{boardCap + " UNREADABLE"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			tt.change(m)
			found, missing := Discover(t.Context(), m.host)
			defer m.host.GPUs.Close()
			var names, reasons []string
			for _, l := range found {
				names = append(names, l.Name())
			}
			for _, x := range of(missing, Governor, GPUCap) {
				reasons = append(reasons, x.Name+" "+string(x.Reason))
				if x.Detail == "" {
					t.Errorf("%s: no detail", x.Name)
				}
			}
			if !slices.Equal(names, tt.levers) || !slices.Equal(reasons, tt.missing) {
				t.Errorf("found %q, missing %q; want %q, %q", names, reasons, tt.levers, tt.missing)
			}
			if c := m.changed(); len(c) != 0 {
				t.Errorf("discovery wrote: %q", c)
			}
		})
	}
}

// of are the missing levers of some kinds.
func of(all []Missing, kinds ...Kind) []Missing {
	return slices.DeleteFunc(slices.Clone(all), func(m Missing) bool { return !slices.Contains(kinds, m.Kind) })
}

// failRead makes one file unreadable.
func (m *machine) failRead(name string, err error) {
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpRead && a.Name == name {
			return err
		}
		return nil
	})
}

func TestDriverThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.board.initHang, m.board.initErr = make(chan struct{}), host.ErrNoDriver
		defer close(m.board.initHang)
		found, missing := Discover(t.Context(), m.host)
		if missing = of(missing, GPUCap); len(found) != 2 || len(missing) != 1 || missing[0].Reason != host.Hung {
			t.Errorf("found %v, missing %v", found, missing)
		}
	})
}

func TestGovernorsOffered(t *testing.T) {
	m := newMachine(t)
	m.addPolicy(0, "schedutil", "interactive conservative userspace powersave powersave schedutil")
	found, _ := Discover(t.Context(), m.host)
	defer m.host.GPUs.Close()
	got := found[0].Span().Choices
	if want := []Value{"conservative", "powersave", "schedutil"}; !slices.Equal(got, want) {
		t.Errorf("choices %q, want %q: known, offered, never userspace", got, want)
	}
}

func TestNoHostAtAll(t *testing.T) {
	d := host.NewDir(t.TempDir(), nil)
	h := &host.Host{Sys: d.Sub("sys"), Proc: d.Sub("proc"), Run: d.Sub("run"), Var: d.Sub("var"), GPUs: host.NewGPUs(nil)}
	b, err := OpenBank(t.Context(), h, nil)
	if err != nil || len(b.Levers()) != 0 || len(b.Missing()) != len(classes()) {
		t.Fatalf("a host with nothing: %v, levers %v, missing %v", err, b.Levers(), b.Missing())
	}
	if w, err := b.Apply(t.Context(), nil); len(w) != 0 || err != nil {
		t.Errorf("Apply of the empty point: %v, %v", w, err)
	}
	if r, err := b.Restore(t.Context(), false); err != nil || len(r.Left)+len(r.Writes) != 0 {
		t.Errorf("Restore with nothing moved: %v, %v", r, err)
	}
	if names, _ := d.List(""); len(names) != 0 {
		t.Errorf("a host with nothing to move was written to: %q", names)
	}
}

func TestSpanOfRange(t *testing.T) {
	tests := []struct {
		name   string
		r      ranged
		lo, hi int64
	}{
		{"found inside", ranged{lo: 100, max: 300, found: 250}, 100, 250},
		{"found at the top", ranged{lo: 100, max: 300, found: 300}, 100, 300},
		{"found above the maximum", ranged{lo: 100, max: 300, found: 400}, 100, 300},
		{"found below the minimum", ranged{lo: 100, max: 300, found: 60}, 60, 60},
	}
	for _, tt := range tests {
		if s := tt.r.Span(); s.Lo != tt.lo || s.Hi != tt.hi {
			t.Errorf("%s: %d to %d, want %d to %d", tt.name, s.Lo, s.Hi, tt.lo, tt.hi)
		}
	}
}

func TestClamp(t *testing.T) {
	watts := Span{Lo: 100, Hi: 300, Step: 1, Unit: "W"}
	for v, want := range map[Value]Value{"99": "100", "100": "100", "200": "200", "301": "300", "-5": "100"} {
		got, note, err := watts.Clamp(v)
		if err != nil || got != want || (note != "") != (got != v) {
			t.Errorf("Clamp(%q) = %q, %q, %v; want %q", v, got, note, err, want)
		}
	}
	for _, v := range []Value{"", "abc", "1e3", "200 W"} {
		if _, _, err := watts.Clamp(v); !errors.Is(err, ErrOutOfSpan) {
			t.Errorf("Clamp(%q) = %v, want ErrOutOfSpan", v, err)
		}
	}
	if _, _, err := (Span{Choices: []Value{"a"}}).Clamp("b"); !errors.Is(err, ErrOutOfSpan) {
		t.Error("a choice that is not offered was clamped")
	}
}

func TestPointKey(t *testing.T) {
	p := NewPoint(Setting{"b", "2"}, Setting{"a", "0"}, Setting{"a", "1"})
	if p.Key() != "a=1 b=2" {
		t.Errorf("key %q", p.Key())
	}
	if v, ok := p.Value("b"); !ok || v != "2" {
		t.Errorf("b = %q, %v", v, ok)
	}
	if _, ok := p.Value("c"); ok {
		t.Error("c is in the point")
	}
}

func TestPrintable(t *testing.T) {
	long := printable(strings.Repeat("é", 300))
	if len(long) > 210 || !strings.HasSuffix(long, "…") {
		t.Errorf("%d bytes", len(long))
	}
	if got := printable("a\nb\x7f"); got != "a?b?" {
		t.Errorf("%q", got)
	}
}
