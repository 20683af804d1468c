package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
	"github.com/qunerd/quner/internal/unit"
)

// lease is the hold on the levers of a sweep, or of a measurement of floors. While it stands, ticks sample and publish but do not apply.
type lease struct {
	cancel context.CancelCauseFunc
	void   string // why the window that runs does not count; "" if it does
	idle   bool   // it explores the machine at rest, and gives way to everybody
	floor  bool   // it is no sweep: floors are measured
	still  bool   // it moves no lever
}

// abortSweep ends the running sweep, if there is one: the levers are the loop's again at once.
func (s *state) abortSweep(cause error) {
	if s.sweep == nil {
		return
	}
	s.sweep.cancel(cause)
	s.forgetLoad(s.sweep)
	s.sweep = nil
	s.tuned.Running = false
}

// forgetLoad has the detector begin anew with the profile that was pinned during a sweep: what it saw since was the sweep's
// own load. What is measured at rest has none.
func (s *state) forgetLoad(l *lease) {
	if s.mode.Mode == profiles.ModeAuto && s.profile != profiles.Unknown && !l.idle && !l.floor {
		s.detector.Assume(s.profile)
	}
}

// voidWindow spoils the window that a running sweep measures.
func (s *state) voidWindow(why string) {
	if s.sweep != nil {
		s.sweep.void = why
	}
}

// sweep is one tuning run: the caller's goroutine drives it, the loop moves the levers for it.
type sweep struct {
	d        *Daemon
	spec     TuneSpec
	workload TuneWorkload
	service  *attachment // nil where the caller runs the workload
	lease    *lease
	call     string        // "tune" or "retune"
	atLeast  time.Duration // length of a window
	axes     []axis
	rest     levers.Point // settings no axis moves
	plan     TunePlan
	window   int
	sentry   *sentry
	spoilt   void        // why the window that runs does not count
	voids    int         // in a row
	counts   []VoidCount // in all
	began    time.Time   // when the levers were taken
}

