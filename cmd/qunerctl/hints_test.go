package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/qunerd/quner/api/client"
)

// A group that may use the admin socket is named: who is refused can ask to be let in.
func TestAdminGroupIsNamedToWhomIsRefused(t *testing.T) {
	dir := t.TempDir()
	a := &app{dir: dir}
	if got := a.adminsWord(); got != "root" {
		t.Errorf("with no directory: %q", got)
	}
	admin := filepath.Join(dir, "quner-admin")
	if err := os.Mkdir(admin, 0o750); err != nil {
		t.Fatal(err)
	}
	gid := os.Getegid()
	if gid == 0 {
		gid = 54321
		if err := os.Chown(admin, -1, gid); err != nil {
			t.Fatal(err)
		}
	}
	want := "root and the group " + strconv.Itoa(gid)
	if g, err := user.LookupGroupId(strconv.Itoa(gid)); err == nil {
		want = "root and the group " + g.Name
	}
	if got := a.adminsWord(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Sockets that are there while nobody answers: starting the service again would help nobody.
func TestServiceThatDoesNotAnswerIsLookedAt(t *testing.T) {
	t.Setenv(client.EnvSocket, "")
	units := t.TempDir()
	if err := os.WriteFile(filepath.Join(units, "qunerd.service"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{units: []string{units}}
	stuck := fmt.Errorf("/run/quner/quner.sock: %w: %w", client.ErrUnreachable, context.DeadlineExceeded)
	if f := a.classify(a.root(), stuck); f.code != exitUnreachable || f.hint != "sudo journalctl -u qunerd -n 20" {
		t.Errorf("exit %d, hint %q", f.code, f.hint)
	}
	gone := fmt.Errorf("/run/quner/quner.sock: %w: %w", client.ErrUnreachable, syscall.ECONNREFUSED)
	if f := a.classify(a.root(), gone); f.hint != "sudo systemctl start qunerd" {
		t.Errorf("hint %q", f.hint)
	}
}

// A simulated machine is proposed only where there is one, or where quner is no service.
func TestHintForAnotherDaemonFitsTheMachine(t *testing.T) {
	units, dir := t.TempDir(), t.TempDir()
	t.Setenv(client.EnvSocket, dir)
	t.Setenv("PATH", t.TempDir())
	if got, want := (&app{units: []string{units}}).startHint(), "qunerd run --simulate workstation --dir "+quote(dir); got != want {
		t.Errorf("no service: %q, want %q", got, want)
	}
	if err := os.WriteFile(filepath.Join(units, "qunerd.service"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := (&app{units: []string{units}}).startHint(), "unset QUNER_SOCKET && systemctl status qunerd"; got != want {
		t.Errorf("a service: %q, want %q", got, want)
	}
	if got := (&app{units: []string{units}, dir: dir}).startHint(); !strings.HasPrefix(got, "without --socket") {
		t.Errorf("a service, --socket: %q", got)
	}
	host := filepath.Join(dir, "sim", "host.txtar")
	if err := os.Mkdir(filepath.Dir(host), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(host, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := (&app{units: []string{units}}).startHint(), "qunerd run --simulate "+quote(host)+" --dir "+quote(dir); got != want {
		t.Errorf("a simulated machine: %q, want %q", got, want)
	}
}

// A hint can be pasted by whoever has called this program by a path.
func TestHintsNameThisProgramAsItWasCalled(t *testing.T) {
	a := &app{self: calledAs("bin/qunerctl"), superuser: true}
	for hint, want := range map[string]string{
		"qunerctl status":                           "bin/qunerctl status",
		"sudo qunerctl meter --for 1s":              "sudo bin/qunerctl meter --for 1s",
		"qunerctl a; or: qunerctl b":                "bin/qunerctl a; or: bin/qunerctl b",
		"rm /usr/bin/qunerctl":                      "rm /usr/bin/qunerctl",
		"the daemon is older than this qunerctl: x": "the daemon is older than this bin/qunerctl: x",
		"journalctl -u qunerd":                      "journalctl -u qunerd",
		"":                                          "",
	} {
		if got := a.asCalled(hint); got != want {
			t.Errorf("%q: %q, want %q", hint, got, want)
		}
	}
	if got := a.asRoot("resume"); got != "bin/qunerctl resume" {
		t.Errorf("%q", got)
	}
	if got := (&app{self: calledAs("qunerctl")}).asCalled("qunerctl status"); got != "qunerctl status" {
		t.Errorf("by its name: %q", got)
	}
	if got := calledAs("./a dir/qunerctl"); got != "'./a dir/qunerctl'" {
		t.Errorf("%q", got)
	}
}

// A daemon that is not on PATH is named so that the hint can be pasted.
func TestHintsNameProgramsThatCanBeFound(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &app{}
	t.Setenv("PATH", t.TempDir())
	if got := a.program(filepath.Base(self)); got != quote(self) {
		t.Errorf("beside this one: %q, want %q", got, self)
	}
	if got := a.program("qunerd-that-is-nowhere"); got != "qunerd-that-is-nowhere" {
		t.Errorf("nowhere: %q", got)
	}
	t.Setenv("PATH", filepath.Dir(self))
	if got := a.program(filepath.Base(self)); got != filepath.Base(self) {
		t.Errorf("on PATH: %q", got)
	}
}

// What the shell's summary sends people to doctor for is said there.
func TestDoctorTellsWhatIsNotWell(t *testing.T) {
	var b strings.Builder
	out := &screen{Writer: &b}
	(&app{out: out, err: out}).doctorPage(doctorOf("workstation"), []string{"quner.toml:3: unknown key"})
	if !strings.Contains(b.String(), "\n! not well: quner.toml:3: unknown key\n") {
		t.Error(b.String())
	}
}
