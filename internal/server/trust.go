package server

import (
	"context"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/profiles"
)

// History returns the newest admin calls and lever writes.
func (a *adminService) History(ctx context.Context, r *qunerv1.HistoryRequest) (*qunerv1.HistoryResponse, error) {
	events, err := a.server.daemon.History(ctx, int(r.GetLimit()))
	if err != nil {
		return nil, err
	}
	out := &qunerv1.HistoryResponse{}
	for _, e := range events {
		out.Entries = append(out.Entries, eventOut(e))
	}
	return out, nil
}

func eventOut(e daemon.Event) *qunerv1.HistoryEntry {
	return &qunerv1.HistoryEntry{
		TimeUnixNs: unixNano(e.Time), Uid: e.UID, ByDaemon: e.ByDaemon, Call: e.Call,
		Lever: e.Lever, From: string(e.From), To: string(e.To), Unit: e.Unit, Note: e.Note, Error: e.Error,
	}
}

// maxLeverName is the longest name of a lever that is looked up.
const maxLeverName = 200

// SetLeverOwner takes levers for quner, or leaves them to others.
func (a *adminService) SetLeverOwner(ctx context.Context, r *qunerv1.SetLeverOwnerRequest) (*qunerv1.SetLeverOwnerResponse, error) {
	var owner profiles.Owner
	switch r.GetOwner() {
	case qunerv1.LeverOwner_LEVER_OWNER_QUNER:
		owner = profiles.OwnerQuner
	case qunerv1.LeverOwner_LEVER_OWNER_OTHERS:
		owner = profiles.OwnerOthers
	default:
		return nil, badRequest("owner %d: allowed are quner and others", r.GetOwner())
	}
	if n := len(r.GetLever()); n == 0 || n > maxLeverName {
		return nil, badRequest("lever: a name of %d bytes: allowed are 1 to %d", n, maxLeverName)
	}
	names, writes, err := a.server.daemon.SetLeverOwner(ctx, callerOf(ctx).forDaemon(), r.GetLever(), owner, r.GetDryRun())
	if err != nil {
		return nil, err
	}
	return &qunerv1.SetLeverOwnerResponse{Levers: names, Writes: writesOut(writes)}, nil
}

// Selftest moves each lever for a moment.
func (a *adminService) Selftest(ctx context.Context, r *qunerv1.SelftestRequest) (*qunerv1.SelftestResponse, error) {
	tests, err := a.server.daemon.Selftest(ctx, callerOf(ctx).forDaemon(), r.GetDryRun())
	if err != nil {
		return nil, err
	}
	out := &qunerv1.SelftestResponse{}
	for _, t := range tests {
		out.Tests = append(out.Tests, &qunerv1.LeverTest{
			Lever: t.Lever, Kind: string(t.Kind), From: string(t.From), To: string(t.To), Unit: t.Unit,
			Verdict: verdictOut(t.Verdict), Detail: t.Detail,
		})
	}
	return out, nil
}

func verdictOut(v levers.Verdict) qunerv1.LeverVerdict {
	switch v {
	case levers.Moved:
		return qunerv1.LeverVerdict_LEVER_VERDICT_MOVED
	case levers.Skipped:
		return qunerv1.LeverVerdict_LEVER_VERDICT_SKIPPED
	case levers.Refused:
		return qunerv1.LeverVerdict_LEVER_VERDICT_REFUSED
	case levers.Stuck:
		return qunerv1.LeverVerdict_LEVER_VERDICT_STUCK
	case levers.Planned:
		return qunerv1.LeverVerdict_LEVER_VERDICT_PLANNED
	}
	return qunerv1.LeverVerdict_LEVER_VERDICT_UNSPECIFIED
}
