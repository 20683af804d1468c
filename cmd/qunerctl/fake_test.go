package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// daemon answers on both sockets as qunerd does on a known machine: what qunerctl makes of it is what is tested.
type daemon struct {
	qunerv1.UnimplementedStatusServiceServer
	qunerv1.UnimplementedMeterServiceServer
	qunerv1.UnimplementedAdminServiceServer

	dir     string
	machine string // "workstation", "vm", "hostile", "brief", "over", "stuck"
	deny    error  // what every admin call answers, if anything
	verdict string // of a sweep

	mu   sync.Mutex
	mode *qunerv1.ModeState
}

// serve listens below dir until stop is called.
func (d *daemon) serve() (stop func(), err error) {
	var servers []*grpc.Server
	var serving sync.WaitGroup
	stop = func() {
		for _, s := range servers {
			s.Stop()
		}
		serving.Wait()
	}
	for _, name := range []string{"quner/quner.sock", "quner-admin/admin.sock"} {
		path := filepath.Join(d.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return stop, err
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			return stop, err
		}
		s := grpc.NewServer()
		qunerv1.RegisterStatusServiceServer(s, d)
		qunerv1.RegisterMeterServiceServer(s, d)
		if filepath.Base(path) == "admin.sock" {
			qunerv1.RegisterAdminServiceServer(s, d)
		}
		servers = append(servers, s)
		serving.Go(func() { _ = s.Serve(l) })
	}
	return stop, nil
}

// note leaves a file for the script to look at.
func (d *daemon) note(name, format string, args ...any) {
	_ = os.WriteFile(filepath.Join(d.dir, name), fmt.Appendf(nil, format+"\n", args...), 0o600)
}

func (d *daemon) Status(context.Context, *qunerv1.StatusRequest) (*qunerv1.StatusResponse, error) {
	return &qunerv1.StatusResponse{Status: d.status()}, nil
}

func (d *daemon) WatchStatus(_ *qunerv1.WatchStatusRequest, to grpc.ServerStreamingServer[qunerv1.WatchStatusResponse]) error {
	s := d.status()
	s.TimeUnixNs = time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local).UnixNano()
	for range 2 {
		if err := to.Send(&qunerv1.WatchStatusResponse{Status: s}); err != nil {
			return err
		}
		s.Profile = qunerv1.Profile_PROFILE_IDLE
	}
	<-to.Context().Done()
	return nil
}

func (d *daemon) Doctor(context.Context, *qunerv1.DoctorRequest) (*qunerv1.DoctorResponse, error) {
	return doctorOf(d.machine), nil
}

func (d *daemon) ListPoints(context.Context, *qunerv1.ListPointsRequest) (*qunerv1.ListPointsResponse, error) {
	if d.machine == "vm" {
		return &qunerv1.ListPointsResponse{}, nil
	}
	return &qunerv1.ListPointsResponse{Points: tunedPoints()}, nil
}

func (d *daemon) SetMode(_ context.Context, r *qunerv1.SetModeRequest) (*qunerv1.SetModeResponse, error) {
	if d.deny != nil {
		return nil, d.deny
	}
	m := &qunerv1.ModeState{Mode: r.GetMode(), SetByUid: 4242, SetAtUnixNs: time.Now().UnixNano()}
	if r.GetResume() {
		d.mu.Lock()
		was := d.mode
		d.mu.Unlock()
		if was.GetMode() != qunerv1.Mode_MODE_OFF {
			return nil, status.Error(codes.FailedPrecondition, `refused: nothing to resume: the mode is "auto", not off`)
		}
		m.Mode = qunerv1.Mode_MODE_AUTO
	}
	if r.GetPauseNs() > 0 {
		m.UntilUnixNs = time.Now().Add(time.Duration(r.GetPauseNs())).UnixNano()
	}
	if !r.GetDryRun() {
		d.mu.Lock()
		d.mode = m
		d.mu.Unlock()
	}
	return &qunerv1.SetModeResponse{Mode: m, Writes: governorWrites("powersave", "performance")}, nil
}

func (d *daemon) Apply(_ context.Context, r *qunerv1.ApplyRequest) (*qunerv1.ApplyResponse, error) {
	if d.deny != nil {
		return nil, d.deny
	}
	writes := []*qunerv1.Write{{Lever: gpuLever, From: "300000", To: "200000", Unit: "mW"}}
	return &qunerv1.ApplyResponse{Writes: writes, Profile: qunerv1.Profile_PROFILE_TRAINING, PointSource: "tuned"}, nil
}

func (d *daemon) Restore(_ context.Context, r *qunerv1.RestoreRequest) (*qunerv1.RestoreResponse, error) {
	if d.deny != nil {
		return nil, d.deny
	}
	answer := &qunerv1.RestoreResponse{Writes: governorWrites("performance", "powersave")}
	if !r.GetForce() {
		answer.Left = []string{gpuLever + ": reads 250000, quner wrote 200000: somebody else has set it"}
	}
	return answer, nil
}

