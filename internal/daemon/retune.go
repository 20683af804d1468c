package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
)

// RetuneFile is where the last exploration at rest is remembered, in the state directory.
const RetuneFile = "retune.json"

// How long the outcome of an exploration at rest holds: a point, or that the levers make no difference, and that no state
// could be certified. Each exploration costs energy itself.
const (
	restedFor    = 30 * 24 * time.Hour
	unsettledFor = 24 * time.Hour
)

// restingWindow is how long a window at rest lasts, and restingWindows how many there may be for each axis.
const (
	restingWindow  = 5 * time.Second
	restingWindows = 24
)

// RetuneState is what became of the last exploration at rest.
type RetuneState struct {
	At      time.Time `json:"at,omitzero"`       // of the last call
	Skipped string    `json:"skipped,omitempty"` // why it explored nothing, or not to the end
	Last    time.Time `json:"last,omitzero"`     // when an exploration last came to its end
	Verdict string    `json:"verdict,omitempty"` // of that
	Hard    string    `json:"hard,omitempty"`    // keys of the machine that it speaks of
	Soft    string    `json:"soft,omitempty"`
}

// retunes remembers the explorations, on disk too. It belongs to the loop.
type retunes struct {
	file host.StateFile
	now  RetuneState
	kept RetuneState // as it is on disk
}

type retuneFile struct {
	Schema int `json:"schema"`
	RetuneState
}

func openRetunes(state host.Dir, log *slog.Logger) (*retunes, error) {
	r := &retunes{file: host.StateFile{Dir: state, Name: RetuneFile, Schema: 1, Log: log}}
	err := r.file.Load(func(data []byte) error {
		read, err := r.decode(data)
		if err == nil {
			r.now, r.kept = read, read
		}
		return err
	})
	return r, err
}

func (r *retunes) decode(data []byte) (RetuneState, error) {
	var content retuneFile
	err := r.file.Decode(data, &content, func() error { return nil })
	return content.RetuneState, err
}

// keep remembers an outcome. The same reason again is no news to write: a timer asks every half hour.
func (r *retunes) keep(now RetuneState) error {
	r.now = now
	if r.kept.Last.Equal(now.Last) && r.kept.Skipped == now.Skipped {
		return nil
	}
	if err := r.file.Save(retuneFile{Schema: r.file.Schema, RetuneState: now}); err != nil {
		return err
	}
	r.kept = now
	return nil
}

// notNowError is why the machine is not explored at rest: nothing is wrong, it is only not the time.
type notNowError struct{ why string }

func (e notNowError) Error() string { return "not explored: " + e.why }

func notNow(format string, args ...any) error { return notNowError{fmt.Sprintf(format, args...)} }

// Resting is shown an exploration at rest.
type Resting interface {
	Plan(TunePlan) error
	Progress(Progress)
}

// RetuneSpec asks for an exploration at rest.
type RetuneSpec struct {
	Caller Caller
	DryRun bool
	Fresh  bool // start from nothing, also where an idle point is to be validated again
}

// RetuneReport is what became of a call to explore.
type RetuneReport struct {
	Skipped string // why nothing was explored, or not to the end; empty: the report holds
	Spec    TuneSpec
	Report  TuneReport
}

