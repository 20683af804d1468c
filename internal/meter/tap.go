package meter

import (
	"slices"
	"time"
)

// maxTapped is how many closed windows a tap holds until they are taken.
const maxTapped = 1 << 16

// ClosedWindow is a window that its owner has closed.
type ClosedWindow struct {
	Opened time.Time
	Closed time.Time // when its owner asked
	Work   float64   // in Unit; 0 when not told
	Unit   string    // a label, or empty
}

// Share returns the part of the window, 0…1, that lies from one moment up to another.
func (c ClosedWindow) Share(from, to time.Time) float64 {
	lasted := c.Closed.Sub(c.Opened)
	if lasted <= 0 { // all of it at one moment
		if c.Closed.Before(from) || !c.Closed.Before(to) {
			return 0
		}
		return 1
	}
	if c.Opened.After(from) {
		from = c.Opened
	}
	if c.Closed.Before(to) {
		to = c.Closed
	}
	return max(0, float64(to.Sub(from))/float64(lasted))
}

// Tap hears of the windows of one workload of one uid as their owner closes them; windows that end otherwise tell no
// work, and are not heard of. Its methods are safe for concurrent use.
type Tap struct {
	m        *Meter
	owner    uint32
	workload string

	closed []ClosedWindow // by the meter's mutex, as lost is
	lost   int
}

// Tap begins to listen. Close the tap.
func (m *Meter) Tap(owner uint32, workload string) *Tap {
	t := &Tap{m: m, owner: owner, workload: workload}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taps = append(m.taps, t)
	return t
}

// hears reports whether a window is one of those listened to.
func (t *Tap) hears(r *OpenRequest) bool {
	return !r.Observe && r.Owner == t.owner && r.Workload == t.workload
}

// Take returns the windows closed since the last call, in the order in which their closes ended, and how many more there
// were than could be held.
func (t *Tap) Take() (closed []ClosedWindow, lost int) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	closed, lost = t.closed, t.lost
	t.closed, t.lost = nil, 0
	return closed, lost
}

// OpenSince returns how many of the windows were opened before a moment and are open yet. What is not counted any more can
// be taken.
func (t *Tap) OpenSince(before time.Time) int {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	n := 0
	for _, w := range t.m.windows {
		if t.hears(&w.req) && w.opened.Before(before) {
			n++
		}
	}
	return n
}

// Close ends the listening.
func (t *Tap) Close() {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.m.taps = slices.DeleteFunc(t.m.taps, func(other *Tap) bool { return other == t })
}

// tell tells the taps of a window that its owner has closed. The window is still counted as open.
func (m *Meter) tell(w *Window, closed time.Time, work float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.taps {
		switch {
		case !t.hears(&w.req):
		case len(t.closed) >= maxTapped:
			t.lost++
		default:
			t.closed = append(t.closed, ClosedWindow{Opened: w.opened, Closed: closed, Work: work, Unit: w.req.Unit})
		}
	}
}
