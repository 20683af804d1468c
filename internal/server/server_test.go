package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
)

func TestErrorsHaveTheirCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want codes.Code
	}{
		{levers.ErrOutOfSpan, codes.OutOfRange},
		{levers.ErrNotTaken, codes.Aborted},
		{levers.ErrJournal, codes.FailedPrecondition},
		{errors.Join(levers.ErrJournal, levers.ErrFrozen, fs.ErrPermission), codes.FailedPrecondition},
		{levers.ErrUnknown, codes.FailedPrecondition},
		{meter.ErrNoWindow, codes.NotFound},
		{meter.ErrTooMany, codes.ResourceExhausted},
		{meter.ErrBadRequest, codes.InvalidArgument},
		{meter.ErrUnknownDevice, codes.FailedPrecondition},
		{meter.ErrNotSampled, codes.FailedPrecondition},
		{profiles.ErrNoPoint, codes.NotFound},
		{daemon.ErrBusy, codes.Aborted},
		{daemon.ErrStopped, codes.Unavailable},
		{daemon.ErrRefused, codes.FailedPrecondition},
		{errDenied, codes.PermissionDenied},
		// The daemon's lack, not the caller's.
		{fs.ErrPermission, codes.Internal},
		{host.ErrNoPermission, codes.Internal},
		{host.ErrHung, codes.Internal},
		{errTest, codes.Internal},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
	} {
		got := coded(fmt.Errorf("nvml/GPU-1: a fact: %w", c.err))
		if status.Code(got) != c.want {
			t.Errorf("%v: %v, want %v", c.err, status.Code(got), c.want)
		}
		if !strings.Contains(got.Error(), "nvml/GPU-1: a fact") {
			t.Errorf("the text is lost: %v", got)
		}
	}
	kept := status.Error(codes.DataLoss, "x")
	if status.Code(coded(kept)) != codes.DataLoss || coded(nil) != nil {
		t.Error("a code, or success, was replaced")
	}
}

func TestStatusAndWatch(t *testing.T) {
	s := start(t, nil)
	client := qunerv1.NewStatusServiceClient(dial(t, s.public()))
	now, err := client.Status(t.Context(), &qunerv1.StatusRequest{})
	if err != nil || now.GetStatus().GetVersion() != "v-test" || now.GetStatus().GetProfile() != qunerv1.Profile_PROFILE_IDLE {
		t.Fatal(now, err)
	}
	watch, err := client.WatchStatus(t.Context(), &qunerv1.WatchStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v-test", "v-2", "v-3"} {
		if version != "v-test" {
			s.publish(&daemon.Status{Version: version, Host: "workstation"})
		}
		got, err := watch.Recv()
		if err != nil || got.GetStatus().GetVersion() != version {
			t.Fatal(got, err)
		}
	}
	s.stop()
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("after the stop: %v", err)
	}
}

