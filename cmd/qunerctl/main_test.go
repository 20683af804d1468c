package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var update = flag.Bool("update", false, "write the pages of testdata anew")

// noRaceSleep is for the environment of programs with the race detector: by default each waits a second for reports at
// its end.
const noRaceSleep = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"qunerctl": main})
}

// TestScripts runs the real command against a daemon on real sockets: testdata/*.txtar.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("QUNER_SOCKET", filepath.Join(env.WorkDir, "run"))
			env.Setenv("SUDO_UID", "")
			env.Vars = append(env.Vars, noRaceSleep)
			running := &runningDaemon{stop: func() {}}
			env.Values["daemon"] = running
			env.Defer(func() { running.stop() })
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond != "root" {
				return false, fmt.Errorf("no such condition: %s", cond)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon":  cmdDaemon,
			"exits":   cmdExits,
			"signal":  cmdSignal,
			"loses":   cmdLoses,
			"gone":    cmdGone,
			"waitfor": func(ts *testscript.TestScript, _ bool, args []string) { waitFor(ts, args[0]) },
		},
	})
}

// runningDaemon is the daemon of one script.
type runningDaemon struct{ stop func() }

// cmdDaemon starts a daemon: daemon MACHINE [denied|refused|VERDICT]; "daemon gone" ends it.
func cmdDaemon(ts *testscript.TestScript, _ bool, args []string) {
	running := ts.Value("daemon").(*runningDaemon)
	running.stop()
	running.stop = func() {}
	if args[0] == "gone" {
		return
	}
	d := &daemon{dir: ts.MkAbs("run"), machine: args[0], verdict: "interior"}
	if len(args) > 1 {
		switch args[1] {
		case "denied":
			d.deny = status.Error(codes.PermissionDenied, "uid 1000 may not do this")
		case "refused":
			d.deny = status.Error(codes.FailedPrecondition, "others train on this machine; --force overrides")
		default:
			d.verdict = args[1]
		}
	}
	ts.Check(os.RemoveAll(d.dir))
	var err error
	running.stop, err = d.serve()
	ts.Check(err)
}

// cmdExits runs a command and checks its exit status: exits N COMMAND ARG…
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit := new(exec.ExitError)
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// cmdSignal starts a command, signals it once a file is there, and checks its exit status: signal NAME FILE N COMMAND ARG…
// The command's output is in the file stderr.
func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	signal := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM}[args[0]]
	meanwhile(ts, args[1], args[2], args[3:], func(p *os.Process) { ts.Check(p.Signal(signal)) })
}

// cmdLoses starts a command, ends the daemon once a file is there, and checks the exit status and that the process
// whose id is in CHILD is gone: loses FILE CHILD N COMMAND ARG…
func cmdLoses(ts *testscript.TestScript, _ bool, args []string) {
	meanwhile(ts, args[0], args[2], args[3:], func(*os.Process) { cmdDaemon(ts, false, []string{"gone"}) })
	cmdGone(ts, false, args[1:2])
}

// meanwhile runs a command and does something to it once a file is there.
func meanwhile(ts *testscript.TestScript, file, wantStatus string, args []string, do func(*os.Process)) {
	want, err := strconv.Atoi(wantStatus)
	ts.Check(err)
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = slices.Concat(os.Environ(), []string{"QUNER_SOCKET=" + ts.Getenv("QUNER_SOCKET"), "SUDO_UID="})
	said, err := os.Create(ts.MkAbs("stderr"))
	ts.Check(err)
	defer func() { _ = said.Close() }()
	cmd.Stdout, cmd.Stderr = said, said
	// In a session of its own: whoever runs the tests at a terminal has them all in its foreground, where meter leaves
	// an interrupt to the terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ts.Check(cmd.Start())
	ts.Defer(func() { _ = cmd.Process.Kill() })
	waitFor(ts, file)
	do(cmd.Process)
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("%v, want exit status %d\n%s", cmd.ProcessState, want, ts.ReadFile("stderr"))
	}
}

// cmdGone checks that the process whose id is in a file has ended.
func cmdGone(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	for range 400 {
		// A zombie answers signals until init has seen it.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	ts.Fatalf("process %d lives", pid)
}

// waitFor waits for a file, or with FILE:N for the N-th line in it.
func waitFor(ts *testscript.TestScript, file string) {
	file, count, _ := strings.Cut(file, ":")
	lines, _ := strconv.Atoi(count)
	for range 4000 {
		if text, err := os.ReadFile(ts.MkAbs(file)); err == nil && strings.Count(string(text), "\n") >= lines {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	ts.Fatalf("%s has not come", file)
}
