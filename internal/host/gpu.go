package host

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// Driver is a vendor's library: process-wide, opened and closed by GPUs alone. Its calls may block for as long as the
// vendor pleases. Errors wrap this package's sentinels.
type Driver interface {
	Init() error
	Shutdown() error
	Version() (string, error)   // the driver's version, as in "550.54.15"
	Devices() ([]Device, error) // the boards present; valid until Shutdown
}

// Device is one board. Its calls block; one goroutine, the GPU's actor, makes them all.
type Device interface {
	Info() (GPUInfo, error)
	Energy() (unit.Energy, error)               // since the driver loaded
	Power() (unit.Power, error)                 // now
	Utilisation() (float64, error)              // share of the last sample period with a kernel running, 0…1
	Limit() (unit.Power, error)                 // the power cap as set
	EnforcedLimit() (unit.Power, error)         // the cap in force, which may be lower
	LimitRange() (lo, hi unit.Power, err error) // what SetLimit takes
	DefaultLimit() (unit.Power, error)          // the vendor's cap
	SetLimit(unit.Power) error                  // needs CAP_SYS_ADMIN in the initial user namespace
	Processes() ([]int, error)                  // pids with a compute context
}

// GPUInfo is what never changes while a board stays in place.
type GPUInfo struct {
	UUID  string // "GPU-5f0c…", the board's identity
	PCI   string // "0000:01:00.0"
	Name  string // "NVIDIA A40"
	VBIOS string

	MIG    bool // it is cut into slices (multi-instance GPU): what it tells is of the whole board
	Module bool // it sits on one module with a CPU, as Grace-Hopper does: its energy counter takes in both
}

// Reading is what one visit to a board saw. Every figure has its own error, since boards differ in what they tell.
type Reading struct {
	At          time.Time // when the visit began; carries the monotonic clock
	Energy      unit.Energy
	EnergyErr   error
	Power       unit.Power
	PowerErr    error
	Utilisation float64 // 0…1
	UtilErr     error
	Limit       unit.Power
	LimitErr    error
	Enforced    unit.Power
	EnforcedErr error
}

// CallTimeout is how long a driver call may take before its board counts as hung. NVML calls take microseconds to some
// milliseconds; a second is a driver in trouble.
const CallTimeout = 2 * time.Second

// GPU is one board as an actor: one goroutine makes all its driver calls, so that a call that hangs blocks nobody else.
// Its methods are safe for concurrent use.
type GPU struct {
	info  GPUInfo
	lo    unit.Power
	hi    unit.Power
	jobs  chan job
	stop  chan struct{}
	ended chan struct{}
	hung  atomic.Bool

	mu     sync.Mutex
	last   Reading
	late   func(unit.Power, error) // told what a limit write that outlived its deadline has come to
	rngErr error
}

type job struct {
	run  func(Device)
	done chan struct{}
}

func startGPU(dev Device, info GPUInfo) *GPU {
	g := &GPU{info: info, jobs: make(chan job), stop: make(chan struct{}), ended: make(chan struct{})}
	g.lo, g.hi, g.rngErr = dev.LimitRange()
	go g.loop(dev)
	return g
}

func (g *GPU) loop(dev Device) {
	defer close(g.ended)
	for {
		select {
		case j := <-g.jobs:
			j.run(dev)
			g.hung.Store(false)
			close(j.done)
		case <-g.stop:
			return
		}
	}
}

// Info returns the board's identity.
func (g *GPU) Info() GPUInfo { return g.info }

// LimitRange returns what the board said its power cap may be, when it was found.
func (g *GPU) LimitRange() (lo, hi unit.Power, err error) { return g.lo, g.hi, g.rngErr }

// Hung reports whether a driver call has outlived its deadline and has not come back.
func (g *GPU) Hung() bool { return g.hung.Load() }

// call runs f on the actor's goroutine. It returns ErrHung when the board does not answer within CallTimeout, or the
// context's cause; f may then still run to its end, later.
func (g *GPU) call(ctx context.Context, f func(Device)) error {
	if g.hung.Load() {
		return fmt.Errorf("%s: %w", g.info.UUID, ErrHung)
	}
	timer := time.NewTimer(CallTimeout)
	defer timer.Stop()
	j := job{run: f, done: make(chan struct{})}
	select {
	case g.jobs <- j:
	case <-g.stop:
		return fmt.Errorf("%s: %w", g.info.UUID, ErrNoDriver)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", g.info.UUID, context.Cause(ctx))
	case <-timer.C:
		return fmt.Errorf("%s: %w", g.info.UUID, ErrHung)
	}
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", g.info.UUID, context.Cause(ctx))
	case <-timer.C:
		return g.giveUp(j)
	}
}

