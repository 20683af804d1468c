package levers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

// pstateMachine is a machine with an active-mode pstate driver.
func pstateMachine(t *testing.T, forgets bool) *machine {
	m := newMachine(t)
	m.addEPP(0, "balance_performance")
	m.forgets = forgets
	return m
}

func both(t *testing.T, f func(t *testing.T, m *machine)) {
	for _, forgets := range []bool{false, true} {
		t.Run(fmt.Sprintf("driver forgets=%v", forgets), func(t *testing.T) { f(t, pstateMachine(t, forgets)) })
	}
}

var (
	slowGovernor = Setting{policy0, "powersave"}
	fastGovernor = Setting{policy0, "performance"}
	thrifty      = Setting{epp0, "balance_power"}
)

// Moving the governor there and back loses the preference on some kernels, though quner never chose one.
func TestPreferenceOfAGovernorThatComesAndGoes(t *testing.T) {
	both(t, func(t *testing.T, m *machine) {
		found := m.settings()
		m.apply(m.bank(), fastGovernor)
		if m.preference(0) != "performance" {
			t.Fatalf("the driver has %q", m.preference(0))
		}
		b := m.bank() // after a crash
		if i := slices.IndexFunc(b.States(t.Context()), func(s State) bool {
			return s.Name == epp0 && s.State == Held && s.Reason == host.ImpliedByOther && s.Found == "balance_performance"
		}); i < 0 {
			t.Errorf("states: %+v", b.States(t.Context()))
		}
		if r := m.restore(b); len(r.Left) != 0 || m.settings() != found || b.Held() != 0 {
			t.Errorf("after restore: %q, was %q; %d held, left %v", m.settings(), found, b.Held(), r.Left)
		}
	})
}

func TestGovernorBeforePreference(t *testing.T) {
	both(t, func(t *testing.T, m *machine) {
		m.someoneSets(governorFile(0), "performance") // found so; the driver keeps balance_performance
		found := m.settings()
		b := m.bank()
		plan, err := b.Plan(t.Context(), NewPoint(slowGovernor, thrifty))
		if err != nil || len(plan) != 2 || plan[0].Lever != policy0 || plan[1].To != thrifty.Value {
			t.Errorf("plan: %v, %v", plan, err)
		}
		m.changed()
		m.apply(b, slowGovernor, thrifty)
		writes := slices.DeleteFunc(m.changed(), func(c string) bool { return !strings.HasPrefix(c, "write sys/") })
		if !slices.Equal(writes, []string{"write " + governorFile(0), "write " + eppFile(0)}) {
			t.Errorf("order of writing: %q", writes)
		}
		if m.preference(0) != "balance_power" {
			t.Errorf("preference %q", m.preference(0))
		}
		if script := b.Script(); strings.Index(script, "energy_performance_preference") > strings.Index(script, "scaling_governor") {
			t.Errorf("the governor of the script would refuse the preference:\n%s", script)
		}
		r := m.restore(m.bank())
		if len(r.Left) != 0 || m.settings() != found {
			t.Errorf("after restore: %q, was %q; left %v", m.settings(), found, r.Left)
		}
		// What the driver keeps for later is as it was, too, unless it forgets.
		m.someoneSets(governorFile(0), "powersave")
		if want := map[bool]string{false: "balance_performance", true: "performance"}[m.forgets]; m.preference(0) != want {
			t.Errorf("once the governor goes the preference is %q, want %q", m.preference(0), want)
		}
	})
}

