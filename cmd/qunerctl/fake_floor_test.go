package main

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// floorsOf are certificates of every kind.
func floorsOf() []*qunerv1.Floor {
	to := time.Now().Add(-2 * time.Hour)
	floor := func(id, device string, watts, half float64) *qunerv1.Floor {
		return &qunerv1.Floor{
			Id: id, Device: device, State: qunerv1.FloorState_FLOOR_STATE_BARE, MeanUw: int64(1e6 * watts), HalfWidthUw: int64(1e6 * half),
			SigmaUw: 200_000, N: 30, Kernel: "6.1", BootId: "b", FromUnixNs: to.Add(-30 * time.Second).UnixNano(), ToUnixNs: to.UnixNano(),
		}
	}
	now := floor("a1b2c3d4e5f6", gpuDevice, 31.02, 0.05)
	now.InForce, now.Driver = true, "550.54"
	capped := floor("a1ffffffffff", gpuDevice, 28.9, 0.1)
	capped.Point, capped.Settings = gpuLever+"=200000", []*qunerv1.Setting{{Lever: gpuLever, Value: "200000", Unit: "mW"}}
	context := floor("b00000000000", gpuDevice, 72.4, 0.3)
	context.State, context.Suspect = qunerv1.FloorState_FLOOR_STATE_CONTEXT, true
	cpu := floor("c00000000000", "cpu/package-0", 9.01, 0.02)
	cpu.VoidReason = "measured on kernel 6.1, this is 6.2"
	return []*qunerv1.Floor{cpu, now, context, capped}
}

func (d *daemon) ListFloors(context.Context, *qunerv1.ListFloorsRequest) (*qunerv1.ListFloorsResponse, error) {
	if d.machine == "vm" {
		return &qunerv1.ListFloorsResponse{}, nil
	}
	return &qunerv1.ListFloorsResponse{Floors: floorsOf()}, nil
}

func (d *daemon) ForgetFloors(_ context.Context, r *qunerv1.ForgetFloorsRequest) (*qunerv1.ForgetFloorsResponse, error) {
	if d.deny != nil {
		return nil, d.deny
	}
	d.note("forgot-floors", "%s all=%t", strings.Join(r.GetIds(), " "), r.GetAll())
	return &qunerv1.ForgetFloorsResponse{Forgotten: floorsOf()[1:2]}, nil
}

// MeasureFloor measures two devices; with all points the second device of the second one is at work.
func (d *daemon) MeasureFloor(r *qunerv1.MeasureFloorRequest, to grpc.ServerStreamingServer[qunerv1.MeasureFloorResponse]) error {
	if d.deny != nil {
		return d.deny
	}
	d.note("measured", "%v for %v all=%t", r.GetDevices(), time.Duration(r.GetDurationNs()), r.GetAllPoints())
	floors := floorsOf()
	floors[0].VoidReason = ""
	plan := &qunerv1.FloorPlan{Devices: []string{"cpu/package-0", gpuDevice}, DurationNs: r.GetDurationNs(), Points: []*qunerv1.FloorPoint{{Name: "the point in force"}}}
	if r.GetAllPoints() {
		plan.Points = []*qunerv1.FloorPoint{{Name: "idle, default"}, {
			Name: "training, tuned", Settings: floors[3].GetSettings(),
			Writes: []*qunerv1.Write{{Lever: gpuLever, From: "300000", To: "200000", Unit: "mW"}},
		}}
	}
	if err := to.Send(&qunerv1.MeasureFloorResponse{Message: &qunerv1.MeasureFloorResponse_Plan{Plan: plan}}); err != nil || r.GetDryRun() {
		return err
	}
	report := &qunerv1.FloorReport{}
	for n, point := range plan.GetPoints() {
		for i, device := range plan.GetDevices() {
			p := &qunerv1.FloorProgress{Point: uint32(n + 1), Points: uint32(len(plan.GetPoints())), Device: device, ElapsedNs: 3e9, OfNs: 10e9, PowerUw: proto.Int64(9e6)}
			o := &qunerv1.FloorOutcome{Point: point.GetName(), Device: device, Floor: floors[i]}
			last := proto.CloneOf(p)
			if last.Floor = floors[i]; n == 1 && i == 1 {
				last.Floor, last.Refused = nil, device+": it is 90 % at work, for pid 4711"
				o.Floor, o.Refused = nil, last.GetRefused()
			}
			report.Outcomes = append(report.Outcomes, o)
			for _, step := range []*qunerv1.FloorProgress{p, last} {
				if err := to.Send(&qunerv1.MeasureFloorResponse{Message: &qunerv1.MeasureFloorResponse_Progress{Progress: step}}); err != nil {
					return err
				}
			}
		}
	}
	if d.machine == "brief" { // a measurement that somebody ends
		d.note("begun", "")
		<-to.Context().Done()
		d.note("floor-ended", "")
		return to.Context().Err()
	}
	return to.Send(&qunerv1.MeasureFloorResponse{Message: &qunerv1.MeasureFloorResponse_Report{Report: report}})
}
