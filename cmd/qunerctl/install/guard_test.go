package install

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestOneAtATime(t *testing.T) {
	for _, live := range []bool{true, false} {
		m := newMachine(t)
		m.live = live
		before := m.tree()
		if live { // what a run that was killed has left
			m.put(lockFile, "")
		}
		first, err := m.open().Lock()
		m.must(err)
		var r *Refusal
		if _, err := m.open().Lock(); !errors.As(err, &r) {
			t.Errorf("live %v: two at once: %v", live, err)
		}
		first()
		second, err := m.open().Lock()
		m.must(err)
		second()
		m.same(m.tree(), before, "after the last")
	}
}

const heldJournal = `{"schema":1,"generation":3,"checksum":"","entries":[{"lever":"cpufreq/policy0"}]}`

// The program that puts the host back is gone, and the host is not as it was found.
func TestUninstallWithoutTheDaemon(t *testing.T) {
	m := newMachine(t)
	m.install()
	m.must(os.Remove(filepath.Join(m.root, "usr/local/bin/qunerd")))
	m.put(journalFile, heldJournal)
	before := m.tree()
	m.calls = nil
	_, err := m.act(Wish{Purge: true}, Uninstall)
	var r *Refusal
	if !errors.As(err, &r) || r.Remedy == "" {
		t.Fatalf("%v: want a refusal", err)
	}
	after := m.tree()
	for _, l := range bootLinks() { // the service is stopped and disabled
		delete(before, l.path)
		delete(before, filepath.Dir(l.path))
	}
	m.same(after, before, "after the refusal")

	m.calls = nil
	m.put(journalFile, `{"schema":1,"entries":[]}`)
	m.must(errOf(m.act(Wish{Purge: true}, Uninstall)))

	m.install()
	m.must(os.Remove(filepath.Join(m.root, "usr/local/bin/qunerd")))
	m.calls = nil
	m.must(errOf(m.act(Wish{Restorer: filepath.Join(m.build, "qunerd")}, Uninstall)))
	if !slices.Contains(m.calls, "qunerd restore") {
		t.Errorf("ran %q: the daemon beside qunerctl can put the host back", m.calls)
	}
}

func errOf(_ []Line, err error) error { return err }

// What "qunerd restore" could not put back is told, and nobody says that all is as it was.
func TestLeversThatAreLeftAreTold(t *testing.T) {
	m := newMachine(t)
	m.install()
	if slices.ContainsFunc(m.uninstall(false), Line.LeavesLever) {
		t.Error("nothing was left")
	}
	m.install()
	m.restored = "cpufreq/policy0: left as it is: somebody has set it\n"
	if !slices.ContainsFunc(m.uninstall(false), Line.LeavesLever) {
		t.Error("a lever was left, and it is not told")
	}
}

// A board that is not there at present keeps its entry in the journal, whatever else is forgotten.
func TestPurgeKeepsWhatCouldNotBePutBack(t *testing.T) {
	m := newMachine(t)
	m.install()
	m.put(journalFile, heldJournal)
	lines := m.uninstall(true)
	if m.read(journalFile) != heldJournal || !slices.ContainsFunc(lines, func(l Line) bool { return l.LeavesLever() }) {
		t.Errorf("%v", lines)
	}
	if _, there := m.tree()["/var/lib/quner/points.json"]; there {
		t.Error("points are not forgotten")
	}
	m.put(journalFile, "garbage")
	m.install()
	if _, err := m.act(Wish{Purge: true}, Uninstall); err == nil || m.read(journalFile) != "garbage" {
		t.Errorf("%v: a journal that cannot be read is no reason to forget it", err)
	}
}

