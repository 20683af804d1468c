package script

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/qunerd/quner/internal/host/hostsim"
)

const (
	soon    = 5 * time.Second       // in which a machine is to be put back
	patient = 20 * time.Second      // in which a process is to start, or to end
	glance  = 20 * time.Millisecond // between two looks
)

// stage is what one script has going.
type stage struct {
	dir   string
	jobs  map[string]*process
	known map[string]string // digests of the machine, by name
}

type stageKey struct{}

func newStage(dir string) *stage {
	return &stage{dir: dir, jobs: map[string]*process{}, known: map[string]string{}}
}

func stageOf(ts *testscript.TestScript) *stage { return ts.Value(stageKey{}).(*stage) }

func (s *stage) machine() string { return filepath.Join(s.dir, "m") }

// process is a command in the background.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// clear ends what the script has left running, children of a killed client included.
func (s *stage) clear() {
	for _, p := range s.jobs {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	for _, pid := range s.workloads() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// workloads finds the workloads of this script's machine: processes of that name with its directory in their environment.
func (s *stage) workloads() []int {
	var found []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if isWorkload(args) && bytes.Contains(env, []byte("QUNER_SOCKET="+s.machine()+"\x00")) {
			found = append(found, pid)
		}
	}
	return found
}

// said logs what the processes in the background have said, for somebody who wonders why a script fails.
func (s *stage) said(ts *testscript.TestScript) {
	for name := range s.jobs {
		for _, stream := range []string{".out", ".err"} {
			text, _ := os.ReadFile(filepath.Join(s.dir, name+stream))
			ts.Logf("[%s%s]\n%s", name, stream, text)
		}
	}
}

// isWorkload tells a workload from the client that was given it as arguments.
func isWorkload(cmdline []byte) bool {
	args := strings.Split(string(cmdline), "\x00")
	return !strings.HasSuffix(args[0], "qunerctl") && (len(args) > 1 && args[1] == "simulate-work" || args[0] == "simulate-work")
}

// machine HOST or FILE.txtar
func machine(ts *testscript.TestScript, args []string) {
	ts.Check(want(args, 1, "machine HOST"))
	name := args[0]
	if strings.HasSuffix(name, ".txtar") {
		name = ts.MkAbs(name)
	}
	f, err := hostsim.Load(name)
	ts.Check(err)
	// Made here, so that the public socket below it is for other users to reach.
	ts.Check(os.MkdirAll(stageOf(ts).machine(), 0o755))
	_, err = hostsim.New(stageOf(ts).machine(), f, hostsim.Options{})
	ts.Check(err)
	remember(ts, []string{"found"})
}

// look takes the machine up as it stands.
func look(ts *testscript.TestScript) *hostsim.Sim {
	sim, err := hostsim.Open(stageOf(ts).machine(), hostsim.Options{})
	ts.Check(err)
	return sim
}

// remember NAME
func remember(ts *testscript.TestScript, args []string) {
	ts.Check(want(args, 1, "remember NAME"))
	stageOf(ts).known[args[0]] = look(ts).Digest()
}

// same NAME
func same(ts *testscript.TestScript, args []string) {
	ts.Check(want(args, 1, "same NAME"))
	before, ok := stageOf(ts).known[args[0]]
	if !ok {
		ts.Fatalf("nothing is remembered as %q", args[0])
	}
	if !within(soon, func() bool { return look(ts).Digest() == before }) {
		stageOf(ts).said(ts)
		ts.Fatalf("the machine is not as %s; its settings: %v", args[0], look(ts).Settings())
	}
}

// setting NAME VALUE
func setting(ts *testscript.TestScript, args []string) {
	ts.Check(want(args, 2, "setting NAME VALUE"))
	now := func() string { return strings.TrimSpace(look(ts).Settings()[args[0]]) }
	if !within(soon, func() bool { return now() == args[1] }) {
		stageOf(ts).said(ts)
		ts.Fatalf("%s is %q, not %q", args[0], now(), args[1])
	}
}

// daemon start HOST [ARG…] | stop | kill
func daemon(ts *testscript.TestScript, args []string) {
	s := stageOf(ts)
	switch {
	case len(args) > 1 && args[0] == "start":
		p := s.start(ts, "daemon", append([]string{"qunerd", "run", "--simulate", args[1], "--dir", s.machine()}, args[2:]...))
		ready := func() bool {
			out, _ := os.ReadFile(filepath.Join(s.dir, "daemon.out"))
			return bytes.Contains(out, []byte("qunerctl status"))
		}
		if !within(patient, func() bool { return ready() || p.ended() }) || !ready() {
			ts.Fatalf("the daemon is not ready: %s", ts.ReadFile(filepath.Join(s.dir, "daemon.err")))
		}
	case len(args) == 1 && args[0] == "stop":
		s.signal(ts, "daemon", "TERM")
		s.end(ts, "daemon", 0)
	case len(args) == 1 && args[0] == "kill":
		s.signal(ts, "daemon", "KILL")
		s.end(ts, "daemon", 128+int(syscall.SIGKILL))
	default:
		ts.Fatalf("usage: daemon start HOST [ARG…] | stop | kill")
	}
}

// job start NAME CMD… | signal NAME SIGNAL | end NAME STATUS
func job(ts *testscript.TestScript, args []string) {
	s := stageOf(ts)
	switch {
	case len(args) > 2 && args[0] == "start":
		s.start(ts, args[1], args[2:])
	case len(args) == 3 && args[0] == "signal":
		s.signal(ts, args[1], args[2])
	case len(args) == 3 && args[0] == "end":
		status, err := strconv.Atoi(args[2])
		ts.Check(err)
		s.end(ts, args[1], status)
	default:
		ts.Fatalf("usage: job start NAME CMD… | signal NAME SIGNAL | end NAME STATUS")
	}
}

// start starts a command as the script would, with its output in files.
func (s *stage) start(ts *testscript.TestScript, name string, args []string) *process {
	if s.jobs[name] != nil {
		ts.Fatalf("%s is still there", name)
	}
	path, err := lookPath(args[0], ts.Getenv("PATH"))
	ts.Check(err)
	out, err := os.Create(filepath.Join(s.dir, name+".out"))
	ts.Check(err)
	defer out.Close()
	// The daemon's log goes on over its lives; what a client says is looked at life by life.
	how := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if name == "daemon" {
		how = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	errs, err := os.OpenFile(filepath.Join(s.dir, name+".err"), how, 0o644)
	ts.Check(err)
	defer errs.Close()
	p := &process{cmd: exec.Command(path, args[1:]...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = ts.MkAbs("."), out, errs
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "QUNER_SOCKET", "NOTIFY_SOCKET", "GORACE"} {
		p.cmd.Env = append(p.cmd.Env, name+"="+ts.Getenv(name))
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal of whoever runs the tests is theirs
	ts.Check(p.cmd.Start())
	s.jobs[name] = p
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.done)
	}()
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (s *stage) job(ts *testscript.TestScript, name string) *process {
	if s.jobs[name] == nil {
		ts.Fatalf("there is no %s", name)
	}
	return s.jobs[name]
}

func (s *stage) signal(ts *testscript.TestScript, name, signal string) {
	known := map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP,
	}
	if known[signal] == 0 {
		ts.Fatalf("signal %q: allowed are INT, TERM, KILL, HUP", signal)
	}
	ts.Check(s.job(ts, name).cmd.Process.Signal(known[signal]))
}

func (s *stage) end(ts *testscript.TestScript, name string, status int) {
	p := s.job(ts, name)
	select {
	case <-p.done:
	case <-time.After(2 * patient):
		ts.Fatalf("%s does not end", name)
	}
	delete(s.jobs, name)
	if got := exitStatus(p.cmd.ProcessState); got != status {
		ts.Fatalf("%s ended with status %d, want %d; it said:\n%s%s", name, got, status,
			ts.ReadFile(filepath.Join(s.dir, name+".out")), ts.ReadFile(filepath.Join(s.dir, name+".err")))
	}
}

// exitStatus is a process's as a shell has it.
func exitStatus(p *os.ProcessState) int {
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.ExitCode()
}

// lookPath is exec.LookPath with the script's PATH.
func lookPath(file, path string) (string, error) {
	if strings.Contains(file, "/") {
		return file, nil
	}
	for _, dir := range filepath.SplitList(path) {
		name := filepath.Join(dir, file)
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s: %w", file, exec.ErrNotFound)
}

// [!] working
func working(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(want(args, 0, "[!] working"))
	s := stageOf(ts)
	if !within(soon, func() bool { return (len(s.workloads()) > 0) != neg }) {
		ts.Fatalf("workloads running: %v", s.workloads())
	}
}

// exits STATUS CMD…
func exits(ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits STATUS CMD…")
	}
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exitStatus(exit.ProcessState)
	}
	if got != status {
		ts.Fatalf("exit status %d, want %d", got, status)
	}
}

// tries is how often something is measured that a busy machine may leave without a figure.
const tries = 8

// measures STATUS STREAM REGEXP CMD…
//
// With STATUS any, what the command exits with is part of what may go wrong.
func measures(ts *testscript.TestScript, args []string) {
	if len(args) < 4 {
		ts.Fatalf("usage: measures STATUS|any STREAM REGEXP CMD…")
	}
	pattern := compile(ts, args[2])
	for range tries {
		if args[0] == "any" {
			_ = ts.Exec(args[3], args[4:]...) // the stream tells
		} else {
			exits(ts, append([]string{args[0]}, args[3:]...))
		}
		if pattern.MatchString(ts.ReadFile(args[1])) {
			return
		}
	}
	ts.Fatalf("%d times in a row %s had no match for %s", tries, args[1], pattern)
}

// await FILE REGEXP
func await(ts *testscript.TestScript, args []string) {
	ts.Check(want(args, 2, "await FILE REGEXP"))
	pattern := compile(ts, args[1])
	read := func() []byte {
		data, _ := os.ReadFile(ts.MkAbs(args[0]))
		return data
	}
	if !within(patient, func() bool { return pattern.Match(read()) }) {
		ts.Fatalf("%s has no match for %s; it is:\n%s", args[0], pattern, read())
	}
}

// within waits until a condition holds, and reports whether it came to.
func within(limit time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(glance) {
		if holds() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func want(args []string, n int, usage string) error {
	if len(args) != n {
		return fmt.Errorf("usage: %s", usage)
	}
	return nil
}
