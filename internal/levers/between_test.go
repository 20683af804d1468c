package levers

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

// butIn has somebody else write v to a file right after the next write of quner's to it, before that is read back; with
// after, only after that: between the lever's own look and the bank's.
func (m *machine) butIn(file, v string, after int) {
	wrote, reads := false, 0
	m.breakFiles(func(a host.Access) error {
		switch {
		case canonical(a.Name) != file:
		case a.Op == host.OpWrite:
			wrote = true
		case wrote && a.Op == host.OpRead:
			if reads++; reads == after+1 {
				m.put(file, v+"\n")
			}
		}
		return nil
	})
}

// entry is what the journal on disk has of a lever; nil if nothing.
func (m *machine) entry(lever string) *entry {
	j := m.stored()
	return j.find(lever)
}

func TestAChoiceWrittenInBetweenIsSomebodyElses(t *testing.T) {
	for name, after := range map[string]int{"before the lever looks": 0, "before the bank looks": 1} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			b := m.bank()
			m.butIn(governorFile(0), "ondemand", after)
			w := m.apply(b, Setting{policy0, "powersave"})
			m.breakFiles(nil)
			if len(w) != 1 || w[0].Moved() || !strings.Contains(w[0].Note, `someone else has set "ondemand"`) {
				t.Errorf("said %v", w)
			}
			if b.Held() != 0 || len(m.stored().entries) != 0 {
				t.Errorf("journalled as ours: %+v", m.stored().entries)
			}
			if s := b.States(t.Context())[0]; s.State != Yielded {
				t.Errorf("state %+v", s)
			}
			r := m.restore(b)
			if m.governor(0) != "ondemand" || len(r.Left) != 1 || !strings.Contains(r.Left[0].Why, `it was found as "schedutil"`) {
				t.Errorf("restore: %+v, host has %s", r, m.settings())
			}
			if _, err := b.Restore(t.Context(), true); err != nil || m.governor(0) != "schedutil" {
				t.Errorf("forced: %v, host has %s", err, m.settings())
			}
		})
	}
}

func TestAChoiceWrittenInBetweenWhileHeld(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	m.butIn(governorFile(0), "ondemand", 0)
	m.apply(b, Setting{policy0, "conservative"})
	m.breakFiles(nil)
	if r := m.restore(b); m.governor(0) != "ondemand" || len(r.Left) != 1 || b.Held() != 0 {
		t.Errorf("%+v, host has %s", r, m.settings())
	}
}

func TestARestoreThatIsOvertakenIsNotRepeated(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	m.butIn(governorFile(0), "ondemand", 0)
	r, err := b.Restore(t.Context(), false)
	m.breakFiles(nil)
	if !errors.Is(err, ErrNotTaken) || len(r.Left) != 1 || !r.Left[0].Kept {
		t.Errorf("%+v, %v", r, err)
	}
	if e := m.entry(policy0); e == nil || e.Original != "schedutil" || slices.Contains(e.Ours, "ondemand") {
		t.Errorf("journal has %+v", e)
	}
	if r := m.restore(b); m.governor(0) != "ondemand" || len(r.Left) != 1 || r.Left[0].Kept {
		t.Errorf("the next restore overwrote it: %+v, host has %s", r, m.settings())
	}
	if _, err := b.Restore(t.Context(), true); err != nil || m.governor(0) != "schedutil" {
		t.Errorf("forced: %v, host has %s", err, m.settings())
	}
}

// A number is rounded and clamped by devices, so what is read back stays ours, but for one that no wish for less leads to.
func TestANumberWrittenInBetween(t *testing.T) {
	for now, ours := range map[string]bool{"130000000": true, "100000000": true, "280000000": true, "290000000": false} {
		m := newMachine(t)
		m.addCard("280000000", "100000000", "300000000")
		b := m.bank()
		m.apply(b, Setting{card0, "200000000"})
		m.butIn(capFile, now, 0)
		_, err := b.Apply(t.Context(), NewPoint(Setting{card0, "150000000"}))
		m.breakFiles(nil)
		if errors.Is(err, ErrNotTaken) != ours {
			t.Errorf("%s: %v", now, err)
		}
		m.restore(b)
		want := now
		if ours {
			want = "280000000"
		}
		if got := strings.TrimSpace(m.text(capFile)); got != want {
			t.Errorf("%s: after a restore the card has %s, want %s", now, got, want)
		}
		_ = m.host.GPUs.Close()
	}
}

func TestForceOfAYieldIsJournalledFirst(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	m.setGovernor(0, "performance")
	m.apply(b, Setting{policy0, "powersave"})
	if len(m.stored().entries) != 0 {
		t.Fatal("a yielded lever stays in the journal")
	}
	m.changed()
	var atWrite journal
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpWrite && a.Name == governorFile(0) {
			atWrite = m.stored()
		}
		return nil
	})
	r, err := b.Restore(t.Context(), true)
	m.breakFiles(nil)
	if err != nil || len(r.Writes) != 1 || r.Writes[0].To != "schedutil" || len(r.Left) != 0 || m.governor(0) != "schedutil" {
		t.Fatalf("%+v, %v, host has %s", r, err, m.settings())
	}
	if e := atWrite.find(policy0); e == nil || e.Original != "schedutil" || !slices.Equal(e.Ours, []Value{"schedutil"}) {
		t.Errorf("at the write the journal had %+v", e)
	}
	if b.Held() != 0 || len(m.stored().entries) != 0 || b.States(t.Context())[0].State != Free {
		t.Errorf("after it: %+v, %+v", m.stored().entries, b.States(t.Context())[0])
	}
}

