package levers

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

const varDir = "var/lib/quner/"

// tuned is a machine that a process has tuned before it ended without a word.
func tuned(t *testing.T) (m *machine, found string) {
	m = newMachine(t)
	found = m.settings()
	m.apply(m.bank(), Setting{policy0, "powersave"}, Setting{boardCap, "200000"})
	return m, found
}

func TestJournalRecovery(t *testing.T) {
	good := func(m *machine) string { return m.text(varDir + journalFile) }
	link := func(m *machine, to string) {
		file := filepath.Join(m.root, varDir, journalFile)
		_ = os.Remove(file)
		if err := os.Symlink(to, file); err != nil {
			m.t.Fatal(err)
		}
	}
	tests := map[string]func(*machine){
		"0 bytes":      func(m *machine) { m.put(varDir+journalFile, "") },
		"cut off":      func(m *machine) { m.put(varDir+journalFile, good(m)[:100]) },
		"a bit turned": func(m *machine) { m.put(varDir+journalFile, strings.Replace(good(m), "300000", "310000", 1)) },
		"too long":     func(m *machine) { m.put(varDir+journalFile, good(m)+strings.Repeat(" ", host.MaxFile)) },
		"a link": func(m *machine) {
			forged := m.stored()
			forged.entries[0].Original = "userspace"
			m.put("elsewhere", string(marshalled(m.t, forged)))
			link(m, filepath.Join(m.root, "elsewhere"))
		},
		"a pipe": func(m *machine) {
			file := filepath.Join(m.root, varDir, journalFile)
			_ = os.Remove(file)
			if err := unix.Mkfifo(file, 0o600); err != nil {
				m.t.Fatal(err)
			}
		},
		"a dangling link":  func(m *machine) { link(m, "nowhere") },
		"gone":             func(m *machine) { _ = os.Remove(filepath.Join(m.root, varDir, journalFile)) },
		"writable by all":  func(m *machine) { _ = os.Chmod(filepath.Join(m.root, varDir, journalFile), 0o666) },
		"unreadable":       func(m *machine) { m.failRead(varDir+journalFile, errors.New("bad sector")) },
		"left in the temp": func(m *machine) { _ = m.host.Var.Rename(journalFile, host.Temp(journalFile)) },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			m, found := tuned(t)
			spoil(m)
			b := m.bank()
			m.breakFiles(nil)
			m.apply(b, Setting{policy0, "powersave"}, Setting{boardCap, "200000"})
			if len(m.stored().entries) != 2 {
				t.Error("the journal's place is still empty")
			}
			m.apply(b, Setting{policy0, "performance"}) // goes on: the originals are known
			if r := m.restore(m.bank()); m.settings() != found || len(r.Left) != 0 {
				t.Errorf("restored %q, was %q, left %v\n%s", m.settings(), found, r.Left, m.log.String())
			}
		})
	}
}

func TestNewestCopyCounts(t *testing.T) {
	copies := []string{host.Temp(journalFile), backupFile, host.Temp(backupFile)}
	for newest := range copies {
		m := newMachine(t)
		for i, name := range copies {
			j := sampleJournal()
			if i == newest {
				j.generation = 9
			}
			m.put(varDir+name, string(marshalled(t, j)))
		}
		if s, err := readStored(m.host); err != nil || s.from != copies[newest] || s.journal.generation != 9 {
			t.Errorf("read generation %d from %s, %v; want %s", s.journal.generation, s.from, err, copies[newest])
		}
	}
}

