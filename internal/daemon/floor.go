package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
)

// FloorSpec says which floors to measure.
type FloorSpec struct {
	Caller    Caller
	Devices   []string      // names, "cpu" or "gpu"; empty: all that are awake
	Duration  time.Duration // of one measurement, meter.MinFloor to meter.MaxFloor; 0: MinFloor
	AllPoints bool          // at each point that quner may bring into force, not only at the one in force
	Force     bool          // move levers although the machine trains or is on battery
	DryRun    bool
}

// FloorPlan is what will be measured.
type FloorPlan struct {
	Points   []FloorPoint
	Devices  []string
	Duration time.Duration // of one measurement, once power has settled
}

// FloorPoint is an operating point to measure at.
type FloorPoint struct {
	Name   string // for people: "idle, tuned"
	Point  levers.Point
	Writes []levers.Write // that would bring it into force now; none if it is
}

// FloorProgress is how far a device is.
type FloorProgress struct {
	Point  int // counts from 1
	Points int
	Device string
	meter.FloorStep
	Refused string // why it gets no floor
}

// FloorOutcome is what became of one device at one point.
type FloorOutcome struct {
	Point   string // its name
	Device  string
	Floor   meter.Floor
	Refused string // why it has none; empty if it has
}

// FloorWatcher is shown the plan and the progress of a measurement.
type FloorWatcher interface {
	Plan(FloorPlan) error
	Progress(FloorProgress)
}

// floorRun is one measurement of floors: the caller's goroutine drives it, the loop moves the levers for it.
type floorRun struct {
	d        *Daemon
	spec     FloorSpec
	watcher  FloorWatcher
	lease    *lease
	plan     FloorPlan
	software software
	outcomes []FloorOutcome
}

