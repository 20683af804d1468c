package main

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/api/client"
)

// asRoot is a command line for a verb that moves the machine. A daemon of one's own is moved without sudo, which would
// not find it; so is any by root.
func (a *app) asRoot(verb string) string {
	return strings.TrimSpace(a.asCalled(a.sudo() + "qunerctl " + verb))
}

// asCalled is a hint with this program's name as the person has typed it, where that was a path: the shell would not find
// the bare name.
func (a *app) asCalled(hint string) string {
	const name = "qunerctl"
	if a.self == "" {
		return hint
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(hint, name)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if alone(before, after) {
			b.WriteString(a.self)
		} else {
			b.WriteString(name)
		}
		hint = after
	}
}

// alone tells whether what stands between two texts is a word of its own.
func alone(before, after string) bool {
	return (before == "" || strings.ContainsRune(" \"(`", rune(before[len(before)-1]))) &&
		(after == "" || strings.ContainsRune(" \"),;:.`", rune(after[0])))
}

// calledAs is how this program was called, if by a path and the shell does not find the same one by its name.
func calledAs(arg string) string {
	if !strings.Contains(arg, "/") {
		return ""
	}
	if found, err := exec.LookPath("qunerctl"); err == nil {
		one, err := os.Stat(found)
		other, otherErr := os.Stat(arg)
		if err == nil && otherErr == nil && os.SameFile(one, other) {
			return ""
		}
	}
	return quote(arg)
}

func (a *app) sudo() string {
	if _, ok := a.otherDaemon(); ok || a.superuser {
		return ""
	}
	return "sudo "
}

// otherDaemon tells whether the person addresses another daemon than the system's.
func (a *app) otherDaemon() (dir string, ok bool) {
	dir = strings.TrimSuffix(client.Options{Dir: a.dir}.SocketPath(), "/quner/quner.sock")
	return dir, dir != "/run"
}

// unitDirs are where systemd looks for a unit file.
func unitDirs() []string {
	return []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}
}

// hasUnit tells whether the daemon is a service here, so that systemctl knows it.
func (a *app) hasUnit() bool {
	return slices.ContainsFunc(a.units, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "qunerd.service"))
		return err == nil
	})
}

// simulatedHost is what makes a directory that of a simulated machine.
const simulatedHost = "sim/host.txtar"

func isSimulation(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, simulatedHost))
	return err == nil
}

// startHint is for a daemon that is not there: how it is started, or that another one was meant.
func (a *app) startHint() string {
	dir, other := a.otherDaemon()
	switch {
	case other && isSimulation(dir):
		return a.program("qunerd") + " run --simulate " + quote(filepath.Join(dir, simulatedHost)) + " --dir " + quote(dir)
	case other && a.hasUnit() && a.dir != "":
		return "without --socket it is the service of this machine: systemctl status qunerd"
	case other && a.hasUnit():
		return "unset " + client.EnvSocket + " && systemctl status qunerd"
	case other:
		return a.program("qunerd") + " run --simulate workstation --dir " + quote(dir)
	case a.hasUnit():
		return a.sudo() + "systemctl start qunerd"
	default:
		return a.sudo() + a.program("qunerd") + " run"
	}
}

// stuckHint is for sockets that are there while nobody answers: the service starts again and again, or hangs.
func (a *app) stuckHint() string {
	switch _, other := a.otherDaemon(); {
	case other:
		return a.logHint()
	case !a.hasUnit():
		return a.startHint()
	}
	return a.sudo() + "journalctl -u qunerd -n 20"
}

