package server

import (
	"context"
	"time"

	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
)

// ListFloors returns the certificates of idle floors.
func (m *meterService) ListFloors(ctx context.Context, _ *qunerv1.ListFloorsRequest) (*qunerv1.ListFloorsResponse, error) {
	floors, err := m.server.daemon.Floors(ctx)
	if err != nil {
		return nil, err
	}
	return &qunerv1.ListFloorsResponse{Floors: m.server.entriesOut(floors)}, nil
}

// ForgetFloors removes certificates of idle floors.
func (a *adminService) ForgetFloors(ctx context.Context, r *qunerv1.ForgetFloorsRequest) (*qunerv1.ForgetFloorsResponse, error) {
	switch ids := r.GetIds(); {
	case r.GetAll() && len(ids) > 0:
		return nil, badRequest("all floors, or those with an id: not both")
	case !r.GetAll() && len(ids) == 0:
		return nil, badRequest("no floor named: give ids, or all")
	case len(ids) > maxIDs:
		return nil, badRequest("%d ids: at most %d in one call", len(ids), maxIDs)
	}
	gone, err := a.server.daemon.ForgetFloors(ctx, callerOf(ctx).forDaemon(), r.GetIds(), r.GetAll(), r.GetDryRun())
	if err != nil {
		return nil, err
	}
	return &qunerv1.ForgetFloorsResponse{Forgotten: a.server.entriesOut(gone)}, nil
}

// maxDevices is the most devices one call may name.
const maxDevices = 1000

// floorStream is the server's end of a measurement.
type floorStream = grpc.ServerStreamingServer[qunerv1.MeasureFloorResponse]

// MeasureFloor measures what devices draw at rest. The end of the call, from whichever side, ends it.
func (a *adminService) MeasureFloor(r *qunerv1.MeasureFloorRequest, stream floorStream) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	spec := daemon.FloorSpec{
		Caller: callerOf(ctx).forDaemon(), Devices: r.GetDevices(), Duration: time.Duration(r.GetDurationNs()),
		AllPoints: r.GetAllPoints(), Force: r.GetForce(), DryRun: r.GetDryRun(),
	}
	switch {
	case spec.Duration != 0 && (spec.Duration < meter.MinFloor || spec.Duration > meter.MaxFloor):
		return badRequest("a measurement of %v: allowed is from %v to %v", spec.Duration, meter.MinFloor, meter.MaxFloor)
	case len(spec.Devices) > maxDevices:
		return badRequest("%d devices: at most %d in one call", len(spec.Devices), maxDevices)
	}
	w := &floorWatcher{server: a.server, stream: stream, cancel: cancel, units: a.server.units()}
	outcomes, err := a.server.daemon.MeasureFloor(ctx, spec, w)
	if err != nil || spec.DryRun {
		return err
	}
	report := &qunerv1.FloorReport{Outcomes: each(outcomes, func(o daemon.FloorOutcome) *qunerv1.FloorOutcome {
		out := &qunerv1.FloorOutcome{Point: o.Point, Device: o.Device, Refused: printable(o.Refused)}
		if o.Refused == "" {
			out.Floor = a.server.floorOut(o.Floor, w.units)
		}
		return out
	})}
	return stream.Send(&qunerv1.MeasureFloorResponse{Message: &qunerv1.MeasureFloorResponse_Report{Report: report}})
}

// floorWatcher tells the caller at the other end of a stream.
type floorWatcher struct {
	server *Server
	stream floorStream
	cancel context.CancelCauseFunc
	units  map[string]string
}

// Plan shows the caller what will be measured.
func (w *floorWatcher) Plan(p daemon.FloorPlan) error {
	points := each(p.Points, func(p daemon.FloorPoint) *qunerv1.FloorPoint {
		return &qunerv1.FloorPoint{Name: p.Name, Settings: settingsOut(p.Point, w.units), Writes: writesOut(moves(p.Writes))}
	})
	plan := &qunerv1.FloorPlan{Points: points, Devices: p.Devices, DurationNs: int64(p.Duration)}
	return w.stream.Send(&qunerv1.MeasureFloorResponse{Message: &qunerv1.MeasureFloorResponse_Plan{Plan: plan}})
}

// moves are the writes that change something.
func moves(all []levers.Write) []levers.Write {
	var some []levers.Write
	for _, w := range all {
		if w.Moved() {
			some = append(some, w)
		}
	}
	return some
}

// Progress tells the caller how far a device is. A caller who cannot be told has gone.
func (w *floorWatcher) Progress(p daemon.FloorProgress) {
	out := &qunerv1.FloorProgress{
		Point: count(p.Point), Points: count(p.Points), Device: p.Device, Measuring: p.Measuring,
		ElapsedNs: int64(p.Elapsed), OfNs: int64(p.Of), PowerUw: known(int64(p.Power), p.Power > 0), Refused: printable(p.Refused),
	}
	if p.Done {
		out.Floor = w.server.floorOut(p.Floor, w.units)
	}
	if err := w.stream.Send(&qunerv1.MeasureFloorResponse{Message: &qunerv1.MeasureFloorResponse_Progress{Progress: out}}); err != nil {
		w.cancel(err)
	}
}

func (s *Server) entriesOut(entries []daemon.FloorEntry) []*qunerv1.Floor {
	units := s.units()
	return each(entries, func(e daemon.FloorEntry) *qunerv1.Floor {
		out := s.floorOut(e.Floor, units)
		out.VoidReason = printable(e.Void)
		return out
	})
}

func (s *Server) floorOut(f meter.Floor, units map[string]string) *qunerv1.Floor {
	out := &qunerv1.Floor{
		Id: f.ID, Device: f.Device, State: qunerv1.FloorState_FLOOR_STATE_BARE, Point: printable(f.Condition),
		MeanUw: int64(f.Mean), HalfWidthUw: int64(f.HalfWidth), SigmaUw: int64(f.Sigma), N: count(f.N),
		Driver: printable(f.Driver), Kernel: printable(f.Kernel), BootId: printable(f.BootID),
		FromUnixNs: f.From.UnixNano(), ToUnixNs: f.To.UnixNano(), Suspect: f.Suspect, InForce: f.Condition == s.meter.Condition(),
		Settings: settingsOut(daemon.PointOf(f.Condition), units),
	}
	if f.State == meter.FloorContext {
		out.State = qunerv1.FloorState_FLOOR_STATE_CONTEXT
	}
	return out
}