func TestForceOfAYieldWithoutAJournalMovesNothing(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	m.setGovernor(0, "performance")
	m.apply(b, Setting{policy0, "powersave"})
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpCreate && strings.HasPrefix(a.Name, "var/") {
			return unix.ENOSPC
		}
		return nil
	})
	r, err := b.Restore(t.Context(), true)
	if !errors.Is(err, ErrJournal) || len(r.Writes) != 0 || len(r.Left) != 1 || r.Left[0].Kept || m.governor(0) != "performance" {
		t.Errorf("%+v, %v, host has %s", r, err, m.settings())
	}
	m.breakFiles(nil)
	if _, err := b.Restore(t.Context(), true); err != nil || m.governor(0) != "schedutil" {
		t.Errorf("with the journal back: %v, host has %s", err, m.settings())
	}
}

func TestAYieldIsSaidUntilItEnds(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	tuned := Setting{policy0, "powersave"}
	m.apply(b, tuned)
	m.setGovernor(0, "performance")
	m.apply(b, tuned)
	file := m.host.Sys.File("devices/system/cpu/cpufreq/policy0/scaling_governor")
	want := Left{policy0, `someone else has set "performance"; it was found as "schedutil"; to put it back: echo 'schedutil' > ` + file, false}
	for range 2 {
		m.changed()
		plan, err := b.PlanRestore(t.Context(), false)
		if err != nil || !slices.Equal(plan.Left, []Left{want}) || len(plan.Writes) != 0 {
			t.Errorf("plan %+v, %v", plan, err)
		}
		if r := m.restore(b); !slices.Equal(r.Left, []Left{want}) || len(r.Writes) != 0 || len(m.changed()) != 0 {
			t.Errorf("restore %+v, changes %v", r, m.changed())
		}
	}
	if plan, err := b.PlanRestore(t.Context(), true); err != nil || len(plan.Left) != 0 || len(plan.Writes) != 1 || plan.Writes[0].To != "schedutil" {
		t.Errorf("forced plan %+v, %v", plan, err)
	}
	// Its original ends it, and the lever is quner's again.
	m.setGovernor(0, "schedutil")
	if r := m.restore(b); len(r.Left)+len(r.Writes) != 0 {
		t.Errorf("back at its original, and still %+v", r)
	}
	m.apply(b, tuned)
	if e := m.entry(policy0); m.governor(0) != "powersave" || e == nil || e.Original != "schedutil" {
		t.Errorf("host has %s, journal %+v", m.settings(), e)
	}
	// So does the end of the process: the next one finds what it finds.
	m.setGovernor(0, "performance")
	m.apply(b, tuned)
	b = m.bank()
	if r := m.restore(b); len(r.Left) != 0 {
		t.Errorf("another process knows of it: %+v", r)
	}
	m.apply(b, tuned)
	if e := m.entry(policy0); e == nil || e.Original != "performance" {
		t.Errorf("fresh original: %+v", e)
	}
}

// Taking outranks drift also where the bank has not seen it yet, and a plan with the lever taken says what Apply will do.
func TestTakeOfALeverThatHasJustBeenMoved(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	tuned := NewPoint(Setting{policy0, "powersave"})
	m.apply(b, tuned...)
	m.setGovernor(0, "performance")
	bringBack := b.Owners()
	if err := b.Take(policy0); err != nil {
		t.Fatal(err)
	}
	plan, err := b.Plan(t.Context(), tuned)
	bringBack()
	if left, err := b.Plan(t.Context(), tuned); err != nil || len(left) != 1 || left[0].Moved() {
		t.Errorf("a trial of taking is not taken back: %v, %v", left, err)
	}
	if err != nil || len(plan) != 1 || plan[0].From != "performance" || plan[0].To != "powersave" {
		t.Errorf("plan %v, %v", plan, err)
	}
	if err := b.Take(policy0); err != nil {
		t.Fatal(err)
	}
	if w := m.apply(b, tuned...); !slices.Equal(w, plan) || m.entry(policy0).Original != "performance" {
		t.Errorf("%v, planned %v; journal %+v", w, plan, m.stored().entries)
	}
	m.setGovernor(0, "ondemand")
	if m.apply(b, tuned...); m.governor(0) != "ondemand" {
		t.Error("taking lasts beyond one Apply")
	}
}

func TestForcedPreferenceOfAYieldUnderAGovernor(t *testing.T) {
	m := pstateMachine(t, false)
	b := m.bank()
	point := []Setting{{"epp/policy0", "power"}}
	m.apply(b, point...)
	m.put(eppFile(0), "balance_power\n")
	m.apply(b, point...)
	if b.Held() != 0 {
		t.Fatalf("%d held", b.Held())
	}
	m.apply(b, Setting{policy0, "performance"})
	if _, err := b.Restore(t.Context(), false); err != nil || strings.TrimSpace(m.text(eppFile(0))) == "balance_performance" {
		t.Errorf("%v: without force the preference is %q", err, m.text(eppFile(0)))
	}
	for range 2 {
		if _, err := b.Restore(t.Context(), true); err != nil {
			t.Error(err)
		}
	}
	if got := strings.TrimSpace(m.text(eppFile(0))); got != "balance_performance" || b.Held() != 0 {
		t.Errorf("forced: %q, %d held", got, b.Held())
	}
}
