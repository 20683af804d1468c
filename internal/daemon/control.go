package daemon

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/profiles"
)

// SetMode changes who decides the profile and brings the point into force that follows. Pausing ends a running sweep.
func (d *Daemon) SetMode(ctx context.Context, c Caller, change ModeChange) (Applied, error) {
	var out Applied
	err := d.do(ctx, func(ctx context.Context, s *state) error {
		next, err := s.nextMode(c, change)
		if err == nil && !change.DryRun {
			err = d.observing()
		}
		if err != nil {
			return err
		}
		if change.DryRun {
			return d.planMode(ctx, s, next, &out)
		}
		d.makeWay(s, change.String())
		if next.Mode == profiles.ModeOff {
			s.abortSweep(fmt.Errorf("%w: paused by uid %d", ErrRefused, c.UID))
		} else {
			s.voidWindow("manual profile call")
		}
		before, profile := s.mode, s.profile
		d.keepMode(s, next)
		a := c.author(change.String())
		if s.sweep == nil {
			s.profile = profileOf(s.mode.Mode, s.detector.Profile())
		}
		d.tellMode(s, a, before, profile)
		if s.sweep == nil {
			out.Writes, err = d.apply(ctx, s, a)
		}
		s.remember(a, err)
		out.Profile, out.Source, out.Mode = s.profile, s.source, s.mode
		d.publish(s)
		return err
	})
	return out, err
}

// keepMode records a mode, and logs what keeps it from being recorded.
func (d *Daemon) keepMode(s *state, m profiles.ModeState) {
	if err := s.setMode(m); err != nil {
		d.log.Error("mode is not on disk", "mode", m.Mode, "err", err)
	}
}

// tellMode logs a change of mode: what was, what is, and who wanted it. A profile that changes with it needs no line of
// its own.
func (d *Daemon) tellMode(s *state, a author, before profiles.ModeState, profile profiles.Profile) {
	attrs := []any{"from", before.Mode, "to", s.mode.Mode, "profile", s.profile}
	if profile != s.profile {
		attrs = append(attrs, "profile_from", profile)
	}
	if !s.mode.Until.IsZero() {
		attrs = append(attrs, "until", s.mode.Until.Format(time.RFC3339))
	}
	d.log.Info("mode", append(attrs, a.attrs()...)...)
}

// nextMode works out the mode that a change leads to.
func (s *state) nextMode(c Caller, change ModeChange) (profiles.ModeState, error) {
	next := profiles.ModeState{Mode: change.Mode, UID: c.UID, Set: time.Now()}
	if change.Resume {
		if s.mode.Mode != profiles.ModeOff {
			return next, fmt.Errorf("%w: nothing to resume: the mode is %q, not off", ErrRefused, s.mode.Mode)
		}
		next.Mode = cmp.Or(s.mode.Before, profiles.ModeAuto)
		return next, nil
	}
	switch change.Mode {
	case profiles.ModeAuto, profiles.ModeIdle, profiles.ModeTraining:
	case profiles.ModeOff:
		next.Before = s.mode.Mode
		if s.mode.Mode == profiles.ModeOff {
			next.Before = s.mode.Before
		}
		if change.Pause > 0 {
			next.Until = next.Set.Add(change.Pause)
		}
	default:
		return next, fmt.Errorf("mode %q: allowed are auto, idle, training, off", change.Mode)
	}
	return next, nil
}

// brief is a duration as one types it: 24h, where Go has 24h0m0s.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// String is the call in the words of the command line.
func (c ModeChange) String() string {
	switch {
	case c.Resume:
		return "resume"
	case c.Mode == profiles.ModeOff && c.Pause > 0:
		return "pause " + brief(c.Pause)
	case c.Mode == profiles.ModeOff:
		return "pause"
	}
	return "profile " + string(c.Mode)
}

// planMode works out the writes of a change of mode without making any.
func (d *Daemon) planMode(ctx context.Context, s *state, next profiles.ModeState, out *Applied) error {
	mode, profile := s.mode, s.profile
	s.mode, s.profile = next, profileOf(next.Mode, s.detector.Profile())
	point, source := d.target(ctx, s)
	out.Profile, out.Source, out.Mode = s.profile, source, next
	s.mode, s.profile = mode, profile
	var err error
	out.Writes, err = s.bank.Plan(ctx, s.present(point, d.log))
	return err
}

