package client_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// meter answers sessions: each window costs a joule for each mark and one for itself.
type meter struct {
	qunerv1.UnimplementedMeterServiceServer

	mu       sync.Mutex
	windows  map[string]int // open, with its marks
	sessions int            // that were begun
	resumed  int            // windows
	slow     chan struct{}  // opens wait for this to be closed
	refuse   codes.Code     // what opens are refused with
	forgets  bool           // windows do not outlive it
	closed   chan string    // ids of the windows closed, if anybody looks
}

func (m *meter) Session(stream grpc.BidiStreamingServer[qunerv1.SessionRequest, qunerv1.SessionResponse]) error {
	m.mu.Lock()
	m.sessions++
	m.mu.Unlock()
	for {
		r, err := stream.Recv()
		if err != nil {
			return nil
		}
		if m.slow != nil && r.GetOpen() != nil {
			select {
			case <-m.slow:
			case <-stream.Context().Done():
				return nil
			}
		}
		if err := stream.Send(m.answer(r)); err != nil {
			return err
		}
	}
}

func (m *meter) answer(r *qunerv1.SessionRequest) *qunerv1.SessionResponse {
	m.mu.Lock()
	defer m.mu.Unlock()
	answer := &qunerv1.SessionResponse{Seq: r.GetSeq()}
	no := func(code codes.Code, why string) *qunerv1.SessionResponse {
		answer.Event = &qunerv1.SessionResponse_Error{Error: &qunerv1.CommandError{Code: uint32(code), Message: why}}
		return answer
	}
	switch c := r.GetCommand().(type) {
	case *qunerv1.SessionRequest_Open:
		if m.refuse != codes.OK {
			return no(m.refuse, "not today")
		}
		id := c.Open.GetName()
		m.windows[id] = 1
		answer.Event = &qunerv1.SessionResponse_Opened{Opened: &qunerv1.WindowOpened{Id: id}}
	case *qunerv1.SessionRequest_Resume:
		if _, ok := m.windows[c.Resume.GetId()]; !ok {
			return no(codes.NotFound, "no such window")
		}
		m.resumed++
		answer.Event = &qunerv1.SessionResponse_Resumed{Resumed: &qunerv1.WindowResumed{Id: c.Resume.GetId()}}
	case *qunerv1.SessionRequest_Mark:
		m.windows[c.Mark.GetId()]++
		answer.Event = &qunerv1.SessionResponse_Marked{Marked: &qunerv1.WindowMarked{}}
	case *qunerv1.SessionRequest_Close:
		joules, ok := m.windows[c.Close.GetId()]
		if !ok {
			return no(codes.NotFound, "no such window")
		}
		delete(m.windows, c.Close.GetId())
		if m.closed != nil {
			m.closed <- c.Close.GetId()
		}
		result := &qunerv1.WindowResult{Id: c.Close.GetId(), Method: qunerv1.Method_METHOD_SAMPLED, EnergyUj: new(int64(joules) * 1e6), HalfWidthUj: new(int64(1e4))}
		if work := c.Close.GetWork(); work > 0 {
			per := float64(joules) / work
			result.JoulesPerUnit = &per
		}
		answer.Event = &qunerv1.SessionResponse_Closed{Closed: result}
	}
	return answer
}

// listen serves m below dir until the test ends or stop is called.
func listen(t *testing.T, dir string, m *meter) (stop func()) {
	t.Helper()
	path := client.Options{Dir: dir}.SocketPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if m.windows == nil || m.forgets {
		m.windows = make(map[string]int)
	}
	s := grpc.NewServer()
	qunerv1.RegisterMeterServiceServer(s, m)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	stop = sync.OnceFunc(func() { s.Stop(); <-served })
	t.Cleanup(stop)
	return stop
}

func dial(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestManyWindowsShareOneSession(t *testing.T) {
	dir, m := t.TempDir(), new(meter)
	listen(t, dir, m)
	c := dial(t, client.Options{Dir: dir, Strict: true})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			name := string(rune('A'+i%26)) + string(rune('a'+i/26))
			w, err := c.Open(t.Context(), client.OpenOptions{Name: name})
			if err != nil {
				t.Error(err)
				return
			}
			for range i {
				if err := w.Mark(t.Context(), "stage"); err != nil {
					t.Error(err)
				}
			}
			r, err := w.Close(t.Context(), client.CloseOptions{Work: 2})
			if j, _, ok := r.Joules(); err != nil || !ok || j != float64(i+1) || r.Window.GetId() != name {
				t.Errorf("window %s costs %v (%v), want %d J", name, r, err, i+1)
			}
			if j, _, ok := r.JoulesPerUnit(); !ok || j != float64(i+1)/2 {
				t.Errorf("window %s costs %g J a unit, %t", name, j, ok)
			}
		})
	}
	all.Wait()
	if m.sessions != 1 {
		t.Errorf("%d sessions, want 1", m.sessions)
	}
}

