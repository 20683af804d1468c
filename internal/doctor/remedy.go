package doctor

import (
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
)

// leverRemedy is what a machine's owner can do about a lever that does not work; empty where nothing can be done.
func leverRemedy(kind levers.Kind, why host.Reason) string {
	switch why {
	case host.NoDriver:
		if kind == levers.GPUCap {
			return "install the NVIDIA driver with libnvidia-ml.so.1; without an NVIDIA GPU there is nothing to do"
		}
		return "load the cpufreq driver of this CPU"
	case host.Absent:
		if kind == levers.Governor {
			return "enable frequency scaling (P-states, CPPC) in the firmware setup, if it offers that"
		}
	case host.VM:
		return "run quner on the machine that hosts this one"
	case host.BIOSLocked:
		return "unlock power limits in the firmware setup; until the next boot nothing can be done"
	case host.ReadOnlySysfs:
		return "run qunerd outside the container or sandbox that mounts /sys read-only"
	case host.NoPermission:
		return "run qunerd as root; if it is, restart it so that its service sees devices that appeared since"
	case host.Lost:
		return "see the kernel log (dmesg) for why the device went away, then restart qunerd"
	case host.Hung:
		return "see the kernel log (dmesg) for the driver's trouble; a reset of the device or a reboot ends it"
	case host.MIG:
		return "cap the board itself: its slices share one power limit"
	case host.Unreadable:
		return "see the kernel log (dmesg); a CPU that is offline tells nothing until it is online"
	}
	return ""
}

// counterRemedy is the same for an energy counter.
func counterRemedy(why string) string {
	switch why {
	case meter.ReasonPermission:
		return "run qunerd as root: since 2020 the kernel keeps CPU energy from everybody else"
	case meter.ReasonNoPowercap:
		return "load the powercap driver (modprobe intel_rapl_msr; it serves AMD too); a virtual machine has none"
	case meter.ReasonLost:
		return leverRemedy("", host.Lost)
	case meter.ReasonHung:
		return leverRemedy("", host.Hung)
	case meter.ReasonUnreadable:
		return "see the kernel log (dmesg) for the driver's trouble"
	}
	return ""
}