// Tune finds the operating point that does most work per joule for a workload that the caller runs. Whatever ends it,
// the host is put back to the point that mode and profile call for; with spec.Apply that is the one found, if one was.
func (d *Daemon) Tune(ctx context.Context, spec TuneSpec, w TuneWorkload) (TuneReport, error) {
	if spec.Profile == profiles.Unknown {
		spec.Profile = profiles.Training
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &sweep{d: d, spec: spec, workload: w, call: "tune", atLeast: windowAtLeast, lease: &lease{cancel: cancel}}
	if spec.Attach {
		t.service = d.attach(spec)
		defer t.service.end()
	}
	return t.run(ctx)
}

// run is the whole of a sweep, from taking the levers to giving them back.
func (t *sweep) run(ctx context.Context) (TuneReport, error) {
	if err := t.start(ctx); err != nil {
		return TuneReport{}, fmt.Errorf("%s: %w", t.call, err)
	}
	report := TuneReport{Plan: t.plan}
	if err := t.workload.Plan(t.plan); err != nil || t.spec.DryRun {
		return report, errors.Join(err, t.end(ctx, nil))
	}
	if err := t.search(ctx, &report); err != nil {
		return report, errors.Join(fmt.Errorf("%s: %w", t.call, err), t.end(ctx, nil))
	}
	if t.service != nil {
		t.spec.WorkUnit = t.service.counted()
	}
	report.WorkUnit = t.spec.WorkUnit
	t.choose(&report)
	return report, t.end(ctx, &report)
}

// search measures, and books what that itself has cost.
func (t *sweep) search(ctx context.Context, report *TuneReport) error {
	t.began = time.Now()
	t.sentry = t.newSentry(ctx)
	report.Unwatched = t.sentry.blind(ctx, t.plan.Devices)
	spent, err := t.d.meter.Open(ctx, exactWindow(t.call+"-sweep"))
	if err != nil {
		return err
	}
	report.Result, err = tune.Sweep(ctx, t.tuneAxes(), t.trial, tune.Options{
		Objective: t.spec.Objective, MaxSlowdown: slowdownOption(t.spec.MaxSlowdown), MaxWindows: t.plan.MaxWindows,
		AllowRaise: t.d.cfg.AllowRaise, Progress: t.progress,
		Budget: t.spec.Budget, TrialTime: settle + t.atLeast, Horizon: t.horizon(),
	})
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	report.Voids = t.voidCounts(report.Result.Voided)
	cost, closeErr := spent.Close(context.WithoutCancel(ctx), closeExact())
	if closeErr == nil {
		report.Energy = cost.Gross + t.plan.Base.Over(time.Since(t.began))
	}
	return err
}

// horizon is the time of work within which a sweep must be able to pay back what it takes; 0: none.
func (t *sweep) horizon() time.Duration {
	if t.spec.Force {
		return 0
	}
	return t.d.cfg.PaybackHorizon
}

// slowdownOption turns "none at all" into what tune.Options calls it, where 0 means the default.
func slowdownOption(share float64) float64 {
	if share == 0 {
		return -1
	}
	return share
}

// utilisationFades is how long a board's utilisation may speak of work that has ended: NVML samples over up to a second.
const utilisationFades = 1500 * time.Millisecond

// start takes the levers. A machine that seems to train gets a second look, since the end of the caller's own work, of the
// sweep before this one say, is seen for a moment longer.
func (t *sweep) start(ctx context.Context) error {
	err := t.d.do(ctx, t.begin)
	if !errors.Is(err, errTrains) {
		return err
	}
	if err := sleep(ctx, utilisationFades); err != nil {
		return err
	}
	return t.d.do(ctx, t.begin)
}

// errTrains is the refusal that a second look may lift.
var errTrains = fmt.Errorf("%w: this machine is training", ErrRefused)

// begin checks that a sweep may run and takes the levers. It runs on the loop.
func (t *sweep) begin(ctx context.Context, s *state) error {
	d := t.d
	s.sample = profiles.TakeSample(ctx, d.host, 0)
	if err := t.refused(s); err != nil {
		return err
	}
	states := s.bank.States(ctx)
	t.axes = axesOf(states, t.spec.NoGPU, t.spec.NoCPU)
	if len(t.axes) == 0 && t.lease.idle {
		return notNow("there is no lever to tune on this host")
	}
	if len(t.axes) == 0 {
		return fmt.Errorf("%w: no lever to tune on this host; doctor says why", ErrRefused)
	}
	t.rest = t.unswept(ctx, s)
	t.plan = TunePlan{MaxWindows: t.spec.MaxWindows, Base: d.cfg.Base, Devices: d.counted(), Budget: t.spec.Budget}
	if t.plan.MaxWindows == 0 {
		t.plan.MaxWindows = windowsPerAxis * len(t.axes)
		if t.lease.idle {
			t.plan.MaxWindows = restingWindows * len(t.axes)
		}
	}
	t.plan.Prior = t.startFrom(s)
	t.plan.Axes = t.tuneAxes()
	if t.spec.DryRun {
		return nil
	}
	s.sweep = t.lease
	s.remember(t.spec.Caller.author(t.call), nil)
	s.tuned.Running, s.tuned.Workload, s.tuned.Window = true, t.spec.Workload, 0
	d.log.Info("sweep begins", "call", t.call, "uid", t.spec.Caller.UID, "profile", t.spec.Profile, "workload", t.spec.Workload,
		"axes", len(t.axes), "max_windows", t.plan.MaxWindows)
	d.publish(s)
	return nil
}

// refused is why a sweep may not run now; nil if it may. A person's sweep ends an exploration at rest.
func (t *sweep) refused(s *state) error {
	d := t.d
	if t.lease.idle {
		return d.restRefused(s)
	}
	if !t.spec.DryRun {
		d.makeWay(s, t.call)
	}
	switch {
	case d.observing() != nil && !t.spec.DryRun:
		return d.observing()
	case s.sweep != nil:
		return ErrBusy
	case s.mode.Mode == profiles.ModeOff:
		return fmt.Errorf("%w: quner is paused; resume first", ErrRefused)
	case profiles.PowerSource(d.host) == profiles.Battery && !t.spec.Force:
		return fmt.Errorf("%w: on battery (force overrides)", ErrRefused)
	case s.detector.Judge(s.sample) == profiles.Training && !t.spec.Force && !t.spec.Attach: // a service is at work
		return fmt.Errorf("%w (GPU %.0f %%, load %.2f on %d CPUs); a sweep would slow it (force overrides)",
			errTrains, 100*s.sample.GPUUtilisation, s.sample.Load1, s.sample.CPUs)
	}
	return nil
}

// counted names the devices a window of the sweep sums.
func (d *Daemon) counted() []string {
	var names []string
	for _, sensor := range d.meter.Sensors() {
		if sensor.Counted {
			names = append(names, sensor.Name)
		}
	}
	return names
}

// windowsPerAxis is the default budget: a pass over 9 states with pre-check takes about 15 windows, refining the rest.
const windowsPerAxis = 40

// unswept is the point that the profile calls for, less what the axes move.
func (t *sweep) unswept(ctx context.Context, s *state) levers.Point {
	held := *s
	held.profile = t.spec.Profile
	point, _ := t.d.target(ctx, &held)
	swept := map[string]bool{}
	for _, a := range t.axes {
		for _, set := range a.settings[a.Found] {
			swept[set.Lever] = true
		}
	}
	var rest levers.Point
	for _, set := range point {
		if !swept[set.Lever] {
			rest = append(rest, set)
		}
	}
	return rest
}

func (t *sweep) tuneAxes() []tune.Axis {
	out := make([]tune.Axis, len(t.axes))
	for i, a := range t.axes {
		out[i] = a.Axis
	}
	return out
}

// choose turns the sweep's indices into an operating point.
func (t *sweep) choose(r *TuneReport) {
	if len(r.Result.Chosen) != len(t.axes) {
		return
	}
	r.Chosen = pointAt(t.rest, t.axes, r.Result.Chosen)
}

// end gives the levers back and, with a report to keep, stores the point. It runs whatever has become of ctx: of a sweep
// that was called off, up to the moment at which its point is stored, nothing is kept, and the error says why.
func (t *sweep) end(ctx context.Context, r *TuneReport) error {
	if t.spec.DryRun {
		return nil
	}
	calledOff := func() error {
		if r == nil || ctx.Err() == nil {
			return nil
		}
		return fmt.Errorf("%s: %w", t.call, context.Cause(ctx))
	}
	err := t.d.do(context.WithoutCancel(ctx), func(ctx context.Context, s *state) error {
		off := calledOff()
		if s.sweep == t.lease {
			s.sweep = nil
			s.tuned.Running = false
		} else if s.sweep != nil || s.mode.Mode == profiles.ModeOff {
			return off // the levers are somebody else's by now
		}
		s.tuned.Last = time.Now()
		var stored error
		s.tuned.LastVerdict = interrupted
		if r != nil && off == nil {
			s.tuned.LastVerdict = string(r.Verdict())
			stored = t.keep(ctx, s, r, calledOff)
		}
		s.forgetLoad(t.lease)
		_, err := t.d.apply(ctx, s, t.spec.Caller.author(t.call+", at its end"))
		t.d.publish(s)
		if err != nil && (r == nil || off != nil) {
			err = fmt.Errorf("%w: %w", ErrNotBack, err)
		}
		return errors.Join(off, stored, err)
	})
	if errors.Is(err, ErrStopped) {
		return nil // the loop has put the host back on its way out
	}
	return err
}

// interrupted is the verdict of a sweep that did not come to its end.
const interrupted = "interrupted"

// recallSweep takes the newest point for the last sweep, as far as this daemon can know.
func (s *state) recallSweep() {
	for _, p := range s.points.All() {
		if p.TunedAt.After(s.tuned.Last) {
			s.tuned.Last, s.tuned.LastVerdict, s.tuned.Workload = p.TunedAt, p.Verdict, p.Workload
		}
	}
}

// keep caches the chosen point if the caller asked for that and the sweep has one worth keeping, unless it is called off by then.
func (t *sweep) keep(ctx context.Context, s *state, r *TuneReport, calledOff func() error) error {
	switch {
	case !t.spec.Apply:
		return nil
	case r.Chosen == nil:
		r.Note = cmp.Or(r.Note, "nothing to apply")
		return nil
	case t.lease.idle && r.Verdict() == tune.Flat:
		// At rest nothing makes a difference: what the profile gets by default is as good as all else, and that is known now.
		r.Chosen = t.d.untuned(ctx, s, t.spec.Profile)
	case !r.Certified():
		r.Note = "not certified, so nothing is kept"
		return nil
	}
	p := t.tunedPoint(s, r)
	if err := calledOff(); err != nil {
		s.tuned.LastVerdict = interrupted
		return err
	}
	if _, err := s.points.Put(p); err != nil {
		return fmt.Errorf("the point found is not on disk and so not in force: %w", err)
	}
	r.Applied = true
	// The workload has just run: its profile holds until the detector says otherwise.
	if s.mode.Mode == profiles.ModeAuto {
		s.detector.Assume(t.spec.Profile)
		s.profile = t.spec.Profile
	}
	return nil
}

// joulesOf is a window's energy for the objective: the meter's gross figure plus the watts no counter sees.
func joulesOf(gross unit.Energy, base unit.Power, d time.Duration) float64 {
	return (gross + base.Over(d)).Joules()
}
