package hostsim

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// small is a machine with one of each.
const small = `-- host.toml --
name = "small"
sigma = 0.01

[cpu]
idle_w = 5
[cpu.governors.schedutil]
speed = 1
power = 1

[[gpu]]
uuid = "GPU-1"
pci = "0000:01:00.0"
name = "Board"
curve = "c.csv"
min_w = 100
max_w = 300
default_w = 300
found_w = 300
rate_scale = 1
-- c.csv --
# a remark
cap_w,drawn_w,rate
100,90,1
200,150,2.5
-- sys/devices/system/cpu/cpufreq/policy0/scaling_governor --
schedutil
-- sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors --
schedutil
-- sys/a/energy_uj --
12
-- sys/a/name --
package-0
-- sys/b -> a --
`

// TestLoadErrors checks that a mistake is named by file, line or key, value and what is allowed.
func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	load := func(text string) error {
		file := filepath.Join(dir, "myhost.txtar")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(file)
		return err
	}
	if err := load(small); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"sigma = 0.01", "sigmo = 0.01", "myhost.txtar: host.toml: line 2: key sigmo: unknown"},
		{"speed = 1", "sped = 1", "line 7: key cpu.governors.schedutil.sped: unknown"},
		{"idle_w = 5", "idle_w = \"5\"", "line 5: key cpu.idle_w:"},
		{"idle_w = 5", "idle_w = -5", "line 5: key cpu.idle_w: value -5 (allowed: 0 to 10000)"},
		{"idle_w = 5", "idle_w = nan", "line 5: key cpu.idle_w: value NaN"},
		{"idle_w = 5", "idle_w =", "host.toml: line 5:"},
		{"speed = 1", "speed = 2", "line 7: key cpu.governors.schedutil.speed: value 2 (allowed: 0.01 to 1)"},
		{"governors.schedutil", "governors.turbo", "line 6: key cpu.governors.turbo: value turbo (allowed: performance "},
		{"found_w = 300", "found_w = 301", "line 18: key gpu.found_w: value 301 (allowed: 100 to 300)"},
		{"pci = \"0000:01:00.0\"", "", "line 10: key gpu.pci: value \"\""},
		{"curve = \"c.csv\"", "curve = \"d.csv\"", "line 14: key gpu.curve: value d.csv"},
		{"name = \"small\"", "name = \"two words\"", "line 1: key name: value two words (allowed: one word)"},
		{"-- host.toml --", "-- toast.toml --", `file "toast.toml": unknown (allowed: sys/`},
		{"cap_w,drawn_w,rate", "cap,drawn,rate", "c.csv: header"},
		{"200,150,2.5", "100,150,2.5", "c.csv: line 4: cap_w \"100\" is not above the one before"},
		{"200,150,2.5", "200,-1,2.5", "c.csv: line 4: drawn_w \"-1\" (allowed:"},
		{"200,150,2.5", "200,150", "c.csv:"},
		{"200,150,2.5", "", "c.csv: 1 points (allowed: 2 or more)"},
		{"sys/b -> a", "sys/b -> ../../etc", `link "sys/b": target "../../etc" leaves sys`},
		{"sys/b -> a", "sys/b -> /etc", "leaves sys"},
		{"sys/b -> a", "sys/a -> b", `"sys/a" is no directory`},
		{"sys/a/name", "sys/../x", "not a clean relative path"},
		{"sys/a/name", "sys/a/energy_uj", `file "sys/a/energy_uj": twice`},
		{"package-0", "gizmo", `sys/a: name: value "gizmo" (allowed: package-…, core`},
		{"package-0", "dram", "lies in no package"},
		{"\n12\n", "\nabc\n", "sys/a: energy_uj: value \"abc\" is not a number"},
		{"governors --\nschedutil", "governors --\nondemand", "table cpu.governors.ondemand: absent"},
	} {
		if !strings.Contains(small, c.from) {
			t.Fatalf("%q is not there", c.from)
		}
		err := load(strings.Replace(small, c.from, c.to, 1))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q → %q: %v; want it to say %q", c.from, c.to, err, c.want)
		}
	}
	if _, err := Load("workbench"); err == nil || !strings.Contains(err.Error(), "vm, workstation, or a path") {
		t.Errorf("an unknown name: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "absent.txtar")); !os.IsNotExist(err) {
		t.Errorf("an absent file: %v", err)
	}
}

