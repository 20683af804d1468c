package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// guardVerb is what a guard's process is called with.
const guardVerb = "guard-workload"

// guard is a process that leads the group in which a workload runs. When the process that started it is gone without a
// word, by SIGKILL say, it ends the whole group: nobody would count the work any more, nor end it.
type guard struct {
	cmd  *exec.Cmd
	line io.WriteCloser // what is written to it says that all is well; its end alone, that it is not
}

// startGuard starts one. Where that cannot be done there is none, and a workload leads its own group.
func startGuard() *guard {
	cmd := exec.Command("/proc/self/exe", guardVerb)
	cmd.Args[0] = "qunerctl"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	line, err := cmd.StdinPipe()
	if err != nil {
		return nil
	}
	if err := cmd.Start(); err != nil {
		_ = line.Close()
		return nil
	}
	return &guard{cmd, line}
}

// group is the process group that a command is to join; 0 is a new one.
func (g *guard) group() int {
	if g == nil {
		return 0
	}
	return g.cmd.Process.Pid
}

// end lets the guard go, and what is left of its group live.
func (g *guard) end() {
	if g == nil {
		return
	}
	_, _ = io.WriteString(g.line, "well\n") // a guard that is gone need not be told
	_ = g.line.Close()
	_ = g.cmd.Wait()
}

// keepGuard is the guard's life: until it hears something. It returns the exit status.
func keepGuard(line io.Reader) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT) // they are for those it guards
	if n, _ := line.Read(make([]byte, 1)); n > 0 {
		return exitOK
	}
	group := os.Getpid()
	_ = syscall.Kill(-group, syscall.SIGTERM)
	for asked := time.Now(); othersIn(group) && time.Since(asked) < killGrace; {
		time.Sleep(heartbeat)
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	return exitError
}

// othersIn reports whether any process but this one is in a process group.
func othersIn(group int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PARENT GROUP …; the name may hold anything.
		pid, _, _ := strings.Cut(string(text), " ")
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 2 && string(fields[2]) == strconv.Itoa(group) && pid != strconv.Itoa(os.Getpid()) && string(fields[0]) != "Z" {
			return true
		}
	}
	return false
}