func (d *daemon) ForgetPoints(_ context.Context, r *qunerv1.ForgetPointsRequest) (*qunerv1.ForgetPointsResponse, error) {
	if d.deny != nil {
		return nil, d.deny
	}
	d.note("forgot", "%s", strings.Join(r.GetIds(), " "))
	return &qunerv1.ForgetPointsResponse{Forgotten: tunedPoints()[:1]}, nil
}

func (d *daemon) Rollback(context.Context, *qunerv1.RollbackRequest) (*qunerv1.RollbackResponse, error) {
	if d.machine == "hostile" {
		return &qunerv1.RollbackResponse{Script: "echo \x1b]0;owned\x07\n"}, nil
	}
	return &qunerv1.RollbackResponse{Script: "echo powersave > /sys/devices/system/cpu/cpufreq/policy0/scaling_governor\nnvidia-smi -pl 300\n"}, nil
}

// Tune asks for three runs, then reports. A stream that ends before that is noted as the host put back.
func (d *daemon) Tune(stream grpc.BidiStreamingServer[qunerv1.TuneRequest, qunerv1.TuneResponse]) (err error) {
	if d.deny != nil {
		return d.deny
	}
	defer func() {
		switch {
		case errors.Is(err, io.EOF) && d.machine == "over": // it was, when the caller pressed Ctrl-C
			err = stream.Send(&qunerv1.TuneResponse{Message: &qunerv1.TuneResponse_Report{Report: tuneReport(d.verdict, true)}})
		case errors.Is(err, io.EOF) && d.machine == "stuck":
			err = status.Error(codes.Internal, "tune: the host is not back as it was before the sweep: no such luck")
		case errors.Is(err, io.EOF):
			err = status.Error(codes.Canceled, "tune: the caller has ended the sweep")
		}
		if err != nil || stream.Context().Err() != nil {
			d.note("put-back", "%v", err)
		}
	}()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if err := stream.Send(&qunerv1.TuneResponse{Message: &qunerv1.TuneResponse_Plan{Plan: startFrom(d.verdict, start.GetFresh())}}); err != nil || start.GetDryRun() {
		return err
	}
	d.note("start", "%s apply=%t slowdown=%g", start.GetProfile(), start.GetApply(), start.GetMaxSlowdown())
	runs := 0.0
	if start.GetAttach() && d.machine != "old" {
		return d.attached(stream, start)
	}
	for i, state := range []string{"300 W", "200 W", "100 W"} {
		done, err := d.trial(stream, uint32(i+1), state)
		if err != nil {
			return err
		}
		runs += done.GetWork()
	}
	d.note("runs", "%g", runs)
	report := tuneReport(d.verdict, start.GetApply())
	report.WorkUnit = start.GetWorkUnit()
	if d.verdict == "interior" {
		report.Voided, report.Unwatched = 3, []string{"gpu/0000:0c:00.0"}
		report.VoidedBy = []*qunerv1.VoidedWindows{
			{Why: "load", Windows: 2, Last: "somebody else is at work: pid 4242 (ffmpeg) of uid 1001 on gpu/GPU-5f0c2d44, none of the workload's"},
			{Why: "levers", Windows: 1, Last: "the cap was changed meanwhile"},
		}
	}
	return stream.Send(&qunerv1.TuneResponse{Message: &qunerv1.TuneResponse_Report{Report: report}})
}

// attached measures a service of which it is told nothing more, or finds none.
func (d *daemon) attached(stream grpc.BidiStreamingServer[qunerv1.TuneRequest, qunerv1.TuneResponse], start *qunerv1.TuneStart) error {
	d.note("attached", "%s of %d, told %t", start.GetWorkload(), start.GetWorkloadUid(), start.WorkloadUid != nil)
	if start.GetWorkload() == "nobody" {
		return status.Error(codes.FailedPrecondition, "tune: refused: no window of workload nobody of uid 0 has closed with work for 60 s; does the service open windows with workload=nobody and tell its work at the close?")
	}
	for i, state := range []string{"300 W", "200 W", "100 W"} {
		p := &qunerv1.TuneProgress{Window: uint32(i + 1), MaxWindows: 3, State: []string{state}, Watts: proto.Float64(312.4), WorkPerSecond: proto.Float64(40), JoulesPerWork: proto.Float64(7.81), Best: "200 W", WorkUnit: "token"}
		if err := stream.Send(&qunerv1.TuneResponse{Message: &qunerv1.TuneResponse_Progress{Progress: p}}); err != nil {
			return err
		}
	}
	report := tuneReport(d.verdict, start.GetApply())
	report.WorkUnit = "token"
	return stream.Send(&qunerv1.TuneResponse{Message: &qunerv1.TuneResponse_Report{Report: report}})
}

