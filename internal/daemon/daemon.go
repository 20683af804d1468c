// Package daemon is the service loop: one goroutine owns the bank of levers, the detector and the mode, and everybody
// else hands it closures. Readers get an immutable picture that the loop publishes after each change.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
)

// Errors a caller branches on.
var (
	ErrBusy    = errors.New("another sweep or measurement holds the levers")
	ErrRefused = errors.New("refused")
	ErrStopped = errors.New("the daemon is stopping")
	ErrVoided  = errors.New("windows do not count")
	ErrPanic   = errors.New("internal error; the daemon's log has the details")
	ErrNotBack = errors.New("the host is not back as it was before the sweep")
	ErrNoLever = errors.New("neither a lever nor a kind of lever on this host")
)

// Options are what the process, rather than the configuration file, decides.
type Options struct {
	Version   string
	Simulated string             // name of the simulated host, "" on a real one
	Notify    func(state string) // told "READY=1", "WATCHDOG=1", "STOPPING=1", "STATUS=…"; may be nil
	// Observe, if not empty, is why no lever is moved, a sentence: each write that would be made is logged instead. What an
	// earlier life has left is put back all the same, at the end or when somebody asks for it.
	Observe string
	// DryRun goes with Observe: not even that is put back.
	DryRun bool
	// GoingDown reports whether the machine is being powered off or rebooted, which makes every restore at stop moot; nil
	// means that it never is.
	GoingDown func(context.Context) bool
}

// Daemon is the running service. Make one with New, then Run it; its other methods may be called from any goroutine.
type Daemon struct {
	host  *host.Host
	cfg   config.Config
	opts  Options
	log   *slog.Logger
	meter *meter.Meter
	base  *state // the loop's; touched by nobody else once Run has begun

	requests chan request
	ready    chan struct{}
	ended    chan struct{}
	picture  atomic.Pointer[published]
}

// published is a picture and the channel that is closed when the next one replaces it.
type published struct {
	status *Status
	next   chan struct{}
}

// request is a closure for the loop and where to tell that it has run.
type request struct {
	run  func(*state)
	done chan struct{}
}

// state is what the loop goroutine owns.
type state struct {
	bank     *levers.Bank
	detector *profiles.Detector
	points   *profiles.Store
	modes    *profiles.ModeStore
	history  *history
	retunes  *retunes
	savings  *savings
	floors   *floorStore
	mode     profiles.ModeState
	print    profiles.Fingerprint
	software software
	driver   profiles.Driver
	sample   profiles.Sample

	profile profiles.Profile // in force
	source  PointSource
	inForce profiles.TunedPoint // with PointTuned: the cached point that is in force
	point   levers.Point        // in force; the empty point is the host as found
	sweep   *lease
	rivals  rivals
	again   retry
	tuned   TuneState

	degraded map[string]string // sentence by subject
	wouldDo  []levers.Write    // while observing: what was last logged
	line     statusLine
	ticker   *time.Ticker
	started  time.Time
	asleep   time.Duration
	boards   int // that the driver's library has shown
}

// New opens the machine: its GPUs, levers, journal, counters and stored state. It moves nothing. The caller holds the
// daemon's lock. Close must be called when Run never is.
func New(ctx context.Context, h *host.Host, cfg config.Config, opts Options, log *slog.Logger) (*Daemon, error) {
	if opts.Notify == nil {
		opts.Notify = func(string) {}
	}
	if opts.GoingDown == nil {
		opts.GoingDown = func(context.Context) bool { return false }
	}
	d := &Daemon{
		host: h, cfg: cfg, opts: opts, log: log,
		requests: make(chan request), ready: make(chan struct{}), ended: make(chan struct{}),
	}
	s := &state{
		detector: profiles.NewDetector(profiles.Thresholds(cfg.Detector)),
		degraded: map[string]string{},
		started:  time.Now(), source: PointFound, asleep: h.Asleep(), rivals: newRivals(h),
	}
	if opts.Observe != "" {
		s.degraded["observe"] = opts.Observe
		log.Warn("no lever is moved; what would be written is logged", "why", opts.Observe)
	}
	if err := h.GPUs.Open(ctx); err != nil {
		s.degraded["gpu"] = err.Error()
		log.Warn("GPU driver does not answer; its levers and counters are left out", "err", err)
	}
	if err := h.GPUs.Bad(); err != nil {
		s.told(log, "boards", err)
	}
	bank, err := levers.Options{AllowRaise: cfg.AllowRaise}.OpenBank(ctx, h, log)
	if err != nil && !errors.Is(err, levers.ErrJournal) {
		return nil, err
	}
	if err != nil {
		s.degraded["journal"] = err.Error()
		log.Error("no lever will be moved", "err", err)
	}
	s.bank = bank
	if n := bank.Held(); n > 0 {
		log.Info("levers are held from an earlier life; their originals are in the journal", "count", n)
	}
	if d.meter, err = meter.New(ctx, h, MeterOptions(cfg), log); err != nil {
		return nil, err
	}
	s.boards = len(h.GPUs.All())
	s.load(h, log)
	d.tellFloors(s)
	d.base = s
	d.publish(s)
	return d, nil
}

