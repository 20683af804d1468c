package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/profiles"
)

// resumeGap is how much the time asleep must have grown for the machine to have been suspended between two ticks.
const resumeGap = 5 * time.Second

// sampleAge lets the detector share the board visit that the meter has just made.
const sampleAge = time.Second

// tick is the heart of the loop: sample, decide, apply on a change, publish.
func (d *Daemon) tick(ctx context.Context, s *state) {
	d.noticeResume(s)
	shared := d.noticeConflicts(s)
	due := d.noticeWoken(ctx, s)
	d.meter.Tick(ctx)
	d.noticeSuspects(s)
	s.sample = profiles.TakeSample(ctx, d.host, sampleAge)
	proposed, changed := s.detector.Add(s.sample)
	if d.disturbed(s) {
		_, _ = d.apply(ctx, s, byDaemon("the machine is at rest no more")) // what it came to is in the status and the log
	}
	switch {
	case s.sweep != nil:
		// The sweep's own load moves the detector; it holds the levers until it ends.
	case s.mode.Mode == profiles.ModeAuto && changed:
		d.enter(ctx, s, proposed)
	case s.profile == profiles.Unknown:
		d.enter(ctx, s, proposed) // the first sample decides alone
	case shared, due, s.again.due(s.degraded["levers"] != ""):
		why := "another try"
		switch {
		case due:
			why = "a device that has woken"
		case shared:
			why = "other power daemons"
		}
		_, _ = d.apply(ctx, s, byDaemon(why)) // what it came to is in the status and the log
	}
	d.bookSavings(ctx, s)
	d.publish(s)
	d.opts.Notify("WATCHDOG=1")
}

// retry spaces the tries at levers that were not moved as wanted: the next tick, then after twice as many each time, for
// what fails twice is likely to go on, and each try costs the journal two writes.
type retry struct{ ticks, wait int }

// mostWait is the most ticks between two tries: ten minutes at the default tick.
const mostWait = 60

// due reports whether it is time for another try, at a tick at which the levers are, or are not, as wanted.
func (r *retry) due(failing bool) bool {
	if !failing {
		*r = retry{}
		return false
	}
	if r.ticks++; r.ticks < r.wait {
		return false
	}
	r.ticks, r.wait = 0, min(max(1, 2*r.wait), mostWait)
	return true
}

// noticeResume starts the detection over after a suspend: load averages and utilisation from before say nothing now.
func (d *Daemon) noticeResume(s *state) {
	now := d.host.Asleep()
	if now-s.asleep > resumeGap {
		d.log.Info("the machine was suspended", "for", now-s.asleep)
		s.detector.Reset()
	}
	s.asleep = now
}

// enter brings the profile that the mode calls for into force.
func (d *Daemon) enter(ctx context.Context, s *state, detected profiles.Profile) {
	before := s.profile
	s.profile = profileOf(s.mode.Mode, detected)
	if before != s.profile {
		d.log.Info("profile", "from", before, "to", s.profile, "mode", s.mode.Mode,
			"gpu_utilisation", s.sample.GPUUtilisation, "load1", s.sample.Load1)
	}
	_, _ = d.apply(ctx, s, byDaemon("profile "+string(s.profile))) // what it came to is in the status and the log
}

// profileOf is the profile a mode calls for, given what the detector says.
func profileOf(m profiles.Mode, detected profiles.Profile) profiles.Profile {
	switch m {
	case profiles.ModeIdle:
		return profiles.Idle
	case profiles.ModeTraining:
		return profiles.Training
	default:
		return detected
	}
}

// target is the point that the mode and the profile call for, and where it comes from.
func (d *Daemon) target(ctx context.Context, s *state) (levers.Point, PointSource) {
	if s.mode.Mode == profiles.ModeOff || s.profile == profiles.Unknown {
		return nil, PointFound
	}
	if p, ok := d.tunedFor(s); ok {
		return p.Point, PointTuned
	}
	return d.untuned(ctx, s, s.profile), PointDefault
}

// tunedFor is the cached point of the profile on this machine, as it is fed now.
func (d *Daemon) tunedFor(s *state) (profiles.TunedPoint, bool) {
	return s.points.Point(s.print.Hard.Key(), s.profile, "", profiles.PowerSource(d.host))
}

// untuned is the point of a profile that was never tuned here.
func (d *Daemon) untuned(ctx context.Context, s *state, p profiles.Profile) levers.Point {
	return profiles.Default(p, s.bank.Levers(), profiles.Circumstances{
		Driver: s.driver, Source: profiles.PowerSource(d.host), Training: profiles.Untuned(d.cfg.UntunedTraining), Found: s.found(ctx),
	})
}

