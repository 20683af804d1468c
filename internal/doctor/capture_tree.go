package doctor

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// processor takes over what is known of the CPU and its policies.
func (c *capture) processor() {
	const cpu = "devices/system/cpu"
	c.sys(cpu, "online", "present", "possible")
	c.sys(cpu+"/intel_pstate", "status", "no_turbo", "min_perf_pct", "max_perf_pct", "hwp_dynamic_boost")
	c.sys(cpu+"/amd_pstate", "status", "prefcore")
	c.sys(cpufreqDir+"/policy*", "affected_cpus", "related_cpus", "cpuinfo_max_freq", "cpuinfo_min_freq",
		"cpuinfo_transition_latency", "scaling_*", "energy_performance_*", "base_frequency")
	c.sys(cpu+"/cpu[0-9]*/thermal_throttle", "*_throttle_count", "*_throttle_total_time_ms")
	c.proc("cpuinfo", shortCPUs)
}

// shortCPUs keeps the first processor of a cpuinfo as it is, and of the others what tells one from another.
func shortCPUs(text string) string {
	var b strings.Builder
	blocks := strings.Split(strings.TrimRight(text, "\n"), "\n\n")
	for i, block := range blocks {
		if i == 0 {
			b.WriteString(block + "\n\n")
			continue
		}
		if !strings.HasPrefix(block, "processor") {
			continue // of the whole machine: on arm its serial number
		}
		for line := range strings.Lines(block + "\n") {
			key, _, _ := strings.Cut(line, ":")
			if slices.Contains([]string{"processor", "physical id", "core id"}, strings.TrimSpace(key)) {
				b.WriteString(line)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// packages takes the powercap zones over: those whose names a power model can tell.
func (c *capture) packages() {
	c.sys("class/powercap/intel-rapl", "enabled")
	c.sys("class/powercap/intel-rapl-mmio", "enabled")
	known := regexp.MustCompile(`^(package-[0-9]+(-die-[0-9]+)?|core|uncore|dram|psys)$`)
	for _, zone := range c.glob("class/powercap/intel-rapl*:*") {
		if name, err := c.host.Sys.ReadString(zone + "/name"); err == nil && known.MatchString(name) {
			c.sys(zone, "name", "enabled", "energy_uj", "max_energy_range_uj", "constraint_*_*")
		}
	}
	// Firmware that keeps its maximum to itself takes no limit either.
	for _, r := range c.refused {
		if prefix, ok := strings.CutSuffix(r.file, "_max_power_uw"); ok && r.errno == "ENODATA" {
			c.refused = append(c.refused, refused{prefix + "_power_limit_uw", "write", r.errno, true})
		}
	}
}

const pciDir = "bus/pci/devices"

// displays takes display devices over. A sleeping one is looked at only where that does not wake it.
func (c *capture) displays() {
	for _, dev := range c.glob(pciDir + "/*") {
		class, err := c.host.Sys.ReadString(dev + "/class")
		if err != nil || !strings.HasPrefix(class, "0x03") {
			continue
		}
		c.sys(dev, "vendor", "device", "class", "revision", "boot_vga")
		c.sys(dev+"/power", "control", "runtime_status")
		if at, ok := c.resolve(dev); ok {
			c.resolve(at + "/driver")
		}
		if status, err := c.host.Sys.ReadString(dev + "/power/runtime_status"); err == nil && status != "active" && status != "unsupported" {
			c.sys(dev+"/hwmon/hwmon*", "name")
			continue
		}
		c.sys(dev, "gpu_busy_percent", "vbios_version", "unique_id")
		c.sys(dev+"/hwmon/hwmon*", "name", "energy1_input", "power1_average", "power1_average_interval", "power1_input",
			"power1_label", "power1_cap", "power1_cap_min", "power1_cap_max", "power1_cap_default", "in1_input", "in1_label")
	}
	for _, card := range c.glob("class/drm/card*") {
		if !strings.Contains(path.Base(card), "-") {
			c.sys(card, "dev")
			c.resolve(card + "/device")
		}
	}
	c.proc("driver/nvidia/version", nil)
	if boards, err := c.host.Proc.List("driver/nvidia/gpus"); err == nil {
		for _, b := range boards {
			c.proc("driver/nvidia/gpus/"+b+"/information", nil)
			c.proc("driver/nvidia/gpus/"+b+"/power", nil)
		}
	}
}

// supplies takes over what tells mains from battery.
func (c *capture) supplies() {
	c.sys("class/power_supply/*", "type", "online", "status", "scope", "present", "capacity", "energy_full", "energy_now", "power_now")
}

// processes takes over those that are conflicts, under numbers that no kernel gives.
func (c *capture) processes() {
	for i, conflict := range Conflicts(c.host) {
		if conflict.PID == 0 {
			continue
		}
		here, there := strconv.Itoa(conflict.PID), "proc/"+strconv.Itoa(5_000_000+i)
		for _, file := range []string{"comm", "cgroup"} {
			if text, err := c.host.Proc.Read(here + "/" + file); err == nil {
				c.files[there+"/"+file] = string(text)
			}
		}
	}
}

// kernel takes over the load, the memory, and what tells one kernel and one kind of machine from another.
func (c *capture) kernel() {
	for _, name := range []string{"loadavg", "meminfo", "uptime", "sys/kernel/osrelease", "sys/kernel/random/boot_id"} {
		c.proc(name, nil)
	}
	c.proc("stat", func(text string) string {
		var b strings.Builder
		for line := range strings.Lines(text) {
			// The others say what this machine has in it and how long it has run.
			if strings.HasPrefix(line, "cpu") || strings.HasPrefix(line, "procs_") {
				b.WriteString(line)
			}
		}
		return b.String()
	})
	c.sys("class/dmi/id", "sys_vendor", "product_name", "chassis_type")
	c.sys("hypervisor", "type")
}