func TestDoctorLooksOnceForMany(t *testing.T) {
	s := start(t, nil)
	s.print = profiles.Fingerprint{Hard: profiles.Facts{"cpu": "x"}}
	client := qunerv1.NewStatusServiceClient(dial(t, s.public()))
	for range 20 {
		r, err := client.Doctor(t.Context(), &qunerv1.DoctorRequest{})
		if err != nil || r.GetHost() != "a test" || r.GetFingerprint() != s.print.Hard.Key() {
			t.Fatal(r, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looks > 2 { // two where the second ends between the calls
		t.Errorf("%d examinations", s.looks)
	}
}

func TestPointsSayWhetherTheyFit(t *testing.T) {
	s := start(t, nil)
	s.print = profiles.Fingerprint{Hard: profiles.Facts{"cpu": "x"}, Soft: profiles.Facts{"kernel": "6"}}
	hard, soft := s.print.Hard.Key(), s.print.Soft.Key()
	s.points = []profiles.TunedPoint{
		{ID: "fits", Hard: hard, Soft: soft, Profile: profiles.Training, PowerSource: profiles.Mains,
			Point: levers.NewPoint(levers.Setting{Lever: "nvml/GPU-1", Value: "180000"}), Units: map[string]string{"nvml/GPU-1": "mW"}},
		{ID: "kernel", Hard: hard, Soft: "other"}, {ID: "board", Hard: "other", Soft: "other"},
	}
	r, err := qunerv1.NewStatusServiceClient(dial(t, s.public())).ListPoints(t.Context(), &qunerv1.ListPointsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.GetPoints() {
		if p.GetFits() != (p.GetId() != "board") || p.GetRevalidate() != (p.GetId() == "kernel") {
			t.Errorf("%v", p)
		}
	}
	if set := r.GetPoints()[0].GetSettings(); len(set) != 1 || set[0].GetValue() != "180000" || set[0].GetUnit() != "mW" {
		t.Errorf("%v", set)
	}
}

func TestAPanicIsInternalAndTheDaemonLives(t *testing.T) {
	s := start(t, nil)
	s.panics = true
	admin := qunerv1.NewAdminServiceClient(dial(t, s.admin()))
	if _, err := admin.Apply(t.Context(), &qunerv1.ApplyRequest{}); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "fault in") {
		t.Errorf("unary: %v", err)
	}
	sweep, err := admin.Tune(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := sweep.Send(&qunerv1.TuneRequest{Message: &qunerv1.TuneRequest_Start{Start: &qunerv1.TuneStart{}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := sweep.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("stream: %v", err)
	}
	s.mu.Lock()
	s.panics = false
	s.mu.Unlock()
	if _, err := admin.Apply(t.Context(), &qunerv1.ApplyRequest{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	for _, want := range []string{"a fault in apply", "a fault in tune", "goroutine ", "scripted"} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("the log has no %q", want)
		}
	}
}

func TestEveryUnaryCallHasADeadline(t *testing.T) {
	s := start(t, func(o *Options) { o.Limits.Call = 50 * time.Millisecond })
	s.blocks = make(chan struct{})
	defer close(s.blocks)
	_, err := qunerv1.NewAdminServiceClient(dial(t, s.admin())).Apply(context.Background(), &qunerv1.ApplyRequest{})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}

func TestEachAdminCallIsALogLine(t *testing.T) {
	s := start(t, nil)
	admin := qunerv1.NewAdminServiceClient(dial(t, s.admin()))
	if _, err := admin.Rollback(t.Context(), &qunerv1.RollbackRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.History(t.Context(), &qunerv1.HistoryRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := qunerv1.NewMeterServiceClient(dial(t, s.admin())).List(t.Context(), &qunerv1.ListRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := qunerv1.NewStatusServiceClient(dial(t, s.admin())).Status(t.Context(), &qunerv1.StatusRequest{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(s.log.String(), "level=INFO msg=call") {
		t.Errorf("reading is told at level INFO:\n%s", s.log)
	}
	s.mu.Lock()
	s.err = daemon.ErrBusy
	s.mu.Unlock()
	if _, err := admin.Apply(t.Context(), &qunerv1.ApplyRequest{}); status.Code(err) != codes.Aborted {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.err = nil
	s.mu.Unlock()
	for _, dry := range []bool{true, false} { // of the second the daemon tells itself
		if _, err := admin.SetMode(t.Context(), &qunerv1.SetModeRequest{Mode: qunerv1.Mode_MODE_TRAINING, DryRun: dry}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(s.log.String(), "level=INFO msg=call method=/quner.v1.AdminService/SetMode"); n != 1 {
		t.Errorf("%d lines at level INFO of a dry run and a change of mode:\n%s", n, s.log)
	}
	for _, want := range []string{
		"level=DEBUG msg=call method=/quner.v1.AdminService/Rollback uid=", "outcome=OK",
		"level=DEBUG msg=call method=/quner.v1.AdminService/History uid=",
		"level=INFO msg=call method=/quner.v1.AdminService/Apply uid=", "outcome=Aborted", "another sweep or measurement holds the levers",
	} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("no %q in\n%s", want, s.log)
		}
	}
}

func TestAdminRefusesWhatMakesNoSense(t *testing.T) {
	s := start(t, nil)
	admin := qunerv1.NewAdminServiceClient(dial(t, s.admin()))
	ctx := t.Context()
	for name, do := range map[string]func() error{
		"no mode":         func() error { _, err := admin.SetMode(ctx, &qunerv1.SetModeRequest{}); return err },
		"unknown mode":    func() error { _, err := admin.SetMode(ctx, &qunerv1.SetModeRequest{Mode: 99}); return err },
		"negative pause":  func() error { _, err := admin.SetMode(ctx, &qunerv1.SetModeRequest{Mode: 4, PauseNs: -1}); return err },
		"pause of a mode": func() error { _, err := admin.SetMode(ctx, &qunerv1.SetModeRequest{Mode: 2, PauseNs: 1}); return err },
		"endless pause": func() error {
			_, err := admin.SetMode(ctx, &qunerv1.SetModeRequest{Mode: 4, PauseNs: 1 << 62})
			return err
		},
		"forget nothing": func() error { _, err := admin.ForgetPoints(ctx, &qunerv1.ForgetPointsRequest{}); return err },
		"forget both": func() error {
			_, err := admin.ForgetPoints(ctx, &qunerv1.ForgetPointsRequest{All: true, Ids: []string{"a"}})
			return err
		},
		"forget a thousand": func() error {
			_, err := admin.ForgetPoints(ctx, &qunerv1.ForgetPointsRequest{Ids: make([]string, 1001)})
			return err
		},
	} {
		if err := do(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) != 0 {
		t.Errorf("the daemon was asked: %v", s.calls)
	}
}

func TestAdminAsksTheDaemon(t *testing.T) {
	s := start(t, nil)
	admin := qunerv1.NewAdminServiceClient(dial(t, s.admin()))
	ctx := t.Context()
	mode, err := admin.SetMode(ctx, &qunerv1.SetModeRequest{Mode: qunerv1.Mode_MODE_OFF, PauseNs: int64(time.Hour), DryRun: true})
	if err != nil || mode.GetMode().GetMode() != qunerv1.Mode_MODE_OFF || mode.GetWrites()[0].GetTo() != "powersave" {
		t.Error(mode, err)
	}
	if want := (daemon.ModeChange{Mode: profiles.ModeOff, Pause: time.Hour, DryRun: true}); s.change != want {
		t.Errorf("%+v, want %+v", s.change, want)
	}
	if _, err := admin.SetMode(ctx, &qunerv1.SetModeRequest{Resume: true}); err != nil || !s.change.Resume {
		t.Error(err)
	}
	applied, err := admin.Apply(ctx, &qunerv1.ApplyRequest{})
	if err != nil || applied.GetProfile() != qunerv1.Profile_PROFILE_TRAINING || applied.GetPointSource() != "tuned" {
		t.Error(applied, err)
	}
	restored, err := admin.Restore(ctx, &qunerv1.RestoreRequest{})
	if err != nil || len(restored.GetLeft()) != 1 || restored.GetLeft()[0] != "nvml/GPU-1: gone" {
		t.Error(restored, err)
	}
	if r, err := admin.Rollback(ctx, &qunerv1.RollbackRequest{}); err != nil || r.GetScript() == "" {
		t.Error(r, err)
	}
}

func TestStopWaitsForNobodyForLong(t *testing.T) {
	s := start(t, nil)
	session, err := qunerv1.NewMeterServiceClient(dial(t, s.public())).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	open(t, session, 1)
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if n := s.meter.OpenCount(); n != 1 {
		t.Errorf("%d windows are left open for the daemon that comes next, want 1", n)
	}
}
