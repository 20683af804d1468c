package host

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// gate decides whether the vendor's library may be opened. Opening it attaches every NVIDIA board, wakes those that sleep
// and keeps them awake, so it stays shut while one sleeps. The gate itself reads only what the kernel knows without asking
// a board.
type gate struct {
	sys, proc Dir
	names     []string // all PCI devices, when they were last looked through
	boards    []string // the NVIDIA ones among them
}

// PCIBoard is a board as far as it is known without the vendor's library.
type PCIBoard struct {
	PCI    string // "0000:01:00.0"
	Asleep bool   // it is suspended at run time, or on its way there or back
}

const pciDevices = "bus/pci/devices"

// look returns the host's NVIDIA boards. The bus is looked through anew only when its devices have changed.
func (g *gate) look() []PCIBoard {
	names, err := g.sys.List(pciDevices)
	if err != nil {
		return nil // no PCI bus, or none that tells: no board that could sleep
	}
	if !slices.Equal(names, g.names) {
		g.names = names
		g.boards = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !g.isNVIDIA(n) })
	}
	var boards []PCIBoard
	for _, b := range g.boards {
		boards = append(boards, PCIBoard{PCI: b, Asleep: g.canSleep(b) && !g.isActive(b)})
	}
	return boards
}

// isNVIDIA reports whether a PCI device is a display controller of NVIDIA's.
func (g *gate) isNVIDIA(name string) bool {
	dir := path.Join(pciDevices, name)
	vendor, err := g.sys.ReadString(path.Join(dir, "vendor"))
	if err != nil || vendor != "0x10de" {
		return false
	}
	class, err := g.sys.ReadString(path.Join(dir, "class"))
	return err == nil && strings.HasPrefix(class, "0x03")
}

// canSleep reports whether a board that the library would attach may be suspended at run time: the kernel is allowed to,
// and the driver does not say that it never does. A board that another driver has, such as one handed to a virtual
// machine, the library leaves alone.
func (g *gate) canSleep(name string) bool {
	dir := path.Join(pciDevices, name)
	if control, err := g.sys.ReadString(path.Join(dir, "power/control")); err == nil && control == "on" || errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if driver, err := g.sys.Link(path.Join(dir, "driver")); err == nil && path.Base(driver) != "nvidia" {
		return false
	}
	power, err := g.proc.Read(path.Join("driver/nvidia/gpus", name, "power"))
	return err != nil || !runtimeD3Off(string(power))
}

// runtimeD3Off reports whether the driver says that it does not suspend a board at run time: "Disabled by default",
// "Not supported".
func runtimeD3Off(power string) bool {
	for line := range strings.Lines(power) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "Runtime D3 status" {
			value = strings.TrimSpace(value)
			return strings.HasPrefix(value, "Disabled") || strings.HasPrefix(value, "Not supported")
		}
	}
	return false
}

// isActive reports whether a board is awake. One that does not say so is not.
func (g *gate) isActive(name string) bool {
	status, err := g.sys.ReadString(path.Join(pciDevices, name, "power/runtime_status"))
	return err == nil && (status == "active" || status == "unsupported") || errors.Is(err, fs.ErrNotExist)
}

// sleepers lists the addresses of the boards that sleep.
func sleepers(boards []PCIBoard) []string {
	var all []string
	for _, b := range boards {
		if b.Asleep {
			all = append(all, b.PCI)
		}
	}
	return all
}
