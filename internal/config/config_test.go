package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/unit"
)

const reference = "../../deploy/systemd/quner.toml"

func TestReferenceFileIsTheDefaults(t *testing.T) {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(text, FileName)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), got); diff != "" {
		t.Errorf("the reference file is not the defaults:\n%s", diff)
	}
	if diff := cmp.Diff(Keys(), keysIn(string(text))); diff != "" {
		t.Errorf("keys:\n%s", diff)
	}
}

// keysIn lists the keys a file sets, without a TOML parser.
func keysIn(text string) []string {
	var keys []string
	table := ""
	for _, m := range regexp.MustCompile(`(?m)^(?:\[(\w+)\]|(\w+) = )`).FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			table = m[1] + "."
			continue
		}
		keys = append(keys, table+m[2])
	}
	slices.Sort(keys)
	return keys
}

func TestDefaultsAreWithinTheirBounds(t *testing.T) {
	c := Default()
	if c.Tick != 10*time.Second || c.Detector != (Detector{GPU: 0.30, Load: 0.60, Ticks: 3}) || c.UntunedTraining != "found" {
		t.Errorf("%+v", c)
	}
}

func TestParse(t *testing.T) {
	got, err := Parse([]byte(`
tick = "2s"
base_watts = 35
detector.ticks = 5
untuned_training = "performance"
allow_raise = true
[limits]
windows = 10
call = "1m30s"
`), FileName)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Tick, want.Base, want.Detector.Ticks = 2*time.Second, 35*unit.Watt, 5
	want.AllowRaise = true
	want.UntunedTraining, want.Limits.Windows, want.Serving.Call = "performance", 10, 90*time.Second
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseSaysWhereAndWhatIsAllowed(t *testing.T) {
	for text, wants := range map[string][]string{
		"\ntick = 10":                                    {"quner.toml:2: tick = 10: allowed: a duration"},
		"tick = '10'":                                    {`quner.toml:1: tick = "10": allowed`},
		"tick = '0s'":                                    {`from "1s" to "1m", in quotes`},
		"[detector]\n\ngpu_utilisation = 1.5":            {"quner.toml:3: detector.gpu_utilisation = 1.5: allowed: a number from 0.01 to 0.99"},
		"detector.load = nan":                            {"quner.toml:1: detector.load = NaN: allowed"},
		"detector = { ticks = 0 }":                       {"quner.toml:1: detector.ticks = 0: allowed: a whole number from 1 to 60"},
		"[limits]\nwindows = 1.5":                        {"quner.toml:2: limits.windows = 1.5: allowed: a whole number"},
		"untuned_training = 'turbo'":                     {`untuned_training = "turbo": allowed: "found" or "performance"`},
		"[limits]\ncall = '1s'\nallow_raise = true":      {`quner.toml:3: unknown key "limits.allow_raise": allow_raise stands before the first [table], and this is within [limits]`},
		"[limits]\nidle_connection = '0s'":               {`from "1s" to "24h", in quotes`},
		"base_watts = -1":                                {"base_watts = -1: allowed: a number of watts"},
		"allow_raise = 'yes'":                            {`allow_raise = "yes": allowed: true or false, without quotes`},
		"allow_raise = 1":                                {"allow_raise = 1: allowed: true or false"},
		"base_watts = true":                              {"base_watts = true: allowed"},
		"# comment\n[detector]\nthreshold = 1":           {`quner.toml:3: unknown key "detector.threshold": known are detector.gpu_utilisation, detector.load, detector.ticks`},
		"\n[turbo]\nx = 1":                               {`quner.toml:2: unknown key "turbo"`},
		"Tick = '2s'":                                    {`unknown key "Tick"`},
		"[limits.sub]\nx = 1":                            {`unknown key "limits.sub"`},
		"detector = 1":                                   {`quner.toml:1: unknown key "detector"`},
		"[[limits]]\nwindows = 1":                        {`quner.toml:1: unknown key "limits"`},
		"tick = ":                                        {"quner.toml:1:"},
		"tick = '2s'\ntick = '3s'":                       {"quner.toml:2:"},
		"tick = 1\n[limits]\nwindows = 0":                {"quner.toml:1: tick", "quner.toml:3: limits.windows"},
		"[limits]\nconnections = 8":                      {"limits.admin_connections = 16: allowed: less than limits.connections"},
		"untuned_training = '" + strings.Repeat("x", 99): {"quner.toml:1:"},
	} {
		_, err := Parse([]byte(text), FileName)
		if err == nil {
			t.Errorf("%q: taken", text)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q:\n got %v\nwant %s", text, err, want)
			}
		}
	}
}

// folder is a directory of files for Load.
type folder string

func (f folder) Stat(name string) (fs.FileInfo, error) { return os.Lstat(f.File(name)) }
func (f folder) Read(name string) ([]byte, error)      { return os.ReadFile(f.File(name)) }
func (f folder) File(name string) string               { return filepath.Join(string(f), name) }

func TestLoad(t *testing.T) {
	dir := folder(t.TempDir())
	if c, err := Load(dir); err != nil || c != Default() {
		t.Fatalf("no file: %+v, %v", c, err)
	}
	if err := os.WriteFile(dir.File(FileName), []byte("tick = '5s'"), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(dir); err != nil || c.Tick != 5*time.Second {
		t.Fatalf("%+v, %v", c, err)
	}
}

func TestLoadRefusesAFileOthersMayWrite(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string) error{
		"its group": func(_ *testing.T, p string) error { return os.Chmod(p, 0o664) },
		"everybody": func(_ *testing.T, p string) error { return os.Chmod(p, 0o646) },
		"another user": func(t *testing.T, p string) error {
			if os.Geteuid() != 0 {
				t.Skip("needs root to give a file away")
			}
			return os.Chown(p, 65534, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t.TempDir())
			if err := os.WriteFile(dir.File(FileName), []byte("tick = '5s'"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := spoil(t, dir.File(FileName)); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir); !errors.Is(err, ErrUntrusted) {
				t.Errorf("%v", err)
			}
		})
	}
	dir := folder(t.TempDir())
	if err := os.Symlink("elsewhere", dir.File(FileName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("followed a link")
	}
}

func FuzzParse(f *testing.F) {
	text, err := os.ReadFile(reference)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, s := range []string{"", "tick = '2s'", "detector.ticks = 5", "[[limits]]", "detector = { ticks = 9 }", "a.b.c = 1", "\"\".x = 1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text, FileName)
		if err != nil {
			if c != (Config{}) || !strings.HasPrefix(err.Error(), FileName) {
				t.Errorf("%+v with %v", c, err)
			}
			return
		}
		if c.Tick < time.Second || c.Tick > time.Minute || c.Serving.Connections <= c.Serving.AdminConnections || c.Base < 0 ||
			!(c.Detector.GPU > 0 && c.Detector.GPU < 1) {
			t.Errorf("took %+v", c)
		}
	})
}
