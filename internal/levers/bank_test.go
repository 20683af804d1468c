package levers

import (
	"context"
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

func TestApplyAndRestore(t *testing.T) {
	m := newMachine(t)
	m.setGovernor(1, "ondemand")
	found := m.settings()
	b := m.bank()
	w := m.apply(b, Setting{policy0, "powersave"}, Setting{policy1, "powersave"}, Setting{boardCap, "200000"})
	want := []Write{{policy0, "schedutil", "powersave", "", ""}, {policy1, "ondemand", "powersave", "", ""},
		{boardCap, "300000", "200000", "mW", ""}}
	if !slices.Equal(w, want) {
		t.Errorf("writes %v, want %v", w, want)
	}
	if m.governor(0) != "powersave" || m.governor(1) != "powersave" || m.board.cap() != 200*unit.Watt {
		t.Errorf("host has %s", m.settings())
	}
	r := m.restore(b)
	if m.settings() != found || len(r.Left) != 0 || len(r.Writes) != 3 {
		t.Errorf("restored to %q with %v, was %q", m.settings(), r, found)
	}
	if b.Held() != 0 || len(m.stored().entries) != 0 {
		t.Error("entries stay after a verified restore")
	}
}

func TestJournalBeforeFirstWrite(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpWrite {
			j := m.stored()
			e := j.find(policy0)
			if e == nil || e.Original != "schedutil" || !slices.Contains(e.Ours, "powersave") {
				t.Errorf("at the first write the journal holds %+v", e)
			}
		}
		return nil
	})
	m.apply(b, Setting{policy0, "powersave"})
	c := m.changed()
	synced := slices.Index(c, "sync var/lib/quner")
	written := slices.Index(c, "write "+governorFile(0))
	if synced < 0 || written < synced {
		t.Errorf("the journal's directory is not durable before the write: %q", c)
	}
}

func TestJournalThatCannotBeWritten(t *testing.T) {
	for _, cause := range []error{unix.ENOSPC, unix.EROFS, unix.EIO} {
		m := newMachine(t)
		found := m.settings()
		b := m.bank()
		full := func(a host.Access) error {
			if a.Op.Changes() && strings.HasPrefix(a.Name, "var/") {
				return cause
			}
			return nil
		}
		m.breakFiles(full)
		_, err := b.Apply(t.Context(), NewPoint(Setting{policy0, "powersave"}, Setting{boardCap, "200000"}))
		if !errors.Is(err, ErrJournal) || !errors.Is(err, cause) || m.settings() != found || b.Held() != 0 {
			t.Errorf("%v: Apply = %v, host has %q", cause, err, m.settings())
		}
		m.breakFiles(nil)
		m.apply(b, Setting{policy0, "powersave"})
		m.breakFiles(full)
		if _, err := b.Restore(t.Context(), false); !errors.Is(err, ErrJournal) || m.settings() != found {
			t.Errorf("%v: Restore = %v, host has %q: a full disk must not keep the host tuned", cause, err, m.settings())
		}
	}
}

func TestApplyTwice(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	if w := m.apply(b, Setting{policy0, "schedutil"}, Setting{boardCap, "300000"}); len(w) != 0 || b.Held() != 0 {
		t.Errorf("values that are there already: writes %v, %d entries", w, b.Held())
	}
	if c := m.changed(); len(c) != 0 {
		t.Errorf("values that are there already: %q", c)
	}
	m.apply(b, Setting{policy0, "powersave"}, Setting{boardCap, "200000"})
	m.changed()
	m.apply(b, Setting{policy0, "powersave"}, Setting{boardCap, "200000"})
	if c := m.changed(); len(c) != 0 {
		t.Errorf("second time: %q", c)
	}
}

func TestPlanWritesNothing(t *testing.T) {
	m := newMachine(t)
	found := m.settings()
	b := m.bank()
	p := NewPoint(Setting{policy0, "powersave"}, Setting{boardCap, "90000"})
	plan, err := b.Plan(t.Context(), p)
	if c := m.changed(); err != nil || len(c) != 0 || m.settings() != found {
		t.Fatalf("Plan: %v, changed %q", err, c)
	}
	did, err := b.Apply(t.Context(), p)
	if err != nil || !slices.Equal(plan, did) {
		t.Errorf("planned %v, did %v (%v)", plan, did, err)
	}
	m.changed()
	planned, err := b.PlanRestore(t.Context(), false)
	if c := m.changed(); err != nil || len(c) != 0 {
		t.Fatalf("PlanRestore: %v, changed %q", err, c)
	}
	if r := m.restore(b); !slices.Equal(r.Writes, planned.Writes) {
		t.Errorf("planned %v, did %v", planned.Writes, r.Writes)
	}
}

