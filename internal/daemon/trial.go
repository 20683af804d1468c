package daemon

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
)

// settle is how long a state is let be before it is measured: five periods of the slowest counter (100 ms on NVML).
const settle = 500 * time.Millisecond

// windowAtLeast is the shortest window of work: twenty periods of the slowest counter, so that what the counter's step
// hides at both ends stays below a few per cent.
const windowAtLeast = 2 * time.Second

// trial sets a state, lets it settle, and measures the workload in an exact window.
func (t *sweep) trial(ctx context.Context, at []int) (tune.Sample, error) {
	began := time.Now()
	t.window++
	t.spoilt = void{}
	point := pointAt(t.rest, t.axes, at)
	if err := t.set(ctx, point); err != nil {
		return tune.Sample{}, err
	}
	if err := t.settle(ctx); err != nil {
		return tune.Sample{}, err
	}
	before, err := t.verify(ctx, point)
	if err != nil {
		return tune.Sample{}, err
	}
	t.spoil(before)
	watch := t.sentry.watch(ctx)
	sample, err := t.sample(ctx, at)
	for _, v := range watch.end(ctx) {
		t.spoil(v)
	}
	if err != nil {
		return tune.Sample{}, err
	}
	after, err := t.verify(ctx, point)
	t.spoil(after)
	sample.Took = time.Since(began)
	sample.Void = t.spoilt.text
	return sample, errors.Join(err, t.patience())
}

// settle lets a state be for a while. A workload that is no service does not run then: whatever does is somebody else's.
func (t *sweep) settle(ctx context.Context) error {
	if t.service != nil {
		return sleep(ctx, t.service.settle())
	}
	quiet, began := t.d.cpuTime(), time.Now()
	load, err := t.sentry.settled(ctx, settle)
	if err != nil {
		return err
	}
	t.spoil(load)
	t.spoil(foreignLoad(quiet, t.d.cpuTime(), time.Since(began).Seconds()))
	return nil
}

// set brings a state's point into force, as long as the sweep still holds the levers.
func (t *sweep) set(ctx context.Context, p levers.Point) error {
	sweeping := ctx
	return t.d.do(ctx, func(ctx context.Context, s *state) error {
		if s.sweep != t.lease {
			return context.Cause(sweeping)
		}
		t.lease.void = ""
		s.tuned.Window = t.window
		_, err := t.d.move(ctx, s, p, t.spec.Caller.author(t.call))
		t.d.publish(s)
		return err
	})
}

// verify reads the hardware back: a lever that does not read as set spoils the window. So does what happened meanwhile.
func (t *sweep) verify(ctx context.Context, p levers.Point) (found void, err error) {
	sweeping := ctx
	err = t.d.do(ctx, func(ctx context.Context, s *state) error {
		if t.lease.idle && s.sweep == t.lease {
			s.sample = profiles.TakeSample(ctx, t.d.host, 0)
			t.d.disturbed(s)
		}
		if s.sweep != t.lease {
			return context.Cause(sweeping)
		}
		found = void{}
		if t.lease.void != "" {
			found = voided(VoidCall, "%s", t.lease.void)
		}
		for _, st := range s.bank.States(ctx) {
			want, moved := p.Value(st.Name)
			asked := want
			// A board that refuses the very end of its range got the next value inside, where the range is now known to end.
			if inside, _, err := st.Span.Clamp(want); moved && err == nil {
				want = inside
			}
			switch {
			case !moved:
			case st.Err != nil:
				found = voided(VoidLevers, "%s: %v", st.Name, st.Err)
			case st.State == levers.Yielded: // its span now ends where the other has set it, so that all would seem well
				found = voided(VoidLevers, "%s reads %s, not %s: someone else set it", st.Name, st.Value, asked)
			case st.Value != want:
				found = voided(VoidLevers, "%s reads %s, not %s: someone else set it", st.Name, st.Value, want)
			}
		}
		return nil
	})
	return found, err
}