// adminsWord is who may use the admin socket: its directory's group may too, unless that is root's.
func (a *app) adminsWord() string {
	dir, _ := a.otherDaemon()
	info, err := os.Stat(filepath.Join(dir, "quner-admin"))
	if err != nil {
		return "root"
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Gid == 0 {
		return "root"
	}
	gid := strconv.FormatUint(uint64(owner.Gid), 10)
	if g, err := user.LookupGroupId(gid); err == nil {
		return "root and the group " + g.Name
	}
	return "root and the group " + gid
}

// program is one of quner's programs as a shell finds it: by its name, or beside this one.
func (a *app) program(name string) string {
	if _, err := exec.LookPath(name); err == nil {
		return name
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(beside); err == nil {
			return quote(beside)
		}
	}
	return name
}

// logHint is where the daemon says more.
func (a *app) logHint() string {
	if _, other := a.otherDaemon(); other || !a.hasUnit() {
		return "the standard error of qunerd says more"
	}
	return "journalctl -u qunerd -n 50"
}

// oldHint is for a daemon that does not know what it is asked.
func (a *app) oldHint() string {
	again := "start qunerd anew"
	if _, other := a.otherDaemon(); !other && a.hasUnit() {
		again = a.sudo() + "systemctl restart qunerd"
	}
	return "the daemon is older than this qunerctl: " + again
}

// deniedHint repeats what was typed, by somebody who may.
func (a *app) deniedHint() string {
	if _, ok := a.otherDaemon(); ok {
		return "run it as the user who runs that daemon"
	}
	if a.superuser {
		return "" // there is nobody who may more
	}
	words := []string{"sudo qunerctl"}
	for _, w := range a.args {
		words = append(words, quote(w))
	}
	return strings.Join(words, " ")
}

// refusedHint is the remedy when the daemon could but will not.
func (a *app) refusedHint(cmd *cobra.Command, said string) string {
	if f := cmd.Flags().Lookup("force"); f != nil && strings.Contains(said, "force") {
		return "wait, or repeat with --force: " + f.Usage
	}
	switch {
	case strings.Contains(said, "at work"):
		return "measure when it is at rest, or leave it out: --devices names those to measure"
	case strings.Contains(said, "no energy counter"):
		return "qunerctl doctor shows each counter with its reason"
	case strings.Contains(said, "does the service open windows"):
		return "qunerctl meter list, by the service's user, shows its windows; --of USER says whose to count"
	case strings.Contains(said, "no lever"):
		return "qunerctl doctor shows each lever with its reason"
	case strings.Contains(said, "paused"):
		return a.asRoot("resume")
	default:
		return "qunerctl status shows what stands in the way"
	}
}

// foundHint names the verb that lists what there is.
func foundHint(cmd *cobra.Command) string {
	if p := cmd.Parent(); p != nil && p.HasParent() { // points forget: points lists them
		return p.CommandPath() + " list"
	}
	return cmd.CommandPath() + " --help"
}

// retyped is what was typed up to the command, with these flags beside it: one that was there already takes the new
// value. A flag is "--apply" or "--max-windows=20". The command comes last, as given, and its words stay its own.
func (a *app) retyped(command []string, flags ...string) string {
	own := a.args[:max(0, len(a.args)-len(command))]
	if n := len(own); n > 0 && own[n-1] == "--" {
		own = own[:n-1]
	}
	var words []string
	for i := 0; i < len(own); i++ {
		replaced := slices.IndexFunc(flags, func(f string) bool {
			name, _, _ := strings.Cut(f, "=")
			return own[i] == name || strings.HasPrefix(own[i], name+"=")
		})
		switch {
		case replaced < 0:
			words = append(words, quote(own[i]))
		case strings.Contains(flags[replaced], "=") && !strings.Contains(own[i], "="):
			i++ // its value is a word of its own
		}
	}
	for _, f := range flags {
		name, v, has := strings.Cut(f, "=")
		words = append(words, name)
		if has {
			words = append(words, quote(v))
		}
	}
	if len(command) > 0 {
		words = append(words, "--")
	}
	for _, w := range command {
		words = append(words, quote(w))
	}
	return a.asRoot(strings.Join(words, " "))
}

// warnMisplaced warns of flags of qunerctl's at the end of the command: they go to the command.
func (a *app) warnMisplaced(command []string) {
	flags := []string{"--json", "--apply", "--dry-run"}
	for i := len(command) - 1; i > 0 && slices.Contains(flags, command[i]); i-- {
		a.err.para("", plain, "note: "+command[i]+" goes to the command; if it is meant for qunerctl, put it before --")
	}
}