// MeasureFloor measures what devices draw at rest and keeps the certificates: at the point in force, or at each point that
// quner may bring into force. While it runs no profile is entered, so that the point stays; whatever ends it, the host is
// put back to the point that mode and profile call for. Windows that are open go on, and the measurement does not mind
// them. A device that is not at rest gets none, and the outcome says why; with none at all the error is ErrRefused.
func (d *Daemon) MeasureFloor(ctx context.Context, spec FloorSpec, w FloorWatcher) ([]FloorOutcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if spec.Duration == 0 {
		spec.Duration = meter.MinFloor
	}
	r := &floorRun{d: d, spec: spec, watcher: w, lease: &lease{cancel: cancel, floor: true, still: !spec.AllPoints}}
	if err := r.start(ctx); err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	if err := w.Plan(r.plan); err != nil || spec.DryRun {
		return nil, errors.Join(err, r.end(ctx, err))
	}
	var err error
	for i := range r.plan.Points {
		if err = r.measure(ctx, i); err != nil {
			break
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err == nil {
		err = r.verdict()
	}
	if ended := r.end(ctx, err); err == nil {
		err = ended
	}
	if err != nil {
		err = fmt.Errorf("floor: %w", err)
	}
	return r.outcomes, err
}

// verdict is the refusal of a measurement that has come to nothing.
func (r *floorRun) verdict() error {
	var why []string
	for _, o := range r.outcomes {
		if o.Refused == "" {
			return nil
		}
		if !slices.Contains(why, o.Refused) {
			why = append(why, o.Refused)
		}
	}
	return fmt.Errorf("%w: %s", ErrRefused, strings.Join(why, "; "))
}

// start takes the levers, with a second look as a sweep does.
func (r *floorRun) start(ctx context.Context) error {
	err := r.d.do(ctx, r.begin)
	if !errors.Is(err, errTrains) {
		return err
	}
	if err := sleep(ctx, utilisationFades); err != nil {
		return err
	}
	return r.d.do(ctx, r.begin)
}

// begin checks that floors may be measured and holds the levers where they are. It runs on the loop.
func (r *floorRun) begin(ctx context.Context, s *state) error {
	d := r.d
	if !r.spec.DryRun {
		d.makeWay(s, "floor measure")
	}
	if s.sweep != nil && !r.spec.DryRun {
		return ErrBusy
	}
	if r.spec.AllPoints {
		if err := r.mayMove(ctx, s); err != nil {
			return err
		}
	}
	devices, err := d.meter.Resolve(r.spec.Devices)
	if err != nil {
		return err
	}
	if len(devices) == 0 {
		return fmt.Errorf("%w: no energy counter to measure with is awake; doctor says why", ErrRefused)
	}
	r.software = s.software
	r.plan = FloorPlan{Devices: devices, Duration: r.spec.Duration, Points: []FloorPoint{{Name: "the point in force", Point: s.point}}}
	if r.spec.AllPoints {
		if r.plan.Points, err = r.points(ctx, s); err != nil {
			return err
		}
	}
	if r.spec.DryRun {
		return nil
	}
	s.sweep = r.lease
	d.log.Info("floors are being measured", "uid", r.spec.Caller.UID, "devices", len(devices), "points", len(r.plan.Points))
	d.publish(s)
	return nil
}

// mayMove says why levers cannot be moved for a measurement.
func (r *floorRun) mayMove(ctx context.Context, s *state) error {
	s.sample = profiles.TakeSample(ctx, r.d.host, 0)
	switch {
	case r.d.observing() != nil && !r.spec.DryRun:
		return r.d.observing()
	case s.mode.Mode == profiles.ModeOff:
		return fmt.Errorf("%w: quner is paused; resume first, or measure at the point in force alone", ErrRefused)
	case profiles.PowerSource(r.d.host) == profiles.Battery && !r.spec.Force:
		return fmt.Errorf("%w: on battery (force overrides)", ErrRefused)
	case s.detector.Judge(s.sample) == profiles.Training && !r.spec.Force:
		return fmt.Errorf("%w (GPU %.0f %%, load %.2f on %d CPUs); measuring at other points would slow it (force overrides)",
			errTrains, 100*s.sample.GPUUtilisation, s.sample.Load1, s.sample.CPUs)
	}
	return nil
}

// points are the operating points that quner may bring into force, each once: what the profiles call for, the cached
// points of this host, and the host as found.
func (r *floorRun) points(ctx context.Context, s *state) ([]FloorPoint, error) {
	var all []FloorPoint
	add := func(name string, p levers.Point) error {
		p = s.present(p, r.d.log)
		if slices.ContainsFunc(all, func(q FloorPoint) bool { return q.Point.Key() == p.Key() }) {
			return nil
		}
		writes, err := s.bank.Plan(ctx, p)
		all = append(all, FloorPoint{Name: name, Point: p, Writes: writes})
		return err
	}
	for _, profile := range []profiles.Profile{profiles.Idle, profiles.Training} {
		held := *s
		held.profile = profile
		point, source := r.d.target(ctx, &held)
		if err := add(fmt.Sprintf("%s, %s", profile, source), point); err != nil {
			return nil, err
		}
	}
	for _, p := range s.points.All() {
		if p.Hard != s.print.Hard.Key() {
			continue
		}
		if err := add("point "+p.ID, p.Point); err != nil {
			return nil, err
		}
	}
	return all, add("as found", nil)
}

// hold runs f on the loop if the measurement still holds the levers.
func (r *floorRun) hold(ctx context.Context, f func(context.Context, *state) error) error {
	mine := ctx
	return r.d.do(ctx, func(ctx context.Context, s *state) error {
		if s.sweep != r.lease {
			return context.Cause(mine)
		}
		return f(ctx, s)
	})
}

// measure measures all devices at one point and keeps their certificates.
func (r *floorRun) measure(ctx context.Context, nth int) error {
	var before map[string]levers.Value
	err := r.hold(ctx, func(ctx context.Context, s *state) error {
		if r.spec.AllPoints {
			if _, err := r.d.move(ctx, s, r.plan.Points[nth].Point, r.spec.Caller.author("floor measure")); err != nil {
				return err
			}
		}
		before = s.values(ctx)
		r.d.publish(s)
		return nil
	})
	if err != nil {
		return err
	}
	outcomes, err := r.watch(ctx, nth)
	if err != nil {
		return err
	}
	return r.hold(ctx, func(ctx context.Context, s *state) error {
		after := s.values(ctx)
		for i := range outcomes {
			for lever, value := range before {
				if o := &outcomes[i]; o.Refused == "" && after[lever] != value {
					o.Refused = fmt.Sprintf("%s: %s moved from %s to %s meanwhile", o.Device, lever, value, after[lever])
				}
			}
		}
		r.outcomes = append(r.outcomes, outcomes...)
		return r.keep(s, outcomes)
	})
}

// values are what the levers read.
func (s *state) values(ctx context.Context) map[string]levers.Value {
	all := map[string]levers.Value{}
	for _, st := range s.bank.States(ctx) {
		if st.Err == nil {
			all[st.Name] = st.Value
		}
	}
	return all
}

// keep stores the certificates of one point.
func (r *floorRun) keep(s *state, outcomes []FloorOutcome) error {
	var floors []meter.Floor
	for _, o := range outcomes {
		if o.Refused == "" {
			floors = append(floors, o.Floor)
			r.d.log.Info("floor", "device", o.Device, "state", o.Floor.State, "point", o.Point, "mean", o.Floor.Mean,
				"half_width", o.Floor.HalfWidth, "id", o.Floor.ID)
		} else {
			r.d.log.Info("no floor", "device", o.Device, "point", o.Point, "why", o.Refused)
		}
	}
	if len(floors) == 0 {
		return nil
	}
	if err := s.floors.put(floors...); err != nil {
		return fmt.Errorf("the floors measured are not on disk and so not in force: %w", err)
	}
	r.d.tellFloors(s)
	return nil
}

// watch runs the trials of one point to their ends, side by side.
func (r *floorRun) watch(ctx context.Context, nth int) ([]FloorOutcome, error) {
	outcomes := make([]FloorOutcome, len(r.plan.Devices))
	trials := make([]*meter.FloorTrial, len(r.plan.Devices))
	defer func() {
		for _, t := range trials {
			if t != nil {
				t.Abandon()
			}
		}
	}()
	part, running := time.Second, 0
	for i, name := range r.plan.Devices {
		t, err := r.d.meter.TryFloor(ctx, name, r.spec.Duration)
		outcomes[i] = FloorOutcome{Point: r.plan.Points[nth].Name, Device: name}
		if err := r.note(nth, &outcomes[i], meter.FloorStep{}, err); err != nil {
			return nil, err
		}
		if t != nil && err == nil {
			trials[i], part = t, t.Part()
			running++
		}
	}
	for running > 0 {
		if err := sleep(ctx, part); err != nil {
			return nil, err
		}
		for i, t := range trials {
			if t == nil {
				continue
			}
			step, err := t.Step(ctx)
			if cause := context.Cause(ctx); cause != nil {
				return nil, cause
			}
			if step.Done || err != nil {
				trials[i] = nil
				running--
			}
			if err := r.note(nth, &outcomes[i], step, err); err != nil {
				return nil, err
			}
		}
	}
	return outcomes, nil
}

// note books what a step has come to, and tells it. A device that is not at rest is an outcome; what else goes wrong ends
// the measurement.
func (r *floorRun) note(nth int, o *FloorOutcome, step meter.FloorStep, err error) error {
	if err != nil && !errors.Is(err, meter.ErrNotAtRest) {
		return err
	}
	if err != nil {
		o.Refused = strings.TrimSuffix(err.Error(), ": "+meter.ErrNotAtRest.Error())
	}
	if step.Done {
		step.Floor = r.software.certify(step.Floor)
		o.Floor = step.Floor
	}
	r.watcher.Progress(FloorProgress{Point: nth + 1, Points: len(r.plan.Points), Device: o.Device, FloorStep: step, Refused: o.Refused})
	return nil
}

// end gives the levers back. It runs whatever has become of ctx.
func (r *floorRun) end(ctx context.Context, why error) error {
	if r.spec.DryRun {
		return nil
	}
	err := r.d.do(context.WithoutCancel(ctx), func(ctx context.Context, s *state) error {
		if s.sweep == r.lease {
			s.sweep = nil
		} else if s.sweep != nil {
			return nil // the levers are somebody else's by now
		}
		s.remember(r.spec.Caller.author("floor measure"), why)
		defer r.d.publish(s)
		if s.mode.Mode == profiles.ModeOff {
			return nil
		}
		s.profile = profileOf(s.mode.Mode, s.detector.Profile()) // which may have changed meanwhile
		_, err := r.d.apply(ctx, s, r.spec.Caller.author("floor measure, at its end"))
		return err
	})
	if errors.Is(err, ErrStopped) {
		return nil // the loop has put the host back on its way out
	}
	return err
}
