package main

import (
	"time"

	"google.golang.org/protobuf/proto"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func tunePlan() *qunerv1.TunePlan {
	return &qunerv1.TunePlan{MaxWindows: 3, BaseWatts: 30, Devices: []string{gpuDevice, "cpu/package-0"},
		Axes: []*qunerv1.TuneAxis{{Name: "gpu", States: []string{"100 W", "200 W", "300 W"}, Found: 2}}}
}

// startFrom is tunePlan where a point says where to begin: "again" and "moved" are what becomes of that.
func startFrom(verdict string, fresh bool) *qunerv1.TunePlan {
	p := tunePlan()
	if (verdict == "again" || verdict == "moved") && !fresh {
		p.Prior = priorPoint()
	}
	return p
}

func priorPoint() *qunerv1.PriorPoint {
	return &qunerv1.PriorPoint{Id: "a1b2c3", ChosenLabels: []string{"200 W"}, Changed: []string{"gpu driver: 550.54.15 → 560.35.03", "kernel: 6.1.0 → 6.8.0"},
		TunedAtUnixNs: time.Date(2026, 11, 28, 9, 0, 0, 0, time.Local).UnixNano()}
}

// tuneReport is how a sweep over the caps of a board ends: "interior", or what else becomes of the same three states.
func tuneReport(verdict string, apply bool) *qunerv1.TuneReport {
	switch verdict {
	case "again", "moved":
		r := tuneReport("interior", apply)
		r.Prior, r.Axes[0].From = priorPoint(), "200 W"
		if verdict == "moved" {
			r.Axes[0].Moved = "225 W against 200 W: watts 8.0 % lower than before"
		}
		return r
	case "near-floor":
		r := tuneReport("interior", apply)
		r.Slowdown, r.SlowdownHalfWidth = proto.Float64(0.098), proto.Float64(0.006)
		return r
	}
	state := func(label string, windows uint32, rate, watts, joules, device float64) *qunerv1.StateReport {
		return &qunerv1.StateReport{
			Axis: "gpu", State: []string{label}, Windows: windows, WorkPerSecond: &rate, WorkPerSecondHalfWidth: new(rate / 100),
			Watts: &watts, WattsHalfWidth: new(watts / 180), JoulesPerWork: &joules, JoulesPerWorkHalfWidth: new(joules / 110), AchievedWatts: &device,
		}
	}
	slow, best, found := state("100 W", 3, 0.21, 170.2, 810.4, 101.3), state("200 W", 6, 0.47, 264.0, 561.7, 199.0), state("300 W", 5, 0.5, 343.8, 687.6, 279.5)
	best.Allowed, best.InBand, best.Chosen = true, true, true
	found.Allowed, found.Found = true, true
	r := &qunerv1.TuneReport{
		Axes: []*qunerv1.AxisReport{{Name: "gpu", Verdict: verdict, Chosen: "200 W"}},
		States: []*qunerv1.StateReport{slow, best,
			{Axis: "gpu", State: []string{"225 W"}, Skipped: "cannot be better than 200 W"},
			{Axis: "gpu", State: []string{"250 W"}, SameAs: "300 W", Skipped: "draws what 300 W draws"},
			{Axis: "gpu", State: []string{"275 W"}, SameAs: "300 W", Skipped: "draws what 300 W draws"}, found},
		Verdict: verdict, Certified: true,
		Chosen: []*qunerv1.Setting{{Lever: gpuLever, Value: "200000", Unit: "mW"}}, ChosenLabels: []string{"200 W"},
		Saving: proto.Float64(0.183), SavingHalfWidth: proto.Float64(0.011), Slowdown: proto.Float64(0.06), SlowdownHalfWidth: proto.Float64(0.004),
		Windows: 14, EnergyUj: proto.Int64(42_000_000_000), PaybackS: proto.Float64(840),
		Applied: apply, Objective: "work-per-joule", MaxSlowdown: 0.1,
		Principle: "Work per joule tends to peak inside the range, not at its top (EXP-132); ±1.91 % is that experiment's fixed threshold, not this host's confidence interval.",
	}
	if verdict != "interior" {
		r.Certified, r.Applied, r.PaybackS, r.MoreWindows = false, false, nil, 6
	}
	switch verdict {
	case "one-window": // uncertified, with a window for each state
		r.Verdict, r.Axes[0].Verdict, r.SavingHalfWidth, r.SlowdownHalfWidth = "uncertified", "uncertified", nil, nil
		for _, s := range []*qunerv1.StateReport{slow, best, found} {
			s.Windows, s.WorkPerSecondHalfWidth, s.WattsHalfWidth, s.JoulesPerWorkHalfWidth = 1, nil, nil, nil
		}
		r.Windows = 3
	case "flat":
		for _, s := range []*qunerv1.StateReport{slow, best} {
			s.WorkPerSecond, s.Watts, s.JoulesPerWork, s.AchievedWatts = found.WorkPerSecond, found.Watts, found.JoulesPerWork, found.AchievedWatts
			s.Allowed, s.InBand = true, true
		}
		r.Chosen, r.ChosenLabels, r.Axes[0].Chosen, r.MoreWindows = nil, nil, "", 0
		best.Chosen = false
		r.Saving, r.SavingHalfWidth, r.Slowdown, r.SlowdownHalfWidth = new(0.0), new(0.0), new(0.0), new(0.0)
	case "no_energy":
		r.Chosen, r.ChosenLabels, r.Axes[0].Chosen, r.MoreWindows = nil, nil, "", 0
		best.Chosen = false
		r.Saving, r.SavingHalfWidth, r.EnergyUj = nil, nil, nil
		for _, s := range []*qunerv1.StateReport{slow, best, found} {
			s.Watts, s.WattsHalfWidth, s.JoulesPerWork, s.JoulesPerWorkHalfWidth, s.AchievedWatts = nil, nil, nil, nil, nil
		}
	}
	return r
}

// windowResult is what ten seconds of a machine at work cost: a board, a package, and the platform apart.
func windowResult(machine string, open *qunerv1.OpenWindow, c *qunerv1.CloseWindow) *qunerv1.WindowResult {
	r := &qunerv1.WindowResult{Id: "1", Name: open.GetName(), DurationNs: 10e9, Unit: open.GetUnit(), Work: c.GetWork(), Coverage: 1, Share: "exclusive"}
	if machine == "vm" {
		r.Method, r.UpperBoundUj, r.Backend, r.Reasons = qunerv1.Method_METHOD_UNKNOWN, proto.Int64(900e6), "none", []string{"no_powercap"}
		return r
	}
	r.Method, r.Backend, r.HalfWidthUj, r.AboveIdle = qunerv1.Method_METHOD_SAMPLED, "nvml_counter+rapl", proto.Int64(15_200_000), true
	r.PlatformUj, r.HasPlatform = proto.Int64(900_300_000), true
	r.Devices = []*qunerv1.DeviceEnergy{
		deviceEnergy(open, "gpu", gpuDevice, "NVIDIA A40", "nvml_counter", 1_983_000_000, 15_000_000),
		deviceEnergy(open, "cpu", "cpu/package-0", "CPU package", "rapl", 490_400_000, 1_000_000),
	}
	var energy, gross int64
	for _, d := range r.GetDevices() {
		energy, gross = energy+d.GetEnergyUj(), gross+d.GetGrossUj()
		r.AboveIdle = r.AboveIdle && d.GetFloor() == "caller"
		r.Reasons = append(r.Reasons, d.GetReasons()...)
	}
	r.EnergyUj, r.GrossUj, r.FloorUj = &energy, &gross, new(gross-energy)
	if machine == "brief" { // as long as half a step of the board's counter
		r.DurationNs, r.Method, r.UpperBoundUj, r.PlatformUj = 48e6, qunerv1.Method_METHOD_UNKNOWN, proto.Int64(30_100_000), nil
		board := r.GetDevices()[0]
		board.Method, board.Reasons = qunerv1.Method_METHOD_UNKNOWN, append(board.GetReasons(), "short_window")
		r.Reasons = append(r.Reasons, "short_window")
		r.GetDevices()[1].EnergyUj, r.GetDevices()[1].HalfWidthUj = proto.Int64(2_354_000), proto.Int64(41_000)
	}
	if c.GetWork() > 0 {
		per := float64(energy) / 1e6 / c.GetWork()
		r.JoulesPerUnit, r.JoulesPerUnitHalfWidth = &per, new(per/100)
	}
	return r
}

// deviceEnergy is one device's part of those ten seconds, above the floor that the caller gives for it or for its kind.
func deviceEnergy(open *qunerv1.OpenWindow, kind, name, label, backend string, gross, half int64) *qunerv1.DeviceEnergy {
	d := &qunerv1.DeviceEnergy{Device: name, Label: label, Backend: backend, Method: qunerv1.Method_METHOD_SAMPLED,
		EnergyUj: &gross, HalfWidthUj: &half, GrossUj: new(gross), Floor: "none", Coverage: 1, Reasons: []string{"floor_none"}}
	for _, key := range []string{kind, name} {
		if watts, ok := open.GetIdleWatts()[key]; ok {
			floor := int64(watts * 10e6)
			d.Floor, d.FloorUj, d.EnergyUj, d.Reasons = "caller", &floor, new(gross-floor), []string{"floor_caller"}
		}
	}
	if d.GetEnergyUj() <= 0 {
		d.Method = qunerv1.Method_METHOD_UNKNOWN
	}
	return d
}
