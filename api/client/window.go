package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// The reasons this package itself gives for an unknown result.
const (
	ReasonUnreachable = "daemon_unreachable" // no daemon answered
	ReasonRefused     = "refused"            // the daemon had no room, or failed
	ReasonRestarted   = "daemon_restarted"   // the daemon was restarted and has given the window up
)

// OpenOptions describe a window. The zero value charges every GPU that is awake, the CPU packages and dram.
type OpenOptions struct {
	Name              string             // [A-Za-z0-9._-]{1,64}; need not be unique; empty: "window"
	Devices           []string           // empty: the default set
	IdleWatts         map[string]float64 // W at rest by device, or by "gpu" or "cpu"; nil: the floors measured here, if any
	IdleWattsPlus     map[string]float64 // ± W of IdleWatts, 95 %
	Weight            float64            // share of a device used together, 0.001 to 1000; 0: not given, which means 1
	Workload          string
	Unit              string  // "token", "request"
	HintJoulesPerUnit float64 // above 0, for an estimate when nothing can be measured; 0: not given
	WaitEdge          bool    // open at the slowest counter's next step, at most one of its periods later
	MayWake           bool    // a board that sleeps is woken for the window, which may take seconds
}

// wakeTime is what a driver takes to wake its boards.
const wakeTime = 15 * time.Second

// bound is how long the daemon may take to open the window.
func (o OpenOptions) bound(usual time.Duration) time.Duration {
	if o.MayWake {
		return max(usual, wakeTime)
	}
	return usual
}

// CloseOptions say what a window's work was.
type CloseOptions struct {
	Work           float64 // in the window's unit; 0: not told
	Synced         bool    // GPU work was complete before the close
	RequireSampled bool    // an error instead of a result that was not measured
	WaitEdge       bool    // end at each counter's next step, at most one of its periods later
}

// Window is an interval whose energy is being measured. It is for one user at a time.
type Window struct {
	client  *Client
	session *session // by the client's windowsMu
	lost    error    // likewise: why the daemon does not know it any longer
	id      string
	open    OpenOptions
	opened  time.Time
	cause   error // why it is not measured
}

// Open starts a window. Its error is what the daemon has against the options; an unreachable or overloaded daemon is
// none unless the client is strict.
func (c *Client) Open(ctx context.Context, o OpenOptions) (*Window, error) {
	w := &Window{client: c, open: o, opened: time.Now()}
	s, err := c.live()
	var answer *qunerv1.SessionResponse
	if err == nil {
		answer, err = s.do(ctx, openCommand(o), o.bound(c.timeout))
	}
	if err != nil {
		if err := c.tolerate(err); err != nil {
			return nil, err
		}
		w.cause = c.explain(err)
		return w, nil
	}
	w.id = answer.GetOpened().GetId()
	c.track(w, s)
	return w, nil
}

// ID returns the window's id; empty where nobody measures it.
func (w *Window) ID() string { return w.id }

// Measured tells whether the daemon measures this window, as far as is known.
func (w *Window) Measured() bool { return w.cause == nil }

// Mark ends the current stage of the window under this name and begins the next.
func (w *Window) Mark(ctx context.Context, name string) error {
	if w.cause != nil {
		return nil
	}
	_, err := w.command(ctx, &qunerv1.SessionRequest{
		Command: &qunerv1.SessionRequest_Mark{Mark: &qunerv1.MarkWindow{Id: w.id, Name: name}},
	})
	return w.client.tolerate(err)
}

// Close ends the window and returns what it cost, even if ctx is done: a request that was called off has cost something,
// too. It waits no longer than Client says.
func (w *Window) Close(ctx context.Context, o CloseOptions) (Result, error) {
	if w.cause != nil {
		return w.unknown(o, w.cause), nil
	}
	answer, err := w.command(context.WithoutCancel(ctx), closeCommand(w.id, o))
	w.client.untrack(w)
	if err != nil {
		return w.unknown(o, w.client.explain(err)), w.client.tolerate(err)
	}
	return Result{Window: answer.GetClosed()}, nil
}

// unknown is the result of a window that nobody measured.
func (w *Window) unknown(o CloseOptions, cause error) Result {
	reason := ReasonRefused
	switch {
	case errors.Is(cause, ErrRestarted):
		reason = ReasonRestarted
	case unanswered(cause):
		reason = ReasonUnreachable
	}
	return Result{Cause: cause, Window: &qunerv1.WindowResult{
		Id: w.id, Name: w.open.Name, Workload: w.open.Workload, Unit: w.open.Unit, Work: o.Work,
		DurationNs: int64(time.Since(w.opened)), Method: qunerv1.Method_METHOD_UNKNOWN, Backend: "none",
		Reasons: []string{reason},
	}}
}

// tolerate returns the errors that a caller must see: all of them when strict, else those that are his own.
func (c *Client) tolerate(err error) error {
	switch {
	case err == nil:
		return nil
	case c.strict:
		return c.explain(err)
	case unanswered(err), errors.Is(err, ErrRestarted):
		return nil
	}
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.Internal, codes.Unknown, codes.Aborted:
		return nil
	default:
		return err
	}
}

// explain says what was behind an error that only says unavailable.
func (c *Client) explain(err error) error {
	if status.Code(err) == codes.Unavailable {
		return c.dialer.unreachable(errors.New(status.Convert(err).Message()))
	}
	return err
}

// MeasureOptions are those of a window that is opened and closed in one call.
type MeasureOptions struct {
	Open  OpenOptions
	Close CloseOptions
}

// Measure runs f in a window of its own. f returns how much work it has done, in the window's unit; 0 leaves that to
// o.Close.Work. The error is f's, joined with what the daemon had against the options; with an error of f the result still
// tells what the attempt cost. f does not run if the window is refused. A panic of f closes the window and goes on.
func (c *Client) Measure(ctx context.Context, o MeasureOptions, f func(context.Context) (work float64, err error)) (Result, error) {
	w, err := c.Open(ctx, o.Open)
	if err != nil {
		return Result{}, fmt.Errorf("window %q: %w", o.Open.Name, err)
	}
	closed := false
	defer func() {
		if !closed { // f has panicked
			_, _ = w.Close(ctx, o.Close)
		}
	}()
	work, fErr := f(ctx)
	closed = true
	if work != 0 {
		o.Close.Work = work
	}
	result, err := w.Close(ctx, o.Close)
	return result, errors.Join(fErr, err)
}

// given is a number as it is on the wire, where 0 is one that is not there.
func given(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

func openCommand(o OpenOptions) *qunerv1.SessionRequest {
	return &qunerv1.SessionRequest{Command: &qunerv1.SessionRequest_Open{Open: &qunerv1.OpenWindow{
		Name: cmp.Or(o.Name, "window"), Devices: o.Devices, IdleWatts: o.IdleWatts, IdleWattsUncertainty: o.IdleWattsPlus,
		Weight: given(o.Weight), Workload: o.Workload, Unit: o.Unit, HintJoulesPerUnit: given(o.HintJoulesPerUnit),
		WaitEdge: o.WaitEdge, MayWake: o.MayWake,
	}}}
}

func closeCommand(id string, o CloseOptions) *qunerv1.SessionRequest {
	return &qunerv1.SessionRequest{Command: &qunerv1.SessionRequest_Close{Close: &qunerv1.CloseWindow{
		Id: id, Work: o.Work, Synced: o.Synced, RequireSampled: o.RequireSampled, WaitEdge: o.WaitEdge,
	}}}
}