func TestAbsentDaemonCostsTheFigureNotTheRequest(t *testing.T) {
	c := dial(t, client.Options{Dir: t.TempDir()})
	ran := false
	r, err := c.Measure(t.Context(), client.MeasureOptions{Open: client.OpenOptions{Name: "request", Unit: "token"}},
		func(context.Context) (float64, error) { ran = true; return 0, nil })
	if err != nil || !ran {
		t.Fatalf("ran = %t, err = %v", ran, err)
	}
	if _, _, ok := r.Joules(); ok || r.Measured() {
		t.Errorf("nobody measured, yet it costs %v", r)
	}
	if got := r.Reasons(); len(got) != 1 || got[0] != client.ReasonUnreachable {
		t.Errorf("reasons %v", got)
	}
	if !errors.Is(r.Cause, client.ErrUnreachable) || !errors.Is(r.Cause, fs.ErrNotExist) {
		t.Errorf("cause %v does not tell that there is no socket", r.Cause)
	}
	if r.String() != "unknown [daemon_unreachable]" {
		t.Errorf("prints %q", r)
	}
}

func TestStrictTellsThatThereIsNoDaemon(t *testing.T) {
	_, err := client.Dial(t.Context(), client.Options{Dir: t.TempDir(), Strict: true})
	if !errors.Is(err, client.ErrUnreachable) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("err = %v", err)
	}
}

func TestDaemonThatComesLaterIsFound(t *testing.T) {
	dir := t.TempDir()
	c := dial(t, client.Options{Dir: dir})
	listen(t, dir, new(meter))
	eventuallyMeasured(t, c)
}

func TestDaemonThatRestartsIsFoundAgain(t *testing.T) {
	dir := t.TempDir()
	stop := listen(t, dir, new(meter))
	c := dial(t, client.Options{Dir: dir})
	w, err := c.Open(t.Context(), client.OpenOptions{Name: "before"})
	if err != nil || !w.Measured() {
		t.Fatalf("%v, measured %t", err, w.Measured())
	}
	stop()
	r, err := w.Close(t.Context(), client.CloseOptions{})
	if err != nil || !errors.Is(r.Cause, client.ErrUnreachable) {
		t.Errorf("a window whose daemon died: %v, %v", r, err)
	}
	listen(t, dir, new(meter))
	eventuallyMeasured(t, c)
}

