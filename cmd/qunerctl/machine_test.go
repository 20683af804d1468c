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
		Signal: &qunerv1.Signal{GpuUtilisation: proto.Float64(0.97), Load1: 1.25, Cpus: 8, Proposes: qunerv1.Profile_PROFILE_IDLE, Agreeing: 1, Needed: 3},
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
		{Device: gpuDevice, Label: "NVIDIA A40", Backend: "nvml_counter", PowerUw: proto.Int64(198_300_000), Known: true},
		{Device: "cpu/package-0", Label: "CPU package", Backend: "rapl", PowerUw: proto.Int64(41_000_000), Known: true},
		{Device: "cpu/package-0/core", Label: "CPU cores", Backend: "rapl", PowerUw: proto.Int64(30_000_000), Known: true},
		{Device: "cpu/package-0/dram", Label: "memory", Backend: "rapl", PowerUw: proto.Int64(8_200_000), Known: true},
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
		{Name: gpuDevice, Label: "NVIDIA A40", Backend: "nvml_counter", Counted: true, Passport: &qunerv1.CounterPassport{
			ResolutionUj: 1000, LimitUw: 450_000_000, Scope: "mig", Read: true, PeriodNs: 100_000_000, PeriodFrom: "assumed", ReadCostNs: 412_000, Coverage: 1,
			Verdicts: &qunerv1.Verdicts{Ok: 1799},
		}},
		{Name: "cpu/package-0", Label: "CPU package", Backend: "rapl", Counted: true, Passport: &qunerv1.CounterPassport{
			ResolutionUj: 61, SpanUj: 262143328911, LimitUw: 1_000_000_000, Read: true, PeriodNs: 1_020_000, PeriodFrom: "measured", JitterNs: 31_000,
			SmallestUj: 15_000, ReadCostNs: 2_300, Coverage: 0.99721, MaxGapNs: 5_000_000_000,
			Verdicts: &qunerv1.Verdicts{Ok: 1780, Wrap: 2, Reset_: 1, Unread: 4},
		}},
		{Name: "cpu/package-0/core", Label: "CPU cores", Backend: "rapl", Reason: "contained", Why: "part of another", Passport: &qunerv1.CounterPassport{
			ResolutionUj: 61, SpanUj: 262143328911, LimitUw: 1_000_000_000}},
		{Name: "cpu/psys", Label: "platform", Backend: "rapl", Reason: "permission", Detail: "energy_uj: permission denied", Why: "only root may read it", Remedy: "run the daemon as root"},
	}
	return r
}

func tunedPoints() []*qunerv1.TunedPoint {
	return []*qunerv1.TunedPoint{
		{Id: "a1b2c3", Profile: qunerv1.Profile_PROFILE_TRAINING, Workload: "bert", PowerSource: "ac", Verdict: "interior", Certified: true,
			Settings:  []*qunerv1.Setting{{Lever: gpuLever, Value: "200000", Unit: "mW"}},
			Objective: "work-per-joule", Saving: proto.Float64(0.183), SavingHalfWidth: proto.Float64(0.011), Slowdown: proto.Float64(0.06), SlowdownHalfWidth: proto.Float64(0.004), Windows: 14, SweepEnergyUj: 42_000_000_000,
			TunedAtUnixNs: time.Now().Add(-50 * time.Hour).UnixNano(), Fits: true, Fingerprint: "3f2a",
			Revalidate: true, Changed: []string{"kernel: 6.1.0 → 6.8.0"}, Voided: 1, WorkUnit: "run", PaybackS: proto.Float64(840), MaxSlowdown: 0.1,
			Axes: tuneReport("interior", true).GetAxes(), States: tuneReport("interior", true).GetStates()},
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
