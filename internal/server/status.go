package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/doctor"
)

// statusService answers questions and changes nothing.
type statusService struct {
	qunerv1.UnimplementedStatusServiceServer
	server *Server
}

// Status returns the newest picture.
func (s *statusService) Status(context.Context, *qunerv1.StatusRequest) (*qunerv1.StatusResponse, error) {
	return &qunerv1.StatusResponse{Status: statusOut(s.server.daemon.Status())}, nil
}

// WatchStatus sends the picture now and each newer one; a caller who reads slowly misses some, never the newest.
func (s *statusService) WatchStatus(_ *qunerv1.WatchStatusRequest, stream grpc.ServerStreamingServer[qunerv1.WatchStatusResponse]) error {
	for {
		now, next := s.server.daemon.Changed()
		if err := stream.Send(&qunerv1.WatchStatusResponse{Status: statusOut(now)}); err != nil {
			return err
		}
		select {
		case <-next:
		case <-stream.Context().Done():
			return context.Cause(stream.Context())
		case <-s.server.stopping:
			return daemon.ErrStopped
		}
	}
}

// Doctor returns what the host exposes.
func (s *statusService) Doctor(ctx context.Context, _ *qunerv1.DoctorRequest) (*qunerv1.DoctorResponse, error) {
	report, err := s.server.doctor.report(ctx)
	if err != nil {
		return nil, err
	}
	_, here, err := s.server.daemon.Points(ctx)
	if err != nil {
		return nil, err
	}
	return doctorOut(report, s.server.daemon.Status(), here.Hard.Key()), nil
}

// ListPoints returns the cached tuned points.
func (s *statusService) ListPoints(ctx context.Context, _ *qunerv1.ListPointsRequest) (*qunerv1.ListPointsResponse, error) {
	points, here, err := s.server.daemon.Points(ctx)
	if err != nil {
		return nil, err
	}
	return &qunerv1.ListPointsResponse{Points: pointsOut(points, here)}, nil
}

// sharedDoctor examines the host at most once a second, however many ask: an examination reads every lever, and anyone
// may ask for one.
type sharedDoctor struct {
	daemon Daemon

	mu   sync.Mutex
	last doctor.Report
	at   time.Time
}

// doctorAge is how old a report may be.
const doctorAge = time.Second

func (d *sharedDoctor) report(ctx context.Context) (doctor.Report, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return doctor.Report{}, err
	}
	if !d.at.IsZero() && time.Since(d.at) < doctorAge {
		return d.last, nil
	}
	r, err := d.daemon.Doctor(ctx)
	if err != nil {
		return r, err
	}
	d.last, d.at = r, time.Now()
	return r, nil
}
