package levers

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/qunerd/quner/internal/host"
)

// boardSleeps puts the board under run-time power management, asleep or not.
func (m *machine) boardSleeps(asleep bool) {
	const dir = "sys/bus/pci/devices/0000:01:00.0/"
	for file, text := range map[string]string{
		"vendor": "0x10de", "class": "0x030000", "power/control": "auto",
		"power/runtime_status": map[bool]string{true: "suspended", false: "active"}[asleep],
	} {
		m.put(dir+file, text+"\n")
	}
}

func TestSleepingBoardIsNotWoken(t *testing.T) {
	m := newMachine(t)
	m.boardSleeps(true)
	b := m.bank()
	missing := of(b.Missing(), GPUCap)
	if len(missing) != 1 || missing[0].Name != "nvml/0000:01:00.0" || missing[0].Reason != host.Suspended {
		t.Errorf("missing %v", missing)
	}
	// A stored point names the board by its UUID, which nobody knows while it sleeps.
	p := NewPoint(Setting{boardCap, "200000"}, Setting{policy0, "powersave"})
	writes, err := b.Apply(t.Context(), p)
	waits := func(w Write) bool { return w.Lever == boardCap && strings.Contains(w.Note, "waits") }
	if err != nil || m.governor(0) != "powersave" || !slices.ContainsFunc(writes, waits) {
		t.Errorf("%+v, %v", writes, err)
	}
	if b.Due(t.Context()) || m.host.GPUs.Wakes() != 0 {
		t.Errorf("due %v, %d wakes", b.Due(t.Context()), m.host.GPUs.Wakes())
	}
	m.boardSleeps(false)
	opened, err := m.host.GPUs.Retry(t.Context())
	if !opened || err != nil || !b.Due(t.Context()) {
		t.Fatalf("awake: opened %v, %v, due %v", opened, err, b.Due(t.Context()))
	}
	m.apply(b, p...)
	if milliwatts(m.board.cap()) != "200000" || b.Due(t.Context()) || len(of(b.Missing(), GPUCap)) != 0 {
		t.Errorf("cap %v; missing %v", m.board.cap(), b.Missing())
	}
	m.restore(b)
	if m.host.GPUs.Wakes() != 0 {
		t.Errorf("%d wakes", m.host.GPUs.Wakes())
	}
}

// After a crash the board may sleep with a cap of ours: one counted wake puts it back, at the stop and not before.
func TestOriginalOfASleepingBoard(t *testing.T) {
	m := newMachine(t)
	m.boardSleeps(false)
	found := m.settings()
	m.apply(m.bank(), Setting{boardCap, "200000"})
	m.boardSleeps(true)
	b := m.bank()
	states := b.States(t.Context())
	if last := states[len(states)-1]; last.Name != boardCap || last.State != Lost || last.Reason != host.Suspended {
		t.Errorf("state %+v", last)
	}
	if _, err := b.Apply(t.Context(), nil); err != nil || m.host.GPUs.Wakes() != 0 {
		t.Errorf("letting go for a while: %v, %d wakes", err, m.host.GPUs.Wakes())
	}
	if r, err := b.PlanRestore(t.Context(), false); err != nil || len(r.Left) != 1 || m.host.GPUs.Wakes() != 0 {
		t.Errorf("planning: %+v, %v; %d wakes", r, err, m.host.GPUs.Wakes())
	}
	if r := m.restore(b); len(r.Left) != 0 || m.settings() != found || m.host.GPUs.Wakes() != 1 {
		t.Errorf("restored %q, was %q; left %v, %d wakes", m.settings(), found, r.Left, m.host.GPUs.Wakes())
	}
}

func TestNothingIsWokenForNothing(t *testing.T) {
	m := newMachine(t)
	m.boardSleeps(true)
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	m.restore(b)
	if m.host.GPUs.Wakes() != 0 || len(m.host.GPUs.All()) != 0 {
		t.Errorf("%d wakes", m.host.GPUs.Wakes())
	}
}

func TestAllowRaise(t *testing.T) {
	for _, allow := range []bool{false, true} {
		m := newMachine(t)
		m.addZone("intel-rapl:0", "package-0", "45000000", "65000000")
		m.addCard("200000000", "100000000", "244000000")
		found := m.settings()
		b, err := Options{AllowRaise: allow}.OpenBank(t.Context(), m.host, nil)
		if err != nil {
			t.Fatal(err)
		}
		highest := map[string]Value{boardCap: "350000", package0: "65000000", card0: "244000000"}
		for name, v := range highest {
			if err := b.lever(name).Span().Allows(v); errors.Is(err, ErrOutOfSpan) == allow {
				t.Errorf("allow_raise %v: %s at %s: %v", allow, name, v, err)
			}
			m.apply(b, Setting{name, v})
		}
		if !allow && m.settings() != found {
			t.Errorf("something is above what was found: %q, was %q", m.settings(), found)
		}
		m.restore(b)
		if m.settings() != found {
			t.Errorf("allow_raise %v: restored %q, was %q", allow, m.settings(), found)
		}
		_ = m.host.GPUs.Close()
	}
}
