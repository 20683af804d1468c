package install

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestInstallAndUninstall(t *testing.T) {
	m := newMachine(t)
	before := m.tree()
	m.install()
	for _, want := range []string{
		"/usr/local/bin/qunerd", "/usr/local/bin/qunerctl", "/etc/quner/quner.toml", "/var/lib/quner/install.json",
		"/etc/systemd/system/qunerd.service", "/etc/systemd/system/sockets.target.wants/qunerd-admin.socket",
	} {
		if _, there := m.tree()[want]; !there {
			t.Errorf("%s is missing", want)
		}
	}
	want := []string{
		"systemd-sysusers /etc/sysusers.d/quner.conf", "systemd-tmpfiles --create /etc/tmpfiles.d/quner.conf", "systemctl daemon-reload",
		"systemctl enable qunerd.socket qunerd-admin.socket qunerd.service quner-retune.timer",
		"systemctl start qunerd.socket qunerd-admin.socket quner-retune.timer", "systemctl start qunerd.service",
	}
	if !slices.Equal(m.calls, want) {
		t.Errorf("ran %q, want %q", m.calls, want)
	}
	if mode := m.tree()["/usr/local/bin/qunerd"]; !strings.HasPrefix(mode, "-rwxr-xr-x ") {
		t.Errorf("qunerd: %s", mode)
	}
	if mode := m.tree()["/var/lib/quner/install.json"]; !strings.HasPrefix(mode, "-rw------- ") {
		t.Errorf("manifest: %s", mode)
	}
	m.calls = nil
	m.uninstall(true)
	m.same(m.tree(), before, "after uninstalling")
	if len(m.calls) < 2 || m.calls[0] != "systemctl disable --now qunerd.socket qunerd-admin.socket qunerd.service quner-retune.timer" || m.calls[1] != "qunerd restore" {
		t.Errorf("ran %q: the host is to be put back first", m.calls)
	}
}

func TestInstallTwiceDoesNothing(t *testing.T) {
	m := newMachine(t)
	m.install()
	before := m.tree()
	m.calls = nil
	_, p, err := m.planned(m.wish(), Install)
	if err != nil || p.Changes() {
		t.Fatalf("plan %v, %v", p.Lines(), err)
	}
	m.install()
	m.same(m.tree(), before, "the second time")
	if len(m.calls) > 0 {
		t.Errorf("ran %q", m.calls)
	}
}

func TestInstallStartsWhatWasStopped(t *testing.T) {
	m := newMachine(t)
	m.install()
	m.state["qunerd.service"], m.state["qunerd.socket"], m.calls = "failed", "failed", nil
	m.install()
	want := []string{"systemctl reset-failed qunerd.socket qunerd.service", "systemctl start qunerd.socket", "systemctl start qunerd.service"}
	if !slices.Equal(m.calls, want) {
		t.Errorf("ran %q", m.calls)
	}
}

func TestStateSurvivesUpgradeAndUninstall(t *testing.T) {
	m := newMachine(t)
	m.install()
	m.put("/var/lib/quner/points.json", "tuned")
	m.put("/var/lib/quner/mode.json", "training")
	m.release("v2")
	m.calls = nil
	m.install()
	if m.read("/usr/local/bin/qunerd") != "qunerd v2\n" || m.read("/usr/local/bin/qunerctl") != "qunerctl v2\n" {
		t.Error("not upgraded")
	}
	if !slices.Contains(m.calls, "systemctl restart qunerd.service") || slices.ContainsFunc(m.calls, func(c string) bool { return strings.Contains(c, "socket") }) {
		t.Errorf("ran %q: the daemon is restarted, its sockets are not", m.calls)
	}
	m.uninstall(false)
	if m.read("/var/lib/quner/points.json") != "tuned" || m.read("/var/lib/quner/mode.json") != "training" {
		t.Error("state is lost")
	}
	if _, there := m.tree()["/var/lib/quner/install.json"]; there {
		t.Error("the manifest is left")
	}
}

