package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// GPUs owns the vendor's library: it alone initialises and shuts it down, and hands out one actor a board.
type GPUs struct {
	driver Driver
	wakes  atomic.Int64

	mu      sync.Mutex
	gate    *gate // nil: no board sleeps
	waiting []PCIBoard
	open    bool
	all     []*GPU
	version string
	why     error // why there is no board
	bad     error // why there are fewer than the driver lists
}

// NewGPUs returns an owner for driver, not yet opened. driver may be nil: a host without GPUs. Its boards are taken to
// be awake always; a real machine's need NewGatedGPUs.
func NewGPUs(driver Driver) *GPUs {
	return &GPUs{driver: driver, why: ErrNoDriver}
}

// NewGatedGPUs is NewGPUs for a machine whose boards may sleep: while one does, Open leaves the library shut. sys and proc
// are the machine's /sys and /proc.
func NewGatedGPUs(driver Driver, sys, proc Dir) *GPUs {
	g := NewGPUs(driver)
	g.gate = &gate{sys: sys, proc: proc}
	return g
}

// initTimeout bounds the library's initialisation, which attaches every board: seconds on a machine with eight.
const initTimeout = 30 * time.Second

// Open initialises the library and finds the boards. A host without the library or without boards is no error here; Why
// then says why. While a board sleeps the library stays shut: Why wraps ErrSuspended, and Waiting has the boards. Opening
// an open one does nothing.
func (g *GPUs) Open(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open || g.driver == nil {
		return nil
	}
	if g.gate != nil {
		boards := g.gate.look()
		if list := sleepers(boards); len(list) > 0 {
			g.waiting = boards
			g.why = fmt.Errorf("%s: %w", strings.Join(list, ", "), ErrSuspended)
			return nil
		}
	}
	return g.start(ctx)
}

// Retry opens a library that was left shut for a sleeping board, if none sleeps any longer, and reports whether there are
// boards now that were not there before. Where nothing was left shut it does nothing. It is cheap: a few reads of what the
// kernel has in memory.
func (g *GPUs) Retry(ctx context.Context) (opened bool, err error) {
	if len(g.Waiting()) == 0 {
		return false, nil
	}
	err = g.Open(ctx)
	return len(g.All()) > 0, err
}

// Wake opens the library even though boards sleep, and counts them. It is for putting an original back, and for an energy
// window that says it may wake them; for nothing else.
func (g *GPUs) Wake(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open || g.driver == nil {
		return nil
	}
	if g.gate != nil {
		g.wakes.Add(int64(len(sleepers(g.gate.look()))))
	}
	return g.start(ctx)
}

// Waiting returns the boards that the library is left shut for, those beside the sleeping ones included; nil where it is
// open or shut for another reason.
func (g *GPUs) Waiting() []PCIBoard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.waiting)
}

// CountWake notes that a sleeping board of any make was just woken on purpose.
func (g *GPUs) CountWake() { g.wakes.Add(1) }

// Wakes returns how many sleeping boards this process has woken.
func (g *GPUs) Wakes() int { return int(g.wakes.Load()) }

// start initialises the library. g.mu is held.
func (g *GPUs) start(ctx context.Context) error {
	g.waiting = nil
	ctx, cancel := context.WithTimeoutCause(ctx, initTimeout, ErrHung)
	defer cancel()
	done := make(chan answer[found], 1)
	driver := g.driver // as it is now: it is given up below while the goroutine may still be at its start
	go func() {
		f, err := find(driver)
		done <- answer[found]{f, err}
	}()
	select {
	case a := <-done:
		g.all, g.version, g.bad, g.why = a.value.boards, a.value.version, a.value.bad, a.err
		g.open = a.err == nil
	case <-ctx.Done():
		// The initialising goroutine stays behind with the library; there is no way to end it, and a second one would
		// only hang beside it.
		g.driver = nil
		g.why = fmt.Errorf("GPU driver: initialise: %w", context.Cause(ctx))
		return g.why
	}
	return nil
}

// found is what opening the library came to.
type found struct {
	boards  []*GPU
	version string
	bad     error // of boards that did not tell who they are, beside others that did
}

func find(driver Driver) (found, error) {
	if err := driver.Init(); err != nil {
		return found{}, fmt.Errorf("GPU driver: %w", err)
	}
	version, err := driver.Version()
	if err != nil {
		version = ""
	}
	devices, err := driver.Devices()
	if err != nil {
		return found{}, errors.Join(fmt.Errorf("GPU driver: list of devices: %w", err), driver.Shutdown())
	}
	var all []*GPU
	var bad error
	for i, dev := range devices {
		info, err := dev.Info()
		if err != nil {
			bad = errors.Join(bad, fmt.Errorf("GPU %d: identity: %w", i, err))
			continue
		}
		all = append(all, startGPU(dev, info))
	}
	if len(all) == 0 && bad == nil {
		bad = fmt.Errorf("GPU driver: no device: %w", ErrNotSupported)
	}
	if len(all) == 0 {
		return found{}, errors.Join(bad, driver.Shutdown())
	}
	return found{all, version, bad}, nil
}

// All returns the boards found by Open, in the driver's order.
func (g *GPUs) All() []*GPU {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all
}

// Why returns why there is no board, or nil where there is one.
func (g *GPUs) Why() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// Bad returns why some boards that the driver lists are left out, or nil where all are in.
func (g *GPUs) Bad() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bad
}

// Version returns the driver's version, or "" before Open or where it does not tell.
func (g *GPUs) Version() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.version
}

// Close ends the actors and shuts the library down. Where a driver call hangs the library is left alone, since it
// would hang too: the error says which board.
func (g *GPUs) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		return nil
	}
	g.open = false
	var stuck error
	for _, gpu := range g.all {
		if !gpu.close() {
			stuck = errors.Join(stuck, fmt.Errorf("%s: %w", gpu.info.UUID, ErrHung))
		}
	}
	g.all, g.why = nil, ErrNoDriver
	if stuck != nil {
		return stuck
	}
	return g.driver.Shutdown()
}
