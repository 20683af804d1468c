package doctor

import (
	"path"
	"slices"
	"strings"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
)

// rival is a service that does what quner does: it moves the same levers, or ends processes when memory is short.
type rival struct {
	name     string
	comm     string   // as /proc/PID/comm has it, cut to 15 bytes; empty where it says nothing
	units    []string // of the system's service manager
	contests []levers.Kind
	pstate   bool   // it moves its levers only where a P-state driver takes an energy preference
	does     string // what it does, after its name
	remedy   string // the exact command; empty for disabling the unit it runs in
}

// rivals are the services known. Sources: for power-profiles-daemon its README and its intel_pstate driver, for TLP its
// documentation (files, operation), for nvidia-powerd NVIDIA's driver README (dynamic boost), for the others their manual
// pages and unit files.
func rivals() []rival {
	cpu := []levers.Kind{levers.Governor, levers.EnergyPreference}
	return []rival{
		{name: "power-profiles-daemon", comm: "power-profiles-", units: []string{"power-profiles-daemon.service"},
			contests: cpu, pstate: true, does: "sets the CPU governor and energy preference by the desktop's power mode"},
		{name: "tuned", comm: "tuned", units: []string{"tuned.service"},
			contests: cpu, does: "sets the CPU governor and energy preference by its profile"},
		{name: "tuned-ppd", comm: "tuned-ppd", units: []string{"tuned-ppd.service"},
			contests: cpu, does: "has tuned set the CPU governor and energy preference by the desktop's power mode"},
		{name: tlp, units: []string{tlpUnit}, contests: cpu,
			does:   "sets the CPU governor and energy preference at boot and when the power source changes",
			remedy: "echo TLP_ENABLE=0 | sudo tee /etc/tlp.d/99-off.conf"},
		{name: "tlp-pd", comm: "tlp-pd", units: []string{"tlp-pd.service"},
			contests: cpu, does: "has TLP set the CPU governor and energy preference by the desktop's power mode"},
		{name: "auto-cpufreq", comm: "auto-cpufreq", units: []string{"auto-cpufreq.service", "snap.auto-cpufreq.service.service"},
			contests: cpu, does: "sets the CPU governor and energy preference by load and power source"},
		{name: "thermald", comm: "thermald", units: []string{"thermald.service"},
			contests: []levers.Kind{levers.PackageLimit}, does: "sets the CPU package power limit by temperature"},
		{name: "system76-power", comm: "system76-power", units: []string{"com.system76.PowerDaemon.service", "system76-power.service"},
			contests: cpu, does: "sets the CPU governor and energy preference by its profile"},
		{name: "nvidia-powerd", comm: "nvidia-powerd", units: []string{"nvidia-powerd.service"},
			contests: []levers.Kind{levers.GPUCap}, does: "moves power between CPU and GPU (Dynamic Boost)"},
		{name: "lactd", comm: "lact", units: []string{"lactd.service"},
			contests: []levers.Kind{levers.GPUCap, levers.AMDCap}, does: "sets GPU power caps by its profile"},
		{name: "gamemoded", comm: "gamemoded", units: []string{"gamemoded.service"},
			contests: []levers.Kind{levers.Governor}, does: "sets the CPU governor while a game runs",
			remedy: "systemctl --user disable --now gamemoded.service"},
		{name: "quner (the Python predecessor)", units: []string{"quner.service"},
			contests: []levers.Kind{levers.Governor, levers.EnergyPreference, levers.PackageLimit, levers.GPUCap, levers.AMDCap},
			does:     "moves every lever that qunerd does"},
		{name: "earlyoom", comm: "earlyoom", units: []string{"earlyoom.service"}, does: endsProcesses},
		{name: "systemd-oomd", comm: "systemd-oomd", units: []string{"systemd-oomd.service"}, does: endsProcesses,
			remedy: "sudo systemctl disable --now systemd-oomd.service systemd-oomd.socket"},
		{name: "nohang", comm: "nohang", units: []string{"nohang.service", "nohang-desktop.service"}, does: endsProcesses},
	}
}

const (
	endsProcesses = "ends processes when memory runs out, as quner's memguard would; memguard is off unless you turn it on, and should stay off beside it"
	tlp           = "TLP"
	tlpUnit       = "tlp.service"
)

// ofProcess finds the rival that a process is. unit is the process's system unit, which is an identity; its name, which
// any process may give itself, is none.
func ofProcess(all []rival, unit, comm string) (i int, certain bool) {
	if i = slices.IndexFunc(all, func(r rival) bool { return slices.Contains(r.units, unit) }); i >= 0 && unit != "" {
		return i, true
	}
	return slices.IndexFunc(all, func(r rival) bool { return r.comm != "" && r.comm == comm }), false
}

// conflict is the rival as one that runs.
func (r rival) conflict(unit string, pid int) Conflict {
	c := Conflict{Daemon: r.name, Unit: unit, PID: pid, Contests: r.contests, Remedy: r.remedy, Detail: r.name + " " + r.does}
	stop := unit
	if unit == "" {
		stop = r.units[0]
		c.Detail += "; known by its process name alone, which anybody can forge, so that nothing is left to it"
	}
	if c.Remedy == "" {
		c.Remedy = "sudo systemctl disable --now " + stop
	}
	return c
}

// hasPreference reports whether a cpufreq driver of the host takes an energy preference.
func hasPreference(sys host.Dir) bool {
	policies, err := sys.List(cpufreqDir)
	return err == nil && slices.ContainsFunc(policies, func(p string) bool {
		return strings.HasPrefix(p, "policy") && sys.Exists(path.Join(cpufreqDir, p, "energy_performance_preference"))
	})
}

const cpufreqDir = "devices/system/cpu/cpufreq"
