package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/doctor"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("QUNER_TEST_KNOCK"); path != "" {
		os.Exit(knock(path))
	}
	goleak.VerifyTestMain(m)
}

// scripted is a daemon whose answers a test says. Its zero value answers everything with what is empty.
type scripted struct {
	mu      sync.Mutex
	status  *daemon.Status
	next    chan struct{}
	calls   []string
	caller  daemon.Caller
	change  daemon.ModeChange
	err     error         // of every call
	panics  bool          // in every call
	blocks  chan struct{} // calls wait for this, or for their deadline
	looks   int           // examinations
	tune    func(context.Context, daemon.TuneSpec, daemon.TuneWorkload) (daemon.TuneReport, error)
	print   profiles.Fingerprint
	rest    daemon.RetuneSpec // of the last exploration
	skipped string            // of an exploration at rest
	saved   daemon.Savings
	points  []profiles.TunedPoint

	floors  []daemon.FloorEntry
	measure func(context.Context, daemon.FloorSpec, daemon.FloorWatcher) ([]daemon.FloorOutcome, error)
}

func newScripted() *scripted {
	return &scripted{
		status: &daemon.Status{Version: "v-test", Profile: profiles.Idle, Mode: profiles.ModeState{Mode: profiles.ModeAuto}},
		next:   make(chan struct{}),
	}
}

// publish puts a new picture up.
func (d *scripted) publish(s *daemon.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.next)
	d.status, d.next = s, make(chan struct{})
}

