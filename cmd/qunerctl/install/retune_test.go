package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/qunerd/quner/deploy/systemd"
)

func (m *machine) wishing(retune string) Wish {
	w := m.wish()
	w.Retune = &retune
	return w
}

const timerLink = "/etc/systemd/system/timers.target.wants/quner-retune.timer"

// The timer can be slowed down, ended and begun again, and an upgrade leaves it as it is.
func TestTheTimerIsAsItIsWished(t *testing.T) {
	m := newMachine(t)
	before := m.tree()
	m.install()
	timer := func() string { return m.read("/etc/systemd/system/quner-retune.timer") }
	if _, on := m.tree()[timerLink]; !on || !strings.Contains(timer(), "\nOnUnitActiveSec=30min\n") {
		t.Errorf("the timer at first:\n%s", timer())
	}
	do := func(retune string, calls ...string) {
		t.Helper()
		m.calls = nil
		if _, err := m.act(m.wishing(retune), Install); err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			if !slices.Contains(m.calls, c) {
				t.Errorf("%q: ran %q, not %q", retune, m.calls, c)
			}
		}
		if slices.Contains(m.calls, "systemctl restart qunerd.service") {
			t.Errorf("%q: the daemon is restarted", retune)
		}
	}
	do("2h0m0s", "systemctl daemon-reload", "systemctl restart quner-retune.timer")
	if !strings.Contains(timer(), "\nOnUnitActiveSec=7200s\n") {
		t.Errorf("every two hours:\n%s", timer())
	}
	do(RetuneOff, "systemctl disable --now quner-retune.timer")
	if _, on := m.tree()[timerLink]; on || m.state[systemd.RetuneTimer] != "inactive" {
		t.Error("the timer goes on")
	}
	m.release("v2")
	m.calls = nil
	m.install()
	if _, on := m.tree()[timerLink]; on || slices.ContainsFunc(m.calls, func(c string) bool { return strings.Contains(c, "timer") }) {
		t.Errorf("an upgrade brings the timer back: %q", m.calls)
	}
	do("", "systemctl enable quner-retune.timer", "systemctl start quner-retune.timer")
	if m.state[systemd.RetuneTimer] != "active" || !strings.Contains(timer(), "\nOnUnitActiveSec=30min\n") {
		t.Errorf("the timer at last: %s\n%s", m.state[systemd.RetuneTimer], timer())
	}
	m.uninstall(true)
	m.same(m.tree(), before, "after uninstalling")
}

func TestTheTimerInAStagedTree(t *testing.T) {
	m := newMachine(t)
	m.live = false
	if _, err := m.act(m.wishing(RetuneOff), Install); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(m.root, timerLink)); err == nil {
		t.Error("the timer is enabled in the tree")
	}
	if _, err := m.act(m.wishing(""), Install); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(m.root, timerLink)); err != nil {
		t.Errorf("the timer is not enabled in the tree: %v", err)
	}
	if _, err := m.act(m.wishing(RetuneOff), Install); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(m.root, timerLink)); err == nil {
		t.Error("the timer is still enabled in the tree")
	}
}

func TestParseRetune(t *testing.T) {
	for text, want := range map[string]string{"off": "off", "30m": "", "0.5h": "", "45m": "45m0s", "5m": "5m0s", "4m59s": "?", "721h": "?", "": "?", "x": "?"} {
		got, err := ParseRetune(text, time.ParseDuration)
		if err != nil {
			got = "?"
		}
		if got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
