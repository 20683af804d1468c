package levers

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

func TestDiscoverAMDCards(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*machine)
		span    *Span
		missing string // "name REASON"
	}{
		"none": {func(*machine) {}, nil, "amdgpu ABSENT"},
		"another driver's card": {func(m *machine) {
			m.addCard("200000000", "", "220000000")
			m.put(cardDir+"/hwmon/hwmon5/name", "nouveau\n")
		}, nil, "amdgpu ABSENT"},
		"as usual": {func(m *machine) { m.addCard("220000000", "100000000", "244000000") },
			&Span{Lo: 100_000_000, Hi: 220_000_000, Step: 1_000_000, Unit: "µW"}, ""},
		"no minimum, before Linux 6.7": {func(m *machine) { m.addCard("220000000", "0", "244000000") },
			&Span{Lo: 61_000_000, Hi: 220_000_000, Step: 1_000_000, Unit: "µW"}, ""},
		"no file for it": {func(m *machine) { m.addCard("220000000", "", "244000000") },
			&Span{Lo: 61_000_000, Hi: 220_000_000, Step: 1_000_000, Unit: "µW"}, ""},
		"minimum and maximum are one": {func(m *machine) { m.addCard("220000000", "220000000", "220000000") }, nil, card0 + " ZERO_RANGE"},
		"no cap":                      {func(m *machine) { m.addCard("", "", "") }, nil, card0 + " NOT_SUPPORTED"},
		"no maximum":                  {func(m *machine) { m.addCard("220000000", "100000000", "") }, nil, card0 + " ABSENT"},
		"asleep": {func(m *machine) {
			m.addCard("220000000", "100000000", "244000000")
			m.sleep(true)
			m.breakFiles(func(a host.Access) error {
				if a.Op == host.OpRead && strings.Contains(canonical(a.Name), "/power1_") {
					m.t.Errorf("reading %s wakes the card", a.Name)
				}
				return nil
			})
		}, nil, card0 + " SUSPENDED"},
		"being reset": {func(m *machine) {
			m.addCard("220000000", "100000000", "244000000")
			m.breakFiles(func(a host.Access) error {
				if a.Op == host.OpRead && canonical(a.Name) == capFile {
					return unix.EPERM
				}
				return nil
			})
		}, nil, card0 + " SUSPENDED"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			c.change(m)
			found, missing := Discover(t.Context(), m.host)
			defer m.host.GPUs.Close()
			i := slices.IndexFunc(found, func(l Lever) bool { return l.Kind() == AMDCap })
			missing = of(missing, AMDCap)
			switch {
			case c.span != nil:
				if i < 0 || len(missing) != 0 || found[i].Name() != card0 || found[i].Span().Hi != c.span.Hi || found[i].Span().Lo != c.span.Lo {
					t.Errorf("found %v, missing %v", found, missing)
				}
			case i >= 0 || len(missing) != 1 || missing[0].Name+" "+string(missing[0].Reason) != c.missing:
				t.Errorf("found %v, missing %v, want %q", found, missing, c.missing)
			}
		})
	}
}

// edgy lets the card refuse the ends of its range themselves, as some do.
func (m *machine) edgy() {
	m.breakFiles(func(a host.Access) error {
		if v := strings.TrimSpace(string(a.Data)); a.Op == host.OpWrite && canonical(a.Name) == capFile && (v == "210000000" || v == "300000000") {
			return unix.EINVAL
		}
		return nil
	})
}

func TestEdgeIsRetriedOneWattInside(t *testing.T) {
	for edge, inside := range map[Value]Value{"210000000": "211000000", "300000000": "299000000"} {
		m := newMachine(t)
		m.addCard("280000000", "210000000", "300000000")
		b, err := Options{AllowRaise: true}.OpenBank(t.Context(), m.host, nil)
		if err != nil {
			t.Fatal(err)
		}
		m.edgy()
		writes := m.apply(b, Setting{card0, edge})
		if len(writes) != 1 || writes[0].To != inside || !strings.Contains(writes[0].Note, string(edge)) {
			t.Errorf("%s: %+v", edge, writes)
		}
		m.changed()
		if writes = m.apply(b, Setting{card0, edge}); len(writes) != 1 || writes[0].Moved() || len(m.changed()) != 0 {
			t.Errorf("%s: the second time %+v", edge, writes)
		}
		m.restore(m.bank())
		if m.text(capFile) != "280000000\n" {
			t.Errorf("restored %q", m.text(capFile))
		}
		_ = m.host.GPUs.Close()
	}
}

