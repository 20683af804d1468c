package levers

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

func TestSomeoneElse(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"}, Setting{policy1, "powersave"}, Setting{boardCap, "200000"})
	m.setGovernor(0, "performance")
	m.board.with(func(b *board) { b.limit = 250 * unit.Watt })
	if s := b.States(t.Context()); s[0].State != Yielded || s[1].State != Held || s[2].State != Yielded {
		t.Errorf("states %+v", s)
	}
	r := m.restore(b)
	if m.governor(0) != "performance" || m.governor(1) != "schedutil" || m.board.cap() != 250*unit.Watt {
		t.Errorf("host has %s", m.settings())
	}
	if len(r.Left) != 2 || r.Left[0].Lever != policy0 || r.Left[0].Kept || b.Held() != 0 {
		t.Errorf("left %v, %d held", r.Left, b.Held())
	}
}

func TestForce(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	m.setGovernor(0, "performance")
	plan, err := b.PlanRestore(t.Context(), true)
	if err != nil || len(plan.Writes) != 1 || m.governor(0) != "performance" {
		t.Fatalf("plan %v, %v", plan, err)
	}
	if r, err := b.Restore(t.Context(), true); err != nil || len(r.Left) != 0 || m.governor(0) != "schedutil" {
		t.Errorf("forced: %v, %v, host has %s", r, err, m.settings())
	}
}

func TestForceThatFails(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	m.setGovernor(0, "performance")
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpWrite && a.Name == governorFile(0) {
			return unix.EBUSY
		}
		return nil
	})
	if r, err := b.Restore(t.Context(), true); !errors.Is(err, unix.EBUSY) || len(r.Left) != 1 || !r.Left[0].Kept {
		t.Fatalf("%v, %v", r, err)
	}
	m.breakFiles(nil)
	if r := m.restore(b); m.governor(0) != "performance" || len(r.Left) != 1 || r.Left[0].Kept {
		t.Errorf("an attempt made somebody else's value ours: %v, host has %s", r, m.settings())
	}
}

func TestYieldLasts(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	tuned := Setting{policy0, "powersave"}
	m.apply(b, tuned)
	m.setGovernor(0, "performance")
	for range 3 {
		w := m.apply(b, tuned)
		if len(w) != 1 || w[0].Moved() || !strings.Contains(w[0].Note, "yielded") || m.governor(0) != "performance" {
			t.Fatalf("writes %v, host has %s", w, m.settings())
		}
	}
	if n := strings.Count(m.log.String(), "lever yielded"); n != 1 {
		t.Errorf("said %d times", n)
	}
	if s := b.States(t.Context())[0]; s.State != Yielded || s.Found != "" {
		t.Errorf("state %+v", s)
	}
	if err := b.Take(policy0); err != nil {
		t.Fatal(err)
	}
	m.apply(b, tuned)
	if m.governor(0) != "powersave" || m.stored().entries[0].Original != "performance" {
		t.Errorf("taken: %+v", m.stored().entries)
	}
	m.setGovernor(0, "ondemand")
	m.apply(b, tuned)
	if w := m.apply(b); len(w) != 1 || w[0].Moved() || !strings.Contains(w[0].Note, `it was found as "performance"`) {
		t.Errorf("letting go says %v", w)
	}
	if m.apply(b, tuned); m.governor(0) != "ondemand" || b.Held() != 0 {
		t.Errorf("letting go ended the yielding: host has %s", m.settings())
	}
	if err := b.Take("cpufreq/policy9"); !errors.Is(err, ErrUnknown) {
		t.Errorf("Take of nothing: %v", err)
	}
}

func TestUserSetsTheOriginalHimself(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	m.setGovernor(0, "schedutil")
	if w := m.apply(b, Setting{policy0, "powersave"}); m.governor(0) != "schedutil" || len(w) != 1 {
		t.Errorf("undone by a human, done again: %v", w)
	}
	m.changed()
	if r := m.restore(b); len(r.Writes) != 0 || slices.Contains(m.changed(), "write "+governorFile(0)) {
		t.Errorf("restore wrote what was there: %v", r)
	}
}
