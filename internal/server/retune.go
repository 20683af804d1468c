package server

import (
	"fmt"

	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/tune"
)

// Retune explores the machine at rest. The call's end, from whichever side, ends the exploration.
func (a *adminService) Retune(r *qunerv1.RetuneRequest, stream grpc.ServerStreamingServer[qunerv1.RetuneResponse]) error {
	see := &remoteOnlooker{stream: stream}
	spec := daemon.RetuneSpec{Caller: callerOf(stream.Context()).forDaemon(), DryRun: r.GetDryRun(), Fresh: r.GetFresh()}
	out, err := a.server.daemon.Retune(stream.Context(), spec, see)
	switch {
	case err != nil:
		return err
	case see.gone != nil:
		return see.gone
	case out.Skipped != "":
		return stream.Send(&qunerv1.RetuneResponse{Message: &qunerv1.RetuneResponse_Skipped{Skipped: out.Skipped}})
	case r.GetDryRun():
		return nil
	}
	report := reportOut(out.Report, out.Spec, a.server.units())
	return stream.Send(&qunerv1.RetuneResponse{Message: &qunerv1.RetuneResponse_Report{Report: report}})
}

// remoteOnlooker shows an exploration to the caller at the other end of a stream.
type remoteOnlooker struct {
	stream grpc.ServerStreamingServer[qunerv1.RetuneResponse]
	axes   []tune.Axis // of the plan
	gone   error       // what kept the caller from being told; the stream's context ends the exploration then
}

// Plan shows the caller what will be tried.
func (o *remoteOnlooker) Plan(p daemon.TunePlan) error {
	o.axes = p.Axes
	return o.stream.Send(&qunerv1.RetuneResponse{Message: &qunerv1.RetuneResponse_Plan{Plan: planOut(p)}})
}

// Progress tells the caller of a window that has ended.
func (o *remoteOnlooker) Progress(p daemon.Progress) {
	m := &qunerv1.RetuneResponse_Progress{Progress: progressOut(p, best(o.axes, p.Progress))}
	if err := o.stream.Send(&qunerv1.RetuneResponse{Message: m}); err != nil && o.gone == nil {
		o.gone = fmt.Errorf("%w: %w", errGone, err)
	}
}