func TestPointWithoutAHeldLever(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"}, Setting{boardCap, "200000"})
	w := m.apply(b, Setting{boardCap, "150000"})
	if m.governor(0) != "schedutil" || m.board.cap() != 150*unit.Watt || len(w) != 2 {
		t.Errorf("host has %s after %v", m.settings(), w)
	}
	m.apply(b)
	if m.board.cap() != 300*unit.Watt || b.Held() != 0 {
		t.Errorf("the empty point left %s", m.settings())
	}
}

func TestOriginalIsRecordedOnce(t *testing.T) {
	m := newMachine(t)
	m.apply(m.bank(), Setting{policy0, "powersave"})
	// The process ends without a word; the next one goes on.
	b := m.bank()
	m.apply(b, Setting{policy0, "performance"})
	if e := m.stored().entries[0]; e.Original != "schedutil" || !slices.Equal(e.Ours, []Value{"performance"}) {
		t.Errorf("entry %+v", e)
	}
	if r := m.restore(m.bank()); m.governor(0) != "schedutil" || len(r.Left) != 0 {
		t.Errorf("host has %s, left %v", m.settings(), r.Left)
	}
}

func TestFreshOriginalAfterStop(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	m.restore(b)
	m.setGovernor(0, "ondemand")
	b = m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	m.restore(b)
	if m.governor(0) != "ondemand" {
		t.Errorf("stop, user's change, start, stop: %q", m.governor(0))
	}
}

func TestStoredValueOutsideTodaysSpan(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	for v, want := range map[Value]unit.Power{"50000": 100 * unit.Watt, "330000": 300 * unit.Watt} {
		w := m.apply(b, Setting{boardCap, v})
		if m.board.cap() != want || len(w) != 1 || !strings.Contains(w[0].Note, "clamped") {
			t.Errorf("%s: %v, host has %s", v, w, m.settings())
		}
	}
	_, err := b.Apply(t.Context(), NewPoint(Setting{policy0, "turbo"}, Setting{policy1, "powersave"}))
	if !errors.Is(err, ErrOutOfSpan) || m.governor(1) != "powersave" {
		t.Errorf("a governor that is not offered: %v, host has %s", err, m.settings())
	}
}

func TestNeverAboveTheValueFound(t *testing.T) {
	m := newMachine(t)
	m.apply(m.bank(), Setting{boardCap, "150000"})
	b := m.bank() // after a crash: found is the journal's original, not what is there now
	if s := b.Levers()[2].Span(); s.Hi != 300000 {
		t.Errorf("span after a crash ends at %d", s.Hi)
	}
	m.apply(b, Setting{boardCap, "350000"})
	if m.board.cap() != 300*unit.Watt {
		t.Errorf("cap %v", m.board.cap())
	}
	m.restore(b)
	m.board.with(func(b *board) { b.limit = 200 * unit.Watt }) // the owner lowers it, we run
	m.apply(b, Setting{boardCap, "250000"})
	if m.board.cap() != 200*unit.Watt {
		t.Errorf("raised to %v above what was found", m.board.cap())
	}
}

func TestRestoreIsTheHostsOwnText(t *testing.T) {
	m := newMachine(t)
	m.setGovernor(0, "userspace")                                               // a governor that is never chosen
	m.board.with(func(b *board) { b.limit = 237*unit.Watt + 1*unit.Milliwatt }) // not a whole watt
	found := m.settings()
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"}, Setting{boardCap, "236500"})
	if m.settings() == found {
		t.Fatal("nothing moved")
	}
	m.restore(b)
	if m.settings() != found {
		t.Errorf("restored %q, was %q", m.settings(), found)
	}
}

func TestRoundedValueIsOurs(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.board.with(func(b *board) { b.grain = 70 * unit.Watt })
	w, err := b.Apply(t.Context(), NewPoint(Setting{boardCap, "200000"}))
	if !errors.Is(err, ErrNotTaken) || len(w) != 1 || w[0].To != "140000" {
		t.Fatalf("%v, %v", w, err)
	}
	m.board.with(func(b *board) { b.grain = 0 })
	if r := m.restore(m.bank()); m.board.cap() != 300*unit.Watt || len(r.Left) != 0 {
		t.Errorf("a rounded value was taken for another's: %v", r.Left)
	}
}

func TestUnknownLeverInAPoint(t *testing.T) {
	m := newMachine(t)
	m.board.initErr = host.ErrNoDriver
	b := m.bank()
	_, err := b.Apply(t.Context(), NewPoint(Setting{boardCap, "200000"}, Setting{policy0, "powersave"}))
	if !errors.Is(err, ErrUnknown) || m.governor(0) != "powersave" {
		t.Errorf("%v, host has %s", err, m.settings())
	}
}