// The windows of a daemon that is restarted go on at the next one: those that are closed while nobody is there, and those
// of which nobody asks for longer.
func TestWindowsOutliveTheDaemon(t *testing.T) {
	dir, m := t.TempDir(), new(meter)
	stop := listen(t, dir, m)
	c := dial(t, client.Options{Dir: dir})
	open := func(name string) *client.Window {
		w, err := c.Open(t.Context(), client.OpenOptions{Name: name})
		if err != nil || !w.Measured() {
			t.Fatalf("%v, measured %t", err, w.Measured())
		}
		return w
	}
	quiet, hasty := open("quiet"), open("hasty")
	stop()
	var closing sync.WaitGroup
	closing.Go(func() { // while no daemon is there
		if err := hasty.Mark(t.Context(), "prefill"); err != nil {
			t.Error(err)
		}
		r, err := hasty.Close(t.Context(), client.CloseOptions{})
		if j, _, ok := r.Joules(); err != nil || !ok || j != 2 {
			t.Errorf("closed while the daemon restarts: %v, %v", r, err)
		}
	})
	time.Sleep(50 * time.Millisecond)
	listen(t, dir, m)
	closing.Wait()
	for range 500 {
		m.mu.Lock()
		n := m.resumed
		m.mu.Unlock()
		if n == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	r, err := quiet.Close(t.Context(), client.CloseOptions{})
	if !r.Measured() || err != nil || m.resumed != 2 {
		t.Errorf("%v, %v; %d windows were taken up", r, err, m.resumed)
	}
}

// A daemon that knows nothing of the window costs the figure, and says what happened.
func TestWindowThatTheDaemonHasForgotten(t *testing.T) {
	for _, strict := range []bool{false, true} {
		dir, m := t.TempDir(), &meter{forgets: true}
		stop := listen(t, dir, m)
		c := dial(t, client.Options{Dir: dir, Strict: strict})
		w, err := c.Open(t.Context(), client.OpenOptions{Name: "gone"})
		if err != nil {
			t.Fatal(err)
		}
		stop()
		listen(t, dir, m)
		r, err := w.Close(t.Context(), client.CloseOptions{})
		if (err != nil) != strict || r.Measured() || r.Reasons()[0] != client.ReasonRestarted {
			t.Errorf("strict %t: %v, %v", strict, r, err)
		}
	}
}

// A client that is closed while it tries to take windows up again leaves nothing running.
func TestCloseWhileTheDaemonIsAway(t *testing.T) {
	dir := t.TempDir()
	stop := listen(t, dir, new(meter))
	c, err := client.Dial(t.Context(), client.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open(t.Context(), client.OpenOptions{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	stop()
	time.Sleep(300 * time.Millisecond)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	_ = c.Close() // a second time does no harm
}

func TestMeasureTellsTheWork(t *testing.T) {
	dir := t.TempDir()
	listen(t, dir, new(meter))
	c := dial(t, client.Options{Dir: dir})
	r, err := c.Measure(t.Context(), client.MeasureOptions{}, func(context.Context) (float64, error) { return 4, nil })
	if j, _, ok := r.JoulesPerUnit(); err != nil || !ok || j != 0.25 {
		t.Errorf("%g J a unit, %t, %v", j, ok, err)
	}
}

func TestMeasureClosesItsWindowOverAPanic(t *testing.T) {
	dir, m := t.TempDir(), &meter{closed: make(chan string, 1)}
	listen(t, dir, m)
	c := dial(t, client.Options{Dir: dir})
	defer func() {
		if recover() == nil {
			t.Error("the panic is gone")
		}
		if id := <-m.closed; id != "window" {
			t.Errorf("closed %q", id)
		}
	}()
	_, _ = c.Measure(t.Context(), client.MeasureOptions{}, func(context.Context) (float64, error) { panic("boom") })
}

// eventuallyMeasured waits for the client's back-off to end.
func eventuallyMeasured(t *testing.T, c *client.Client) {
	t.Helper()
	for range 400 {
		r, err := c.Measure(t.Context(), client.MeasureOptions{Open: client.OpenOptions{Name: "again"}}, func(context.Context) (float64, error) { return 0, nil })
		if err != nil {
			t.Fatal(err)
		}
		if r.Measured() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the daemon is there and the client does not see it")
}

func TestCancelledRequestStillClosesItsWindow(t *testing.T) {
	dir, m := t.TempDir(), &meter{closed: make(chan string, 1)}
	listen(t, dir, m)
	c := dial(t, client.Options{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	w, err := c.Open(ctx, client.OpenOptions{Name: "cancelled"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	r, err := w.Close(ctx, client.CloseOptions{})
	if err != nil {
		t.Error(err)
	}
	if id := <-m.closed; id != "cancelled" {
		t.Errorf("closed %q", id)
	}
	if cost, _, ok := r.Joules(); !ok || cost != 1 {
		t.Errorf("the daemon told what the request cost, the client %v: %v", r, r.Cause)
	}
}

func TestHungDaemonHoldsNobodyUp(t *testing.T) {
	dir, m := t.TempDir(), &meter{slow: make(chan struct{}), closed: make(chan string, 1)}
	listen(t, dir, m)
	c := dial(t, client.Options{Dir: dir, Timeout: 50 * time.Millisecond})
	w, err := c.Open(t.Context(), client.OpenOptions{Name: "late"})
	if err != nil || w.Measured() {
		t.Fatalf("err = %v, measured = %t", err, w.Measured())
	}
	// It comes to, and opens a window that nobody waits for any more: it must not stay open.
	close(m.slow)
	if id := <-m.closed; id != "late" {
		t.Errorf("closed %q", id)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		code    codes.Code
		strict  bool
		wantErr bool
	}{
		{codes.ResourceExhausted, false, false},
		{codes.ResourceExhausted, true, true},
		{codes.InvalidArgument, false, true}, // the caller's own fault: he must see it
	} {
		dir := t.TempDir()
		listen(t, dir, &meter{refuse: c.code})
		cl := dial(t, client.Options{Dir: dir, Strict: c.strict})
		w, err := cl.Open(t.Context(), client.OpenOptions{})
		if (err != nil) != c.wantErr {
			t.Errorf("%s, strict %t: err = %v", c.code, c.strict, err)
		}
		if err != nil {
			continue
		}
		r, err := w.Close(t.Context(), client.CloseOptions{})
		if err != nil || r.Reasons()[0] != client.ReasonRefused {
			t.Errorf("%s: %v, %v", c.code, r, err)
		}
	}
}

func TestMeasureKeepsTheErrorOfWhatItMeasures(t *testing.T) {
	dir := t.TempDir()
	listen(t, dir, new(meter))
	c := dial(t, client.Options{Dir: dir})
	boom := errors.New("boom")
	r, err := c.Measure(t.Context(), client.MeasureOptions{}, func(context.Context) (float64, error) { return 0, boom })
	if !errors.Is(err, boom) || !r.Measured() {
		t.Errorf("err = %v, result %v", err, r)
	}
}

func TestSocketPath(t *testing.T) {
	t.Setenv(client.EnvSocket, "")
	for want, o := range map[string]client.Options{
		"/run/quner/quner.sock":       {},
		"/run/quner-admin/admin.sock": {Admin: true},
		"/tmp/d/quner/quner.sock":     {Dir: "/tmp/d"},
	} {
		if got := o.SocketPath(); got != want {
			t.Errorf("%+v: %s, want %s", o, got, want)
		}
	}
	t.Setenv(client.EnvSocket, "/tmp/e")
	if got := (client.Options{}).SocketPath(); got != "/tmp/e/quner/quner.sock" {
		t.Errorf("%s: %s", client.EnvSocket, got)
	}
	if got := (client.Options{Dir: "/tmp/d"}).SocketPath(); got != "/tmp/d/quner/quner.sock" {
		t.Errorf("an option must win over %s: %s", client.EnvSocket, got)
	}
}
