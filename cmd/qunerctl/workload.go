package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"time"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// killGrace is how long a workload may take to end by itself when asked to.
const killGrace = 3 * time.Second

// tailSize is how much of a failed workload's output is kept.
const tailSize = 4 << 10

// workload is the command of a sweep.
type workload struct {
	path    string
	args    []string
	as      *identity
	timeout time.Duration
	show    io.Writer // gets the output too; nil: nobody
	workFD  int       // the descriptor that each run writes its work to; 0: the work is the run

	guard *guard // of its runs, from the first on
}

// end lets the guard go. No run is under way.
func (w *workload) end() { w.guard.end() }

// runDone is the answer to one request to run.
type runDone struct {
	window uint32
	runs   int     // complete ones
	work   float64 // what they have done
	stall  time.Duration
	err    error
	tail   string // end of the output of the run that failed
}

// runningWork is a request that is being met.
type runningWork struct {
	asked  *qunerv1.RunWorkload
	began  time.Time
	cancel context.CancelFunc
	done   chan runDone
}

// begin runs the command again and again until the time asked for has passed.
func (w *workload) begin(ctx context.Context, asked *qunerv1.RunWorkload) *runningWork {
	ctx, cancel := context.WithCancel(ctx)
	r := &runningWork{asked: asked, began: time.Now(), cancel: cancel, done: make(chan runDone, 1)}
	go func() {
		defer cancel()
		answer := runDone{window: asked.GetWindow()}
		watch := watchStall()
		atLeast := time.Duration(asked.GetMinMs()) * time.Millisecond
		for answer.err == nil && (answer.runs == 0 || time.Since(r.began) < atLeast) {
			var work float64
			work, answer.tail, answer.err = w.once(ctx)
			if answer.err == nil {
				answer.runs++
				answer.work += work
			}
		}
		answer.stall = watch.end()
		r.done <- answer
	}()
	return r
}

// stallWatch notices when this process does not run for a while: after Ctrl-Z, or on a machine that has no time for it.
// The window that the daemon measures meanwhile goes on, and holds the idleness.
type stallWatch struct {
	stop  chan struct{}
	total chan time.Duration
}

// heartbeat is how often a stallWatch looks, and stallAfter how late a beat must be to count.
const (
	heartbeat  = 50 * time.Millisecond
	stallAfter = 10 * heartbeat
)

func watchStall() stallWatch {
	w := stallWatch{stop: make(chan struct{}), total: make(chan time.Duration, 1)}
	go func() {
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		var total time.Duration
		last := time.Now()
		for {
			select {
			case <-ticker.C:
			case <-w.stop:
				w.total <- total
				return
			}
			now := time.Now()
			if late := now.Sub(last); late > stallAfter {
				total += late
			}
			last = now
		}
	}()
	return w
}

// end returns for how long this process stood still.
func (w stallWatch) end() time.Duration {
	close(w.stop)
	return <-w.total
}

// ended is the channel of the answer; of nothing running it is nil, which blocks.
func (r *runningWork) ended() <-chan runDone {
	if r == nil {
		return nil
	}
	return r.done
}

// stop ends what runs and waits until it is gone.
func (r *runningWork) stop() {
	if r != nil {
		r.cancel()
		<-r.done
	}
}

// once runs the command once, in the process group of its guard: the terminal's Ctrl-C reaches it only through here, with
// all its children. It returns the work done, and of a run that failed the end of its output.
func (w *workload) once(ctx context.Context) (work float64, tail string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, fmt.Errorf("a run took longer than %s (--run-timeout)", shortDuration(w.timeout)))
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	cmd := exec.CommandContext(ctx, w.path, w.args[1:]...)
	cmd.Args[0] = w.args[0]
	out := &tailWriter{next: w.show}
	cmd.Stdout, cmd.Stderr = out, out
	var numbers *numberedWork
	if w.workFD > 0 {
		if numbers, err = listenOn(cmd, w.workFD, end); err != nil {
			return 0, "", err
		}
	}
	if w.guard == nil {
		w.guard = startGuard()
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: w.guard.group()}
	w.as.apply(cmd)
	group := func() int { return cmp.Or(w.guard.group(), cmd.Process.Pid) }
	cmd.Cancel = func() error { return signalGroup(group(), syscall.SIGTERM) }
	cmd.WaitDelay = killGrace
	err = cmd.Start()
	numbers.started()
	if err == nil {
		err = cmd.Wait()
	}
	work, wrong := numbers.end()
	if cmd.Process != nil && ctx.Err() != nil {
		_ = signalGroup(group(), syscall.SIGKILL) // what ignored the request, children left behind, and the guard
		w.guard.end()
		w.guard = nil
	}
	switch {
	case ctx.Err() != nil:
		return 0, "", context.Cause(ctx)
	case err == nil || errors.Is(err, exec.ErrWaitDelay): // a child that went on holds the output; the command has ended well
		return work, "", wrong
	}
	if cmd.ProcessState == nil { // it did not start
		return 0, "", fmt.Errorf("%s: %w", quote(w.args[0]), rootCause(err))
	}
	return 0, out.String(), fmt.Errorf("%s: %s", quote(w.args[0]), cmd.ProcessState)
}

func signalGroup(pid int, s syscall.Signal) error {
	err := syscall.Kill(-pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// tailWriter keeps the end of what is written to it.
type tailWriter struct {
	next io.Writer
	kept []byte
}

func (t *tailWriter) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-tailSize):]...)
	if len(t.kept) > 2*tailSize {
		t.kept = bytes.Clone(t.kept[len(t.kept)-tailSize:])
	}
	if t.next != nil {
		_, _ = t.next.Write(p) // a screen that is gone does not fail the workload
	}
	return len(p), nil
}

func (t *tailWriter) String() string { return string(t.kept[max(0, len(t.kept)-tailSize):]) }

// identity is whom a workload runs as; nil: the caller.
type identity struct {
	credential *syscall.Credential
	user       *user.User
}

// runAs finds whom to run the workload as: under sudo the one who typed it, with his groups, unless root is wished for.
func runAs(root bool) (*identity, error) {
	uid := os.Getenv("SUDO_UID")
	if os.Geteuid() != 0 || root || uid == "" || uid == "0" {
		return nil, nil //nolint:nilnil // nobody else is an answer, not a lack of one
	}
	hint := "run it as root knowingly: --as root"
	u, err := user.LookupId(uid)
	if err != nil {
		return nil, &failure{error: fmt.Errorf("SUDO_UID %s: %w", quote(uid), err), code: exitError, hint: hint}
	}
	texts, err := u.GroupIds()
	if err != nil {
		return nil, &failure{error: fmt.Errorf("groups of %s: %w", u.Username, err), code: exitError, hint: hint}
	}
	who := &identity{user: u, credential: new(syscall.Credential)}
	for _, t := range append([]string{u.Uid, u.Gid}, texts...) {
		id, err := strconv.ParseUint(t, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("ids of %s: %w", u.Username, err)
		}
		who.credential.Groups = append(who.credential.Groups, uint32(id))
	}
	ids := who.credential.Groups
	who.credential.Uid, who.credential.Gid, who.credential.Groups = ids[0], ids[1], ids[2:]
	return who, nil
}

// apply makes cmd run as id. Root's home is none of the workload's business.
func (id *identity) apply(cmd *exec.Cmd) {
	if id == nil {
		return
	}
	cmd.SysProcAttr.Credential = id.credential
	cmd.Env = append(os.Environ(), "HOME="+id.user.HomeDir, "USER="+id.user.Username, "LOGNAME="+id.user.Username)
}