func TestVanishedLeverKeepsItsEntry(t *testing.T) {
	m := newMachine(t)
	m.apply(m.bank(), Setting{policy0, "powersave"}, Setting{policy1, "powersave"})
	dir := filepath.Join(m.root, "sys/devices/system/cpu/cpufreq/policy1")
	if err := os.Rename(dir, dir+"-off"); err != nil {
		t.Fatal(err)
	}
	b := m.bank()
	if s := b.States(t.Context()); s[len(s)-1].Name != policy1 || s[len(s)-1].State != Lost {
		t.Errorf("states %+v", s)
	}
	r := m.restore(b)
	if m.governor(0) != "schedutil" || len(r.Left) != 1 || r.Left[0].Lever != policy1 || !r.Left[0].Kept {
		t.Fatalf("left %v", r.Left)
	}
	if err := os.Rename(dir+"-off", dir); err != nil {
		t.Fatal(err)
	}
	// The same process finds the CPU that is online again.
	if r := m.restore(b); m.governor(1) != "schedutil" || len(r.Left) != 0 || b.Held() != 0 {
		t.Errorf("back again: left %v, host has %s", r.Left, m.settings())
	}
}

func TestBestEffort(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"}, Setting{policy1, "powersave"}, Setting{boardCap, "200000"})
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpWrite && a.Name == governorFile(0) {
			return unix.EBUSY
		}
		return nil
	})
	r, err := b.Restore(t.Context(), false)
	if !errors.Is(err, unix.EBUSY) || len(r.Left) != 1 || !r.Left[0].Kept || len(r.Writes) != 2 {
		t.Errorf("restored %+v, %v", r, err)
	}
	if m.governor(1) != "schedutil" || m.board.cap() != 300*unit.Watt || b.Held() != 1 {
		t.Errorf("host has %s, %d held", m.settings(), b.Held())
	}
}

func TestOrder(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.changed()
	var order []string
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpWrite {
			order = append(order, a.Name)
			if m.board.cap() != 300*unit.Watt && len(order) < 3 {
				t.Error("board before governors")
			}
		}
		return nil
	})
	m.apply(b, Setting{boardCap, "200000"}, Setting{policy1, "powersave"}, Setting{policy0, "powersave"})
	m.board.sets()
	m.restore(b)
	if want := []string{governorFile(0), governorFile(1), governorFile(0), governorFile(1)}; !slices.Equal(order, want) {
		t.Errorf("order %q", order)
	}
}

func TestEndedContext(t *testing.T) {
	m := newMachine(t)
	found := m.settings()
	b := m.bank()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Apply(ctx, NewPoint(Setting{policy0, "powersave"}, Setting{boardCap, "200000"})); err == nil || m.settings() != found {
		t.Errorf("Apply with an ended context: %v, host has %s", err, m.settings())
	}
}

func TestCrashBetweenJournalAndWrite(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	dead := false
	m.breakFiles(func(a host.Access) error {
		if dead = dead || a.Name == governorFile(0) && a.Op == host.OpWrite; dead {
			return errors.New("the process is dead")
		}
		return nil
	})
	_, _ = b.Apply(t.Context(), NewPoint(Setting{policy0, "powersave"}))
	m.breakFiles(nil)
	if b = m.bank(); b.Held() != 1 || m.governor(0) != "schedutil" {
		t.Fatalf("%d held, host has %s", b.Held(), m.settings())
	}
	if w := m.apply(b, Setting{policy0, "performance"}); len(w) != 1 || w[0].Note != "" || m.governor(0) != "performance" {
		t.Errorf("the next process takes the host as found for somebody else's: %v", w)
	}
}

func TestRefusedWriteHoldsNothing(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.board.with(func(b *board) { b.setErr = host.ErrNoPermission })
	w, err := b.Apply(t.Context(), NewPoint(Setting{boardCap, "200000"}))
	if !errors.Is(err, host.ErrNoPermission) || len(w) != 0 || b.Held() != 0 || len(m.stored().entries) != 0 {
		t.Errorf("%v, %v, %d held", w, err, b.Held())
	}
	if s := b.States(t.Context())[2]; s.State != Free || s.Found != "" {
		t.Errorf("state %+v", s)
	}
}

func TestSpanFollowsTheOwner(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.board.with(func(b *board) { b.limit = 220 * unit.Watt })
	if s := b.States(t.Context())[2]; s.Span.Hi != 220000 || s.Unit != "mW" {
		t.Errorf("span of a free lever %+v, the owner has set 220 W", s.Span)
	}
	m.apply(b, Setting{boardCap, "150000"})
	if s := b.States(t.Context())[2]; s.Span.Hi != 220000 || s.Found != "220000" || s.Wanted != "150000" || s.Value != "150000" {
		t.Errorf("state of a held lever %+v", s)
	}
}
