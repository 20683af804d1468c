package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// The windows of the known machine.
const (
	scriptWindow  = "5c0ffee5c0ffee5c0ffee5c0ffee5c0f"
	programWindow = "5cdddddddddddddddddddddddddddddd"
	limitedWindow = "11111111111111111111111111111111"
)

func (d *daemon) Open(_ context.Context, r *qunerv1.OpenRequest) (*qunerv1.OpenResponse, error) {
	w := r.GetWindow()
	if w.GetName() == "refused" {
		return nil, status.Error(codes.ResourceExhausted, "windows open of uid 4242: 1024: too many")
	}
	d.note("detached", "%s %v %v limit=%v wake=%t edge=%t weight=%g hint=%g unit=%s", w.GetName(), w.GetDevices(), w.GetIdleWatts(),
		time.Duration(r.GetLimitNs()), w.GetMayWake(), w.GetWaitEdge(), w.GetWeight(), w.GetHintJoulesPerUnit(), w.GetUnit())
	return &qunerv1.OpenResponse{Opened: &qunerv1.WindowOpened{Id: scriptWindow, Devices: []string{"cpu/package-0"}}}, nil
}

func (d *daemon) Mark(_ context.Context, r *qunerv1.MarkRequest) (*qunerv1.MarkResponse, error) {
	if r.GetMark().GetId() != scriptWindow {
		return nil, status.Error(codes.NotFound, "no such window")
	}
	d.note("marked", "%s", r.GetMark().GetName())
	return &qunerv1.MarkResponse{Stage: &qunerv1.Stage{Name: r.GetMark().GetName(), DurationNs: 1e9}}, nil
}

func (d *daemon) Close(_ context.Context, r *qunerv1.CloseRequest) (*qunerv1.CloseResponse, error) {
	switch r.GetClose().GetId() {
	case scriptWindow, limitedWindow:
	case programWindow:
		return nil, status.Error(codes.FailedPrecondition, "the window lives on a session, which alone marks and closes it")
	default:
		return nil, status.Error(codes.NotFound, "no such window")
	}
	d.note("closed", "synced=%t wait_edge=%t", r.GetClose().GetSynced(), r.GetClose().GetWaitEdge())
	result := windowResult(d.machine, &qunerv1.OpenWindow{Name: "epoch", Unit: "samples", IdleWatts: map[string]float64{"gpu": 50, "cpu": 20}}, r.GetClose())
	result.Id = r.GetClose().GetId()
	return &qunerv1.CloseResponse{Result: result}, nil
}

func openWindows() []*qunerv1.RunningWindow {
	return []*qunerv1.RunningWindow{
		{Id: scriptWindow, Name: "epoch", Life: qunerv1.WindowLife_WINDOW_LIFE_DETACHED, DurationNs: 754e9, LeftNs: 23 * 3600 * 1e9, Stages: 3,
			EnergyUj: proto.Int64(151_234_000_000), GrossUj: proto.Int64(1), AboveIdle: true},
		{Id: programWindow, Name: "request", Life: qunerv1.WindowLife_WINDOW_LIFE_SESSION, DurationNs: 1500e6,
			EnergyUj: proto.Int64(12_500_000), GrossUj: proto.Int64(12_500_000)},
		{Id: "77777777777777777777777777777777", Name: "batch", Life: qunerv1.WindowLife_WINDOW_LIFE_WAITING, DurationNs: 61e9, LeftNs: 42e9,
			Reasons: []string{"sleeping"}},
	}
}

func (d *daemon) List(_ context.Context, r *qunerv1.ListRequest) (*qunerv1.ListResponse, error) {
	l := &qunerv1.ListResponse{KeptNs: int64(time.Hour), KeptResults: 1024}
	if d.machine == "vm" {
		l.Sum = &qunerv1.WindowSum{}
		return l, nil
	}
	l.Windows = openWindows()
	if r.GetClosed() {
		ended := time.Now().Add(-5 * time.Minute).UnixNano()
		small := &qunerv1.WindowResult{Id: "22222222222222222222222222222222", Name: "request", DurationNs: 3e6,
			Method: qunerv1.Method_METHOD_UNKNOWN, UpperBoundUj: proto.Int64(900_000), Reasons: []string{"orphaned"}}
		limited := windowResult(d.machine, &qunerv1.OpenWindow{Name: "night", Unit: "samples", IdleWatts: map[string]float64{"gpu": 50, "cpu": 20}},
			&qunerv1.CloseWindow{Id: limitedWindow, Work: 10, Synced: true})
		limited.Id = limitedWindow
		limited.Reasons = append(limited.Reasons, "time_limit")
		l.Closed = []*qunerv1.ClosedWindow{{Result: small, EndedUnixNs: ended}, {Result: limited, EndedUnixNs: ended}}
	}
	if r.GetSum() {
		l.Sum = &qunerv1.WindowSum{
			Windows: 1024, Small: 3, Unmeasured: 1, DurationNs: 3600e9, EnergyUj: proto.Int64(10_000_000_000), HalfWidthUj: proto.Int64(2_000_000_000),
			UpperBoundUj: proto.Int64(13_000_000_000), Work: 5000, Unit: "tokens", JoulesPerUnit: proto.Float64(2), JoulesPerUnitHalfWidth: proto.Float64(0.4),
			Terms: &qunerv1.Terms{EdgesUj: 32_000_000, FloorUj: 1_999_000_000},
		}
	}
	return l, nil
}

func (d *daemon) Watch(_ *qunerv1.WatchRequest, to grpc.ServerStreamingServer[qunerv1.WatchResponse]) error {
	for range 2 {
		if err := to.Send(&qunerv1.WatchResponse{Windows: openWindows()[:2]}); err != nil {
			return err
		}
	}
	<-to.Context().Done()
	return nil
}