func TestCurve(t *testing.T) {
	c, err := parseCurve(strings.NewReader("cap_w,drawn_w,rate\n100,110,1\n200,180,3\n300,200,3.5\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ cap, drawn, rate float64 }{
		{50, 110, 1}, {100, 110, 1}, {125, 127.5, 1.5}, {200, 180, 3}, {250, 190, 3.25}, {300, 200, 3.5}, {400, 200, 3.5},
	} {
		drawn, rate := c.At(unit.FromWatts(x.cap))
		near(t, "drawn", drawn.Watts(), x.drawn, 1e-6)
		near(t, "rate", rate, x.rate, 1e-9)
	}
}

// TestBuiltin takes the tree of each built-in machine apart and looks for what the kernel would not do.
func TestBuiltin(t *testing.T) {
	if want := []string{"amd", "laptop", "locked", "server", "vm", "workstation"}; !slices.Equal(Names(), want) {
		t.Errorf("names %v", Names())
	}
	for _, name := range Names() {
		f := fixture(t, name)
		if f.Name() != name {
			t.Errorf("%s calls itself %s", name, f.Name())
		}
		for link := range f.links {
			s := &Sim{fix: f, canonical: map[string]string{}}
			end := s.resolve(link) + "/"
			if !slices.ContainsFunc(slices.Collect(maps.Keys(f.files)), func(file string) bool { return strings.HasPrefix(file, end) }) {
				t.Errorf("%s: link %s leads to %s, which is not there", name, link, end)
			}
		}
	}
}

// TestTakeUp lets a machine outlive its process: settings, caps and counters go on where they were.
func TestTakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newSim(t, quiet(t))
		mustForeign(t, first, "sys/"+governor0, "powersave")
		mustForeign(t, first, "gpu0/limit_mw", "200000")
		first.SetLoad("gpu0", 1)
		time.Sleep(100 * time.Second)
		if err := first.attend(true, false); err != nil {
			t.Fatal(err)
		}
		counter, err := first.Host().Sys.ReadUint(packageCounter)
		if err != nil {
			t.Fatal(err)
		}
		energy, _ := first.boards[0].Energy()

		second, err := Open(first.Dir(), Options{Seed: 2})
		if err != nil {
			t.Fatal(err)
		}
		avg, err := second.Host().Proc.Read("loadavg")
		if err != nil || !strings.HasPrefix(string(avg), "0.00") {
			t.Errorf("without its load the machine's is %q, %v", avg, err)
		}
		if second.Digest() != first.Digest() {
			t.Error("taken up, the machine is another")
		}
		if e, err := second.boards[0].Energy(); e != energy || err != nil {
			t.Errorf("the board's counter went from %v to %v, %v", energy, e, err)
		}
		if v, err := second.Host().Sys.ReadUint(packageCounter); v != counter || err != nil {
			t.Errorf("the package's counter went from %d to %d, %v", counter, v, err)
		}
		second.SetLoad("gpu0", 1)
		time.Sleep(time.Second)
		near(t, "gpu0", second.Truth("gpu0").Joules(), 179.226, .01)
		if _, err := New(first.Dir(), fixture(t, "vm"), Options{}); err == nil || !strings.Contains(err.Error(), "another simulated host") {
			t.Errorf("another machine moved in: %v", err)
		}
		if _, err := Open(t.TempDir(), Options{}); err == nil {
			t.Error("an empty directory was taken for a machine")
		}
	})
}

func FuzzParseFixture(f *testing.F) {
	f.Add([]byte(small)) // the built-in ones are too long to be varied quickly
	f.Add([]byte("-- host.toml --\nname = \"x\"\n-- sys/a -> b --\n-- sys/b -> a --\n-- sys/a/b --\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fix, err := parseFixture(data)
		if err != nil {
			return
		}
		s := &Sim{fix: fix, canonical: map[string]string{}}
		for name := range fix.files {
			if !filepath.IsLocal(name) {
				t.Errorf("file %q", name)
			}
			s.resolve(name)
		}
		for name := range fix.links {
			if end := s.resolve(name); !filepath.IsLocal(end) {
				t.Errorf("link %q leads to %q", name, end)
			}
		}
	})
}

func FuzzParseModel(f *testing.F) {
	text, _, _ := strings.Cut(strings.TrimPrefix(small, "-- host.toml --\n"), "-- c.csv --")
	f.Add([]byte(text))
	f.Add([]byte("name = \"x\"\n[cpu]\nidle_w = 1e400"))
	f.Add([]byte("[[gpu]]\nmin_w = inf"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseModel(data)
		if err == nil && (m.Name == "" || m.Sigma < 0 || m.CPU.IdleW < 0) {
			t.Errorf("%q is no machine", data)
		}
	})
}

func FuzzParseCurve(f *testing.F) {
	f.Add("cap_w,drawn_w,rate\n100,110,1\n200,180,3\n", int64(150e6))
	f.Add("# x\ncap_w,drawn_w,rate\n\"100\",1e2,1\n1e3,1,NaN\n", int64(-1))
	f.Fuzz(func(t *testing.T, text string, limit int64) {
		c, err := parseCurve(strings.NewReader(text))
		if err != nil {
			return
		}
		drawn, rate := c.At(unit.Power(limit))
		if drawn < 0 || rate <= 0 {
			t.Errorf("at %d: %d µW, %g", limit, drawn, rate)
		}
	})
}
