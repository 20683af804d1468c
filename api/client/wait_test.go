package client_test

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/qunerd/quner/api/client"
)

// far is a bound on a wait that a test can tell from none on any machine.
const far = 20 * time.Second

// A daemon that hangs is waited for once; when it comes to, the windows that were closed meanwhile are closed, and figures
// come again.
func TestHungDaemonIsWaitedForOnce(t *testing.T) {
	const wait = 300 * time.Millisecond
	dir, m := t.TempDir(), &meter{slow: make(chan struct{}), closed: make(chan string, 64)}
	listen(t, dir, m)
	c := dial(t, client.Options{Dir: dir, Timeout: wait})
	close(m.slow)
	var open []*client.Window
	for i := range 40 {
		w, err := c.Open(t.Context(), client.OpenOptions{Name: fmt.Sprint("before", i)})
		if err != nil || !w.Measured() {
			t.Fatalf("%v, measured %t", err, w.Measured())
		}
		open = append(open, w)
	}
	m.mu.Lock() // it hangs
	began := time.Now()
	for i := range 40 {
		w, err := c.Open(t.Context(), client.OpenOptions{Name: fmt.Sprint("meanwhile", i)})
		if err != nil || w.Measured() {
			t.Fatalf("%v, measured %t", err, w.Measured())
		}
		if r, err := open[i].Close(t.Context(), client.CloseOptions{}); err != nil || r.Reasons()[0] != client.ReasonUnreachable {
			t.Fatalf("%v, %v", r, err)
		}
	}
	if took := time.Since(began); took > 40*wait/2 {
		t.Errorf("80 calls waited for %v in all, each may for %v", took, wait)
	}
	m.mu.Unlock()
	closed := map[string]bool{}
	for range 41 { // and the first of the meanwhile, which was asked for
		select {
		case id := <-m.closed:
			closed[id] = true
		case <-time.After(far):
			t.Fatalf("%d of 41 windows are closed", len(closed))
		}
	}
	eventuallyMeasured(t, c)
}

// Windows that were open when the daemon died for good do not wait each for itself.
func TestGoneDaemonIsNotWaitedForByEachWindow(t *testing.T) {
	dir := t.TempDir()
	stop := listen(t, dir, new(meter))
	c := dial(t, client.Options{Dir: dir, Timeout: far})
	var open []*client.Window
	for i := range 30 {
		w, err := c.Open(t.Context(), client.OpenOptions{Name: fmt.Sprint(i)})
		if err != nil || !w.Measured() {
			t.Fatalf("%v, measured %t", err, w.Measured())
		}
		open = append(open, w)
	}
	stop()
	began := time.Now()
	for _, w := range open {
		if r, err := w.Close(t.Context(), client.CloseOptions{}); err != nil || r.Reasons()[0] != client.ReasonUnreachable {
			t.Errorf("%v, %v", r, err)
		}
		if w, err := c.Open(t.Context(), client.OpenOptions{}); err != nil || w.Measured() {
			t.Errorf("%v, measured %t", err, w.Measured())
		}
	}
	if took := time.Since(began); took > far/2 {
		t.Errorf("all that is gone after %v", took)
	}
}

// A socket behind which nobody speaks, as of a daemon that hangs while it starts, is waited for once.
func TestSilentSocketIsWaitedForOnce(t *testing.T) {
	const wait = 300 * time.Millisecond
	dir := t.TempDir()
	stop := listen(t, dir, new(meter))
	c := dial(t, client.Options{Dir: dir, Timeout: wait})
	var open []*client.Window
	for i := range 20 {
		w, err := c.Open(t.Context(), client.OpenOptions{Name: fmt.Sprint(i)})
		if err != nil || !w.Measured() {
			t.Fatalf("%v, measured %t", err, w.Measured())
		}
		open = append(open, w)
	}
	stop()
	path := client.Options{Dir: dir}.SocketPath()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path) // connections queue, and nobody takes them
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	began := time.Now()
	for _, w := range open {
		if _, err := w.Close(t.Context(), client.CloseOptions{}); err != nil {
			t.Error(err)
		}
		if w, err := c.Open(t.Context(), client.OpenOptions{}); err != nil || w.Measured() {
			t.Errorf("%v, measured %t", err, w.Measured())
		}
	}
	if took := time.Since(began); took > 20*wait/2 {
		t.Errorf("40 calls waited for %v in all, each may for %v", took, wait)
	}
}