func (d *daemon) Savings(context.Context, *qunerv1.SavingsRequest) (*qunerv1.SavingsResponse, error) {
	since := time.Date(2026, 11, 29, 9, 0, 0, 0, time.Local).UnixNano()
	if d.machine == "vm" {
		return &qunerv1.SavingsResponse{Total: &qunerv1.SavingsSum{SinceUnixNs: since, Method: "estimated"}}, nil
	}
	return &qunerv1.SavingsResponse{
		Total: &qunerv1.SavingsSum{SinceUnixNs: since, SavedUj: proto.Int64(151_200_000_000), HalfWidthUj: proto.Int64(12_300_000_000), Method: "estimated"},
		Rows: []*qunerv1.Saving{
			{Day: "2026-11-29", Profile: qunerv1.Profile_PROFILE_IDLE, Seconds: 36000, Method: "estimated",
				UsedUj: proto.Int64(1_440_000_000_000), SavedUj: proto.Int64(151_200_000_000), HalfWidthUj: proto.Int64(12_300_000_000)},
			{Day: "2026-11-29", Profile: qunerv1.Profile_PROFILE_TRAINING, Seconds: 7200, Method: "unmeasured"},
		},
	}, nil
}

// Retune tells of one window, then reports; or it says why not.
func (d *daemon) Retune(r *qunerv1.RetuneRequest, stream grpc.ServerStreamingServer[qunerv1.RetuneResponse]) error {
	if d.deny != nil {
		return d.deny
	}
	if d.machine == "vm" {
		return stream.Send(&qunerv1.RetuneResponse{Message: &qunerv1.RetuneResponse_Skipped{Skipped: "the machine is on battery"}})
	}
	if err := stream.Send(&qunerv1.RetuneResponse{Message: &qunerv1.RetuneResponse_Plan{Plan: startFrom(d.verdict, r.GetFresh())}}); err != nil || r.GetDryRun() {
		return err
	}
	p := &qunerv1.TuneProgress{Window: 1, MaxWindows: 3, State: []string{"300 W"}, Watts: proto.Float64(42.5), Best: "300 W", Voided: "manual profile call"}
	if err := stream.Send(&qunerv1.RetuneResponse{Message: &qunerv1.RetuneResponse_Progress{Progress: p}}); err != nil {
		return err
	}
	report := tuneReport(d.verdict, true)
	report.WorkUnit = "second"
	return stream.Send(&qunerv1.RetuneResponse{Message: &qunerv1.RetuneResponse_Report{Report: report}})
}

func (d *daemon) trial(stream grpc.BidiStreamingServer[qunerv1.TuneRequest, qunerv1.TuneResponse], n uint32, state string) (*qunerv1.RunFinished, error) {
	run := &qunerv1.RunWorkload{Window: n, MaxWindows: 3, State: []string{state}, MinMs: 200}
	if err := stream.Send(&qunerv1.TuneResponse{Message: &qunerv1.TuneResponse_Run{Run: run}}); err != nil {
		return nil, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	done := answer.GetFinished()
	if done.GetFailure() != "" {
		return nil, status.Error(codes.Aborted, done.GetFailure())
	}
	p := &qunerv1.TuneProgress{Window: n, MaxWindows: 3, State: []string{state}, Watts: proto.Float64(312.4), WorkPerSecond: proto.Float64(0.5), JoulesPerWork: proto.Float64(624.8), Best: "200 W", Phase: "pass"}
	if n == 3 {
		p.Voided, p.VoidedWhy = "the cap was changed meanwhile", "levers"
	}
	return done, stream.Send(&qunerv1.TuneResponse{Message: &qunerv1.TuneResponse_Progress{Progress: p}})
}

func (d *daemon) Session(stream grpc.BidiStreamingServer[qunerv1.SessionRequest, qunerv1.SessionResponse]) error {
	var opened *qunerv1.OpenWindow
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer := &qunerv1.SessionResponse{Seq: r.GetSeq()}
		switch {
		case r.GetOpen() != nil:
			opened = r.GetOpen()
			if len(opened.GetDevices()) > 0 && opened.GetDevices()[0] == "nonsense" {
				answer.Event = &qunerv1.SessionResponse_Error{Error: &qunerv1.CommandError{
					Code: uint32(codes.InvalidArgument), Message: `device "nonsense": there is none`}}
				break
			}
			d.note("opened", "%v %v wait_edge=%t", opened.GetIdleWatts(), opened.GetIdleWattsUncertainty(), opened.GetWaitEdge())
			answer.Event = &qunerv1.SessionResponse_Opened{Opened: &qunerv1.WindowOpened{Id: "1"}}
		default:
			d.note("closed", "synced=%t wait_edge=%t", r.GetClose().GetSynced(), r.GetClose().GetWaitEdge())
			answer.Event = &qunerv1.SessionResponse_Closed{Closed: windowResult(d.machine, opened, r.GetClose())}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func (d *daemon) History(context.Context, *qunerv1.HistoryRequest) (*qunerv1.HistoryResponse, error) {
	if d.deny != nil {
		return nil, d.deny
	}
	return &qunerv1.HistoryResponse{Entries: []*qunerv1.HistoryEntry{
		{TimeUnixNs: time.Now().UnixNano(), Uid: 4242, Call: "profile training", Lever: gpuLever, From: "300000", To: "200000", Unit: "mW", Note: "moved"},
	}}, nil
}
