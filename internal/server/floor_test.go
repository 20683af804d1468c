package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/unit"
)

func aFloor() meter.Floor {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	return meter.Floor{
		Device: "gpu/GPU-1", State: meter.FloorContext, Condition: "nvml/GPU-1=200000", Mean: 72 * unit.Watt, HalfWidth: 300 * unit.Milliwatt,
		Sigma: unit.Watt, N: 30, Driver: "550", Kernel: "6.1", BootID: "b", From: at, To: at.Add(30 * time.Second),
	}.Named()
}

// measurement is a daemon's measurement of one device, and of one that is at work.
func measurement(_ context.Context, spec daemon.FloorSpec, w daemon.FloorWatcher) ([]daemon.FloorOutcome, error) {
	plan := daemon.FloorPlan{Devices: []string{"gpu/GPU-1", "cpu/package-0"}, Duration: spec.Duration, Points: []daemon.FloorPoint{{
		Name: "training, tuned", Point: levers.NewPoint(levers.Setting{Lever: "nvml/GPU-1", Value: "200000"}),
		Writes: []levers.Write{{Lever: "nvml/GPU-1", From: "300000", To: "200000"}, {Lever: "cpufreq/policy0", From: "a", To: "a"}},
	}}}
	if err := w.Plan(plan); err != nil || spec.DryRun {
		return nil, err
	}
	step := meter.FloorStep{Measuring: true, Elapsed: 3 * time.Second, Of: 30 * time.Second, Power: 71 * unit.Watt}
	w.Progress(daemon.FloorProgress{Point: 1, Points: 1, Device: "gpu/GPU-1", FloorStep: step})
	step.Done, step.Floor = true, aFloor()
	w.Progress(daemon.FloorProgress{Point: 1, Points: 1, Device: "gpu/GPU-1", FloorStep: step})
	w.Progress(daemon.FloorProgress{Point: 1, Points: 1, Device: "cpu/package-0", Refused: "at work"})
	return []daemon.FloorOutcome{{Point: "p", Device: "gpu/GPU-1", Floor: aFloor()}, {Point: "p", Device: "cpu/package-0", Refused: "at work"}}, nil
}

func TestMeasuringFloorsOverTheWire(t *testing.T) {
	s := start(t, nil)
	s.measure = measurement
	stream, err := qunerv1.NewAdminServiceClient(dial(t, s.admin())).MeasureFloor(t.Context(), &qunerv1.MeasureFloorRequest{DurationNs: int64(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	var all []*qunerv1.MeasureFloorResponse
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	if len(all) != 5 {
		t.Fatalf("%d messages, want a plan, three of progress and a report", len(all))
	}
	plan := all[0].GetPlan()
	if p := plan.GetPoints(); len(p) != 1 || len(p[0].GetWrites()) != 1 || p[0].GetSettings()[0].GetValue() != "200000" || plan.GetDurationNs() != int64(time.Minute) {
		t.Errorf("plan %v: want one point with the one write that moves something", plan)
	}
	if p := all[1].GetProgress(); !p.GetMeasuring() || p.GetPowerUw() != 71e6 || p.GetOfNs() != 30e9 || p.GetFloor() != nil {
		t.Errorf("progress %v", p)
	}
	if p := all[3].GetProgress(); p.GetRefused() != "at work" || p.PowerUw != nil {
		t.Errorf("a refusal %v: nothing was measured", p)
	}
	report := all[4].GetReport().GetOutcomes()
	if len(report) != 2 || report[1].GetFloor() != nil || report[1].GetRefused() == "" {
		t.Fatalf("report %v", report)
	}
	f, want := report[0].GetFloor(), aFloor()
	if f.GetId() != want.ID || f.GetMeanUw() != 72e6 || f.GetHalfWidthUw() != 300_000 || f.GetState() != qunerv1.FloorState_FLOOR_STATE_CONTEXT ||
		f.GetPoint() != want.Condition || f.GetInForce() || f.GetToUnixNs()-f.GetFromUnixNs() != 30e9 || f.GetDriver() != "550" {
		t.Errorf("floor %v", f)
	}
}

func TestFloorsAreListedForAnyone(t *testing.T) {
	s := start(t, nil)
	s.floors = []daemon.FloorEntry{{Floor: aFloor(), Void: "measured on kernel 6.1, this is 6.2"}}
	got, err := qunerv1.NewMeterServiceClient(dial(t, s.public())).ListFloors(t.Context(), &qunerv1.ListFloorsRequest{})
	if err != nil || len(got.GetFloors()) != 1 || got.GetFloors()[0].GetVoidReason() == "" {
		t.Errorf("%v, %v", got, err)
	}
	gone, err := qunerv1.NewAdminServiceClient(dial(t, s.admin())).ForgetFloors(t.Context(), &qunerv1.ForgetFloorsRequest{All: true})
	if err != nil || len(gone.GetForgotten()) != 1 {
		t.Errorf("forgotten %v, %v", gone, err)
	}
}

func TestWhatFloorsAreRefusedOverTheWire(t *testing.T) {
	s := start(t, nil)
	admin := qunerv1.NewAdminServiceClient(dial(t, s.admin()))
	measure := func(r *qunerv1.MeasureFloorRequest) error {
		stream, err := admin.MeasureFloor(t.Context(), r)
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	forget := func(r *qunerv1.ForgetFloorsRequest) error { _, err := admin.ForgetFloors(t.Context(), r); return err }
	for name, c := range map[string]struct {
		call func() error
		want codes.Code
	}{
		"a short measurement": {func() error { return measure(&qunerv1.MeasureFloorRequest{DurationNs: 29e9}) }, codes.InvalidArgument},
		"a day":               {func() error { return measure(&qunerv1.MeasureFloorRequest{DurationNs: 24 * 3600e9}) }, codes.InvalidArgument},
		"many devices": {func() error {
			return measure(&qunerv1.MeasureFloorRequest{Devices: make([]string, maxDevices+1)})
		}, codes.InvalidArgument},
		"forget nothing":  {func() error { return forget(&qunerv1.ForgetFloorsRequest{}) }, codes.InvalidArgument},
		"forget too much": {func() error { return forget(&qunerv1.ForgetFloorsRequest{All: true, Ids: []string{"a"}}) }, codes.InvalidArgument},
		"a device at work": {func() error {
			s.measure = func(context.Context, daemon.FloorSpec, daemon.FloorWatcher) ([]daemon.FloorOutcome, error) {
				return nil, fmt.Errorf("floor: %w: gpu/GPU-1: it is 90 %% at work", daemon.ErrRefused)
			}
			return measure(&qunerv1.MeasureFloorRequest{})
		}, codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.call(); status.Code(err) != c.want {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// A caller that goes away ends the measurement.
func TestACallerThatGoesEndsTheMeasurement(t *testing.T) {
	s := start(t, nil)
	ended := make(chan error, 1)
	s.measure = func(ctx context.Context, _ daemon.FloorSpec, w daemon.FloorWatcher) ([]daemon.FloorOutcome, error) {
		_ = w.Plan(daemon.FloorPlan{})
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := qunerv1.NewAdminServiceClient(dial(t, s.admin())).MeasureFloor(ctx, &qunerv1.MeasureFloorRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