func TestWhatOthersMayWriteIsNotAdopted(t *testing.T) {
	m := newMachine(t)
	m.put("/usr/local/bin/qunerd", "qunerd v1\n")
	m.must(os.Chmod(filepath.Join(m.root, "usr/local/bin/qunerd"), 0o777))
	m.refused(m.wish(), Install, "others than root may write", "sudo chown root:root /usr/local/bin/qunerd && sudo chmod 0755 /usr/local/bin/qunerd")
	m.must(os.Chmod(filepath.Join(m.root, "usr/local/bin/qunerd"), 0o644))
	m.refused(m.wish(), Install, "mode 0644", "sudo chmod 0755 /usr/local/bin/qunerd")
	m.must(os.Remove(filepath.Join(m.root, "usr/local/bin/qunerd")))
	m.install()
	config := filepath.Join(m.root, "etc/quner/quner.toml")
	m.must(os.Chmod(config, 0o666))
	m.release("v2")
	m.refused(m.wish(), Install, "mode 0666", "sudo chown root:root /etc/quner/quner.toml")
	m.must(os.Chmod(config, 0o644))
	m.must(os.Chmod(filepath.Join(m.root, ManifestFile), 0o666))
	if _, _, err := m.planned(m.wish(), Uninstall); !errors.Is(err, ErrManifest) {
		t.Errorf("%v: anybody may have written that", err)
	}
}

// What is the package's too stays with it.
func TestUninstallBesideAPackage(t *testing.T) {
	m := newMachine(t)
	m.install()
	m.put(packagedUnit, "[Service]\n")
	lines := m.uninstall(true)
	for _, want := range []string{"/etc/quner/quner.toml", "/run/quner", "/var/lib/quner/points.json"} {
		if _, there := m.tree()[want]; !there {
			t.Errorf("%s is gone", want)
		}
	}
	if !strings.Contains(m.read("/etc/group"), "quner:") {
		t.Error("the group is gone")
	}
	if _, there := m.tree()["/usr/local/bin/qunerd"]; there || !slices.ContainsFunc(lines, func(l Line) bool { return strings.Contains(l.Why, "systemctl enable --now") }) {
		t.Errorf("%v", lines)
	}
}

// An orphan of a run that was killed makes the directories after the look.
func TestSocketDirectoriesMadeLate(t *testing.T) {
	m := newMachine(t)
	before := m.tree()
	m.install()
	m.must(os.RemoveAll(filepath.Join(m.root, "run/quner-admin")))
	opened, p, err := m.planned(Wish{Purge: true}, Uninstall)
	m.must(err)
	m.must(os.MkdirAll(filepath.Join(m.root, "run/quner-admin"), 0o700))
	m.must(p.Do(context.Background(), opened, func(Line) {}))
	m.same(m.tree(), before, "after uninstalling")
}

func TestNoDirectoryInTheWay(t *testing.T) {
	m := newMachine(t)
	m.put("/etc/quner", "foreign")
	m.refused(m.wish(), Install, "/etc/quner: is there, and is no directory", "ls -ld /etc/quner")
	m.must(os.Remove(filepath.Join(m.root, "etc/quner")))
	m.must(os.Symlink("/nowhere", filepath.Join(m.root, "var/lib/quner")))
	m.refused(m.wish(), Install, "/var/lib/quner: is there, and is no directory", "ls -ld /var/lib/quner")
}

// A tree that somebody else made holds pipes where files are read.
func TestPipesBlockNothing(t *testing.T) {
	m := newMachine(t)
	m.live = false
	m.must(os.Remove(filepath.Join(m.root, "etc/group")))
	m.must(syscall.Mkfifo(filepath.Join(m.root, "etc/group"), 0o644))
	m.must(os.MkdirAll(filepath.Join(m.root, "var/lib/quner"), 0o755))
	m.must(syscall.Mkfifo(filepath.Join(m.root, ManifestFile), 0o644))
	opened := m.open()
	ended := make(chan error, 1)
	go func() {
		_, err := Look(context.Background(), opened, m.wish())
		ended <- errors.Join(err, map[bool]error{true: errors.New("a pipe with groups in it")}[opened.hasGroup("root")])
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrManifest) {
			t.Errorf("%v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("blocked by a pipe")
	}
}

func TestAFailureSaysWhatBecameOfTheRest(t *testing.T) {
	m := newMachine(t)
	m.fails["systemctl start qunerd.service"] = errors.New("no such luck")
	_, err := m.act(m.wish(), Install)
	if err == nil || !strings.HasSuffix(err.Error(), "no such luck; what had been done was taken back") {
		t.Errorf("%v", err)
	}
	m.fails["systemctl disable qunerd.socket qunerd-admin.socket qunerd.service quner-retune.timer"] = errors.New("nor here")
	_, err = m.act(m.wish(), Install)
	if err == nil || !strings.Contains(err.Error(), "not all that had been done could be taken back: nor here") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
