package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/unit"
)

// Open begins a detached window.
func (m *meterService) Open(ctx context.Context, r *qunerv1.OpenRequest) (*qunerv1.OpenResponse, error) {
	o, err := openIn(r.GetWindow(), callerOf(ctx))
	if err != nil {
		return nil, err
	}
	o.Detached, o.Limit = true, time.Duration(r.GetLimitNs())
	w, err := m.server.meter.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &qunerv1.OpenResponse{Opened: &qunerv1.WindowOpened{Id: w.ID(), Devices: w.Devices()}}, nil
}

// Mark ends a stage of a detached window.
func (m *meterService) Mark(ctx context.Context, r *qunerv1.MarkRequest) (*qunerv1.MarkResponse, error) {
	w, err := m.server.meter.Detached(r.GetMark().GetId(), callerOf(ctx).viewer())
	if err != nil {
		return nil, err
	}
	stage, err := w.Mark(ctx, r.GetMark().GetName())
	if err != nil {
		return nil, err
	}
	return &qunerv1.MarkResponse{Stage: stageOut(stage)}, nil
}

// Close ends a detached window, or tells of one that has ended by itself.
func (m *meterService) Close(ctx context.Context, r *qunerv1.CloseRequest) (*qunerv1.CloseResponse, error) {
	result, err := m.server.meter.CloseDetached(ctx, r.GetClose().GetId(), callerOf(ctx).viewer(), closeIn(r.GetClose()))
	if err != nil {
		return nil, err
	}
	return &qunerv1.CloseResponse{Result: resultOut(result)}, nil
}

// What one answer of List may hold: gRPC's clients take 4 MiB unless told otherwise.
const (
	maxListed     = 2048
	maxListedKept = 2048
)

// List tells of the caller's windows.
func (m *meterService) List(ctx context.Context, r *qunerv1.ListRequest) (*qunerv1.ListResponse, error) {
	who := callerOf(ctx).viewer()
	other := func(name, workload string) bool {
		return r.GetName() != "" && name != r.GetName() || r.GetWorkload() != "" && workload != r.GetWorkload()
	}
	windows := slices.DeleteFunc(m.server.meter.Running(ctx, who, false), func(w meter.Running) bool { return other(w.Name, w.Workload) })
	out := &qunerv1.ListResponse{KeptNs: int64(meter.KeepTime)}
	left := max(0, len(windows)-maxListed)
	out.Windows = each(windows[:len(windows)-left], runningOut)
	kept, most := m.server.meter.Kept(who)
	kept = slices.DeleteFunc(kept, func(e meter.Ended) bool { return other(e.Name, e.Workload) })
	out.KeptResults = uint32(min(most, 1<<20)) //nolint:gosec // bounded
	if r.GetSum() {
		out.Sum = sumOut(meter.SumOf(each(kept, func(e meter.Ended) meter.Result { return e.Result })))
	}
	if r.GetClosed() {
		more := max(0, len(kept)-maxListedKept)
		out.Closed = each(kept[:len(kept)-more], endedOut)
		left += more
	}
	out.LeftOut = uint32(min(left, 1<<20)) //nolint:gosec // bounded
	return out, nil
}

// How often a watcher is told.
const (
	watchInterval = time.Second
	minInterval   = 100 * time.Millisecond
	maxInterval   = time.Hour
	// maxWatchers is how many streams of one user may be told at once: each may have all of the user's windows read.
	maxWatchers = 4
)

// Watch tells of the caller's windows that are open, at once and then at each interval.
func (m *meterService) Watch(r *qunerv1.WatchRequest, stream grpc.ServerStreamingServer[qunerv1.WatchResponse]) error {
	interval := time.Duration(r.GetIntervalNs())
	if interval == 0 {
		interval = watchInterval
	}
	if interval < minInterval || interval > maxInterval {
		return badRequest("interval %v: allowed are %v to %v", interval, minInterval, maxInterval)
	}
	c := callerOf(stream.Context())
	if !m.server.watch.enter(c.UID) {
		return errTooManyWatch
	}
	defer m.server.watch.leave(c.UID)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		windows := m.server.meter.Running(stream.Context(), c.viewer(), true)
		windows = windows[:min(len(windows), maxListed)]
		if err := stream.Send(&qunerv1.WatchResponse{Windows: each(windows, runningOut)}); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-m.server.stopping:
			return nil
		}
	}
}

// watchers counts the streams of each user. The zero value is ready.
type watchers struct {
	mu sync.Mutex
	of map[uint32]int
}

func (w *watchers) enter(uid uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[uint32]int{}
	}
	if w.of[uid] >= maxWatchers {
		return false
	}
	w.of[uid]++
	return true
}

func (w *watchers) leave(uid uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[uid]--; w.of[uid] == 0 {
		delete(w.of, uid)
	}
}

func lifeOut(l meter.Life) qunerv1.WindowLife {
	switch l {
	case meter.Detached:
		return qunerv1.WindowLife_WINDOW_LIFE_DETACHED
	case meter.Waiting:
		return qunerv1.WindowLife_WINDOW_LIFE_WAITING
	}
	return qunerv1.WindowLife_WINDOW_LIFE_SESSION
}

func runningOut(r meter.Running) *qunerv1.RunningWindow {
	return &qunerv1.RunningWindow{
		Id: r.ID, Name: r.Name, Workload: r.Workload, Unit: r.Unit, Life: lifeOut(r.Life),
		OpenedUnixNs: unixNano(r.Opened), DurationNs: int64(r.Duration), LeftNs: int64(r.Left),
		Devices: r.Devices, Stages: uint32(r.Stages), //nolint:gosec // bounded by the meter
		EnergyUj: known(int64(r.Energy), r.Known), GrossUj: known(int64(r.Gross), r.Known), AboveIdle: r.AboveIdle,
		Reasons: slices.Clone(r.Reasons),
	}
}

// endedOut is a result without its stages: a list of a thousand results would be too long with them.
func endedOut(e meter.Ended) *qunerv1.ClosedWindow {
	e.Stages = nil
	return &qunerv1.ClosedWindow{Result: resultOut(e.Result), EndedUnixNs: unixNano(e.At)}
}

func sumOut(s meter.Sum) *qunerv1.WindowSum {
	joules := func(e unit.Energy) *int64 { return known(int64(e), s.Known) }
	out := &qunerv1.WindowSum{
		Windows: uint32(s.Windows), Small: uint32(s.Small), Unmeasured: uint32(s.Unmeasured), //nolint:gosec // bounded by what is kept
		DurationNs: int64(s.Duration), EnergyUj: joules(s.Energy), HalfWidthUj: joules(s.HalfWidth),
		GrossUj: joules(s.Gross), FloorUj: joules(s.Floor), AboveIdle: s.AboveIdle,
		UpperBoundUj: known(int64(s.UpperBound), s.HasUpperBound), Work: s.Work, Unit: s.Unit,
	}
	if s.Known {
		out.Terms = termsOut(s.Terms)
	}
	if s.HasPerUnit {
		out.JoulesPerUnit, out.JoulesPerUnitHalfWidth = finite(s.PerUnit), finite(s.PerUnitHalfWidth)
	}
	return out
}