func TestEdgeThatIsRefusedInsideTooIsNotSupported(t *testing.T) {
	m := newMachine(t)
	m.addCard("280000000", "210000000", "300000000")
	b := m.bank()
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpWrite && canonical(a.Name) == capFile {
			return unix.EINVAL
		}
		return nil
	})
	m.changed()
	_, err := b.Apply(t.Context(), NewPoint(Setting{card0, "210000000"}))
	tries := slices.DeleteFunc(m.changed(), func(c string) bool { return !strings.Contains(c, "power1_cap") })
	if host.ReasonOf(err) != host.NotSupported || len(tries) != 2 {
		t.Errorf("%v (%s) after %d writes", err, host.ReasonOf(err), len(tries))
	}
}

// A newer kernel may take less: a stored point is clamped, and that is said.
func TestStoredPointAboveALoweredMaximum(t *testing.T) {
	m := newMachine(t)
	m.addCard("220000000", "100000000", "220000000")
	writes := m.apply(m.bank(), Setting{card0, "244000000"}, Setting{policy0, "powersave"})
	i := slices.IndexFunc(writes, func(w Write) bool { return w.Lever == card0 })
	if i < 0 || writes[i].To != "220000000" || !strings.Contains(writes[i].Note, "clamped from 244000000") {
		t.Errorf("%+v", writes)
	}
}

func TestSleepingCardWaits(t *testing.T) {
	for name, known := range map[string]bool{"falls asleep": true, "asleep from the start": false} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.addCard("280000000", "100000000", "300000000")
			m.sleep(!known)
			b := m.bank()
			m.sleep(true)
			p := NewPoint(Setting{card0, "200000000"}, Setting{policy0, "powersave"})
			writes, err := b.Apply(t.Context(), p)
			if err != nil || m.text(capFile) != "280000000\n" || m.governor(0) != "powersave" {
				t.Errorf("%+v, %v; cap %q", writes, err, m.text(capFile))
			}
			if i := slices.IndexFunc(writes, func(w Write) bool { return w.Lever == card0 && strings.Contains(w.Note, "waits") }); i < 0 {
				t.Errorf("not said: %+v", writes)
			}
			if b.Due(t.Context()) {
				t.Error("due while it sleeps")
			}
			m.sleep(false)
			if !b.Due(t.Context()) {
				t.Error("not due once it is awake")
			}
			m.apply(b, p...)
			if m.text(capFile) != "200000000\n" || b.Due(t.Context()) || m.host.GPUs.Wakes() != 0 {
				t.Errorf("cap %q, due %v, %d wakes", m.text(capFile), b.Due(t.Context()), m.host.GPUs.Wakes())
			}
		})
	}
}

// An original outranks sleep, once, at the stop.
func TestOriginalOfASleepingCard(t *testing.T) {
	for name, crash := range map[string]bool{"at the stop": false, "after a crash": true} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.addCard("280000000", "100000000", "300000000")
			found, b := m.settings(), m.bank()
			m.apply(b, Setting{card0, "200000000"})
			m.sleep(true)
			m.breakFiles(func(a host.Access) error { // a look at its sensors wakes it
				if a.Op == host.OpRead && canonical(a.Name) == capFile {
					m.sleep(false)
				}
				return nil
			})
			if crash {
				b = m.bank()
			}
			if writes, err := b.Apply(t.Context(), nil); err != nil || m.host.GPUs.Wakes() != 0 || m.settings() == found {
				t.Errorf("letting go for a while woke it: %+v, %v", writes, err)
			}
			if r, err := b.PlanRestore(t.Context(), false); err != nil || len(r.Left) != 1 || m.host.GPUs.Wakes() != 0 {
				t.Errorf("planning: %+v, %v", r, err)
			}
			if r := m.restore(b); len(r.Left) != 0 || m.settings() != found || m.host.GPUs.Wakes() != 1 {
				t.Errorf("restored %q, was %q; left %v, %d wakes", m.settings(), found, r.Left, m.host.GPUs.Wakes())
			}
		})
	}
}

func TestCardThatCannotBeWoken(t *testing.T) {
	m := newMachine(t)
	m.addCard("280000000", "100000000", "300000000")
	b := m.bank()
	m.apply(b, Setting{card0, "200000000"})
	m.sleep(true)
	m.breakFiles(func(a host.Access) error {
		if strings.HasSuffix(canonical(a.Name), "/power1_cap") {
			return unix.EPERM
		}
		return nil
	})
	r, err := b.Restore(t.Context(), false)
	if err != nil || len(r.Left) != 1 || !r.Left[0].Kept || !errors.Is(b.States(t.Context())[len(b.States(t.Context()))-1].Err, host.ErrSuspended) {
		t.Errorf("left %v, %v", r.Left, err)
	}
	m.breakFiles(nil)
	m.sleep(false)
	if r := m.restore(m.bank()); len(r.Left) != 0 || m.text(capFile) != "280000000\n" {
		t.Errorf("once it is awake: %v, cap %q", r.Left, m.text(capFile))
	}
}