// sample measures what the sweep is of: a workload that the caller runs, or a service that goes on.
func (t *sweep) sample(ctx context.Context, at []int) (tune.Sample, error) {
	if t.service != nil {
		return t.watch(ctx)
	}
	return t.measure(ctx, at)
}

// measure has the caller run the workload, which is the window.
func (t *sweep) measure(ctx context.Context, at []int) (tune.Sample, error) {
	w, err := t.d.meter.Open(ctx, exactWindow(t.call+"-window"))
	if err != nil {
		return tune.Sample{}, err
	}
	work, err := t.workload.Run(ctx, TuneRun{
		Window: t.window, MaxWindows: t.plan.MaxWindows, State: labels(t.axes, at), AtLeast: t.atLeast,
	})
	if err != nil {
		w.Abandon()
		return tune.Sample{}, err
	}
	r, err := w.Close(ctx, closeExact())
	if err != nil {
		return tune.Sample{}, err
	}
	return t.sampleOf(r, work), nil
}

// maxStall is the share of a window in which its caller may stand still: what is idle then counts as the workload's.
const maxStall = 0.02

// sampleOf turns a window into what the search learns from. Joules are the whole host's or none: where a device that
// counts did not measure, the window is void, and where it cannot measure at all there is no energy to compare.
func (t *sweep) sampleOf(r meter.Result, work TuneWork) tune.Sample {
	s := tune.Sample{
		Work: work.Amount, Seconds: r.Duration.Seconds(),
		Joules: joulesOf(r.Gross, t.plan.Base, r.Duration), AchievedBy: make([]float64, len(t.axes)),
	}
	if len(r.Devices) == 0 {
		s.Joules = math.NaN() // base watts alone are no measurement
	}
	if float64(work.Stalled) > maxStall*float64(r.Duration) {
		t.spoil(voided(VoidWork, "the workload's runner stood still for %v of %v", work.Stalled.Round(time.Millisecond), r.Duration.Round(time.Millisecond)))
	}
	if r.Duration < t.atLeast {
		t.spoil(voided(VoidWork, "lasted %v, shorter than the %v asked for", r.Duration.Round(time.Millisecond), t.atLeast))
	}
	for _, dev := range r.Devices {
		watts := dev.Gross.Per(r.Duration).Watts()
		if strings.HasPrefix(dev.Device, "gpu/") {
			s.Achieved += watts
		}
		for i, a := range t.axes {
			if a.moves(dev.Device) {
				s.AchievedBy[i] += watts
			}
		}
		switch {
		case slices.ContainsFunc(dev.Reasons, blind):
			s.Joules = math.NaN()
		case slices.ContainsFunc(dev.Reasons, failed), dev.Coverage < 1:
			t.spoil(voided(VoidMeasurement, "%s: measured %.0f %% of the window (%s)",
				dev.Device, 100*dev.Coverage, strings.Join(dev.Reasons, ", ")))
		}
	}
	return s
}

// blind reports whether a reason says that a device will not measure in the next window either.
func blind(reason string) bool {
	return slices.Contains([]string{meter.ReasonNoCounter, meter.ReasonPermission, meter.ReasonNoGPU}, reason)
}

// failed reports whether a reason says that a device has not measured this window, whatever its coverage.
func failed(reason string) bool {
	return slices.Contains([]string{
		meter.ReasonFrozen, meter.ReasonHung, meter.ReasonLost, meter.ReasonUnreadable, meter.ReasonSleeping,
	}, reason)
}

// exactWindow is the daemon's own window over every device; it takes nothing from the windows of others.
func exactWindow(name string) meter.OpenRequest {
	return meter.OpenRequest{Name: name, Exact: true, Observe: true}
}

// closeExact ends the daemon's own window. The caller's command has ended, so its GPU work is complete.
func closeExact() meter.CloseRequest { return meter.CloseRequest{Synced: true} }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
