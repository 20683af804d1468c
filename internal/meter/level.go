package meter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// level is what is known of a board's level at rest.
type level struct {
	mu    sync.Mutex
	at    time.Time
	state restState
}

// levels looks up, for the devices of a window that have floors, at which level of rest each is. A window is charged above
// the rest that it found: a context that it opens itself is part of what it causes.
func (w *Window) levels(ctx context.Context) {
	book := w.m.floors.Load()
	for i := range w.parts {
		p := &w.parts[i]
		if book == nil || !book.devices[p.device.name] {
			continue
		}
		p.book, p.level = book, p.device.level(ctx)
	}
}

// level returns the device's level at rest, of a board as it was at most levelAge ago.
func (d *device) level(ctx context.Context) restState {
	if d.board == nil {
		return bare
	}
	return d.board.restLevel(ctx, levelAge)
}

// restLevel asks a board for compute contexts. One that cannot tell counts as bare whenever it is asked, so that its
// windows and its floors speak of the same.
func (b *board) restLevel(ctx context.Context, maxAge time.Duration) restState {
	l := &b.rest
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && time.Since(l.at) <= maxAge {
		return l.state
	}
	l.state, l.at = unseen, time.Now()
	if b.sleeps() {
		l.state = bare
		return l.state
	}
	pids, err := b.gpu.Processes(ctx)
	switch {
	case errors.Is(err, host.ErrNotSupported), err == nil && len(pids) == 0:
		l.state = bare
	case err == nil:
		l.state = inContext
	}
	return l.state
}

// Two ticks between which the lowest power is looked for are so far apart that the counter's steps do not matter.
const lowSpan = 5 * time.Second

// maxLows bounds for how many conditions the lowest power is kept.
const maxLows = 256

// remember keeps the lowest power seen between two good ticks at each condition: what a device is at rest cannot be more.
func (d *device) remember(p unit.Power, stretch time.Duration) {
	if stretch < lowSpan || !d.power.Known || p <= 0 || !d.turned.Before(d.reported.at) {
		return
	}
	condition := d.line.epochs[len(d.line.epochs)-1].condition
	low, ok := d.lowest[condition]
	switch {
	case ok && low <= p:
		return
	case d.lowest == nil || !ok && len(d.lowest) >= maxLows:
		d.lowest = map[string]unit.Power{}
	}
	d.lowest[condition] = p
}
