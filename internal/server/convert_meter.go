package server

import (
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/meter"
)

// openIn is a caller's request: the owner is who the kernel says calls, whatever the message holds.
func openIn(o *qunerv1.OpenWindow, c caller) meter.OpenRequest {
	return meter.OpenRequest{
		Owner: c.UID, Exact: c.exact,
		Name: o.GetName(), Devices: o.GetDevices(),
		IdleWatts: o.GetIdleWatts(), IdleWattsUncertainty: o.GetIdleWattsUncertainty(), Weight: o.GetWeight(),
		Workload: o.GetWorkload(), Unit: o.GetUnit(), HintJoulesPerUnit: o.GetHintJoulesPerUnit(),
	}
}

func closeIn(c *qunerv1.CloseWindow) meter.CloseRequest {
	return meter.CloseRequest{Work: c.GetWork(), Synced: c.GetSynced(), RequireSampled: c.GetRequireSampled()}
}

func methodOut(m meter.Method) qunerv1.Method {
	switch m {
	case meter.Sampled:
		return qunerv1.Method_METHOD_SAMPLED
	case meter.Estimated:
		return qunerv1.Method_METHOD_ESTIMATED
	}
	return qunerv1.Method_METHOD_UNKNOWN
}

func resultOut(r meter.Result) *qunerv1.WindowResult {
	out := &qunerv1.WindowResult{
		Id: r.ID, Name: r.Name, Workload: r.Workload, DurationNs: int64(r.Duration),
		Method: methodOut(r.Method), Backend: r.Backend,
		EnergyUj: int64(r.Energy), HalfWidthUj: int64(r.HalfWidth), GrossUj: int64(r.Gross), FloorUj: int64(r.Floor),
		AboveIdle: r.AboveIdle, Coverage: r.Coverage, MaxGapNs: int64(r.MaxGap), Reasons: r.Reasons,
		Devices: each(r.Devices, deviceOut), Stages: each(r.Stages, stageOut),
		Work: r.Work, Unit: r.Unit, PlatformUj: int64(r.Platform), HasPlatform: r.HasPlatform, Share: r.Share,
	}
	if r.HasUpperBound {
		bound := int64(r.UpperBound)
		out.UpperBoundUj = &bound
	}
	if r.HasPerUnit {
		out.JoulesPerUnit, out.JoulesPerUnitHalfWidth = &r.PerUnit, r.PerUnitHalfWidth
	}
	return out
}

func deviceOut(d meter.DeviceEnergy) *qunerv1.DeviceEnergy {
	return &qunerv1.DeviceEnergy{
		Device: d.Device, Label: d.Label, Backend: string(d.Backend), Method: methodOut(d.Method),
		EnergyUj: int64(d.Energy), HalfWidthUj: int64(d.HalfWidth), GrossUj: int64(d.Gross), FloorUj: int64(d.Floor),
		Floor: d.FloorFrom, Coverage: d.Coverage, MaxGapNs: int64(d.MaxGap), Reasons: d.Reasons,
		Terms: &qunerv1.Terms{
			EdgesUj: int64(d.Terms.Edges), FloorUj: int64(d.Terms.Floor), ClockUj: int64(d.Terms.Clock), GainUj: int64(d.Terms.Gain),
		},
		DeviceTotalUj: int64(d.Total),
	}
}

func stageOut(s meter.Stage) *qunerv1.Stage {
	return &qunerv1.Stage{Name: s.Name, DurationNs: int64(s.Duration), EnergyUj: int64(s.Energy), GrossUj: int64(s.Gross)}
}