// Retune looks for the operating point at which the machine at rest draws least, and keeps it. What is not the time for it
// is no error but the report's reason. Whoever wants the machine meanwhile, a workload or a person, has it at once.
func (d *Daemon) Retune(ctx context.Context, r RetuneSpec, see Resting) (RetuneReport, error) {
	spec := TuneSpec{
		Caller: r.Caller, Profile: profiles.Idle, Apply: true, Objective: tune.AtRest, MaxSlowdown: 0.10, WorkUnit: "second",
		DryRun: r.DryRun, Fresh: r.Fresh,
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &sweep{
		d: d, spec: spec, workload: atRest{see}, call: "retune", atLeast: restingWindow,
		lease: &lease{cancel: cancel, idle: true},
	}
	report, err := t.run(ctx)
	out := RetuneReport{Spec: spec, Report: report}
	if why := (notNowError{}); errors.As(err, &why) {
		out.Skipped, err = why.why, nil
	}
	if r.DryRun {
		return out, err
	}
	told := d.do(context.WithoutCancel(ctx), func(_ context.Context, s *state) error {
		return d.rested(s, out, err)
	})
	if errors.Is(told, ErrStopped) {
		told = nil
	}
	return out, errors.Join(err, told)
}

// rested books what became of a call.
func (d *Daemon) rested(s *state, out RetuneReport, failed error) error {
	now := s.retunes.now
	now.At, now.Skipped = time.Now(), out.Skipped
	switch {
	case errors.Is(failed, context.Canceled):
		now.Skipped = "it was interrupted"
	case failed != nil:
		now.Skipped = short(failed.Error())
	case out.Skipped == "":
		now.Last, now.Verdict = now.At, string(out.Report.Verdict())
		now.Hard, now.Soft = s.print.Hard.Key(), s.print.Soft.Key()
	}
	if now.Skipped != s.retunes.now.Skipped && now.Skipped != "" {
		d.log.Info("machine at rest is not explored", "why", now.Skipped)
	}
	err := s.retunes.keep(now)
	d.publish(s)
	return err
}

// restRefused is why the machine must not, or need not, be explored at rest now; nil if it may.
func (d *Daemon) restRefused(s *state) error {
	switch {
	case d.observing() != nil:
		return notNow("%v", d.observing())
	case s.sweep != nil:
		return notNow("a sweep is running")
	case s.mode.Mode == profiles.ModeOff:
		return notNow("quner is paused")
	case profiles.PowerSource(d.host) == profiles.Battery:
		return notNow("the machine is on battery")
	}
	if err := d.restless(s); err != nil {
		return err
	}
	if len(d.counted()) == 0 {
		return notNow("there is no energy counter to judge by")
	}
	return s.explored(profiles.PowerSource(d.host))
}

// restless is why the machine is not at rest; nil if it is. The sample is fresh.
func (d *Daemon) restless(s *state) error {
	switch {
	case s.mode.Mode == profiles.ModeTraining:
		return notNow("the profile is set to training")
	case s.detector.Judge(s.sample) == profiles.Training:
		return notNow("the machine is training (GPU %.0f %%, load %.2f on %d CPUs)",
			100*s.sample.GPUUtilisation, s.sample.Load1, s.sample.CPUs)
	case s.profile == profiles.Training:
		return notNow("the machine has been training until a moment ago")
	}
	return nil
}

// explored tells that this very machine was explored at rest not long ago; nil if it was not.
func (s *state) explored(source profiles.Source) error {
	p, known := s.points.Point(s.print.Hard.Key(), profiles.Idle, "", source)
	if known && p.Settled() && p.Soft == s.print.Soft.Key() && time.Since(p.TunedAt) < restedFor {
		return notNow("the idle point %s is %s old and fits; it holds for %s", p.ID, days(time.Since(p.TunedAt)), days(restedFor))
	}
	r := s.retunes.now
	since := time.Since(r.Last)
	if r.Verdict == string(tune.Uncertified) && r.Hard == s.print.Hard.Key() && r.Soft == s.print.Soft.Key() && since < unsettledFor {
		return notNow("%s ago no state could be told to be best; the next try is in %s",
			brief(since.Round(time.Minute)), brief((unsettledFor - since).Round(time.Minute)))
	}
	return nil
}

func days(d time.Duration) string {
	if d < 48*time.Hour {
		return brief(d.Round(time.Minute))
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// disturbed ends an exploration at rest once the machine is not at rest any more, and tells whether it has.
func (d *Daemon) disturbed(s *state) bool {
	if s.sweep == nil || !s.sweep.idle {
		return false
	}
	why := d.restless(s)
	if why == nil && profiles.PowerSource(d.host) == profiles.Battery {
		why = notNow("the machine went on battery")
	}
	if why != nil {
		s.abortSweep(why)
	}
	return why != nil
}

// makeWay ends an exploration at rest for what a person wants of the machine now. A person's own sweep stays.
func (d *Daemon) makeWay(s *state, call string) {
	if s.sweep != nil && s.sweep.idle {
		s.abortSweep(notNow("it gave way to %q", call))
	}
}

// atRest is the workload of doing nothing: its work is time itself.
type atRest struct{ Resting }

// Run waits.
func (atRest) Run(ctx context.Context, r TuneRun) (TuneWork, error) {
	began := time.Now()
	if err := sleep(ctx, cmp.Or(r.AtLeast, restingWindow)); err != nil {
		return TuneWork{}, err
	}
	return TuneWork{Amount: time.Since(began).Seconds()}, nil
}