func TestPreferenceUnderPerformanceIsSkippedWithTheReason(t *testing.T) {
	both(t, func(t *testing.T, m *machine) {
		found, b := m.settings(), m.bank()
		m.apply(b, slowGovernor, thrifty)
		for range 2 { // the second finds everything as it is to be
			writes := m.apply(b, fastGovernor, thrifty)
			if !slices.ContainsFunc(writes, func(w Write) bool {
				return w.Lever == epp0 && strings.Contains(w.Note, `implied by the governor "performance"`)
			}) {
				t.Errorf("writes: %+v", writes)
			}
			if plan, err := b.Plan(t.Context(), NewPoint(fastGovernor, thrifty)); err != nil || len(plan) != 1 {
				t.Errorf("plan of what is: %v, %v", plan, err)
			}
		}
		m.apply(b, slowGovernor, thrifty)
		if m.preference(0) != "balance_power" {
			t.Errorf("preference %q after performance", m.preference(0))
		}
		m.apply(b, fastGovernor)
		m.apply(b)
		if m.settings() != found || b.Held() != 0 {
			t.Errorf("let go: %q, was %q; %d held", m.settings(), found, b.Held())
		}
	})
}

// Someone else's performance is left, and with it the preference: it cannot be put back before that governor goes.
func TestPreferenceUnderSomeoneElsesPerformance(t *testing.T) {
	both(t, func(t *testing.T, m *machine) {
		m.apply(m.bank(), slowGovernor, thrifty)
		m.someoneSets(governorFile(0), "performance")
		b := m.bank()
		r := m.restore(b)
		if len(r.Left) != 1 || r.Left[0].Lever != epp0 || !r.Left[0].Kept || !strings.Contains(r.Left[0].Why, "implied") {
			t.Errorf("left: %v", r.Left)
		}
		if m.governor(0) != "performance" {
			t.Errorf("governor %q is not what someone else set", m.governor(0))
		}
		m.someoneSets(governorFile(0), "powersave")
		if m.forgets {
			return // what reads performance now may be someone's choice: it is left
		}
		if r := m.restore(m.bank()); len(r.Left) != 0 || m.preference(0) != "balance_performance" {
			t.Errorf("once it goes: preference %q, left %v", m.preference(0), r.Left)
		}
	})
}

// The governor takes hold between the look and the write.
func TestPreferenceRefusedWithEBUSY(t *testing.T) {
	m := pstateMachine(t, false)
	b := m.bank()
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpWrite && a.Name == eppFile(0) {
			return unix.EBUSY
		}
		return nil
	})
	writes, err := b.Apply(t.Context(), NewPoint(thrifty))
	if err != nil || len(writes) != 1 || !strings.Contains(writes[0].Note, "implied") || b.Held() != 0 {
		t.Errorf("%+v, %v; %d held", writes, err, b.Held())
	}
}

func TestRawPreferenceIsPutBackVerbatim(t *testing.T) {
	m := newMachine(t)
	m.addEPP(0, "137")
	b := m.bank()
	if err := b.lever(epp0).Set(t.Context(), "137"); err == nil {
		t.Error("a raw number can be chosen")
	}
	m.apply(b, thrifty)
	m.restore(m.bank())
	if m.text(eppFile(0)) != "137\n" {
		t.Errorf("after restore: %q", m.text(eppFile(0)))
	}
}

func TestDiscoverPreferences(t *testing.T) {
	m := newMachine(t)
	if _, missing := Discover(t.Context(), m.host); !slices.ContainsFunc(missing, func(x Missing) bool {
		return x.Name == "epp" && x.Reason == host.NotSupported
	}) {
		t.Errorf("without a pstate driver: %v", missing)
	}
	m.addEPP(0, "performance")
	m.addEPP(1, "performance")
	m.put(strings.Replace(eppFile(1), "preference", "available_preferences", 1), "performance\n")
	found, missing := Discover(t.Context(), m.host)
	got := of(missing, EnergyPreference)
	if len(got) != 1 || got[0].Name != "epp/policy1" || got[0].Reason != host.ZeroRange {
		t.Errorf("missing %v", got)
	}
	i := slices.IndexFunc(found, func(l Lever) bool { return l.Name() == epp0 })
	want := []Value{"performance", "balance_performance", "balance_power", "power"}
	if i < 0 || !slices.Equal(found[i].Span().Choices, want) {
		t.Errorf("found %v: an alias reads back as another value and is not offered", found)
	}
}
