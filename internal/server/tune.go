package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"

	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/tune"
)

// errGone ends a sweep whose caller went away or ended the stream.
var errGone = errors.New("the caller has ended the sweep")

// tuneStream is the server's end of a sweep.
type tuneStream = grpc.BidiStreamingServer[qunerv1.TuneRequest, qunerv1.TuneResponse]

// Tune runs a sweep whose workload the caller runs. The end of the stream, from whichever side, ends the sweep.
func (a *adminService) Tune(stream tuneStream) error {
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return badRequest("the first message is a start; the stream has none")
	}
	if err != nil {
		return err
	}
	if first.GetStart() == nil {
		return badRequest("the first message is a start")
	}
	spec, err := specIn(first.GetStart(), callerOf(stream.Context()))
	if err != nil {
		return err
	}
	w := listen(stream, spec.Attach)
	defer w.end()
	report, err := a.server.daemon.Tune(w.ctx, spec, w)
	if err != nil {
		return err
	}
	if spec.DryRun {
		return nil
	}
	return w.send(&qunerv1.TuneResponse{Message: &qunerv1.TuneResponse_Report{Report: reportOut(report, spec, a.server.units())}})
}

// units are those of the levers' values.
func (s *Server) units() map[string]string {
	units := map[string]string{}
	for _, l := range s.daemon.Status().Levers {
		units[l.Name] = l.Unit
	}
	return units
}

// defaultSlowdown is the loss of speed a caller allows who does not say.
const defaultSlowdown = 0.10

// maxTuneWindows bounds one sweep: at a second a window it is most of a day.
const maxTuneWindows = 10_000

// maxTuneTime is the longest time that a caller may give a sweep.
const maxTuneTime = 7 * 24 * time.Hour

// specIn reads what a caller looks for.
func specIn(r *qunerv1.TuneStart, c caller) (daemon.TuneSpec, error) {
	spec := daemon.TuneSpec{
		Caller: c.forDaemon(), Workload: r.GetWorkload(), Apply: r.GetApply(), MaxSlowdown: defaultSlowdown,
		NoGPU: r.GetNoGpu(), NoCPU: r.GetNoCpu(), Force: r.GetForce(), Fresh: r.GetFresh(), MaxWindows: int(r.GetMaxWindows()), DryRun: r.GetDryRun(),
		WorkUnit: r.GetWorkUnit(), Budget: time.Duration(r.GetBudgetNs()), Attach: r.GetAttach(),
	}
	var err error
	if spec.Profile, err = profileIn(r.GetProfile()); err != nil {
		return spec, err
	}
	if name := r.GetObjective(); name != "" {
		if spec.Objective, err = tune.ParseObjective(name); err != nil {
			return spec, badRequest("%v", err)
		}
	}
	if r.MaxSlowdown != nil {
		spec.MaxSlowdown = r.GetMaxSlowdown()
	}
	spec.WorkloadUID = spec.Caller.UID
	if r.WorkloadUid != nil {
		spec.WorkloadUID = r.GetWorkloadUid()
	}
	switch {
	case spec.WorkloadUID != spec.Caller.UID && spec.Caller.UID != 0:
		return spec, badRequest("workload of uid %d: only uid 0 may name another's", spec.WorkloadUID)
	case spec.Workload != "" && !label().MatchString(spec.Workload):
		return spec, badRequest("workload %q: allowed are 1 to 64 of A-Z a-z 0-9 . _ -", truncated(spec.Workload))
	case spec.WorkUnit != "" && !label().MatchString(spec.WorkUnit):
		return spec, badRequest("unit of work %q: allowed are 1 to 64 of A-Z a-z 0-9 . _ -", truncated(spec.WorkUnit))
	case spec.Attach && spec.Workload == "":
		return spec, badRequest("a sweep that is attached to a service names its workload")
	case spec.Attach && spec.WorkUnit != "":
		return spec, badRequest("the windows of a service say themselves what their work is counted in")
	case spec.Budget < 0 || spec.Budget > maxTuneTime:
		return spec, badRequest("a budget of %v: allowed is up to %v", spec.Budget, maxTuneTime)
	case !(spec.MaxSlowdown >= 0 && spec.MaxSlowdown < 1):
		return spec, badRequest("greatest slowdown %v: allowed is from 0 to less than 1", spec.MaxSlowdown)
	case spec.MaxWindows > maxTuneWindows:
		return spec, badRequest("%d windows: at most %d", spec.MaxWindows, maxTuneWindows)
	case spec.NoGPU && spec.NoCPU:
		return spec, badRequest("neither GPU nor CPU leaves nothing to tune")
	}
	return spec, nil
}

