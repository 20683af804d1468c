package meter

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// Running is a window that is open, with what it has come to so far.
type Running struct {
	ID, Name, Workload, Unit string

	Life     Life
	Left     time.Duration // until it ends by itself; 0: it does not
	Opened   time.Time
	Duration time.Duration
	Devices  []string
	Stages   int

	Gross     unit.Energy // when Known: of some device something has been read
	Energy    unit.Energy // gross less floor
	Known     bool
	AboveIdle bool     // every device has a floor
	Reasons   []string // why a device adds nothing yet
}

// peekTime bounds how long a device that hangs is waited for to say what its windows have come to.
const peekTime = 200 * time.Millisecond

// Running tells of the viewer's windows that are open, the oldest first: from what was read anyway, or, with fresh, from
// the present moment where the viewer may see exact figures. One whose time is over ends here at the latest.
func (m *Meter) Running(ctx context.Context, v Viewer, fresh bool) []Running {
	m.expire(func(w *Window) bool { return !w.req.Observe && v.sees(w.req.Owner, w.req.Exact) })
	windows, lives := m.visible(v)
	if len(windows) == 0 {
		return nil
	}
	at := make(map[*Window]int, len(windows))
	for i, w := range windows {
		at[w] = i
	}
	ctx, cancel := context.WithTimeout(ctx, peekTime)
	defer cancel()
	peeks := make([][]peek, len(windows))
	for i, w := range windows {
		peeks[i] = make([]peek, len(w.charged()))
	}
	now := time.Now()
	for _, d := range m.devices() {
		d.peek(ctx, windows, peeks, fresh && v.Exact, now)
	}
	all := make([]Running, len(windows))
	for i, w := range windows {
		all[i] = w.running(now, lives[i], peeks[i])
	}
	return all
}

// visible returns the viewer's windows, the oldest first, and what they hang on.
func (m *Meter) visible(v Viewer) ([]*Window, []life) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*Window
	for _, w := range m.windows {
		if !w.req.Observe && v.sees(w.req.Owner, w.req.Exact) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b *Window) int {
		return cmp.Or(a.opened.Compare(b.opened), cmp.Compare(a.id, b.id))
	})
	lives := make([]life, len(all))
	for i, w := range all {
		lives[i] = w.life
	}
	return all, lives
}

// peek is what a part has come to, or why that is not known.
type peek struct {
	span
	known bool
	why   string
}

// peek fills in what windows have come to on the device.
func (d *device) peek(ctx context.Context, windows []*Window, peeks [][]peek, fresh bool, now time.Time) {
	if err := d.enter(ctx); err != nil {
		for i, w := range windows {
			if j := w.on(d); j >= 0 {
				peeks[i][j].why = ReasonHung
			}
		}
		return
	}
	defer d.gate.leave()
	for i, w := range windows {
		j := w.on(d)
		if j < 0 || d.left.Load() {
			continue
		}
		p := &w.parts[j]
		if fresh && p.joined && !p.coarse {
			d.edge(ctx, now)
			fresh = false // the others have the same moment
		}
		peeks[i][j] = p.peek()
	}
}

// on returns the index of the window's part on a device that it charges, or −1.
func (w *Window) on(d *device) int {
	parts := w.charged()
	for i := range parts {
		if parts[i].device == d {
			return i
		}
	}
	return -1
}

// peek is what the part has come to by the newest of what is known.
func (p *part) peek() peek {
	d := p.device
	switch {
	case d.last.err != nil:
		return peek{why: d.why}
	case d.frozen():
		return peek{why: ReasonFrozen}
	}
	to := d.tick
	if !p.coarse {
		to = d.line.stamp()
	}
	if !p.joined || to.at.Before(p.opened.at) {
		return peek{}
	}
	f := forecast{}
	if !p.coarse {
		f = p.expect(to.at)
	}
	if to.measured == p.opened.measured && f.known == 0 {
		return peek{}
	}
	return peek{span: p.charge(to, f), known: true}
}

// running makes the picture of a window.
func (w *Window) running(now time.Time, l life, peeks []peek) Running {
	r := Running{
		ID: w.id, Name: w.req.Name, Workload: w.req.Workload, Unit: w.req.Unit, Life: l.kind(),
		Opened: w.opened, Duration: now.Sub(w.opened), Devices: w.Devices(), Stages: int(w.marks.Load()), AboveIdle: len(peeks) > 0,
	}
	if !l.until.IsZero() {
		r.Left = max(time.Nanosecond, l.until.Sub(now))
	}
	spans := make([]span, len(peeks))
	for i, p := range peeks {
		spans[i] = p.span
		r.Known = r.Known || p.known
		r.Reasons = append(r.Reasons, p.why)
		r.Gross += p.gross
	}
	r.Energy = r.Gross
	for _, f := range w.floors(spans) {
		r.Energy -= f.energy
		r.AboveIdle = r.AboveIdle && f.known
	}
	r.Reasons = unique(r.Reasons)
	return r
}