func TestJournalLost(t *testing.T) {
	m, _ := tuned(t)
	tunedTo := m.settings()
	m.put(varDir+journalFile, "{\"schema\": 1")
	m.put(varDir+backupFile, "")
	for range 2 { // the second process finds the file set aside, and a host that may be tuned all the same
		b, err := m.tryBank()
		if !errors.Is(err, ErrJournal) || b == nil || !errors.Is(b.Frozen(), ErrFrozen) {
			t.Fatalf("open: %v", err)
		}
		m.changed()
		_, errApply := b.Apply(t.Context(), NewPoint(Setting{policy0, "performance"}))
		_, errPlan := b.Plan(t.Context(), nil)
		_, errRestore := b.Restore(t.Context(), true)
		_, errPlanRestore := b.PlanRestore(t.Context(), true)
		for _, err := range []error{errApply, errPlan, errRestore, errPlanRestore} {
			if !errors.Is(err, ErrJournal) {
				t.Errorf("frozen: %v", err)
			}
		}
		if c := m.changed(); len(c) != 0 || m.settings() != tunedTo {
			t.Errorf("frozen, and yet: %q", c)
		}
		if len(b.States(t.Context())) != 3 {
			t.Error("a frozen bank can be looked at no more")
		}
	}
	aside := slices.DeleteFunc(m.stateFiles(), func(n string) bool { return !strings.HasPrefix(n, corruptFile) })
	if len(aside) != 1 || m.text(varDir+aside[0]) != "{\"schema\": 1" {
		t.Errorf("set aside: %q", aside)
	}
	if _, err := Script(m.host); !errors.Is(err, ErrJournal) {
		t.Errorf("script: %v", err)
	}
	// Another boot has reset the host; so has a person who took the file away.
	m.put("proc/sys/kernel/random/boot_id", otherBoot)
	m.bank()
	m.put("proc/sys/kernel/random/boot_id", thisBoot)
	if err := os.Remove(filepath.Join(m.root, varDir, aside[0])); err != nil {
		t.Fatal(err)
	}
	m.bank()
}

// Journals of boots that are gone are no use; of this one each may hold the values that the host had.
func TestFewJournalsOfOtherBootsAreKept(t *testing.T) {
	m, _ := tuned(t)
	var mine []string
	for i := range 9 {
		other := corruptFile + "2020010" + string(rune('1'+i)) + "T000000Z-ffffffff"
		own := corruptFile + "2021010" + string(rune('1'+i)) + "T000000Z-" + bootTag(m.host)
		m.put(varDir+other, "x")
		m.put(varDir+own, "x")
		mine = append(mine, own)
	}
	m.put(varDir+journalFile, "{")
	m.put(varDir+backupFile, "{")
	_, _ = m.tryBank()
	aside := slices.DeleteFunc(m.stateFiles(), func(n string) bool { return !strings.HasPrefix(n, corruptFile) })
	others := slices.DeleteFunc(slices.Clone(aside), func(n string) bool { return !strings.HasSuffix(n, "-ffffffff") })
	if len(others) != 3 || !strings.Contains(others[0], "20200101") {
		t.Errorf("of other boots: %q", others)
	}
	for _, n := range mine {
		if !slices.Contains(aside, n) {
			t.Errorf("%s is gone", n)
		}
	}
}

func TestJournalOutOfReach(t *testing.T) {
	m, found := tuned(t)
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpRead && strings.HasPrefix(a.Name, varDir) {
			return unix.EMFILE
		}
		return nil
	})
	b, err := m.tryBank()
	if !errors.Is(err, ErrJournal) || !errors.Is(err, unix.EMFILE) || len(b.Degraded()) != 1 {
		t.Fatalf("open: %v", err)
	}
	m.breakFiles(nil)
	if r := m.restore(m.bank()); m.settings() != found || len(r.Left) != 0 {
		t.Errorf("within reach again: host has %s, left %v", m.settings(), r.Left)
	}
}

func TestPredecessorsJournalIsSetAside(t *testing.T) {
	m := newMachine(t)
	const old = `{"cpu_governor": "schedutil"}`
	m.put(varDir+journalFile, old)
	b := m.bank()
	if m.text(varDir+foreignFile) != old {
		t.Error("set aside changed")
	}
	m.apply(b, Setting{policy0, "powersave"})
	m.restore(m.bank())
	if m.governor(0) != "schedutil" {
		t.Errorf("host has %s", m.settings())
	}
}