func label() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) }

// remoteWorkload is a daemon.TuneWorkload that the caller at the other end of a stream runs.
type remoteWorkload struct {
	ctx      context.Context //nolint:containedctx // the sweep's: it ends when the caller goes
	cancel   context.CancelCauseFunc
	stream   tuneStream
	finished chan *qunerv1.RunFinished
	attached bool        // to a service: the caller runs nothing
	axes     []tune.Axis // of the plan

	mu sync.Mutex // one sender at a time on a stream
}

// listen begins to read what the caller says, so that a caller who goes is noticed whatever the sweep waits for. The
// reader ends when the call does.
func listen(stream tuneStream, attached bool) *remoteWorkload {
	w := &remoteWorkload{stream: stream, attached: attached, finished: make(chan *qunerv1.RunFinished)}
	w.ctx, w.cancel = context.WithCancelCause(stream.Context())
	go w.read()
	return w
}

func (w *remoteWorkload) end() { w.cancel(nil) }

func (w *remoteWorkload) read() {
	for {
		m, err := w.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			w.cancel(errGone)
			return
		case err != nil:
			w.cancel(fmt.Errorf("%w: %w", errGone, err))
			return
		case w.attached:
			w.cancel(badRequest("a sweep that is attached to a service takes no more messages"))
			return
		case m.GetFinished() == nil:
			w.cancel(badRequest("a sweep that has begun takes only the ends of runs"))
			return
		}
		select {
		case w.finished <- m.GetFinished():
		case <-w.ctx.Done():
			return
		}
	}
}

// Plan shows the caller what will be tried.
func (w *remoteWorkload) Plan(p daemon.TunePlan) error {
	w.axes = p.Axes
	return w.send(&qunerv1.TuneResponse{Message: &qunerv1.TuneResponse_Plan{Plan: planOut(p)}})
}

// Run has the caller run its workload.
func (w *remoteWorkload) Run(ctx context.Context, r daemon.TuneRun) (daemon.TuneWork, error) {
	err := w.send(&qunerv1.TuneResponse{Message: &qunerv1.TuneResponse_Run{Run: &qunerv1.RunWorkload{
		Window: count(r.Window), MaxWindows: count(r.MaxWindows), State: r.State,
		MinMs: count(int(r.AtLeast / time.Millisecond)),
	}}})
	if err != nil {
		return daemon.TuneWork{}, err
	}
	select {
	case f := <-w.finished:
		return workIn(f, r.Window)
	case <-ctx.Done():
		return daemon.TuneWork{}, context.Cause(ctx)
	case <-w.ctx.Done():
		return daemon.TuneWork{}, context.Cause(w.ctx)
	}
}

// maxStalled is the longest standstill a caller may tell of: a day.
const maxStalled = 24 * 3600

// leastWork is the least work of a window: what is less, or more than its inverse, could not be compared.
const leastWork = 1e-140

// workIn reads what a caller says of the window asked for.
func workIn(f *qunerv1.RunFinished, window int) (daemon.TuneWork, error) {
	switch {
	case f.GetWindow() != count(window):
		return daemon.TuneWork{}, badRequest("window %d has ended, but window %d was asked for", f.GetWindow(), window)
	case f.GetFailure() != "":
		return daemon.TuneWork{}, fmt.Errorf("%w: %s", errWorkload, printable(f.GetFailure()))
	case !(f.GetWork() >= leastWork && f.GetWork() <= 1/leastWork):
		return daemon.TuneWork{}, badRequest("window %d: work %v: allowed is from %g to %g", window, f.GetWork(), leastWork, 1/leastWork)
	case !(f.GetStalledS() >= 0 && f.GetStalledS() <= maxStalled):
		return daemon.TuneWork{}, badRequest("window %d: stalled for %v s: allowed is from 0 to %d", window, f.GetStalledS(), maxStalled)
	}
	return daemon.TuneWork{Amount: f.GetWork(), Stalled: time.Duration(f.GetStalledS() * float64(time.Second))}, nil
}

// Progress tells the caller of a window that has ended. A caller who cannot be told is noticed by the reader.
func (w *remoteWorkload) Progress(p daemon.Progress) {
	m := &qunerv1.TuneResponse_Progress{Progress: progressOut(p, best(w.axes, p.Progress))}
	if err := w.send(&qunerv1.TuneResponse{Message: m}); err != nil {
		w.cancel(fmt.Errorf("%w: %w", errGone, err))
	}
}

func (w *remoteWorkload) send(m *qunerv1.TuneResponse) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stream.Send(m)
}