func TestChangedConfigurationStays(t *testing.T) {
	m := newMachine(t)
	m.put("/etc/quner/quner.toml", "tick = \"5s\"\n") // before quner came
	before := m.tree()
	m.install()
	m.release("v2")
	m.install()
	if m.read("/etc/quner/quner.toml") != "tick = \"5s\"\n" {
		t.Error("configuration overwritten")
	}
	m.uninstall(true)
	m.same(m.tree(), before, "after uninstalling")

	m.install()
	m.uninstall(true)
	m.must(os.Remove(filepath.Join(m.root, "etc/quner/quner.toml")))
	m.install()
	m.put("/etc/quner/quner.toml", "tick = \"6s\"\n") // ours, and edited
	m.release("v3")
	m.install()
	m.uninstall(false)
	if m.read("/etc/quner/quner.toml") != "tick = \"6s\"\n" {
		t.Error("an edited configuration is lost")
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	m := newMachine(t)
	m.put("/etc/quner/quner.toml", "bogus = 1\n")
	m.refused(m.wish(), Install, "bogus", "sudoedit")
}

// refused expects a refusal with a remedy, and a machine on which nothing has changed.
func (m *machine) refused(w Wish, plan func(*Facts) (Plan, error), why, remedy string) {
	m.t.Helper()
	before := m.tree()
	m.calls = nil
	_, err := m.act(w, plan)
	var r *Refusal
	if !errors.As(err, &r) || !strings.Contains(r.Why, why) || !strings.Contains(r.Remedy, remedy) {
		m.t.Errorf("%v: want a refusal for %q with %q", err, why, remedy)
	}
	m.same(m.tree(), before, "after a refusal")
	if len(m.calls) > 0 {
		m.t.Errorf("ran %q", m.calls)
	}
}

func TestForeignFilesAreRefused(t *testing.T) {
	for _, path := range []string{"/usr/local/bin/qunerd", "/usr/local/bin/qunerctl", "/etc/systemd/system/qunerd.socket", "/etc/tmpfiles.d/quner.conf"} {
		m := newMachine(t)
		m.put(path, "somebody else's")
		m.refused(m.wish(), Install, path, "sudo rm "+path)
		m.must(os.Remove(filepath.Join(m.root, path)))
		m.must(os.Symlink("/dev/null", filepath.Join(m.root, path)))
		m.refused(m.wish(), Install, path, "ls -ld")
	}
	m := newMachine(t)
	m.install()
	m.put("/usr/local/bin/qunerd", "patched by hand")
	m.release("v2")
	m.refused(m.wish(), Install, "changed since", "sudo rm /usr/local/bin/qunerd")
	m.uninstall(true)
	if m.read("/usr/local/bin/qunerd") != "patched by hand" {
		t.Error("a program that is not ours is gone")
	}
}

func TestProgramsThatWereThereStay(t *testing.T) {
	m := newMachine(t)
	for _, p := range programs() { // cp bin/* /usr/local/bin, then sudo qunerctl install
		m.put("/usr/local/bin/"+p, p+" v1\n")
		m.must(os.Chmod(filepath.Join(m.root, "usr/local/bin", p), 0o755))
	}
	before := m.tree()
	m.install()
	m.calls = nil
	for _, p := range programs() { // and the same again with a newer build
		m.put("/usr/local/bin/"+p, p+" v2\n")
	}
	m.release("v2")
	m.install()
	if !slices.Contains(m.calls, "systemctl restart qunerd.service") {
		t.Errorf("ran %q: the daemon that runs is the old one", m.calls)
	}
	m.uninstall(true)
	for _, p := range programs() {
		m.put("/usr/local/bin/"+p, p+" v1\n")
	}
	after := m.tree()
	for _, p := range programs() {
		after["/usr/local/bin/"+p] = before["/usr/local/bin/"+p]
	}
	m.same(after, before, "after uninstalling")
}

func TestMachinesThatAreRefused(t *testing.T) {
	m := newMachine(t)
	m.python = true
	m.refused(m.wish(), Install, "Python", "sudo systemctl disable --now quner.service")

	m = newMachine(t)
	m.must(os.RemoveAll(filepath.Join(m.root, "run/systemd")))
	m.refused(m.wish(), Install, "systemd", "qunerd run")

	m = newMachine(t)
	m.refused(Wish{}, Uninstall, "no installation", "package")

	m = newMachine(t)
	w := m.wish()
	w.Version = "v9"
	m.refused(w, Install, "version", "make build")

	m = newMachine(t)
	group := "nobody-knows-it"
	w = m.wish()
	w.AdminGroup = &group
	m.refused(w, Install, group, "sudo groupadd")
}

func TestAdminGroup(t *testing.T) {
	m := newMachine(t)
	before := m.tree()
	m.install()
	w, group := m.wish(), "wheel"
	w.AdminGroup = &group
	m.calls = nil
	_, err := m.act(w, Install)
	m.must(err)
	if !strings.Contains(m.read("/etc/systemd/system/qunerd-admin.socket"), "\nSocketGroup=wheel\nSocketMode=0660\n") ||
		!strings.Contains(m.read("/etc/tmpfiles.d/quner.conf"), "/run/quner-admin 0750 root wheel") {
		t.Error("the group is not let in")
	}
	stop, sockets := slices.Index(m.calls, "systemctl stop qunerd.service"), slices.Index(m.calls, "systemctl restart qunerd.socket qunerd-admin.socket")
	if start := slices.Index(m.calls, "systemctl start qunerd.service"); stop < 0 || sockets < stop || start < sockets {
		t.Errorf("ran %q: sockets are made anew between stop and start", m.calls)
	}
	m.release("v2")
	m.install() // without the flag the group stays
	if !strings.Contains(m.read("/etc/systemd/system/qunerd-admin.socket"), "\nSocketGroup=wheel\n") {
		t.Error("an upgrade has forgotten the group")
	}
	m.uninstall(true)
	m.same(m.tree(), before, "after uninstalling")
}

// A group or directory that was there before quner stays.
func TestWhatWasThereStays(t *testing.T) {
	m := newMachine(t)
	m.put("/etc/group", "root:x:0:\nquner:x:77:bob\n")
	m.put("/etc/tmpfiles.d/mine.conf", "")
	before := m.tree()
	m.install()
	m.uninstall(true)
	m.same(m.tree(), before, "after uninstalling")
}

// A run that dies after any step can be completed, and can be taken back.
func TestDeathAtEveryStep(t *testing.T) {
	complete := newMachine(t)
	complete.install()
	want := complete.tree()
	_, p, err := newMachine(t).planned(complete.wish(), Install)
	complete.must(err)
	for n := range len(p) {
		m := newMachine(t)
		before := m.tree()
		m.dieAfter(n)
		m.install()
		m.same(m.tree(), want, "completed")
		m.uninstall(true)
		m.same(m.tree(), before, "completed and uninstalled")

		m = newMachine(t)
		m.dieAfter(n)
		if _, err := m.act(Wish{Purge: true}, Uninstall); err == nil {
			m.same(m.tree(), before, "taken back")
		} else if after := m.tree(); after["/var/lib/quner"] != "" {
			delete(after, "/var/lib/quner") // an empty directory, from before the manifest
			m.same(after, before, "died before anything was written")
		}
		if t.Failed() {
			t.Fatalf("died after %d steps: %v", n, p[:n].Lines())
		}
	}
}

// dieAfter does n steps of an installation, and leaves a half-written file behind.
func (m *machine) dieAfter(n int) {
	m.t.Helper()
	opened, p, err := m.planned(m.wish(), Install)
	m.must(err)
	for _, s := range p[:n] {
		m.must(s.do(context.Background(), opened))
	}
	if w, ok := p[n].(*write); ok {
		m.must(os.WriteFile(filepath.Join(m.root, draft(w.path)), []byte("half"), 0o600))
	}
}

// A step that fails leaves the machine as it was, be it a first installation or an upgrade.
func TestFailureAtEveryCommand(t *testing.T) {
	for _, cmd := range []string{
		"systemd-sysusers /etc/sysusers.d/quner.conf", "systemd-tmpfiles --create /etc/tmpfiles.d/quner.conf",
		"systemctl enable qunerd.socket qunerd-admin.socket qunerd.service quner-retune.timer",
		"systemctl start qunerd.socket qunerd-admin.socket quner-retune.timer", "systemctl start qunerd.service",
	} { // systemctl daemon-reload is not one of them: without it there is no way back either
		m := newMachine(t)
		before := m.tree()
		m.fails[cmd] = errors.New("Job failed")
		_, err := m.act(m.wish(), Install)
		if err == nil || !strings.Contains(err.Error(), cmd+": Job failed") {
			t.Errorf("%s: %v", cmd, err)
		}
		m.same(m.tree(), before, cmd)
	}
}

func TestFailedUpgradeGoesBack(t *testing.T) {
	m := newMachine(t)
	m.install()
	before := m.tree()
	m.release("v2")
	m.calls = nil
	m.fails["systemctl restart qunerd.service"] = errors.New("Job failed")
	if _, err := m.act(m.wish(), Install); err == nil {
		t.Fatal("an upgrade whose daemon does not start is none")
	}
	m.same(m.tree(), before, "after an upgrade that failed")
}

func TestUninstallKeepsAllIfTheHostCannotBePutBack(t *testing.T) {
	m := newMachine(t)
	m.install()
	m.fails["qunerd restore"] = errors.New("rapl/package-0: host did not take the value")
	if _, err := m.act(Wish{Purge: true}, Uninstall); err == nil || !strings.Contains(err.Error(), "rapl/package-0") {
		t.Errorf("%v", err)
	}
	if m.read("/usr/local/bin/qunerd") == "" || m.read("/var/lib/quner/points.json") == "" {
		t.Error("what could put the host back is gone")
	}
	delete(m.fails, "qunerd restore")
	m.uninstall(true) // and again, once it can
}

func TestPurgeForgetsNoDisplay(t *testing.T) {
	m := newMachine(t)
	m.install()
	m.put("/var/lib/quner/prime.json", "{}")
	m.refused(Wish{Purge: true}, Uninstall, "display", "sudo qunerctl prime disable")
	m.uninstall(false)
	if m.read("/var/lib/quner/prime.json") != "{}" {
		t.Error("forgotten")
	}
}

func TestStagedTree(t *testing.T) {
	m := newMachine(t)
	m.live = false
	m.root = t.TempDir() // quite empty
	before := m.tree()
	m.install()
	if to, err := os.Readlink(filepath.Join(m.root, "etc/systemd/system/multi-user.target.wants/qunerd.service")); err != nil || to != "/etc/systemd/system/qunerd.service" {
		t.Errorf("not enabled: %q, %v", to, err)
	}
	m.must(os.MkdirAll(m.root, 0o755))
	second := m.install()
	if slices.ContainsFunc(second, func(l Line) bool { return l.Do == "write" || l.Do == "link" || l.Do == "run" }) {
		t.Errorf("the second time: %v", second)
	}
	if len(m.calls) > 0 {
		t.Errorf("ran %q", m.calls)
	}
	m.uninstall(false)
	m.same(m.tree(), before, "after uninstalling")
}

// systemctl calls it an error where no unit has failed; that is how an installation ends as a rule, and no news.
func TestUninstallForgetsFailuresWithoutANote(t *testing.T) {
	m := newMachine(t)
	m.install()
	for _, u := range unitNames() {
		m.fails["systemctl reset-failed "+u] = errors.New("exit status 1: Unit " + u + " not loaded.")
	}
	for _, l := range m.uninstall(true) {
		if l.Do == "note" {
			t.Errorf("a note: %v", l)
		}
	}
}

// A tree must not lead out of itself.
func TestStagedTreeWithLinksOutOfIt(t *testing.T) {
	m := newMachine(t)
	m.live = false
	outside := t.TempDir()
	m.must(os.RemoveAll(filepath.Join(m.root, "usr/local/bin")))
	m.must(os.Symlink(outside, filepath.Join(m.root, "usr/local/bin")))
	if _, err := m.act(m.wish(), Install); err == nil {
		t.Error("installed through a link out of the tree")
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) > 0 {
		t.Errorf("outside: %v, %v", names, err)
	}
}

func TestPlanTouchesNothing(t *testing.T) {
	m := newMachine(t)
	before := m.tree()
	_, p, err := m.planned(m.wish(), Install)
	m.must(err)
	m.same(m.tree(), before, "after planning")
	if len(m.calls) > 0 {
		t.Errorf("ran %q", m.calls)
	}
	var told []string
	for _, l := range p.Lines() {
		told = append(told, l.Do+" "+l.What)
	}
	done := m.install()
	var did []string
	for _, l := range done {
		did = append(did, l.Do+" "+l.What)
	}
	if !slices.Equal(told, did) {
		t.Errorf("told %q, did %q", told, did)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schema":1,"bin":"/usr/local/bin","files":[{"path":"/etc/quner/quner.toml","sha256":"00"}],"dirs":["/etc/quner"]}`))
	f.Add([]byte(`{"schema":1,"bin":"/usr/local/bin","files":[{"path":"/../etc/shadow"}]}`))
	f.Add([]byte(`{"schema":2}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data)
		if err != nil {
			if m != nil || !errors.Is(err, ErrManifest) {
				t.Errorf("%v with %v", m, err)
			}
			return
		}
		for _, e := range m.Files {
			if !filepath.IsAbs(e.Path) || filepath.Clean(e.Path) != e.Path {
				t.Errorf("took %q", e.Path)
			}
		}
	})
}

func FuzzUnits(f *testing.F) {
	f.Add("Id=qunerd.service\nLoadState=loaded\nActiveState=active\n\nId=quner.service\nLoadState=not-found\n")
	f.Add("=\n\nId=\n")
	f.Fuzz(func(t *testing.T, out string) {
		for id := range parseUnits(out) {
			if id == "" || !strings.Contains(out, "Id="+id) {
				t.Errorf("made %q up", id)
			}
		}
	})
}

func TestUnitsOfShow(t *testing.T) {
	units := parseUnits("Id=qunerd.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\nFragmentPath=/etc/systemd/system/qunerd.service\n\nId=quner.service\nLoadState=not-found\nActiveState=inactive\n")
	if u := units["qunerd.service"]; u != (unitState{"loaded", "active", "enabled", "/etc/systemd/system/qunerd.service"}) || !u.running() {
		t.Errorf("%+v", u)
	}
	if u := units["quner.service"]; u.running() || u.load != "not-found" {
		t.Errorf("%+v", u)
	}
	for out, want := range map[string]int{
		"systemd 252 (252.38-1~deb12u1)\n+PAM": 252, "systemd 257.4-1": 257, "systemd v258~rc1": 258, "": 0, "busybox 1.36": 0,
	} {
		if v, _ := systemdVersion(out); v != want {
			t.Errorf("%q: %d", out, v)
		}
	}
}
