package server

import (
	"slices"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/unit"
)

// openIn is a caller's request: the owner is who the kernel says calls, whatever the message holds. A weight or a hint of 0
// is refused here: to the meter 0 is one that was not given.
func openIn(o *qunerv1.OpenWindow, c caller) (meter.OpenRequest, error) {
	switch {
	case o != nil && o.Weight != nil && o.GetWeight() == 0:
		return meter.OpenRequest{}, badRequest("weight 0: allowed is %g to %g", meter.MinWeight, meter.MaxWeight)
	case o != nil && o.HintJoulesPerUnit != nil && o.GetHintJoulesPerUnit() == 0:
		return meter.OpenRequest{}, badRequest("hint of 0 joules a unit: allowed is a number above 0")
	}
	return meter.OpenRequest{
		Owner: c.UID, Exact: c.exact,
		Name: o.GetName(), Devices: o.GetDevices(),
		IdleWatts: o.GetIdleWatts(), IdleWattsUncertainty: o.GetIdleWattsUncertainty(), Weight: o.GetWeight(),
		Workload: o.GetWorkload(), Unit: o.GetUnit(), HintJoulesPerUnit: o.GetHintJoulesPerUnit(),
		WaitEdge: o.GetWaitEdge(), MayWake: o.GetMayWake(),
	}, nil
}

func closeIn(c *qunerv1.CloseWindow) meter.CloseRequest {
	return meter.CloseRequest{Work: c.GetWork(), Synced: c.GetSynced(), RequireSampled: c.GetRequireSampled(), WaitEdge: c.GetWaitEdge()}
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
	is := r.Method != meter.Unknown || len(r.Devices) > 0 && !slices.ContainsFunc(r.Devices, unseen)
	joules := func(e unit.Energy) *int64 { return known(int64(e), is) }
	out := &qunerv1.WindowResult{
		Id: r.ID, Name: r.Name, Workload: r.Workload, DurationNs: int64(r.Duration),
		Method: methodOut(r.Method), Backend: r.Backend,
		EnergyUj: joules(r.Energy), HalfWidthUj: joules(r.HalfWidth), GrossUj: joules(r.Gross), FloorUj: joules(r.Floor),
		AboveIdle: r.AboveIdle, Coverage: r.Coverage, MaxGapNs: int64(r.MaxGap), Reasons: r.Reasons,
		Devices: each(r.Devices, deviceOut), Stages: each(r.Stages, stageOut),
		Work: r.Work, Unit: r.Unit, PlatformUj: known(int64(r.Platform), r.HasPlatform), HasPlatform: r.HasPlatform, Share: r.Share,
	}
	if r.HasUpperBound {
		bound := int64(r.UpperBound)
		out.UpperBoundUj = &bound
	}
	if r.HasPerUnit {
		out.JoulesPerUnit, out.JoulesPerUnitHalfWidth = finite(r.PerUnit), finite(r.PerUnitHalfWidth)
	}
	return out
}

// unseen tells whether nothing at all was measured of a device: its energies are then no figures, not even for sums.
func unseen(d meter.DeviceEnergy) bool { return d.Method == meter.Unknown && d.Coverage <= 0 }

func deviceOut(d meter.DeviceEnergy) *qunerv1.DeviceEnergy {
	joules := func(e unit.Energy) *int64 { return known(int64(e), !unseen(d)) }
	out := &qunerv1.DeviceEnergy{
		Device: d.Device, Label: d.Label, Backend: string(d.Backend), Method: methodOut(d.Method),
		EnergyUj: joules(d.Energy), HalfWidthUj: joules(d.HalfWidth), GrossUj: joules(d.Gross), FloorUj: joules(d.Floor),
		Floor: d.FloorFrom, Coverage: d.Coverage, MaxGapNs: int64(d.MaxGap), Reasons: d.Reasons,
		DeviceTotalUj: joules(d.Total), DurationNs: int64(d.Duration),
	}
	if !unseen(d) {
		out.Terms = termsOut(d.Terms)
	}
	return out
}

func termsOut(t meter.Terms) *qunerv1.Terms {
	return &qunerv1.Terms{
		EdgesUj: int64(t.Edges), FloorUj: int64(t.Floor), ClockUj: int64(t.Clock), GainUj: int64(t.Gain), GainFrom: t.GainFrom,
	}
}

// stageOut is a stage; one in which no counter moved has no energies.
func stageOut(s meter.Stage) *qunerv1.Stage {
	moved := s.Gross != 0
	return &qunerv1.Stage{
		Name: s.Name, DurationNs: int64(s.Duration), EnergyUj: known(int64(s.Energy), moved), GrossUj: known(int64(s.Gross), moved),
	}
}
