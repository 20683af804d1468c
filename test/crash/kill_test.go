package crash

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host/hostsim"
)

// lives are how many processes are ended by each signal, at moments drawn by a seed.
func lives() map[syscall.Signal]int {
	return map[syscall.Signal]int{syscall.SIGKILL: 20, syscall.SIGABRT: 4, syscall.SIGTERM: 4, syscall.SIGHUP: 2}
}

// TestARealProcessThatEnds ends the real daemon by real signals while real clients move levers, and restores with the real
// command.
func TestARealProcessThatEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a run without -short: it is up to thirty lives of real processes")
	}
	if share == 0 {
		t.Skip("real processes end in the run without the race detector")
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "../../cmd/qunerd", "../../cmd/qunerctl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for sig, n := range lives() {
		for i := range (n + share - 1) / max(share, 1) {
			after := time.Duration(random.Int64N(int64(1500 * time.Millisecond)))
			t.Run(fmt.Sprintf("%v/%d", sig, i), func(t *testing.T) {
				if sig == syscall.SIGHUP && signal.Ignored(sig) {
					t.Skip("this process, and so the daemon, was started to ignore SIGHUP (nohup)")
				}
				t.Parallel()
				endOne(t, bin, sig, after)
			})
		}
	}
}

// patience is in which time a daemon that was told to end has put the host back, on a machine that is busy.
const patience = 30 * time.Second

func endOne(t *testing.T, bin string, sig syscall.Signal, after time.Duration) {
	dir := filepath.Join(memoryDir(t), "m")
	f, err := hostsim.Load("laptop")
	if err != nil {
		t.Fatal(err)
	}
	sim, err := hostsim.New(dir, f, hostsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := sim.Digest()
	log := new(bytes.Buffer)
	d := exec.Command(filepath.Join(bin, "qunerd"), "run", "--simulate", "laptop", "--dir", dir)
	d.Stderr = log
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Wait() }()
	t.Cleanup(func() { _ = d.Process.Kill() }) // where the test has ended before it
	awaitDaemon(t, bin, dir)
	moving := make(chan struct{})
	go func() {
		defer close(moving)
		for _, args := range []string{"profile training", "profile idle", "selftest", "pause", "resume", "levers yield epp", "levers take epp", "profile training", "profile idle"} {
			_ = ctl(bin, dir, strings.Fields(args)...) // after the end they fail, as they should
		}
	}()
	time.Sleep(after)
	if err := d.Process.Signal(sig); err != nil {
		t.Fatalf("the daemon ended by itself: %v, %v\n%s", err, <-ended, log) // until then its log is still written
	}
	select {
	case err := <-ended:
		checkEnd(t, sig, err, log)
	case <-time.After(patience):
		_ = d.Process.Kill()
		t.Errorf("%v: the daemon has not ended after %v, but when killed: %v\n%s", sig, patience, <-ended, log)
	}
	<-moving
	if sig == syscall.SIGKILL || sig == syscall.SIGABRT {
		restore := exec.Command(filepath.Join(bin, "qunerd"), "restore")
		restore.Env = append(os.Environ(), "QUNER_SOCKET="+dir)
		if out, err := restore.CombinedOutput(); err != nil {
			t.Errorf("restore: %v\n%s", err, out)
		}
	}
	now, err := hostsim.Open(dir, hostsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if now.Digest() != before {
		t.Errorf("%v after %v: the host is not as found: %v\n%s", sig, after, now.Settings(), log)
	}
}

// checkEnd wants an orderly end of a signal that asks for one.
func checkEnd(t *testing.T, sig syscall.Signal, err error, log *bytes.Buffer) {
	t.Helper()
	var exit *exec.ExitError
	orderly := sig == syscall.SIGTERM || sig == syscall.SIGHUP
	if orderly && err != nil {
		t.Errorf("%v: %v\n%s", sig, err, log)
	}
	if !orderly && !errors.As(err, &exit) {
		t.Errorf("%v ended the daemon in order", sig)
	}
}

func ctl(bin, dir string, args ...string) error {
	c := exec.Command(filepath.Join(bin, "qunerctl"), args...)
	c.Env = append(os.Environ(), "QUNER_SOCKET="+dir)
	return c.Run()
}

func awaitDaemon(t *testing.T, bin, dir string) {
	t.Helper()
	for range 400 {
		if ctl(bin, dir, "status") == nil {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatal("the daemon does not answer")
}
