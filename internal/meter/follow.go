package meter

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run reads every source at each heartbeat while a window is open, and follows the steps of the counters that move in
// long ones, until ctx ends. In its first seconds it measures how the counters move. At rest no timer runs.
func (m *Meter) Run(ctx context.Context) error {
	var all errgroup.Group
	learned := time.Now().Add(learning)
	for _, d := range m.devices() {
		if d.step != nil {
			all.Go(func() error { m.follow(ctx, d, learned); return nil })
		}
	}
	all.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case d := <-m.adopted:
				all.Go(func() error { m.follow(ctx, d, time.Now().Add(learning)); return nil })
			}
		}
	})
	all.Go(func() error { m.heartbeats(ctx); return nil })
	if m.journal != nil {
		all.Go(func() error { m.jots(ctx); return nil })
	}
	return all.Wait()
}

// learning is how long a counter's steps are followed at the start with no window open.
const learning = 2 * time.Second

// follow reads a counter as its stepper plans, while a window is open on it.
func (m *Meter) follow(ctx context.Context, d *device, learned time.Time) {
	if d.followed.Swap(true) {
		return
	}
	for {
		for m.look(ctx, d, learned) {
		}
		select {
		case <-ctx.Done():
			return
		case <-d.step.watch:
		}
	}
}

// look waits for the next reading that a device's stepper plans and makes it; it reports false when there is none.
func (m *Meter) look(ctx context.Context, d *device, learned time.Time) bool {
	if d.enter(ctx) != nil {
		return ctx.Err() == nil
	}
	at, on := d.step.plan(time.Now(), learned)
	if on && time.Until(at) > listenRoom {
		d.listen(ctx)
	}
	d.gate.leave()
	if !on || !sleepUntil(ctx, at) || d.enter(ctx) != nil {
		return on && ctx.Err() == nil
	}
	defer d.gate.leave()
	d.take(d.source.energy(ctx))
	return ctx.Err() == nil
}

// listenRoom is more than looking at a power sensor takes: it is not to make the next reading late.
const listenRoom = 5 * time.Millisecond

// sleepUntil waits for a moment; it reports false when the context ends first.
func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// heartbeats measures how the CPU's counters move, and then reads every source at each heartbeat while a window is open,
// until ctx ends.
func (m *Meter) heartbeats(ctx context.Context) {
	m.Probe(ctx, ProbeOptions{CPU: startProbe})
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
		for m.OpenCount() > 0 {
			if !m.awaitBeat(ctx) {
				return
			}
			m.beat(ctx)
			m.pulse(ctx)
		}
		m.writeJournal(ctx) // the last window may have ended since
	}
}

// startProbe is some twenty steps of a RAPL counter.
const startProbe = 20 * time.Millisecond

// awaitBeat waits for the next point of a grid that no window's opening can shift: a stranger could else choose when CPU
// counters are read. Meanwhile it ends windows at their limits, where they are charged exactly; the others end at a tick
// anyway.
func (m *Meter) awaitBeat(ctx context.Context) bool {
	beat := time.Now().Add(m.opts.Heartbeat - time.Since(m.began)%m.opts.Heartbeat)
	for {
		end := m.firstEnd()
		if end.IsZero() || !end.Before(beat) {
			return sleepUntil(ctx, beat)
		}
		if !sleepUntil(ctx, end) {
			return false
		}
		m.expire(func(w *Window) bool { return w.req.Exact })
	}
}

// beat reads every source, but GPUs only where a window needs it: their counters do not wrap and they may want to sleep.
func (m *Meter) beat(ctx context.Context) {
	for _, d := range m.all() {
		if d.kind != kindGPU || d.busy(ctx) {
			m.sample(ctx, d, 0)
		}
	}
	m.compare()
}
