package main

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

const (
	gpuLever  = "nvml/GPU-5f0c6a1e-0000-4000-8000-00000000cafe"
	gpuDevice = "gpu/GPU-5f0c6a1e-0000-4000-8000-00000000cafe"
)

// status is the picture of a machine that trains, untuned.
func (d *daemon) status() *qunerv1.Status {
	now := time.Now()
	s := &qunerv1.Status{
		Version: "v0.1.0", TimeUnixNs: now.UnixNano(), StartedUnixNs: now.Add(-3 * time.Hour).UnixNano(),
		Simulated: true, Host: d.machine, Profile: qunerv1.Profile_PROFILE_TRAINING, Mode: &qunerv1.ModeState{Mode: qunerv1.Mode_MODE_AUTO},
		PointSource: "found", Tune: &qunerv1.TuneState{},
		Signal: &qunerv1.Signal{GpuUtilisation: 0.97, Load1: 1.25, Cpus: 8, Proposes: qunerv1.Profile_PROFILE_IDLE, Agreeing: 1, Needed: 3},
	}
	d.mu.Lock()
	if d.mode != nil {
		s.Mode = proto.CloneOf(d.mode)
	}
	d.mu.Unlock()
	if d.machine == "vm" {
		s.Profile = qunerv1.Profile_PROFILE_IDLE
		s.Signal.Proposes = s.Profile
		s.Missing = []*qunerv1.Missing{{Name: "cpufreq", Reason: "VM"}}
		s.Devices = []*qunerv1.DevicePower{{Device: "cpu/package-0", Reason: "no_powercap"}}
		return s
	}
	s.NeedsTune = true
	s.OpenWindows = 1
	for i := range 8 {
		s.Levers = append(s.Levers, &qunerv1.LeverState{Name: fmt.Sprintf("cpufreq/policy%d", i), Kind: "governor", Value: "powersave"})
	}
	s.Levers = append(s.Levers, &qunerv1.LeverState{Name: gpuLever, Kind: "gpu", Value: "200000", Unit: "mW", Found: "300000", Wanted: "200000", State: "held"})
	s.Devices = []*qunerv1.DevicePower{
		{Device: gpuDevice, Label: "NVIDIA A40", Backend: "nvml_counter", PowerUw: 198_300_000, Known: true},
		{Device: "cpu/package-0", Label: "CPU package", Backend: "rapl", PowerUw: 41_000_000, Known: true},
		{Device: "cpu/package-0/core", Label: "CPU cores", Backend: "rapl", PowerUw: 30_000_000, Known: true},
		{Device: "cpu/package-0/dram", Label: "memory", Backend: "rapl", PowerUw: 8_200_000, Known: true},
	}
	s.Tune = &qunerv1.TuneState{Workload: "bert", LastUnixNs: now.Add(-2 * time.Hour).UnixNano(), LastVerdict: "interior"}
	if d.machine == "hostile" {
		s.Levers[8].Note = "\x1b[2J\u202egone\nand a line"
		s.Degraded = []string{"state file: \x1b]0;owned\x07disk full"}
	}
	return s
}