func (d *scripted) called(ctx context.Context, name string, c daemon.Caller) error {
	d.mu.Lock()
	d.calls = append(d.calls, name)
	d.caller = c
	panics, blocks, err := d.panics, d.blocks, d.err
	d.mu.Unlock()
	if panics {
		panic("a fault in " + name)
	}
	if blocks != nil {
		select {
		case <-blocks:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

func (d *scripted) Status() *daemon.Status {
	s, _ := d.Changed()
	return s
}

func (d *scripted) Changed() (*daemon.Status, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status, d.next
}

func (d *scripted) Doctor(ctx context.Context) (doctor.Report, error) {
	err := d.called(ctx, "doctor", daemon.Caller{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks++
	return doctor.Report{Host: "a test"}, err
}

func (d *scripted) Points(ctx context.Context) ([]profiles.TunedPoint, profiles.Fingerprint, error) {
	return d.points, d.print, d.called(ctx, "points", daemon.Caller{})
}

func (d *scripted) SetMode(ctx context.Context, c daemon.Caller, change daemon.ModeChange) (daemon.Applied, error) {
	d.mu.Lock()
	d.change = change
	d.mu.Unlock()
	return daemon.Applied{
		Writes: []levers.Write{{Lever: "cpufreq/policy0", From: "performance", To: "powersave"}},
		Mode:   profiles.ModeState{Mode: change.Mode, UID: c.UID},
	}, d.called(ctx, "mode", c)
}

func (d *scripted) Apply(ctx context.Context, c daemon.Caller, _ bool) (daemon.Applied, error) {
	return daemon.Applied{Profile: profiles.Training, Source: daemon.PointTuned}, d.called(ctx, "apply", c)
}

func (d *scripted) Restore(ctx context.Context, c daemon.Caller, _, _ bool) (levers.Restored, profiles.ModeState, error) {
	return levers.Restored{Left: []levers.Left{{Lever: "nvml/GPU-1", Why: "gone"}}}, profiles.ModeState{}, d.called(ctx, "restore", c)
}

func (d *scripted) Tune(ctx context.Context, spec daemon.TuneSpec, w daemon.TuneWorkload) (daemon.TuneReport, error) {
	if err := d.called(ctx, "tune", spec.Caller); err != nil || d.tune == nil {
		return daemon.TuneReport{}, err
	}
	return d.tune(ctx, spec, w)
}

func (d *scripted) Forget(ctx context.Context, c daemon.Caller, _ []string, _, _ bool) ([]profiles.TunedPoint, error) {
	return d.points, d.called(ctx, "forget", c)
}

func (d *scripted) Rollback(ctx context.Context) (string, error) {
	return "echo powersave > …\n", d.called(ctx, "rollback", daemon.Caller{})
}

func (d *scripted) History(ctx context.Context, limit int) ([]daemon.Event, error) {
	return []daemon.Event{{UID: uint32(limit), Call: "apply", Lever: "cpufreq/policy0", From: "a", To: "b"}}, //nolint:gosec // a small number
		d.called(ctx, "history", daemon.Caller{})
}

func (d *scripted) SetLeverOwner(ctx context.Context, c daemon.Caller, name string, _ profiles.Owner, _ bool) ([]string, []levers.Write, error) {
	return []string{name}, nil, d.called(ctx, "owner", c)
}

func (d *scripted) Savings(ctx context.Context) (daemon.Savings, error) {
	return d.saved, d.called(ctx, "savings", daemon.Caller{})
}

func (d *scripted) Retune(ctx context.Context, spec daemon.RetuneSpec, see daemon.Resting) (daemon.RetuneReport, error) {
	d.rest = spec
	if err := d.called(ctx, "retune", spec.Caller); err != nil {
		return daemon.RetuneReport{}, err
	}
	if d.skipped != "" {
		return daemon.RetuneReport{Skipped: d.skipped}, nil
	}
	if err := see.Plan(twoStates); err != nil || spec.DryRun {
		return daemon.RetuneReport{}, err
	}
	see.Progress(daemon.Progress{Progress: tune.Progress{Axis: "gpu", Phase: tune.PhaseCheck, Label: "300 W", Window: 1, Max: 8, Best: 1,
		Sample: tune.Sample{Work: 5, Seconds: 5, Joules: 200}}})
	return daemon.RetuneReport{Spec: daemon.TuneSpec{WorkUnit: "second"}, Report: theReport()}, nil
}

func (d *scripted) Selftest(ctx context.Context, c daemon.Caller, _ bool) ([]levers.Test, error) {
	return []levers.Test{{Lever: "cpufreq/policy0", Verdict: levers.Moved}}, d.called(ctx, "selftest", c)
}

func (d *scripted) Floors(ctx context.Context) ([]daemon.FloorEntry, error) {
	return d.floors, d.called(ctx, "floors", daemon.Caller{})
}

func (d *scripted) MeasureFloor(ctx context.Context, spec daemon.FloorSpec, w daemon.FloorWatcher) ([]daemon.FloorOutcome, error) {
	if err := d.called(ctx, "measure floor", spec.Caller); err != nil || d.measure == nil {
		return nil, err
	}
	return d.measure(ctx, spec, w)
}

func (d *scripted) ForgetFloors(ctx context.Context, c daemon.Caller, _ []string, _, _ bool) ([]daemon.FloorEntry, error) {
	return d.floors, d.called(ctx, "forget floors", c)
}

// stand is a server on real sockets, over a scripted daemon and a real meter on a simulated workstation.
type stand struct {
	*scripted
	meter   *meter.Meter
	run     host.Dir
	log     *logbook
	stop    func()
	sockets *Sockets
}

// start serves until the test ends. edit may change the options; nil leaves them.
func start(t testing.TB, edit func(*Options)) *stand {
	t.Helper()
	return startWith(t, edit, func(dir string) *meter.Meter { return aMeter(t, dir) })
}

// startWith is start with another meter, which may have a directory of its own.
func startWith(t testing.TB, edit func(*Options), newMeter func(dir string) *meter.Meter) *stand {
	t.Helper()
	// Other users must get at the public socket, and t.TempDir is private.
	dir, err := os.MkdirTemp("", "quner-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &stand{scripted: newScripted(), run: host.NewDir(dir, nil), log: new(logbook), meter: newMeter(filepath.Join(dir, "sim"))}
	if s.sockets, err = Listen(s.run); err != nil {
		t.Fatal(err)
	}
	var o Options
	if edit != nil {
		edit(&o)
	}
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- New(s.scripted, s.meter, o, log).Serve(ctx, s.sockets) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := s.sockets.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

func aMeter(t testing.TB, dir string) *meter.Meter {
	t.Helper()
	m, _ := simulated(t, dir)
	return m
}

// simulated is a meter on a simulated workstation, with the machine.
func simulated(t testing.TB, dir string) (*meter.Meter, *hostsim.Sim) {
	t.Helper()
	fixture, err := hostsim.Load("workstation")
	if err != nil {
		t.Fatal(err)
	}
	sim, err := hostsim.New(dir, fixture, hostsim.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	h := sim.Host()
	if err := h.GPUs.Open(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.GPUs.Close(); err != nil {
			t.Error(err)
		}
	})
	m, err := meter.New(context.Background(), h, meter.Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return m, sim
}

func (s *stand) public() string { return s.run.File("quner/quner.sock") }
func (s *stand) admin() string  { return s.run.File("quner-admin/admin.sock") }

// dial connects to a socket as this process.
func dial(t testing.TB, path string) *grpc.ClientConn {
	t.Helper()
	return dialWith(t, func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	})
}

func insecureCreds() grpc.DialOption { return grpc.WithTransportCredentials(insecure.NewCredentials()) }

func dialWith(t testing.TB, connect func(context.Context) (net.Conn, error)) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///quner", insecureCreds(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return connect(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// person is a user a thread can become.
type person struct {
	uid, gid int
	groups   []uint32
}

// connectAs connects to a socket as another user: identity belongs to the thread, and this one ends with its work.
func connectAs(path string, p person) (net.Conn, error) {
	type outcome struct {
		conn net.Conn
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no use to anyone else
		conn, err := p.connect(path)
		done <- outcome{conn, err}
	}()
	o := <-done
	return o.conn, o.err
}

func (p person) connect(path string) (net.Conn, error) {
	if err := p.become(); err != nil {
		return nil, fmt.Errorf("become %+v: %w", p, err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, err
	}
	return net.FileConn(file)
}

// needRoot skips what only root can set up, and says so.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it connects as other users")
	}
}

// logbook collects a log.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// eventually waits for what another goroutine or the kernel brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: not within five seconds", what)
}

var errTest = errors.New("a fault of the daemon")