// load takes up what an earlier daemon left: points, mode, floors. A file that cannot be trusted is set aside by its store; a
// directory that cannot be read costs the memory, not the service.
func (s *state) load(h *host.Host, log *slog.Logger) {
	var err error
	if s.points, err = profiles.OpenStore(h.Var, log); err != nil {
		s.degraded["points"] = fmt.Sprintf("tuned points are not read: %v", err)
	}
	s.modes = profiles.NewModeStore(h.Var, log)
	if s.mode, err = s.modes.Load(); err != nil {
		s.degraded["mode"] = fmt.Sprintf("the mode is not read: %v", err)
	}
	if s.history, err = openHistory(h.Var, log); err != nil {
		s.degraded["history"] = fmt.Sprintf("the history is not read: %v", err)
	}
	if s.retunes, err = openRetunes(h.Var, log); err != nil {
		s.degraded["retune"] = fmt.Sprintf("the last exploration at rest is not read: %v", err)
	}
	if s.floors, err = openFloors(h.Var, log); err != nil {
		s.degraded["floors"] = fmt.Sprintf("idle floors are not read: %v", err)
	}
	if s.savings, err = openSavings(h.Var, log); err != nil {
		s.degraded["savings"] = fmt.Sprintf("the savings are not read: %v", err)
	}
	s.recallOwners()
	s.recallSweep()
	s.print = profiles.FingerprintOf(h)
	s.software = softwareOf(h)
	s.driver = profiles.DriverOf(h)
}

// MeterOptions are the meter's limits as the owner configured them.
func MeterOptions(cfg config.Config) meter.Options {
	return meter.Options{
		MaxWindows: cfg.Limits.Windows, MaxPerOwner: cfg.Limits.WindowsPerUID,
		MaxLife: cfg.Limits.WindowLife, KeepResults: cfg.Limits.ResultsPerUID, Journal: true,
	}
}

// Meter returns the daemon's meter: the hot path that needs no loop.
func (d *Daemon) Meter() *meter.Meter { return d.meter }

// Ready is closed when the first sample has been taken and its point applied.
func (d *Daemon) Ready() <-chan struct{} { return d.ready }

// Run is the loop. It returns nil when ctx ends, after the host has been put back as found; an error means that some
// lever could not be.
func (d *Daemon) Run(ctx context.Context) error {
	s := d.base
	defer close(d.ended)
	defer d.restoreOnPanic(ctx, s)
	d.tick(ctx, s)
	d.opts.Notify("READY=1")
	close(d.ready)
	s.ticker = time.NewTicker(d.cfg.Tick)
	defer s.ticker.Stop()
	second := time.After(secondLook)
	for {
		pause := pauseEnd(s.mode)
		select {
		case <-ctx.Done():
			return d.shutdown(context.WithoutCancel(ctx), s)
		case <-s.ticker.C:
			d.tick(ctx, s)
		case <-second:
			d.meter.Tick(ctx)
			d.publish(s)
		case <-pause:
			d.endPause(ctx, s)
		case r := <-d.requests:
			r.run(s)
			close(r.done)
		}
	}
}

// secondLook is when a new daemon reads its counters for the second time: a mean power needs two readings, and nobody
// who asks right after the start should have to wait for a whole tick.
const secondLook = time.Second

// restoreOnPanic puts the host back before a panic of the loop ends the process: a supervisor may not be there to do it.
func (d *Daemon) restoreOnPanic(ctx context.Context, s *state) {
	p := recover()
	if p == nil {
		return
	}
	d.log.Error("the loop has panicked; putting the host back", "panic", p)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if d.opts.DryRun {
		panic(p)
	}
	if _, err := s.bank.Restore(ctx, false); err != nil {
		d.log.Error("restore after a panic", "err", err)
	}
	panic(p)
}

// shutdownTimeout bounds the restore at the end; systemd's own limit is 30 s.
const shutdownTimeout = 20 * time.Second

func (d *Daemon) shutdown(ctx context.Context, s *state) error {
	d.opts.Notify("STOPPING=1")
	s.abortSweep(ErrStopped)
	if err := s.savings.save(true); err != nil {
		d.log.Warn("savings", "err", err)
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if d.opts.DryRun {
		return nil
	}
	if d.opts.GoingDown(ctx) {
		d.log.Info("the machine goes down: levers are left as they are, firmware sets them at the next boot")
		return nil
	}
	out, err := s.bank.Restore(ctx, false)
	for _, l := range out.Left {
		d.log.Warn("left as it is", "lever", l.Lever, "why", l.Why)
	}
	s.rememberWrites(byDaemon("stop"), out.Writes)
	if saved := s.history.save(); saved != nil {
		d.log.Warn("history", "err", saved)
	}
	if err != nil {
		return fmt.Errorf("restore at stop: %w", err)
	}
	d.meter.SetCondition(ctx, "")
	return nil
}

// Close writes down the energy windows that are open, for the daemon that comes next, and lets the GPU driver go. Call it
// after Run has returned and the server has stopped.
func (d *Daemon) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), suspendTimeout)
	defer cancel()
	d.meter.Suspend(ctx)
	return d.host.GPUs.Close()
}

// suspendTimeout bounds the last look at the counters.
const suspendTimeout = 5 * time.Second

// do runs f on the loop and waits for it. The caller's ctx bounds the wait for the loop alone: once f has begun it runs to
// its end, on a context of the daemon's own, whatever becomes of the caller. Half a change is worse than one too many.
func (d *Daemon) do(ctx context.Context, f func(context.Context, *state) error) error {
	var err error
	r := request{done: make(chan struct{}), run: func(s *state) {
		defer func() {
			// The request of one caller must not end the service of all; the journal knows what was moved.
			if p := recover(); p != nil {
				d.log.Error("a request has panicked", "panic", p, "stack", string(debug.Stack()))
				err = fmt.Errorf("%w: %v", ErrPanic, p)
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		err = f(ctx, s)
	}}
	select {
	case d.requests <- r:
	case <-d.ended:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	<-r.done
	return err
}

// requestTimeout bounds what one request may take of the loop's time: boards that hang cost two seconds each.
const requestTimeout = 20 * time.Second
