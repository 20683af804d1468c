package levers

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

const scriptPath = "run/quner-admin/restore.sh"

func TestScript(t *testing.T) {
	m := newMachine(t)
	m.board.with(func(b *board) { b.limit = 237500 * unit.Milliwatt })
	b := m.bank()
	m.apply(b, Setting{boardCap, "200000"}, Setting{policy1, "powersave"}, Setting{policy0, "powersave"})
	var lines []string
	for line := range strings.Lines(b.Script()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	file := func(i int) string { return plain(filepath.Join(m.root, governorFile(i))) }
	want := []string{
		"echo 'schedutil' > " + file(0),
		"echo 'schedutil' > " + file(1),
		"nvidia-smi -i " + boardUUID + " -pl 237.5",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("lines %q, want %q", lines, want)
	}
	if alone, err := Script(m.host); err != nil || alone != b.Script() || m.text(scriptPath) != alone {
		t.Errorf("restore.sh, the bank and the journal alone do not agree: %q, %v", alone, err)
	}
	m.restore(b)
	if text := m.text(scriptPath); !strings.Contains(text, "Nothing is moved") || text != b.Script() {
		t.Errorf("after the restore: %q", text)
	}
}

// TestScriptRestores runs the lines in a shell, as a person with no daemon would.
func TestScriptRestores(t *testing.T) {
	m := newMachine(t)
	found := m.text(governorFile(0))
	b := m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	if out, err := exec.Command("sh", filepath.Join(m.root, scriptPath)).CombinedOutput(); err != nil || len(out) != 0 {
		t.Fatalf("%v: %s", err, out)
	}
	if m.text(governorFile(0)) != found {
		t.Errorf("host has %q, was %q", m.text(governorFile(0)), found)
	}
	// The daemon takes it for what it is.
	if r := m.restore(m.bank()); len(r.Writes)+len(r.Left) != 0 {
		t.Errorf("restore after the script: %v", r)
	}
}

func TestScriptIsNotWorthAnApply(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.breakFiles(func(a host.Access) error {
		if a.Op.Changes() && strings.HasPrefix(a.Name, "run/") {
			return unix.ENOSPC
		}
		return nil
	})
	m.apply(b, Setting{policy0, "powersave"})
	m.apply(b, Setting{policy0, "performance"})
	if n := strings.Count(m.log.String(), "file not written"); m.governor(0) != "performance" || n != 1 || len(b.Degraded()) != 1 {
		t.Errorf("host has %s, said %d times", m.settings(), n)
	}
	m.breakFiles(nil)
	m.restore(b)
	if !strings.Contains(m.log.String(), "is written again") || len(b.Degraded()) != 0 {
		t.Error("the end of the trouble was not said")
	}
}

func TestShellQuoting(t *testing.T) {
	for _, s := range []string{"it's", "$(reboot)", "`id`", `\`, "a b", "-n", "~", ""} {
		out, err := exec.Command("sh", "-c", "printf %s "+plain(s)+quoted(s)).Output()
		if err != nil || string(out) != s+s {
			t.Errorf("%q became %q, %v", s, out, err)
		}
	}
}

func TestLineForWhatIsNotKnown(t *testing.T) {
	text := script(journal{entries: []entry{
		{Lever: "later/one", Kind: "later", Original: "$(reboot)", address: address{Path: "/sys/it's"}},
		{Lever: "later/two", Kind: "later", Original: "7"},
		{Lever: boardCap, Kind: GPUCap, Original: "much", address: address{UUID: boardUUID}},
	}})
	for _, want := range []string{`echo '$(reboot)' > '/sys/it'\''s'`, "# later/two", "# " + boardCap} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