func doctorOf(machine string) *qunerv1.DoctorResponse {
	if machine == "vm" {
		return &qunerv1.DoctorResponse{
			Version: "v0.1.0", Host: "Linux 6.8.0, QEMU Virtual CPU", Simulated: true,
			Levers: []*qunerv1.LeverReport{{Name: "cpufreq", Kind: "governor", Reason: "VM", Why: "the hypervisor keeps the CPU's frequency to itself",
				Remedy: "tune on the host that runs this machine"}},
		}
	}
	r := &qunerv1.DoctorResponse{Version: "v0.1.0", Host: "Linux 6.8.0, Intel(R) Core(TM) i7-12700", Simulated: true, Fingerprint: "3f2a"}
	for i := range 8 {
		r.Levers = append(r.Levers, &qunerv1.LeverReport{Name: fmt.Sprintf("cpufreq/policy%d", i), Kind: "governor",
			Present: true, Readable: true, Writable: true, Value: "powersave", Range: "powersave performance", Owner: "tuned", State: "yielded",
			Why: "left to tuned", Remedy: "sudo qunerctl levers take governor"})
	}
	r.Conflicts = []*qunerv1.ConflictReport{
		{Daemon: "tuned", Unit: "tuned.service", Pid: 812, Contests: []string{"governor", "epp"}, Remedy: "sudo systemctl disable --now tuned.service",
			Detail: "tuned sets the CPU governor and energy preference by its profile"},
		{Daemon: "earlyoom", Unit: "earlyoom.service", Pid: 640, Remedy: "sudo systemctl disable --now earlyoom.service",
			Detail: "earlyoom ends processes when memory runs out"},
	}
	r.Levers = append(r.Levers,
		&qunerv1.LeverReport{Name: gpuLever, Kind: "gpu", Present: true, Readable: true, Writable: true, Value: "300 W", Effective: "280 W", Range: "100 W … 300 W", Owner: "quner"},
		&qunerv1.LeverReport{Name: "rapl/package-0", Kind: "package", Present: true, Readable: true, Value: "125 W", Reason: "BIOS_LOCKED",
			Detail: "max_power_uw: no data available", Why: "the firmware has locked the limit", Remedy: "unlock it in the firmware's setup"})
	r.Counters = []*qunerv1.CounterReport{
		{Name: gpuDevice, Label: "NVIDIA A40", Backend: "nvml_counter", Counted: true},
		{Name: "cpu/package-0", Label: "CPU package", Backend: "rapl", Counted: true},
		{Name: "cpu/package-0/core", Label: "CPU cores", Backend: "rapl", Reason: "contained", Why: "part of another"},
		{Name: "cpu/psys", Label: "platform", Backend: "rapl", Reason: "permission", Detail: "energy_uj: permission denied", Why: "only root may read it", Remedy: "run the daemon as root"},
	}
	return r
}

func tunedPoints() []*qunerv1.TunedPoint {
	return []*qunerv1.TunedPoint{
		{Id: "a1b2c3", Profile: qunerv1.Profile_PROFILE_TRAINING, Workload: "bert", PowerSource: "ac", Verdict: "interior", Certified: true,
			Settings:  []*qunerv1.Setting{{Lever: gpuLever, Value: "200000", Unit: "mW"}},
			Objective: "work-per-joule", Saving: 0.183, SavingHalfWidth: 0.011, Slowdown: 0.06, Windows: 14, SweepEnergyUj: 42_000_000_000,
			TunedAtUnixNs: time.Now().Add(-50 * time.Hour).UnixNano(), Fits: true, Fingerprint: "3f2a"},
		{Id: "a1ffff", Profile: qunerv1.Profile_PROFILE_IDLE, PowerSource: "ac", Verdict: "flat", Objective: "work-per-joule",
			Settings:      []*qunerv1.Setting{{Lever: "cpufreq/policy0", Value: "powersave"}, {Lever: "cpufreq/policy1", Value: "powersave"}},
			TunedAtUnixNs: time.Now().Add(-30 * time.Minute).UnixNano()},
	}
}

func governorWrites(from, to string) []*qunerv1.Write {
	var writes []*qunerv1.Write
	for i := range 8 {
		writes = append(writes, &qunerv1.Write{Lever: fmt.Sprintf("cpufreq/policy%d", i), From: from, To: to})
	}
	return writes
}

func tunePlan() *qunerv1.TunePlan {
	return &qunerv1.TunePlan{MaxWindows: 3, BaseWatts: 30, Devices: []string{gpuDevice, "cpu/package-0"},
		Axes: []*qunerv1.TuneAxis{{Name: "gpu", States: []string{"100 W", "200 W", "300 W"}, Found: 2}}}
}

