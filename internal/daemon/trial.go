package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/tune"
)

// settle is how long a state is let be before it is measured: five periods of the slowest counter (100 ms on NVML).
const settle = 500 * time.Millisecond

// windowAtLeast is the shortest window of work: twenty periods of the slowest counter, so that what the counter's step
// hides at both ends stays below a few per cent.
const windowAtLeast = 2 * time.Second

// trial sets a state, lets it settle, and has the caller run the workload in an exact window.
func (t *sweep) trial(ctx context.Context, at []int) (tune.Sample, error) {
	t.window++
	point := pointAt(t.rest, t.axes, at)
	if err := t.set(ctx, point); err != nil {
		return tune.Sample{}, err
	}
	if err := sleep(ctx, settle); err != nil {
		return tune.Sample{}, err
	}
	before, err := t.verify(ctx, point)
	if err != nil {
		return tune.Sample{}, err
	}
	sample, err := t.measure(ctx, at)
	if err != nil {
		return tune.Sample{}, err
	}
	after, err := t.verify(ctx, point)
	for _, void := range []string{before, after} {
		if sample.Void == "" {
			sample.Void = void
		}
	}
	return sample, err
}

// set brings a state's point into force, as long as the sweep still holds the levers.
func (t *sweep) set(ctx context.Context, p levers.Point) error {
	return t.d.do(ctx, func(s *state) error {
		if s.sweep != t.lease {
			return context.Cause(ctx)
		}
		t.lease.void = ""
		s.tuned.Window = t.window
		_, err := t.d.move(ctx, s, p, t.spec.Caller.author("tune"))
		t.d.publish(s)
		return err
	})
}

// verify reads the hardware back: a lever that does not read as set spoils the window. So does what happened meanwhile.
func (t *sweep) verify(ctx context.Context, p levers.Point) (void string, err error) {
	err = t.d.do(ctx, func(s *state) error {
		if s.sweep != t.lease {
			return context.Cause(ctx)
		}
		void = t.lease.void
		for _, st := range s.bank.States(ctx) {
			want, moved := p.Value(st.Name)
			switch {
			case !moved:
			case st.Err != nil:
				void = fmt.Sprintf("%s: %v", st.Name, st.Err)
			case st.Value != want:
				void = fmt.Sprintf("%s reads %s, not %s: someone else set it", st.Name, st.Value, want)
			}
		}
		return nil
	})
	return void, err
}

// measure is the window itself.
func (t *sweep) measure(ctx context.Context, at []int) (tune.Sample, error) {
	w, err := t.d.meter.Open(ctx, exactWindow("tune-window"))
	if err != nil {
		return tune.Sample{}, err
	}
	work, err := t.workload.Run(ctx, TuneRun{
		Window: t.window, MaxWindows: t.plan.MaxWindows, State: labels(t.axes, at), AtLeast: windowAtLeast,
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

func (t *sweep) sampleOf(r meter.Result, work float64) tune.Sample {
	s := tune.Sample{
		Work: work, Seconds: r.Duration.Seconds(),
		Joules: joulesOf(r.Gross, t.plan.Base, r.Duration),
	}
	if len(r.Devices) == 0 {
		s.Joules = 0 // no counter at all: base watts alone are no measurement
	}
	for _, dev := range r.Devices {
		if strings.HasPrefix(dev.Device, "gpu/") {
			s.Achieved += dev.Gross.Per(r.Duration).Watts()
		}
		if dev.Coverage < 1 {
			s.Void = fmt.Sprintf("%s: measured %.0f %% of the window (%s)",
				dev.Device, 100*dev.Coverage, strings.Join(dev.Reasons, ", "))
		}
	}
	return s
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
