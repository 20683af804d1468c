package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAFrameIsAsLargeAsItsWindow(t *testing.T) {
	dimmed := func(code style, s string) string { return (&screen{colour: true}).style(code, s) }
	got := frame("\x1b[1mheading\x1b[0m x\nabcdefghij\nthree\nfour\n", "foot", 5, 3, dimmed)
	want := "\x1b[H\x1b[1mheadi\x1b[0m\x1b[K\r\nabcde\x1b[K\r\n\x1b[J\x1b[3;1H\x1b[2mfoot,\x1b[0m\x1b[K"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := frame("one\n", "foot", 40, 4, dimmed); !strings.HasSuffix(got, "\x1b[4;1H\x1b[2mfoot\x1b[0m\x1b[K") {
		t.Errorf("%q", got)
	}
	if got := frame("one\ntwo\nthree\n", "foot", 40, 3, dimmed); !strings.Contains(got, "foot, 1 line below") {
		t.Errorf("%q", got)
	}
	for line, want := range map[string]string{"äöü…x": "äöü…", "\x1b[32mgreen": "\x1b[32mgree\x1b[0m", "a\x1b[0": "a", "full": "full"} {
		if got := cut(line, 4); got != want {
			t.Errorf("%q is cut to %q, want %q", line, got, want)
		}
	}
}

// terminal is a pseudo-terminal with "status --watch" on it.
type terminal struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd

	mu    sync.Mutex
	shown strings.Builder
	over  sync.WaitGroup
}

func watched(t *testing.T, d *daemon) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs a pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs a pseudo-terminal: %v", err)
	}
	defer slave.Close()
	x := &terminal{t: t, master: master}
	x.resize(90, 12)
	program, err := exec.LookPath("qunerctl")
	if err != nil {
		t.Fatal(err)
	}
	x.cmd = exec.Command(program, "status", "--watch")
	x.cmd.Env = append(os.Environ(), "QUNER_SOCKET="+d.dir, "TERM=xterm", noRaceSleep)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = slave, slave, slave
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.cmd.Process.Kill() })
	x.over.Go(func() { _, _ = io.Copy(x, master) })
	return x
}

func (x *terminal) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shown.Write(p)
}

func (x *terminal) resize(wide, high uint16) {
	if err := unix.IoctlSetWinsize(int(x.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: wide, Row: high}); err != nil {
		x.t.Fatal(err)
	}
}

// text is all that the terminal was told.
func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shown.String()
}

func (x *terminal) waitFor(text string) {
	x.t.Helper()
	for range 4000 {
		if strings.Contains(x.text(), text) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	x.t.Fatalf("%q has not come: %q", text, x.text())
}

// ends checks the exit status, and that the terminal is as it was; it returns what stands on it then.
func (x *terminal) ends(status int) (after string) {
	x.t.Helper()
	_ = x.cmd.Wait()
	x.over.Wait()
	if got := x.cmd.ProcessState.ExitCode(); got != status {
		x.t.Errorf("%v, want exit status %d", x.cmd.ProcessState, status)
	}
	before, after, left := strings.Cut(x.text(), leavePage)
	if !left || !strings.HasPrefix(before, enterPage) || strings.Contains(after, "\x1b[?") {
		x.t.Errorf("the terminal is not given back: %q … %q", before[:min(len(before), 60)], after)
	}
	return after
}

func TestAWatchedPageGivesTheTerminalBack(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(x *terminal, stop func())
		status int
		says   string
	}{
		"Ctrl-C":     {func(x *terminal, _ func()) { _, _ = x.master.WriteString("\x03") }, exitOK, ""},
		"SIGTERM":    {func(x *terminal, _ func()) { _ = x.cmd.Process.Signal(syscall.SIGTERM) }, exitOK, ""},
		"daemon end": {func(_ *terminal, stop func()) { stop() }, exitUnreachable, "qunerd has gone away"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &daemon{dir: filepath.Join(t.TempDir(), "run"), machine: "workstation"}
			stop, err := d.serve()
			defer stop()
			if err != nil {
				t.Fatal(err)
			}
			x := watched(t, d)
			x.waitFor("\x1b[12;1H\x1b[2mas of 12:00:00, Ctrl-C to leave")
			x.resize(60, 9)
			x.waitFor("\x1b[9;1H\x1b[2mas of ")
			c.end(x, stop)
			if after := x.ends(c.status); !strings.Contains(after, c.says) || c.says == "" && after != "" {
				t.Errorf("after the page stands %q, want %q", after, c.says)
			}
		})
	}
}

func TestCtrlZLendsTheTerminal(t *testing.T) {
	d := &daemon{dir: filepath.Join(t.TempDir(), "run"), machine: "workstation"}
	stop, err := d.serve()
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	x := watched(t, d)
	x.waitFor("Ctrl-C to leave")
	_, _ = x.master.WriteString("\x1a")
	x.waitFor(leavePage)
	for n := 0; ; n++ {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", x.cmd.Process.Pid))
		if err != nil || n == 4000 {
			t.Fatalf("it does not stop: %s (%v)", stat, err)
		}
		if strings.Contains(string(stat), ") T ") {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if !strings.HasSuffix(x.text(), leavePage) {
		t.Error("the page is still there")
	}
	_ = x.cmd.Process.Signal(syscall.SIGCONT)
	x.waitFor(leavePage + enterPage)
	_, _ = x.master.WriteString("\x03")
	_ = x.cmd.Wait()
	x.over.Wait()
	if got := x.text(); !strings.HasSuffix(got, leavePage) || strings.Count(got, leavePage) != 2 {
		t.Errorf("%q", got[max(0, len(got)-200):])
	}
}
