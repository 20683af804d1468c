package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/qunerd/quner/deploy/systemd"
)

// machine is a tree with a service manager that does to it what systemd's commands do.
type machine struct {
	t        *testing.T
	root     string
	build    string // where the programs lie that are installed
	live     bool
	calls    []string          // commands that change something
	state    map[string]string // of units
	fails    map[string]error  // by command
	rivals   string            // the doctor's JSON
	restored string            // what "qunerd restore" says
	python   bool              // the predecessor runs
}

// newMachine is a Linux machine as far as an installation sees it, and a build of version v1.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir(), build: t.TempDir(), live: true, state: map[string]string{},
		fails: map[string]error{}, rivals: `{"conflicts":[]}`}
	for _, d := range []string{"etc/systemd/system", "run/systemd/system", "usr/local/bin", "usr/bin", "var/lib"} {
		m.must(os.MkdirAll(filepath.Join(m.root, d), 0o755))
	}
	m.put("/etc/group", "root:x:0:\nwheel:x:10:alice\n")
	m.put("/etc/systemd/system/other.service", "[Service]\n")
	m.release("v1")
	return m
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) put(name, text string) {
	m.t.Helper()
	m.must(os.MkdirAll(filepath.Dir(filepath.Join(m.root, name)), 0o755))
	m.must(os.WriteFile(filepath.Join(m.root, name), []byte(text), 0o644))
}

func (m *machine) read(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.root, name))
	m.must(err)
	return string(data)
}

// release builds the programs as another version.
func (m *machine) release(version string) {
	m.t.Helper()
	for _, p := range programs() {
		m.must(os.WriteFile(filepath.Join(m.build, p), []byte(p+" "+version+"\n"), 0o755))
	}
}

func (m *machine) wish() Wish {
	data, err := os.ReadFile(filepath.Join(m.build, "qunerd"))
	m.must(err)
	return Wish{
		Version: strings.TrimSpace(strings.TrimPrefix(string(data), "qunerd ")), Path: "/usr/local/bin:/usr/bin",
		Sources: map[string]string{"qunerd": filepath.Join(m.build, "qunerd"), "qunerctl": filepath.Join(m.build, "qunerctl")},
	}
}

// open opens the machine; what is run comes to run.
func (m *machine) open() *Machine {
	m.t.Helper()
	opened, err := Open(m.root, m.live, m.run)
	m.must(err)
	m.t.Cleanup(func() { _ = opened.Close() })
	return opened
}

// planned looks and plans.
func (m *machine) planned(w Wish, plan func(*Facts) (Plan, error)) (*Machine, Plan, error) {
	opened := m.open()
	facts, err := Look(context.Background(), opened, w)
	if err != nil {
		return opened, nil, err
	}
	p, err := plan(facts)
	return opened, p, err
}

func (m *machine) act(w Wish, plan func(*Facts) (Plan, error)) ([]Line, error) {
	opened, p, err := m.planned(w, plan)
	if err != nil {
		return nil, err
	}
	var lines []Line
	err = p.Do(context.Background(), opened, func(l Line) { lines = append(lines, l) })
	return lines, err
}

func (m *machine) install() []Line {
	m.t.Helper()
	lines, err := m.act(m.wish(), Install)
	m.must(err)
	return lines
}

func (m *machine) uninstall(purge bool) []Line {
	m.t.Helper()
	lines, err := m.act(Wish{Purge: purge}, Uninstall)
	m.must(err)
	return lines
}

// run does to the tree what the real commands do, and notes those that change something.
func (m *machine) run(_ context.Context, argv ...string) (string, error) {
	name := filepath.Base(argv[0])
	line := strings.Join(append([]string{name}, argv[1:]...), " ")
	if err := m.fails[line]; err != nil {
		return "", err
	}
	switch {
	case line == "systemctl --version":
		return "systemd 252 (252.38-1~deb12u1)\n+PAM\n", nil
	case strings.HasPrefix(line, "systemctl show"):
		return m.show(argv[3:]), nil
	case name == "qunerd" && argv[1] != "restore":
		return m.qunerd(argv...)
	}
	m.calls = append(m.calls, line)
	switch {
	case name == "systemctl":
		return "", m.systemctl(argv[1], argv[2:])
	case name == "systemd-sysusers":
		m.put("/etc/group", m.read("/etc/group")+"quner:x:990:\n")
	case name == "groupdel":
		m.put("/etc/group", strings.ReplaceAll(m.read("/etc/group"), "quner:x:990:\n", ""))
	case name == "systemd-tmpfiles":
		for _, d := range socketDirs() {
			m.must(os.MkdirAll(filepath.Join(m.root, d), 0o700))
		}
	case line == "qunerd restore":
		return m.restored, nil
	default:
		m.t.Errorf("no such command: %q", argv)
	}
	return "", nil
}