func tuneReport(verdict string, apply bool) *qunerv1.TuneReport {
	states := []*qunerv1.StateReport{
		{State: []string{"100 W"}, Windows: 3, WorkPerSecond: 0.21, WorkPerSecondHalfWidth: 0.004, Watts: 170.2, WattsHalfWidth: 1.4,
			JoulesPerWork: 810.4, JoulesPerWorkHalfWidth: 9.1, AchievedWatts: 101.3},
		{State: []string{"200 W"}, Windows: 6, WorkPerSecond: 0.47, WorkPerSecondHalfWidth: 0.006, Watts: 264.0, WattsHalfWidth: 1.1,
			JoulesPerWork: 561.7, JoulesPerWorkHalfWidth: 5.0, AchievedWatts: 199.0, Allowed: true, InBand: true, Chosen: true},
		{State: []string{"300 W"}, Windows: 5, WorkPerSecond: 0.5, WorkPerSecondHalfWidth: 0.005, Watts: 343.8, WattsHalfWidth: 1.9,
			JoulesPerWork: 687.6, JoulesPerWorkHalfWidth: 6.3, AchievedWatts: 279.5, Allowed: true, Found: true},
	}
	r := &qunerv1.TuneReport{
		Axes: []*qunerv1.AxisReport{{Name: "gpu", Verdict: verdict, Chosen: "200 W"}}, States: states, Verdict: verdict, Certified: true,
		Chosen: []*qunerv1.Setting{{Lever: gpuLever, Value: "200000", Unit: "mW"}}, ChosenLabels: []string{"200 W"},
		Saving: 0.183, SavingHalfWidth: 0.011, Slowdown: 0.06, Windows: 14, EnergyUj: 42_000_000_000, PaybackS: 840,
		Applied: apply, Objective: "work-per-joule", MaxSlowdown: 0.1,
		Principle: "Work per joule tends to peak inside the range, not at its top (EXP-132); ±1.91 % is that experiment's fixed threshold, not this host's confidence interval.",
	}
	if verdict != "interior" {
		r.Chosen, r.ChosenLabels, r.Certified, r.Applied = nil, nil, false, false
		states[1].Chosen = false
		r.MoreWindows = 6
	}
	return r
}

func windowResult(machine string, open *qunerv1.OpenWindow, c *qunerv1.CloseWindow) *qunerv1.WindowResult {
	r := &qunerv1.WindowResult{Id: "1", Name: open.GetName(), DurationNs: 10e9, Unit: open.GetUnit(), Work: c.GetWork(), Coverage: 1, Share: "exclusive"}
	if machine == "vm" {
		bound := int64(900e6)
		r.Method, r.UpperBoundUj, r.Backend, r.Reasons = qunerv1.Method_METHOD_UNKNOWN, &bound, "none", []string{"no_powercap"}
		return r
	}
	r.Method, r.Backend, r.EnergyUj, r.HalfWidthUj, r.GrossUj = qunerv1.Method_METHOD_SAMPLED, "nvml_counter+rapl", 2_473_400_000, 15_200_000, 2_473_400_000
	gpu := &qunerv1.DeviceEnergy{Device: gpuDevice, Label: "NVIDIA A40", Backend: "nvml_counter", Method: r.Method, EnergyUj: 1_983_000_000, HalfWidthUj: 15_000_000,
		GrossUj: 1_983_000_000, Floor: "none", Coverage: 1}
	cpu := &qunerv1.DeviceEnergy{Device: "cpu/package-0", Label: "CPU package", Backend: "rapl", Method: r.Method, EnergyUj: 490_400_000, HalfWidthUj: 1_000_000,
		GrossUj: 490_400_000, Floor: "none", Coverage: 1}
	r.Devices = []*qunerv1.DeviceEnergy{gpu, cpu}
	r.Reasons = []string{"floor_none"}
	if watts, ok := open.GetIdleWatts()["gpu"]; ok {
		floor := int64(watts * 10e6)
		gpu.Floor, gpu.FloorUj, gpu.EnergyUj, gpu.Reasons = "caller", floor, gpu.GetGrossUj()-floor, []string{"floor_caller"}
		r.AboveIdle, r.FloorUj, r.EnergyUj, r.Reasons = true, floor, r.GetGrossUj()-floor, []string{"floor_caller"}
	}
	if c.GetWork() > 0 {
		per := float64(r.GetEnergyUj()) / 1e6 / c.GetWork()
		r.JoulesPerUnit, r.JoulesPerUnitHalfWidth = &per, per/100
	}
	return r
}
