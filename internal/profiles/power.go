package profiles

import "github.com/qunerd/quner/internal/host"

// Source is what feeds the machine.
type Source string

// The sources. A machine that does not tell is on mains.
const (
	Mains   Source = "ac"
	Battery Source = "battery"
)

// PowerSource reads from /sys/class/power_supply what feeds the machine. Batteries of mice and keyboards (scope Device)
// do not count. With a charger online it is Mains, even where the battery drains beside it.
func PowerSource(h *host.Host) Source {
	names, err := h.Sys.List("class/power_supply")
	if err != nil {
		return Mains
	}
	var draining, undecided, unplugged bool
	for _, name := range names {
		supply := h.Sys.Sub("class/power_supply/" + name)
		if scope, err := supply.ReadString("scope"); err == nil && scope == "Device" {
			continue
		}
		kind, err := supply.ReadString("type")
		if err != nil {
			continue
		}
		switch kind {
		case "Mains", "USB", "Wireless":
			online, err := supply.ReadString("online")
			if err == nil && online != "0" {
				return Mains
			}
			unplugged = unplugged || err == nil
		case "Battery":
			status, err := supply.ReadString("status")
			draining = draining || err == nil && status == "Discharging"
			undecided = undecided || err == nil && status == "Unknown"
		}
	}
	// Firmware that calls its battery Unknown is believed to drain it only where a charger says it is not there.
	if draining || undecided && unplugged {
		return Battery
	}
	return Mains
}