func TestNewerJournalRestores(t *testing.T) {
	m := newMachine(t)
	m.setGovernor(0, "powersave")
	m.put(varDir+journalFile, string(newerJournal(t)))
	b := m.bank()
	r := m.restore(b)
	if m.governor(0) != "schedutil" || len(r.Left) != 1 || r.Left[0].Lever != "rapl/package-0" || !r.Left[0].Kept {
		t.Errorf("host has %s, left %v", m.settings(), r.Left)
	}
	if text := m.text(varDir + journalFile); !strings.Contains(text, `"mmio"`) || !strings.Contains(text, `"schema": 9`) {
		t.Errorf("an entry for a newer version is lost:\n%s", text)
	}
}

func TestAnotherBoot(t *testing.T) {
	m, _ := tuned(t)
	m.put("proc/sys/kernel/random/boot_id", otherBoot)
	m.setGovernor(0, "ondemand") // what the new boot came up with
	m.board.with(func(b *board) { b.limit = 350 * unit.Watt })
	b := m.bank()
	if text, err := Script(m.host); err != nil || !strings.Contains(text, "Nothing is moved") {
		t.Errorf("script of another boot: %q, %v", text, err)
	}
	if r := m.restore(b); len(r.Writes)+len(r.Left) != 0 || m.governor(0) != "ondemand" {
		t.Errorf("restored another boot's: %v", r)
	}
	if n := strings.Count(m.log.String(), "journal entries are void"); n != 1 {
		t.Errorf("void entries were logged %d times:\n%s", n, &m.log)
	}
	if v := b.Void(); len(v) != 2 || v[0].Why != "it is another boot's" {
		t.Errorf("void: %v", v)
	}
	if again := m.bank(); len(again.Void()) != 0 { // they are gone from the disk too
		t.Errorf("void again: %v", again.Void())
	}
	m.apply(b, Setting{policy0, "powersave"})
	if e := m.stored().entries; len(e) != 1 || e[0].Original != "ondemand" || e[0].Boot != otherBoot {
		t.Errorf("entries %+v", e)
	}
}

func TestDriverLoadedAnew(t *testing.T) {
	tests := map[string]struct{ before, after func(*machine) }{
		"module": {
			func(m *machine) { m.put("sys/module/nvidia/version", "550.54.15\n") },
			func(m *machine) {
				dir := filepath.Join(m.root, "sys/module/nvidia")
				_ = os.Rename(dir, dir+"-unloaded")
				m.put("sys/module/nvidia/version", "550.54.15\n")
			}},
		"version": {
			func(m *machine) { m.board.version = "550.54.15" },
			func(m *machine) { m.board.version = "560.28.03" }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			tt.before(m)
			m.apply(m.bank(), Setting{policy0, "powersave"}, Setting{boardCap, "200000"})
			if r, err := m.bank().PlanRestore(t.Context(), false); err != nil || len(r.Writes) != 2 {
				t.Fatalf("same load: %v, %v", r, err)
			}
			tt.after(m)
			b := m.bank()
			if b.Held() != 1 {
				t.Errorf("%d held", b.Held())
			}
			if r := m.restore(b); m.governor(0) != "schedutil" || m.board.cap() != 200*unit.Watt || len(r.Left) != 0 {
				t.Errorf("host has %s, left %v: the cap of a driver gone is no longer ours", m.settings(), r.Left)
			}
		})
	}
}

func TestUnknownBootIsNotAnotherOne(t *testing.T) {
	m, found := tuned(t)
	m.put("proc/sys/kernel/random/boot_id", "")
	if m.restore(m.bank()); m.settings() != found {
		t.Errorf("host has %s", m.settings())
	}
}

func TestStateFilesArePrivate(t *testing.T) {
	m, _ := tuned(t)
	for _, name := range []string{varDir + journalFile, varDir + backupFile, "run/quner-admin/restore.sh"} {
		info, err := os.Stat(filepath.Join(m.root, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	info, err := os.Stat(filepath.Join(m.root, "run/quner-admin"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("quner-admin: %v, %v", info, err)
	}
}
