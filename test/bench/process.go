package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// process is a qunerd on the simulated workstation, with nothing in it that is not the daemon: nobody keeps counters going
// for other processes.
type process struct {
	cmd    *exec.Cmd
	dir    string
	log    bytes.Buffer
	took   time.Duration // from its start to READY=1
	ticks  atomic.Int64  // that it told systemd of
	notify *net.UnixConn
}

// readyTime is how long a daemon may take to be ready.
const readyTime = 20 * time.Second

// startDaemon starts a qunerd in a directory of its own, and waits until it says that it is ready, as it would say it to
// systemd.
func startDaemon(ctx context.Context, o options, dir string) (*process, error) {
	p := new(process)
	var err error
	if p.dir, err = os.MkdirTemp(dir, "d"); err != nil {
		return nil, err
	}
	socket := filepath.Join(p.dir, "notify")
	if p.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"}); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go p.listen(ready)
	p.cmd = exec.CommandContext(ctx, filepath.Join(o.bin, "qunerd"), "run", "--simulate", "workstation", "--still", "--dir", p.socket())
	p.cmd.Env = append(p.cmd.Environ(), "NOTIFY_SOCKET="+socket)
	p.cmd.Stderr = &p.log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = readyTime
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, p.notify.Close())
	}
	select {
	case <-ready:
		p.took = time.Since(began)
		return p, nil
	case <-time.After(readyTime):
		err = fmt.Errorf("qunerd is not ready after %v", readyTime)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, errors.Join(err, p.stop())
}

// listen hears what the daemon tells systemd.
func (p *process) listen(ready chan<- struct{}) {
	buf := make([]byte, 4096)
	for {
		n, err := p.notify.Read(buf)
		if err != nil {
			return
		}
		switch string(buf[:n]) {
		case "READY=1":
			close(ready)
		case "WATCHDOG=1":
			p.ticks.Add(1)
		}
	}
}

// socket is the directory that QUNER_SOCKET names.
func (p *process) socket() string { return filepath.Join(p.dir, "q") }

// stop ends the daemon, which must say that it put all back.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself: Wait tells
	err := p.cmd.Wait()
	if err != nil {
		err = fmt.Errorf("qunerd: %w\n%s", err, p.log.String())
	}
	return errors.Join(err, p.notify.Close())
}

// measureStart starts some daemons, one after the other.
func measureStart(ctx context.Context, o options, dir string) ([]figure, error) {
	var took []float64
	for range o.repeat {
		p, err := startDaemon(ctx, o, dir)
		if err != nil {
			return nil, err
		}
		took = append(took, float64(p.took.Microseconds())/1000)
		if err := p.stop(); err != nil {
			return nil, err
		}
	}
	all := []figure{{key: "start_ms", name: "start to READY, simulated workstation", value: median(took), unit: "ms"}}
	for _, name := range []string{"qunerd", "qunerctl"} {
		f, err := size(o, name)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// settle is how long a daemon is left alone between the last call and being watched, for buffers and idle connections to
// go.
const settle = 3 * time.Second

// measureRest has a daemon serve one client of each kind, then watches it at rest.
func measureRest(ctx context.Context, o options, dir string) (figures []figure, err error) {
	p, err := startDaemon(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	for _, args := range [][]string{{"doctor"}, {"status"}, {"meter", "--", "true"}} {
		c := exec.CommandContext(ctx, filepath.Join(o.bin, "qunerctl"), args...)
		c.Env = append(c.Environ(), "QUNER_SOCKET="+p.socket())
		if text, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("qunerctl %s: %w\n%s", strings.Join(args, " "), err, text)
		}
	}
	if err := sleep(ctx, settle); err != nil {
		return nil, err
	}
	first, err := p.look()
	if err != nil {
		return nil, err
	}
	ticks, began := p.ticks.Load(), time.Now()
	bursts, last, err := p.watch(ctx, first, o.rest)
	if err != nil {
		return nil, err
	}
	seconds, ticked := time.Since(began).Seconds(), float64(p.ticks.Load()-ticks)
	rss, anon, err := p.memory()
	if err != nil {
		return nil, err
	}
	figures = []figure{
		{key: "rss_mib", name: "memory at rest, resident", value: rss, unit: "MiB", bar: 25},
		{key: "rss_anon_mib", name: "  of it not backed by files", value: anon, unit: "MiB"},
		{key: "wakeups_per_s", name: "wake-ups at rest", value: float64(bursts) / seconds, unit: "1/s", bar: 0.2},
		{key: "ticks_per_s", name: "  ticks at rest", value: ticked / seconds, unit: "1/s"},
	}
	if ticked > 0 {
		figures = append(figures, figure{key: "rest_cpu_per_tick_ms", name: "CPU time of the process at rest, a tick",
			value: float64((last.cpu - first.cpu).Microseconds()) / 1000 / ticked, unit: "ms"})
	}
	return figures, nil
}

// sight is what the kernel has counted of a process so far.
type sight struct {
	switches int64         // of all threads, voluntary: each is the end of a time awake
	cpu      time.Duration // on a CPU, all threads
}

const (
	// watchPeriod is how often a process at rest is looked at.
	watchPeriod = 20 * time.Millisecond
	// awake is how long what runs after a wake-up counts as the same one.
	awake = 100 * time.Millisecond
)

// watch counts the wake-ups of the process.
func (p *process) watch(ctx context.Context, before sight, span time.Duration) (bursts int, last sight, err error) {
	ticker := time.NewTicker(watchPeriod)
	defer ticker.Stop()
	last = before
	var woke time.Time
	for end := time.Now().Add(span); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return 0, last, context.Cause(ctx)
		case <-ticker.C:
		}
		now, err := p.look()
		if err != nil {
			return 0, last, err
		}
		if now.switches != last.switches && time.Since(woke) > awake {
			bursts++
			woke = time.Now()
		}
		last = now
	}
	return bursts, last, nil
}

// look reads the counters of every thread; the runtime keeps the threads it has once made.
func (p *process) look() (sight, error) {
	var s sight
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.cmd.Process.Pid))
	if err != nil || len(tasks) == 0 {
		return s, errors.Join(err, fmt.Errorf("qunerd is gone\n%s", p.log.String()))
	}
	for _, task := range tasks {
		status, err := os.ReadFile(task + "/status")
		if err != nil {
			return s, err
		}
		n, err := statusField(status, "voluntary_ctxt_switches")
		if err != nil {
			return s, fmt.Errorf("%s/status: %w", task, err)
		}
		s.switches += n
		on, err := os.ReadFile(task + "/schedstat")
		if err != nil {
			continue // a kernel without: the time on a CPU is then 0
		}
		first, _, _ := strings.Cut(string(on), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return s, fmt.Errorf("%s/schedstat: %w", task, err)
		}
		s.cpu += time.Duration(ns)
	}
	return s, nil
}

// memory returns what is resident, and the part of it that no file backs, in MiB.
func (p *process) memory() (rss, anon float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	all, err := statusField(status, "VmRSS")
	if err != nil {
		return 0, 0, err
	}
	own, err := statusField(status, "RssAnon")
	return float64(all) / 1024, float64(own) / 1024, err
}

// statusField returns the number of a line "NAME:  NUMBER" or "NAME:  NUMBER kB" of /proc/PID/status.
func statusField(status []byte, name string) (int64, error) {
	for line := range bytes.Lines(status) {
		key, value, found := strings.Cut(string(line), ":")
		if !found || key != name {
			continue
		}
		return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
	}
	return 0, fmt.Errorf("no line %s", name)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
