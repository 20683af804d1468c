package doctor

import (
	"strings"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
)

// leverWhy says a reason in plain words; where the reason says less than the fact behind it, that.
func leverWhy(kind levers.Kind, why host.Reason, detail string) string {
	switch why {
	case "":
		return ""
	case host.NoDriver:
		if kind == levers.GPUCap {
			return "NVIDIA's driver is not installed, or its library libnvidia-ml.so.1 is missing"
		}
		return "its kernel driver is not loaded"
	case host.BIOSLocked:
		return "the firmware has locked it until the next boot"
	case host.ECManaged:
		return "the board takes no cap: the laptop's own controller decides"
	case host.ReadOnlySysfs:
		return "/sys is read-only here: a container, or a sandbox"
	case host.NoPermission:
		return "only root may move it"
	case host.MIG:
		return "it is a slice of a board, which has no cap of its own"
	case host.Lost:
		return "the device has gone"
	case host.Hung:
		return "its driver has not answered; nothing else waits for it"
	case host.ImpliedByOther:
		return "the governor performance decides it at present"
	case host.VM:
		return "a virtual machine is not shown it"
	case host.NotSupported:
		if kind == levers.PackageLimit && strings.Contains(detail, "no long-term limit") {
			return "this CPU offers no power limit to set"
		}
	}
	return printable(detail)
}

// leverRemedy is what a machine's owner can do about a lever that does not work; empty where nothing can be done.
func leverRemedy(kind levers.Kind, why host.Reason) string {
	switch why {
	case host.NoDriver:
		if kind == levers.GPUCap {
			return "install NVIDIA's driver"
		}
		return "load the driver of this device"
	case host.Absent:
		if kind == levers.Governor {
			return "enable frequency scaling (P-states, CPPC) in the firmware setup, if it offers that"
		}
	case host.VM:
		return "run quner on the machine that hosts this one"
	case host.BIOSLocked:
		return "unlock power limits (CFG lock, power limit lock) in the firmware setup, if it offers that"
	case host.ReadOnlySysfs:
		return "run qunerd outside the container or sandbox that mounts /sys read-only"
	case host.NoPermission:
		return "run it as root; if it is the daemon, restart it so that its service sees devices that appeared since"
	case host.Lost:
		return "sudo dmesg tells why the device went away; then restart qunerd"
	case host.Hung:
		return "sudo dmesg tells of the driver's trouble; a reset of the device or a reboot ends it"
	case host.MIG:
		return "cap the board itself: its slices share one power limit"
	case host.Unreadable:
		return "sudo dmesg tells of the driver's trouble; a CPU that is offline tells nothing until it is online"
	}
	return ""
}

// counterWhy says a reason for not counting in plain words.
func counterWhy(why string) string {
	switch why {
	case meter.ReasonContained:
		return "part of another"
	case meter.ReasonTwin:
		return "the same as another"
	case meter.ReasonPlatform:
		return "mainboard and CPU, told apart"
	case meter.ReasonPermission:
		return "only root may read it"
	case meter.ReasonNoPowercap:
		return "this machine shows no CPU energy counter"
	case meter.ReasonNoGPU:
		return "there is no GPU that tells its energy"
	case meter.ReasonNoCounter:
		return "the device has no energy counter"
	case meter.ReasonUnreadable:
		return "it is there, and reading it fails"
	case meter.ReasonSleeping:
		return "the device sleeps, and is not woken for this"
	case meter.ReasonLost:
		return "the device has gone"
	case meter.ReasonHung:
		return "its driver has not answered"
	case meter.ReasonMirrored:
		return "it repeats another die's counter"
	case meter.ReasonFrozen:
		return "it stands still, which nothing that is powered does"
	}
	return why
}

// counterRemedy is what can be done about an energy counter that does not work.
func counterRemedy(why string) string {
	switch why {
	case meter.ReasonPermission:
		return "run it as root: since 2020 the kernel keeps CPU energy from everybody else"
	case meter.ReasonNoPowercap:
		return "sudo modprobe intel_rapl_msr (it serves AMD too); a virtual machine has none"
	case meter.ReasonLost:
		return leverRemedy("", host.Lost)
	case meter.ReasonHung:
		return leverRemedy("", host.Hung)
	case meter.ReasonUnreadable:
		return "sudo dmesg tells of the driver's trouble"
	}
	return ""
}
