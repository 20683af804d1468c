package meter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// life is what a window hangs on: a session, a time limit, or the grace after a restart.
type life struct {
	until    time.Time // it ends by itself then; zero: it does not
	detached bool
	waiting  bool // for its client, since the meter was started anew
}

// Life says what a window hangs on.
type Life uint8

// What a window hangs on.
const (
	OnSession Life = iota
	Detached
	Waiting // to be taken up again
)

func (l life) kind() Life {
	switch {
	case l.waiting:
		return Waiting
	case l.detached:
		return Detached
	}
	return OnSession
}

// ResumeTime is how long a window waits for its client after a restart.
const ResumeTime = 60 * time.Second

// partingTime bounds how long devices that hang are waited for when windows end that nobody asks for: at a session's end
// and at a time limit there may be a thousand.
const partingTime = 5 * time.Second

// Viewer is who asks for windows. A window that was opened to tell exact CPU energy is there only for those who may see
// that: an owner of the same uid elsewhere, such as root of a container, is not one of them.
type Viewer struct {
	UID   uint32
	Exact bool
}

func (v Viewer) sees(owner uint32, exact bool) bool { return v.UID == owner && (v.Exact || !exact) }

// lifeOf is a new window's.
func (m *Meter) lifeOf(w *Window) life {
	if !w.req.Detached {
		return life{}
	}
	limit := w.req.Limit
	if limit == 0 {
		limit, _ = m.bounds()
	}
	return life{until: w.opened.Add(limit), detached: true}
}

// bounds returns the most that a detached window may last, and how many results are kept of one uid.
func (m *Meter) bounds() (life time.Duration, results int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opts.MaxLife, m.opts.KeepResults
}

// lookup finds an open window. A foreign one is not there.
func (m *Meter) lookup(id string, v Viewer) (*Window, life, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.windows[id]
	if !ok || w.req.Observe || !v.sees(w.req.Owner, w.req.Exact) {
		return nil, life{}, ErrNoWindow
	}
	return w, w.life, nil
}

// Detached returns a detached window that is open. A foreign one is ErrNoWindow; one's own on a session is ErrOnSession.
func (m *Meter) Detached(id string, v Viewer) (*Window, error) {
	w, l, err := m.lookup(id, v)
	if err == nil && !l.detached {
		return nil, ErrOnSession
	}
	return w, err
}

// CloseDetached closes a detached window. Of one that has ended by itself, or that was orphaned, it returns the result,
// once.
func (m *Meter) CloseDetached(ctx context.Context, id string, v Viewer, r CloseRequest) (Result, error) {
	w, err := m.Detached(id, v)
	if err == nil {
		var res Result
		if res, err = w.Close(ctx, r); !errors.Is(err, ErrNoWindow) {
			return res, err
		}
	}
	if !errors.Is(err, ErrNoWindow) {
		return Result{}, err
	}
	if !amount(r.Work) {
		return Result{}, fmt.Errorf("work %g: not an amount: %w", r.Work, ErrBadRequest)
	}
	res, ok := m.kept.take(id, v, r.Work)
	m.touch()
	switch {
	case !ok:
		return Result{}, ErrNoWindow
	case r.RequireSampled && res.Method != Sampled:
		return res, notSampled(res)
	}
	return res, nil
}

// Resume takes up a window that has waited since the meter was started anew. From then on it is its caller's to end. A
// foreign window, and one that does not wait, is ErrNoWindow.
func (m *Meter) Resume(id string, v Viewer) (*Window, error) {
	w, _, err := m.lookup(id, v)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !w.life.waiting || m.windows[id] != w {
		return nil, ErrNoWindow
	}
	w.life.waiting, w.life.until = false, time.Time{}
	return w, nil
}

// Orphan ends windows whose session is gone. What they came to by then is kept for their owner, with the reason orphaned.
func (m *Meter) Orphan(windows ...*Window) { m.part(windows, ReasonOrphaned) }

// part ends windows that nobody has closed.
func (m *Meter) part(windows []*Window, why string) {
	if len(windows) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	asked := time.Now() // of all: one reading of a device will do
	for _, w := range windows {
		if _, err := w.end(ctx, CloseRequest{}, asked, why); err != nil && !errors.Is(err, ErrNoWindow) {
			m.mu.Lock()
			w.life.until = asked // a call on it hangs: again at the next heartbeat
			m.mu.Unlock()
		}
	}
}

// pulse is what follows each heartbeat: windows end whose time is over, and the rest is written down.
func (m *Meter) pulse(ctx context.Context) {
	m.expire(func(*Window) bool { return true })
	m.writeJournal(ctx)
}

// firstEnd is when the first of the windows that are charged exactly reaches its limit; zero where none does. One that is
// beyond it hangs, and waits for the heartbeat.
func (m *Meter) firstEnd() (at time.Time) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.windows {
		if until := w.life.until; w.req.Exact && until.After(now) && (at.IsZero() || until.Before(at)) {
			at = until
		}
	}
	return at
}

// expire ends those windows whose time is over.
func (m *Meter) expire(of func(*Window) bool) {
	var limited, orphaned []*Window
	now := time.Now()
	m.mu.Lock()
	for _, w := range m.windows {
		switch {
		case w.life.until.IsZero() || now.Before(w.life.until) || !of(w):
		case w.life.detached:
			limited = append(limited, w)
		default:
			orphaned = append(orphaned, w)
		}
	}
	m.mu.Unlock()
	m.part(limited, ReasonTimeLimit)
	m.part(orphaned, ReasonOrphaned)
}

// Close ends the window and says what it cost. A window that has ended is ErrNoWindow. With RequireSampled a figure that
// is no measurement comes with ErrNotSampled; the window has ended all the same.
func (w *Window) Close(ctx context.Context, r CloseRequest) (Result, error) {
	if !amount(r.Work) {
		return Result{}, fmt.Errorf("work %g: not an amount: %w", r.Work, ErrBadRequest)
	}
	return w.end(ctx, r, time.Time{})
}

// end closes the window as of a moment, the present one if that is zero, for a reason if nobody has asked for it. The
// result is kept.
func (w *Window) end(ctx context.Context, r CloseRequest, asked time.Time, why ...string) (Result, error) {
	if err := w.gate.pass(ctx); err != nil {
		return Result{}, fmt.Errorf("window %s: %w", w.req.Name, err)
	}
	defer w.gate.leave()
	if w.ended {
		return Result{}, ErrNoWindow
	}
	w.ended = true
	if asked.IsZero() {
		asked = time.Now()
	}
	ends := make([]end, len(w.parts))
	for i := range w.parts {
		ends[i] = w.parts[i].close(ctx, w.opened, asked, r.WaitEdge)
	}
	w.absent = append(slices.Clip(w.absent), why...)
	res := w.result(r, asked, ends)
	if !w.req.Observe {
		_, most := w.m.bounds()
		w.m.kept.put(shelved{
			Result: res, Ended: time.Now(), owner: w.req.Owner, exact: w.req.Exact, hint: w.req.HintJoulesPerUnit, due: len(why) > 0,
		}, most)
	}
	if len(why) == 0 {
		w.m.tell(w, asked, r.Work)
	} else {
		w.m.touch()
	}
	w.m.dismiss(w)
	if r.RequireSampled && res.Method != Sampled {
		return res, notSampled(res)
	}
	return res, nil
}

func notSampled(res Result) error {
	return fmt.Errorf("window %s: %s: %w", res.Name, res.Method, ErrNotSampled)
}
