package host

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
)

// Card is a graphics card as the kernel's own drivers show it: amdgpu, i915, nouveau. What a vendor's library has is a GPU.
type Card struct {
	PCI string // its PCI address, "0000:03:00.0"; of a card that is on no such bus, the name of its device
	Dir string // its device's directory in /sys, by way of its class
}

const drmDir = "class/drm"

// Cards lists the graphics cards in the order of their names. No card is woken by it. A kernel without graphics has none.
func (h *Host) Cards() ([]Card, error) {
	names, err := h.Sys.List(drmDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	card := regexp.MustCompile(`^card[0-9]{1,4}$`)
	var all []Card
	for _, n := range names {
		if !card.MatchString(n) {
			continue
		}
		c := Card{Dir: path.Join(drmDir, n, "device")}
		c.PCI = path.Base(c.Dir)
		if to, err := h.Sys.Link(c.Dir); err == nil {
			c.PCI = path.Base(to)
		}
		all = append(all, c)
	}
	return all, nil
}

// Sensors returns the directory in /sys of the hardware monitor that a driver has on the card, or "" where it has none. The
// card is not woken.
func (c Card) Sensors(sys Dir, driver string) (string, error) {
	dir := path.Join(c.Dir, "hwmon")
	names, err := sys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, n := range names {
		if name, err := sys.ReadString(path.Join(dir, n, "name")); err == nil && name == driver {
			return path.Join(dir, n), nil
		}
	}
	return "", err
}

// Asleep reports whether the kernel has suspended the card, or is about to. A kernel that does not tell suspends nothing.
func (c Card) Asleep(sys Dir) (bool, error) {
	status, err := sys.ReadString(path.Join(c.Dir, "power/runtime_status"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return isSuspended(status), err
}

// CanSleep reports whether the kernel may suspend the card when nothing uses it.
func (c Card) CanSleep(sys Dir) bool {
	control, err := sys.ReadString(path.Join(c.Dir, "power/control"))
	return !errors.Is(err, fs.ErrNotExist) && control != "on"
}

func isSuspended(status string) bool { return status == "suspended" || status == "suspending" }

// amdgpuAPU is the MI300A, whose sensors are otherwise those of the MI300X, which is no APU.
const amdgpuAPU = "0x74a0"

// IsAPU reports whether an amdgpu card shares its chip with the CPU, so that its power reading has the CPU's power in it.
// The driver does not say so, but shows it by the sensors it offers: the voltage of the northbridge (in1) on APUs alone, and
// a power cap on every card that tells its power but most APUs. sensors is the card's directory of them.
func (c Card) IsAPU(sys Dir, sensors string) (bool, error) {
	if id, err := sys.ReadString(path.Join(c.Dir, "device")); err == nil && id == amdgpuAPU {
		return true, nil
	}
	files, err := sys.List(sensors)
	if err != nil {
		return false, err
	}
	has := func(name string) bool { return slices.Contains(files, name) }
	power := has("power1_average") || has("power1_input")
	return has("in1_input") || has("in1_label") || power && !has("power1_cap"), nil
}