// Apply brings the current profile's point into force now, also where somebody has moved a lever since.
func (d *Daemon) Apply(ctx context.Context, c Caller, dryRun bool) (Applied, error) {
	var out Applied
	err := d.do(ctx, func(ctx context.Context, s *state) error {
		if !dryRun {
			d.makeWay(s, "apply")
		}
		if s.sweep != nil {
			return fmt.Errorf("apply: %w", ErrBusy)
		}
		if s.mode.Mode == profiles.ModeOff {
			return fmt.Errorf("%w: quner is paused; resume first", ErrRefused)
		}
		var err error
		if dryRun {
			defer s.bank.Owners()()
		}
		if err := d.observing(); err != nil {
			return err
		}
		// The owner asks in person, so levers that were left to somebody else are taken again.
		for _, st := range s.bank.States(ctx) {
			if st.State == levers.Yielded && !s.others(st.Name) {
				if err := s.bank.Take(st.Name); err != nil {
					return err
				}
			}
		}
		if dryRun {
			return d.planMode(ctx, s, s.mode, &out)
		}
		a := c.author("apply")
		out.Writes, err = d.apply(ctx, s, a)
		if err == nil {
			attrs := []any{"mode", s.mode.Mode, "profile", s.profile, "source", s.source, "writes", len(out.Writes)}
			d.log.Info("point applied", append(attrs, a.attrs()...)...)
		}
		s.remember(a, err)
		out.Profile, out.Source, out.Mode = s.profile, s.source, s.mode
		d.publish(s)
		return err
	})
	return out, err
}

// Restore puts the host back as found and pauses, so that the next tick does not undo it. With force also levers that
// somebody else has moved since.
func (d *Daemon) Restore(ctx context.Context, c Caller, force, dryRun bool) (levers.Restored, profiles.ModeState, error) {
	var out levers.Restored
	var mode profiles.ModeState
	err := d.do(ctx, func(ctx context.Context, s *state) error {
		next, err := s.nextMode(c, ModeChange{Mode: profiles.ModeOff})
		if err != nil {
			return err
		}
		mode = next
		if dryRun {
			out, err = s.bank.PlanRestore(ctx, force)
			return err
		}
		if d.opts.DryRun {
			return d.observing()
		}
		s.abortSweep(fmt.Errorf("%w: host restored by uid %d", ErrRefused, c.UID))
		before := s.mode
		d.keepMode(s, next)
		a := c.author("apply --restore")
		d.tellMode(s, a, before, s.profile)
		out, err = s.bank.Restore(ctx, force)
		s.rememberWrites(a, out.Writes)
		s.remember(a, err)
		s.told(d.log, "levers", err)
		s.point, s.source, s.inForce = nil, PointFound, profiles.TunedPoint{}
		d.meter.SetCondition(ctx, "")
		d.publish(s)
		return err
	})
	return out, mode, err
}

// Rollback returns shell lines that restore the host with no daemon.
func (d *Daemon) Rollback(ctx context.Context) (string, error) {
	var script string
	err := d.do(ctx, func(ctx context.Context, s *state) error {
		script = s.bank.Script()
		return nil
	})
	return script, err
}

// Points returns the cached tuned points, and the fingerprint of this host to judge them by.
func (d *Daemon) Points(ctx context.Context) (all []profiles.TunedPoint, here profiles.Fingerprint, err error) {
	err = d.do(ctx, func(ctx context.Context, s *state) error {
		all, here = s.points.All(), s.print
		return nil
	})
	return all, here, err
}

// Forget removes cached points and, where one was in force, applies what follows from that.
func (d *Daemon) Forget(ctx context.Context, c Caller, ids []string, all, dryRun bool) ([]profiles.TunedPoint, error) {
	var gone []profiles.TunedPoint
	err := d.do(ctx, func(ctx context.Context, s *state) error {
		if all {
			ids = nil
			for _, p := range s.points.All() {
				ids = append(ids, p.ID)
			}
		}
		forget := s.points.Forget
		if dryRun {
			forget = s.points.Find
		}
		var err error
		if gone, err = forget(ids...); err != nil || dryRun || len(gone) == 0 {
			return err
		}
		d.log.Info("points forgotten", "uid", c.UID, "count", len(gone))
		a := c.author("points forget")
		if s.sweep == nil {
			_, err = d.apply(ctx, s, a)
		}
		s.remember(a, err)
		d.publish(s)
		return err
	})
	return gone, err
}
