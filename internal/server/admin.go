package server

import (
	"context"
	"time"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/profiles"
)

// adminService moves the machine. It is on the admin socket alone.
type adminService struct {
	qunerv1.UnimplementedAdminServiceServer
	server *Server
}

// SetMode sets who decides the profile.
func (a *adminService) SetMode(ctx context.Context, r *qunerv1.SetModeRequest) (*qunerv1.SetModeResponse, error) {
	change := daemon.ModeChange{Pause: time.Duration(r.GetPauseNs()), Resume: r.GetResume(), DryRun: r.GetDryRun()}
	if !change.Resume {
		mode, err := modeIn(r.GetMode())
		if err != nil {
			return nil, err
		}
		change.Mode = mode
	}
	switch {
	case change.Pause < 0 || change.Pause > profiles.MaxPause:
		return nil, badRequest("pause of %v: allowed is up to %v", change.Pause, profiles.MaxPause)
	case change.Pause > 0 && change.Mode != profiles.ModeOff:
		return nil, badRequest("a duration goes with mode off alone")
	}
	applied, err := a.server.daemon.SetMode(ctx, callerOf(ctx).forDaemon(), change)
	if err != nil {
		return nil, err
	}
	return &qunerv1.SetModeResponse{Writes: writesOut(applied.Writes), Mode: modeStateOut(applied.Mode)}, nil
}

// Apply brings the current profile's point into force.
func (a *adminService) Apply(ctx context.Context, r *qunerv1.ApplyRequest) (*qunerv1.ApplyResponse, error) {
	applied, err := a.server.daemon.Apply(ctx, callerOf(ctx).forDaemon(), r.GetDryRun())
	if err != nil {
		return nil, err
	}
	return &qunerv1.ApplyResponse{
		Writes: writesOut(applied.Writes), Profile: profileOut(applied.Profile), PointSource: string(applied.Source),
	}, nil
}

// Restore puts the host back as found and pauses.
func (a *adminService) Restore(ctx context.Context, r *qunerv1.RestoreRequest) (*qunerv1.RestoreResponse, error) {
	done, _, err := a.server.daemon.Restore(ctx, callerOf(ctx).forDaemon(), r.GetForce(), r.GetDryRun())
	if err != nil {
		return nil, err
	}
	out := &qunerv1.RestoreResponse{Writes: writesOut(done.Writes)}
	for _, l := range done.Left {
		out.Left = append(out.Left, l.Lever+": "+l.Why)
	}
	return out, nil
}

// maxIDs is the most points one call may name.
const maxIDs = 1000

// ForgetPoints removes cached points.
func (a *adminService) ForgetPoints(ctx context.Context, r *qunerv1.ForgetPointsRequest) (*qunerv1.ForgetPointsResponse, error) {
	switch ids := r.GetIds(); {
	case r.GetAll() && len(ids) > 0:
		return nil, badRequest("all points, or those with an id: not both")
	case !r.GetAll() && len(ids) == 0:
		return nil, badRequest("no point named: give ids, or all")
	case len(ids) > maxIDs:
		return nil, badRequest("%d ids: at most %d in one call", len(ids), maxIDs)
	}
	gone, err := a.server.daemon.Forget(ctx, callerOf(ctx).forDaemon(), r.GetIds(), r.GetAll(), r.GetDryRun())
	if err != nil {
		return nil, err
	}
	_, here, err := a.server.daemon.Points(ctx)
	if err != nil {
		return nil, err
	}
	return &qunerv1.ForgetPointsResponse{Forgotten: pointsOut(gone, here)}, nil
}

// Rollback returns shell lines that restore the host with no daemon.
func (a *adminService) Rollback(ctx context.Context, _ *qunerv1.RollbackRequest) (*qunerv1.RollbackResponse, error) {
	script, err := a.server.daemon.Rollback(ctx)
	if err != nil {
		return nil, err
	}
	return &qunerv1.RollbackResponse{Script: script}, nil
}