func (m *machine) qunerd(argv ...string) (string, error) {
	program, err := os.ReadFile(argv[0])
	m.must(err)
	switch argv[1] {
	case "version":
		return string(program), nil
	case "doctor":
		return m.rivals, nil
	case "check-config":
		if text, err := os.ReadFile(filepath.Join(argv[2], "quner.toml")); err == nil && strings.Contains(string(text), "bogus") {
			return "", errors.New(`quner.toml:1: unknown key "bogus"`)
		}
		return "", nil
	}
	m.t.Errorf("no such command: %q", argv)
	return "", nil
}

func (m *machine) show(units []string) string {
	var b strings.Builder
	for _, u := range units {
		load, enabled, fragment := "not-found", "", ""
		if _, err := os.Stat(filepath.Join(m.root, unitFile(u))); err == nil {
			load, enabled, fragment = "loaded", "disabled", unitFile(u)
		}
		for _, l := range bootLinks() {
			if _, err := os.Lstat(filepath.Join(m.root, l.path)); err == nil && filepath.Base(l.path) == u {
				enabled = "enabled"
			}
		}
		active := m.state[u]
		if u == predecessor && m.python {
			load, active = "loaded", "active"
		}
		fmt.Fprintf(&b, "Id=%s\nLoadState=%s\nActiveState=%s\nUnitFileState=%s\nFragmentPath=%s\n\n", u, load, active, enabled, fragment)
	}
	return b.String()
}

func (m *machine) systemctl(verb string, units []string) error {
	if len(units) > 0 && units[0] == "--now" {
		m.must(m.systemctl("stop", units[1:]))
		units = units[1:]
	}
	for _, u := range units {
		i := slices.IndexFunc(bootLinks(), func(l link) bool { return filepath.Base(l.path) == u })
		if i < 0 {
			if verb != "reset-failed" || u != systemd.RetuneService {
				m.t.Errorf("systemctl %s %s: no unit that is enabled", verb, u)
			}
			continue
		}
		l := bootLinks()[i]
		at := filepath.Join(m.root, l.path)
		switch verb {
		case "enable":
			m.must(os.MkdirAll(filepath.Dir(at), 0o755))
			m.must(os.Symlink(l.to, at))
		case "disable":
			_ = os.Remove(at)               // disabling what is not enabled is none of systemctl's errors
			_ = os.Remove(filepath.Dir(at)) // stays if others are in it
		case "start", "restart":
			if _, err := os.Stat(filepath.Join(m.root, "usr/local/bin/qunerd")); err != nil && u == "qunerd.service" {
				return err
			}
			m.state[u] = "active"
			if u == "qunerd.service" {
				if _, err := os.Stat(filepath.Join(m.root, "var/lib/quner/points.json")); err != nil {
					m.put("/var/lib/quner/points.json", "{}")
				}
				m.put("/run/quner/status.json", "{}")
			}
		case "stop":
			m.state[u] = "inactive"
		}
	}
	return nil
}

// tree is all that lies on the machine: mode and content, by path.
func (m *machine) tree() map[string]string {
	m.t.Helper()
	all := map[string]string{}
	m.must(filepath.WalkDir(m.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content string
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			m.must(err)
			content = string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(path)
			m.must(err)
		}
		all[strings.TrimPrefix(path, m.root)] = info.Mode().String() + " " + content
		return nil
	}))
	return all
}

// same compares two trees.
func (m *machine) same(got, want map[string]string, when string) {
	m.t.Helper()
	for p, g := range got {
		if w, there := want[p]; !there {
			m.t.Errorf("%s: %s is left", when, p)
		} else if w != g {
			m.t.Errorf("%s: %s is %q, was %q", when, p, g, w)
		}
	}
	for p := range want {
		if _, there := got[p]; !there {
			m.t.Errorf("%s: %s is gone", when, p)
		}
	}
}