// giveUp marks the board hung, unless the call came back in this very moment.
func (g *GPU) giveUp(j job) error {
	g.hung.Store(true)
	select {
	case <-j.done:
		g.hung.Store(false)
		return nil
	default:
		return fmt.Errorf("%s: %w", g.info.UUID, ErrHung)
	}
}

// Read returns what the board says, at most maxAge old: readers of the same moment share one visit. With maxAge 0 the
// board is always visited. The error is ErrHung or the context's; what the board refused is in the Reading.
func (g *GPU) Read(ctx context.Context, maxAge time.Duration) (Reading, error) {
	if maxAge > 0 {
		if last := g.Last(); !last.At.IsZero() && time.Since(last.At) <= maxAge {
			return last, nil
		}
	}
	r, err := ask(ctx, g, func(dev Device) (Reading, error) { return visit(dev), nil })
	if err != nil {
		return Reading{}, err
	}
	g.mu.Lock()
	g.last = r
	g.mu.Unlock()
	return r, nil
}

// Last returns the newest reading without a visit; its At is zero before the first.
func (g *GPU) Last() Reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

func visit(dev Device) Reading {
	r := Reading{At: time.Now()}
	r.Energy, r.EnergyErr = dev.Energy()
	r.Power, r.PowerErr = dev.Power()
	r.Utilisation, r.UtilErr = dev.Utilisation()
	r.Limit, r.LimitErr = dev.Limit()
	r.Enforced, r.EnforcedErr = dev.EnforcedLimit()
	return r
}

// answer is what one driver call came to.
type answer[T any] struct {
	value T
	err   error
}

// ask makes one driver call on the board's actor. The channel holds the answer of a call that outlives its asker.
func ask[T any](ctx context.Context, g *GPU, f func(Device) (T, error)) (T, error) {
	out := make(chan answer[T], 1)
	err := g.call(ctx, func(dev Device) {
		v, err := f(dev)
		out <- answer[T]{v, err}
	})
	if err != nil {
		var none T
		return none, err
	}
	a := <-out
	return a.value, a.err
}

// Energy reads the energy counter alone, the cheapest exact edge there is, and says when.
func (g *GPU) Energy(ctx context.Context) (unit.Energy, time.Time, error) {
	e, err := ask(ctx, g, func(dev Device) (timed[unit.Energy], error) {
		began := time.Now()
		e, err := dev.Energy()
		return timed[unit.Energy]{e, began}, err
	})
	return e.value, e.at, err
}

type timed[T any] struct {
	value T
	at    time.Time
}

// Limit reads the power cap as set, from the board.
func (g *GPU) Limit(ctx context.Context) (unit.Power, error) {
	return ask(ctx, g, Device.Limit)
}

// DefaultLimit reads the vendor's power cap.
func (g *GPU) DefaultLimit(ctx context.Context) (unit.Power, error) {
	return ask(ctx, g, Device.DefaultLimit)
}

// Processes returns the pids that hold a compute context on the board.
func (g *GPU) Processes(ctx context.Context) ([]int, error) {
	return ask(ctx, g, Device.Processes)
}

// SetLimit sets the power cap and returns what the board then says it is. A write that outlives its deadline returns
// ErrHung; when it comes back after all, it is read back and told to the function given to OnLateWrite.
func (g *GPU) SetLimit(ctx context.Context, p unit.Power) (unit.Power, error) {
	var w limitWrite
	_, err := ask(ctx, g, func(dev Device) (struct{}, error) {
		if w.err = dev.SetLimit(p); w.err == nil {
			w.now, w.err = dev.Limit()
		}
		if !w.fate.CompareAndSwap(pending, returned) {
			g.tellLate(w.now, w.err)
		}
		return struct{}{}, nil
	})
	if err != nil && w.fate.CompareAndSwap(pending, abandoned) {
		return 0, err
	}
	return w.now, w.err
}

// limitWrite is a write of the cap that its asker may have to leave to itself. Whoever moves fate first decides who
// looks after the outcome: the asker, or OnLateWrite.
type limitWrite struct {
	fate atomic.Int32
	now  unit.Power
	err  error
}

const (
	pending int32 = iota
	returned
	abandoned
)

// OnLateWrite registers who hears of limit writes that came back after their deadline. It is called on the actor's
// goroutine and must not block.
func (g *GPU) OnLateWrite(f func(now unit.Power, err error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.late = f
}

func (g *GPU) tellLate(p unit.Power, err error) {
	g.mu.Lock()
	f := g.late
	g.mu.Unlock()
	if f != nil {
		f(p, err)
	}
}

// close ends the actor; it reports whether the actor ended within the call timeout, that is whether no call hangs.
func (g *GPU) close() bool {
	close(g.stop)
	timer := time.NewTimer(CallTimeout)
	defer timer.Stop()
	select {
	case <-g.ended:
		return true
	case <-timer.C:
		return false
	}
}