// found is the value each lever had before quner took it.
func (s *state) found(ctx context.Context) map[string]levers.Value {
	all := map[string]levers.Value{}
	for _, st := range s.bank.States(ctx) {
		all[st.Name] = original(st)
	}
	return all
}

// apply brings the point that mode and profile call for into force.
func (d *Daemon) apply(ctx context.Context, s *state, a author) ([]levers.Write, error) {
	point, source := d.target(ctx, s)
	writes, err := d.move(ctx, s, s.present(point, d.log), a)
	// A point that is only partly reached is in force as far as it is, which the status says; the host is as found only
	// when all of it is.
	if d.opts.Observe == "" && (err == nil || source != PointFound) {
		s.source, s.inForce = source, profiles.TunedPoint{}
		if source == PointTuned {
			s.inForce, _ = d.tunedFor(s)
		}
	}
	return writes, err
}

// present is the point without the levers that are not on this host: a CPU that is offline, a board that was taken out.
// The status says which they are.
func (s *state) present(p levers.Point, log *slog.Logger) levers.Point {
	known := map[string]bool{}
	for _, l := range s.bank.Levers() {
		known[l.Name()] = true
	}
	var here levers.Point
	var gone []string
	for _, set := range p {
		if known[set.Lever] {
			here = append(here, set)
		} else {
			gone = append(gone, set.Lever)
		}
	}
	var err error
	if len(gone) > 0 {
		err = fmt.Errorf("the operating point names what is not here: %s", strings.Join(gone, ", "))
	}
	s.told(log, "point", err)
	return here
}

// move is the only way the daemon moves levers: through the bank, which logs each write, and told to the meter
// and the history.
func (d *Daemon) move(ctx context.Context, s *state, p levers.Point, a author) ([]levers.Write, error) {
	if d.opts.Observe != "" {
		return nil, d.observe(ctx, s, p)
	}
	writes, err := s.bank.Apply(ctx, p)
	s.rememberWrites(a, writes)
	s.point = p
	// What is in force decides the idle floor, so a change of it is a cut of every open window's timeline. A point that is
	// only partly reached is another one.
	d.meter.SetCondition(ctx, conditionOf(p, err))
	s.told(d.log, "levers", err)
	return writes, err
}

// pauseEnd fires when a pause with a duration ends; nil, which never fires, when there is none.
func pauseEnd(m profiles.ModeState) <-chan time.Time {
	if m.Until.IsZero() {
		return nil
	}
	return time.After(time.Until(m.Until))
}

func (d *Daemon) endPause(ctx context.Context, s *state) {
	before, profile, a := s.mode, s.profile, byDaemon("the pause is over")
	d.keepMode(s, profiles.ModeState{Mode: cmp.Or(before.Before, profiles.ModeAuto), UID: before.UID, Set: before.Set})
	if s.sweep == nil {
		s.profile = profileOf(s.mode.Mode, s.detector.Profile())
	}
	d.tellMode(s, a, before, profile)
	if s.sweep == nil {
		_, _ = d.apply(ctx, s, a) // what it came to is in the status and the log
	}
	d.publish(s)
}

// setMode records a mode so that it survives the daemon. The mode holds even where it cannot be recorded; the error
// then says that a restart will forget it.
func (s *state) setMode(m profiles.ModeState) error {
	s.mode = m
	err := s.modes.Save(m)
	if err != nil {
		s.degraded["mode"] = fmt.Sprintf("the mode is not on disk and will not survive a restart: %v", err)
		return errors.New(s.degraded["mode"])
	}
	delete(s.degraded, "mode")
	return nil
}

// told keeps what is wrong with a subject, and logs it once when it begins, when it changes and when it ends.
func (s *state) told(log *slog.Logger, subject string, err error) {
	switch was, now := s.note(subject, err); now {
	case was:
	case "":
		log.Info("well again", "subject", subject)
	default:
		log.Error("not well", "subject", subject, "err", now)
	}
}

// note keeps what is wrong with a subject, for the status; empty is well.
func (s *state) note(subject string, err error) (was, now string) {
	was = s.degraded[subject]
	if err == nil {
		delete(s.degraded, subject)
		return was, ""
	}
	now = strings.ReplaceAll(err.Error(), "\n", "; ")
	s.degraded[subject] = now
	return was, now
}
