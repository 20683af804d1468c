package server

import (
	"context"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/unit"
)

// What a saving is called by how it is known.
const (
	estimated  = "estimated"
	unmeasured = "unmeasured"
)

// Savings returns what the tuned points have saved.
func (s *statusService) Savings(ctx context.Context, _ *qunerv1.SavingsRequest) (*qunerv1.SavingsResponse, error) {
	all, err := s.server.daemon.Savings(ctx)
	if err != nil {
		return nil, err
	}
	saved, half, measured := all.Total()
	return &qunerv1.SavingsResponse{
		Total: savedOut(daemon.SavingsSum{Since: all.Since, Measured: measured, Saved: saved, Half: half}),
		Rows:  each(all.Rows, savingOut),
	}, nil
}

func savedOut(s daemon.SavingsSum) *qunerv1.SavingsSum {
	return &qunerv1.SavingsSum{
		SinceUnixNs: unixNano(s.Since), SavedUj: known(int64(s.Saved), s.Measured), HalfWidthUj: known(int64(s.Half), s.Measured), Method: estimated,
	}
}

// savingOut is one row; one that no certificate speaks of has no joules.
func savingOut(r daemon.Saving) *qunerv1.Saving {
	out := &qunerv1.Saving{Day: r.Day, Profile: profileOut(r.Profile), Workload: r.Workload, Seconds: r.Seconds, Method: unmeasured}
	if r.Certificate == "" {
		return out
	}
	joules := func(j float64) *int64 { return known(int64(unit.FromJoules(j)), true) }
	out.Method, out.UsedUj, out.SavedUj, out.HalfWidthUj = estimated, joules(r.Used), joules(r.Saved), joules(r.Half)
	return out
}
