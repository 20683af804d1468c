package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/tune"
)

// A live service is measured as it goes: a trial lasts at least medianWindows of its windows, so that those that span its
// begin or end, whose work is divided by time, are few among many.
const (
	medianWindows = 20
	longestTrial  = 2 * time.Minute
)

// How long no window of the service may close: within a trial, which then does not count, and at all.
const (
	quietTrial  = 30 * time.Second
	silentAfter = 60 * time.Second
)

// attachLook is how often it is looked what the service has closed.
const attachLook = 100 * time.Millisecond

// fewWindows is how many windows of a trial do not tell yet how long they are in its state, so that those before them count too.
const fewWindows = 5

// attachment is a service that goes on while it is tuned. What it does is told by the windows that it closes.
type attachment struct {
	tap      *meter.Tap
	of       string // for people: which windows
	workload string
	usual    time.Duration        // the median length of the trial's windows before
	lengths  []time.Duration      // of the trial's windows
	closed   []meter.ClosedWindow // in the trial
	idle     int                  // closed without work since one was with some
	heard    time.Time            // when a window with work last closed; at first, the begin
	unit     string               // of the work; empty until it is known
}

func (d *Daemon) attach(spec TuneSpec) *attachment {
	return &attachment{
		tap: d.meter.Tap(spec.WorkloadUID, spec.Workload), heard: time.Now(), workload: spec.Workload,
		of: fmt.Sprintf("workload %s of uid %d", spec.Workload, spec.WorkloadUID),
	}
}

// end closes the tap; of no attachment it does nothing.
func (a *attachment) end() {
	if a != nil {
		a.tap.Close()
	}
}

// settle is how long a state is let be: the requests that began under the state before are over then.
func (a *attachment) settle() time.Duration {
	if a == nil {
		return settle
	}
	return max(settle, 2*a.median())
}

// median is the length of the service's windows in this trial; while they are few, not less than in the one before. It is 0
// before there was any.
func (a *attachment) median() time.Duration {
	if len(a.lengths) == 0 {
		return a.usual
	}
	sorted := slices.Sorted(slices.Values(a.lengths))
	m := sorted[len(sorted)/2]
	if len(sorted) < fewWindows {
		m = max(m, a.usual)
	}
	return m
}

// begin forgets what was closed before a trial.
func (a *attachment) begin() error {
	if err := a.hear(); err != nil {
		return err
	}
	a.usual = a.median()
	a.closed, a.lengths = nil, nil
	return nil
}

// hear takes what has been closed, and says what makes it useless.
func (a *attachment) hear() error {
	closed, lost := a.tap.Take()
	if lost > 0 {
		return fmt.Errorf("%w: %s: %d windows closed in %v were too many to count", ErrRefused, a.of, lost+len(closed), attachLook)
	}
	for _, w := range closed {
		if w.Work <= 0 {
			a.idle++
			continue
		}
		unit := cmp.Or(w.Unit, "unit")
		if a.unit = cmp.Or(a.unit, unit); a.unit != unit {
			return fmt.Errorf("%w: %s: windows tell their work in %s and in %s, which do not add up; give them workloads of their own",
				ErrRefused, a.of, a.unit, unit)
		}
		a.idle, a.heard = 0, w.Closed
		a.lengths = append(a.lengths, w.Closed.Sub(w.Opened))
	}
	a.closed = append(a.closed, closed...)
	if took := medianWindows * a.median(); took > longestTrial {
		return fmt.Errorf("%w: %s: windows last %v in the median; a trial takes %d of them, and at most %v",
			ErrRefused, a.of, a.median().Round(time.Millisecond), medianWindows, longestTrial)
	}
	if time.Since(a.heard) < silentAfter {
		return nil
	}
	without := ""
	if a.idle > 0 {
		without = fmt.Sprintf(" (%d without)", a.idle)
	}
	return fmt.Errorf("%w: no window of %s has closed with work for %.0f s%s; does the service open windows with workload=%s and tell its work at the close?",
		ErrRefused, a.of, silentAfter.Seconds(), without, a.workload)
}

// counted is the unit of work in the singular: "token", also where the windows call it tokens.
func (a *attachment) counted() string {
	switch u := a.unit; {
	case strings.HasSuffix(u, "ches"), strings.HasSuffix(u, "shes"):
		return strings.TrimSuffix(u, "es")
	case strings.HasSuffix(u, "ss"), len(u) < 3:
		return u
	default:
		return strings.TrimSuffix(u, "s")
	}
}

// work is what the service has done from one moment up to another, and in how many windows. Those that span either are
// divided by time.
func (a *attachment) work(from, to time.Time) (amount float64, windows int) {
	for _, w := range a.closed {
		if share := w.Share(from, to); share > 0 && w.Work > 0 {
			amount += share * w.Work
			windows++
		}
	}
	return amount, windows
}

// await looks again and again, until enough says that it is enough, or the time is over. It tells which.
func (a *attachment) await(ctx context.Context, most time.Duration, enough func() bool) (bool, error) {
	for began := time.Now(); ; {
		done := enough() // what was closed before this is heard now
		if err := a.hear(); err != nil || done {
			return done, err
		}
		if time.Since(began) >= most {
			return false, nil
		}
		if err := sleep(ctx, attachLook); err != nil {
			return false, err
		}
	}
}

// watch is a trial of a service: what the machine draws while the service goes on, and what that does meanwhile. The state
// stays in force until the windows have closed that were open at the end, so that their shares are of one state.
func (t *sweep) watch(ctx context.Context) (tune.Sample, error) {
	a := t.service
	if err := a.begin(); err != nil {
		return tune.Sample{}, err
	}
	w, err := t.d.meter.Open(ctx, exactWindow(t.call+"-window"))
	if err != nil {
		return tune.Sample{}, err
	}
	began := w.Opened()
	if err := a.served(ctx, began, t.atLeast); err != nil {
		w.Abandon()
		return tune.Sample{}, err
	}
	r, err := w.Close(ctx, closeExact())
	if err != nil {
		return tune.Sample{}, err
	}
	ended := began.Add(r.Duration)
	whole, err := a.await(ctx, max(t.atLeast, medianWindows*a.median()), func() bool { return a.tap.OpenSince(ended) == 0 })
	if err != nil {
		return tune.Sample{}, err
	}
	amount, windows := a.work(began, ended)
	switch {
	case windows == 0:
		t.spoil(voided(VoidWork, "no window of %s closed in it with work", a.of))
	case !whole:
		t.spoil(voided(VoidWork, "%d windows of %s that were open at its end do not close, so that their work is not known",
			a.tap.OpenSince(ended), a.of))
	}
	return t.sampleOf(r, TuneWork{Amount: amount}), nil
}

// served waits until a trial that began at a moment has lasted long enough, and a window has closed in it; for the latter not for ever.
func (a *attachment) served(ctx context.Context, began time.Time, atLeast time.Duration) error {
	_, err := a.await(ctx, longestTrial, func() bool {
		lasted := time.Since(began)
		if _, windows := a.work(began, time.Now()); windows == 0 {
			return lasted >= max(atLeast, quietTrial)
		}
		return lasted >= max(atLeast, medianWindows*a.median())
	})
	return err
}
