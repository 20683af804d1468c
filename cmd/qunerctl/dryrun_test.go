package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/internal/host/hostsim"
)

// looking are the verbs that change nothing, so need no --dry-run.
func looking() []string {
	return []string{
		"", "doctor", "status", "meter", "meter open", "meter mark", "meter close", "meter list", "history", "version", "man DIR", "rollback",
		"points", "points list", "points show", "savings", "floor", "floor list", "levers", "levers list",
		"prime", "prime status", // of this machine, not of the daemon's
		"completion", "completion bash", "completion zsh", "completion fish", "completion powershell", "help",
	}
}

// moving are the verbs that change something, each with arguments that would.
func moving(lever string) map[string][]string {
	return map[string][]string{
		"profile":       {"profile", "training"},
		"pause":         {"pause", "1h"},
		"resume":        {"resume"},
		"apply":         {"apply", "--restore", "--force"},
		"tune":          {"tune", "--apply", "--", "true"},
		"selftest":      {"selftest"},
		"retune":        {"retune"},
		"points forget": {"points", "forget", "--all"},
		"floor measure": {"floor", "measure", "--all-points"},
		"floor forget":  {"floor", "forget", "--all"},
		"levers take":   {"levers", "take", lever},
		"levers yield":  {"levers", "yield", lever},
		"prime enable":  {"prime", "enable"},
		"prime disable": {"prime", "disable"},
		"install":       {"install", "--yes"},
		"uninstall":     {"uninstall", "--yes", "--purge"},
	}
}

func TestEveryVerbThatMovesHasADryRun(t *testing.T) {
	known := moving("governor")
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "qunerctl"), " ")
		_, moves := known[name]
		switch {
		case moves && c.Flags().Lookup("dry-run") == nil:
			t.Errorf("%q moves the machine and has no --dry-run", name)
		case moves:
		case !slices.Contains(looking(), strings.TrimSuffix(name, " DIR")) && !slices.Contains(looking(), name+" DIR"):
			t.Errorf("%q is a new verb: list it as looking, or as moving with a --dry-run", name)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root := (&app{}).root()
	root.InitDefaultCompletionCmd()
	walk(root)
}

// TestADryRunWritesNothing runs every verb that moves, on every simulated host, against the real daemon.
func TestADryRunWritesNothing(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "../qunerd", ".").CombinedOutput(); err != nil {
		t.Fatalf("build of both programs: %v\n%s", err, out)
	}
	for _, name := range hostsim.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "q")
			startDaemon(t, bin, name, dir)
			lever := "governor"
			if name == "vm" {
				lever = "cpufreq/policy0" // which it does not have: the refusal writes nothing either
			}
			for verb, args := range moving(lever) {
				before := remains(t, dir)
				args = slices.Insert(slices.Clone(args), len(strings.Fields(verb)), "--dry-run")
				out := runCtl(t, bin, dir, args...)
				if after := remains(t, dir); after != before {
					t.Errorf("qunerctl %s has written:\n%s\nbefore:\n%s\nits output:\n%s", strings.Join(args, " "), after, before, out)
				}
			}
		})
	}
}

// startDaemon runs the real daemon until the test ends.
func startDaemon(t *testing.T, bin, name, dir string) {
	t.Helper()
	log := new(bytes.Buffer)
	d := exec.Command(filepath.Join(bin, "qunerd"), "run", "--simulate", name, "--dir", dir)
	d.Stderr = log
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.Process.Signal(os.Interrupt)
		if err := d.Wait(); err != nil {
			t.Errorf("qunerd: %v\n%s", err, log)
		}
	})
	for range 300 {
		if out := runCtl(t, bin, dir, "status"); strings.HasPrefix(out, "qunerd ") && !strings.Contains(out, profileWord(0)) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the daemon does not answer")
}

// runCtl runs qunerctl and returns all it says; its exit status does not matter here. It is the program without the race
// detector, which starts faster than this test binary, some two hundred times.
func runCtl(t *testing.T, bin, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "qunerctl"), args...)
	cmd.Env = append(os.Environ(), "QUNER_SOCKET="+dir)
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited { //nolint:errorlint // of this very call
		t.Fatal(err)
	}
	return string(out)
}

// remains is what a daemon keeps and what the machine is set to: names, contents and times of change of the state
// directory, and every setting.
func remains(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(filepath.Join(dir, "var"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&b, "%s %v %s\n", e.Name(), info.ModTime(), hex.EncodeToString(sum[:4]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sim, err := hostsim.Open(dir, hostsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&b, sim.Settings())
	return b.String()
}
