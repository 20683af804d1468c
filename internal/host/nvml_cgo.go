//go:build cgo && linux

package host

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/qunerd/quner/internal/unit"
)

// NVML returns NVIDIA's management library as a Driver. path is the library's file; "" leaves finding
// libnvidia-ml.so.1 to the dynamic loader. Nothing is loaded before Init. The binding is process-wide: a process may
// use one path only.
func NVML(path string) Driver {
	path = cmp.Or(path, "libnvidia-ml.so.1")
	return &nvmlDriver{path: path, lib: nvml.New(nvml.WithLibraryPath(path))}
}

// A function of the library, by the names it has had; the binding picks the newest that is there.
type symbol []string

// nvmlNeeded lists the functions without which nothing can be done.
func nvmlNeeded() []symbol {
	return []symbol{
		{"nvmlInit_v2", "nvmlInit"}, {"nvmlShutdown"}, {"nvmlDeviceGetUUID"}, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
		{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
	}
}

type nvmlDriver struct {
	path string
	lib  nvml.Interface
}

// Init loads the library and attaches its boards. A machine without it, or with one of its functions missing, is
// ErrNoDriver.
func (d *nvmlDriver) Init() error {
	if err := d.probe(); err != nil {
		return err
	}
	return nvmlError("nvmlInit", d.lib.Init())
}

// probe makes sure that the library is one, before the binding calls into it: a call to a function that the library
// lacks ends the process.
func (d *nvmlDriver) probe() error {
	lib := dl.New(d.path, dl.RTLD_LAZY|dl.RTLD_LOCAL)
	if err := lib.Open(); err != nil {
		return fmt.Errorf("%s: %w: %w", d.path, err, ErrNoDriver)
	}
	defer lib.Close() //nolint:errcheck // the binding holds it open from here on, or nobody needs it
	for _, s := range nvmlNeeded() {
		if err := s.in(lib.Lookup); err != nil {
			return fmt.Errorf("%s: %w: %w", d.path, err, ErrNoDriver)
		}
	}
	return nil
}

func (s symbol) in(lookup func(string) error) error {
	for _, name := range s {
		if lookup(name) == nil {
			return nil
		}
	}
	return fmt.Errorf("no function %s", s[0])
}

// need returns ErrNotSupported where the loaded library lacks the function.
func (d *nvmlDriver) need(names ...string) error {
	if err := symbol(names).in(d.lib.Extensions().LookupSymbol); err != nil {
		return fmt.Errorf("%s: %w: %w", d.path, err, ErrNotSupported)
	}
	return nil
}

func (d *nvmlDriver) Shutdown() error { return nvmlError("nvmlShutdown", d.lib.Shutdown()) }

func (d *nvmlDriver) Version() (string, error) {
	return nvmlCall(d, d.lib.SystemGetDriverVersion, "nvmlSystemGetDriverVersion")
}

// Devices returns the boards in the library's order. A board that gives no handle is among them; its Info says why, and
// the others are not lost with it.
func (d *nvmlDriver) Devices() ([]Device, error) {
	n, ret := d.lib.DeviceGetCount()
	if err := nvmlError("nvmlDeviceGetCount", ret); err != nil {
		return nil, err
	}
	all := make([]Device, 0, n)
	for i := range n {
		handle, ret := d.lib.DeviceGetHandleByIndex(i)
		if err := nvmlError("nvmlDeviceGetHandleByIndex", ret); err != nil {
			all = append(all, lostBoard{err})
			continue
		}
		all = append(all, &nvmlBoard{driver: d, handle: handle, mean: -1})
	}
	return all, nil
}

// nvmlBoard is one board by its handle. Only its actor uses it.
type nvmlBoard struct {
	driver    *nvmlDriver
	handle    nvml.Device
	noInstant bool // the board has said that it does not tell its instant power
	noBuffer  bool // nor keeps samples of it

	seen uint64        // time stamp of the newest sample given
	mean time.Duration // what nvmlDeviceGetPowerUsage is the mean over; negative: not asked yet

	reasons uint64 // that its clocks may be low for; 0: not asked yet
}

func (b *nvmlBoard) Info() (GPUInfo, error) {
	uuid, err := nvmlCall(b.driver, b.handle.GetUUID, "nvmlDeviceGetUUID")
	if err != nil {
		return GPUInfo{}, err
	}
	name, err := nvmlCall(b.driver, b.handle.GetName, "nvmlDeviceGetName")
	if err != nil && !errors.Is(err, ErrNotSupported) {
		return GPUInfo{}, err
	}
	vbios, err := nvmlCall(b.driver, b.handle.GetVbiosVersion, "nvmlDeviceGetVbiosVersion")
	if err != nil && !errors.Is(err, ErrNotSupported) {
		return GPUInfo{}, err
	}
	pci, err := nvmlCall(b.driver, b.handle.GetPciInfo,
		"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")
	info := GPUInfo{UUID: uuid, Name: name, VBIOS: vbios, MIG: b.sliced(), Module: b.onModule()}
	switch {
	case err == nil:
		info.PCI = pciAddress(pci)
	case !errors.Is(err, ErrNotSupported): // a board that is part of the SoC has no PCI address
		return GPUInfo{}, err
	}
	return info, nil
}

// pciAddress returns the address as /sys/bus/pci/devices spells it. NVML writes the domain with eight digits; the
// function is only in the text.
func pciAddress(pci nvml.PciInfo) string {
	text := make([]byte, 0, len(pci.BusId))
	for _, c := range pci.BusId {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	_, function, ok := strings.Cut(string(text), ".")
	if !ok {
		function = "0"
	}
	return fmt.Sprintf("%04x:%02x:%02x.%s", pci.Domain, pci.Bus, pci.Device, function)
}

func (b *nvmlBoard) Energy() (unit.Energy, error) {
	mj, err := nvmlCall(b.driver, b.handle.GetTotalEnergyConsumption, "nvmlDeviceGetTotalEnergyConsumption")
	if err == nil && mj > math.MaxInt64/uint64(unit.Millijoule) {
		return 0, fmt.Errorf("nvmlDeviceGetTotalEnergyConsumption: %d mJ: %w", mj, ErrUnread)
	}
	return unit.Energy(mj) * unit.Millijoule, err
}

// Power prefers the instant reading: on Ampere and later nvmlDeviceGetPowerUsage is a mean over a second.
func (b *nvmlBoard) Power() (unit.Power, error) {
	if !b.noInstant {
		p, err := b.instantPower()
		if !errors.Is(err, ErrNotSupported) {
			return p, err
		}
		b.noInstant = true
	}
	return b.milliwatts(b.handle.GetPowerUsage, "nvmlDeviceGetPowerUsage")
}

func (b *nvmlBoard) instantPower() (unit.Power, error) {
	const function = "nvmlDeviceGetFieldValues"
	if err := b.driver.need(function); err != nil {
		return 0, err
	}
	field := []nvml.FieldValue{{FieldId: nvml.FI_DEV_POWER_INSTANT}}
	ret := b.handle.GetFieldValues(field)
	if ret == nvml.SUCCESS {
		ret = nvml.Return(field[0].NvmlReturn)
	}
	if ret == nvml.ERROR_INVALID_ARGUMENT { // what drivers that do not know the field say
		ret = nvml.ERROR_NOT_SUPPORTED
	}
	if err := nvmlError(function, ret); err != nil {
		return 0, err
	}
	mw, ok := fieldUint(field[0])
	if !ok {
		return 0, fmt.Errorf("%s: value of type %d: %w", function, field[0].ValueType, ErrNotSupported)
	}
	return milliwatts(function, mw)
}

func (b *nvmlBoard) Utilisation() (float64, error) {
	u, err := nvmlCall(b.driver, b.handle.GetUtilizationRates, "nvmlDeviceGetUtilizationRates")
	if err == nil && u.Gpu > 100 {
		return 0, fmt.Errorf("nvmlDeviceGetUtilizationRates: %d %%: %w", u.Gpu, ErrUnread)
	}
	return float64(u.Gpu) / 100, err
}

func (b *nvmlBoard) Limit() (unit.Power, error) {
	return b.milliwatts(b.handle.GetPowerManagementLimit, "nvmlDeviceGetPowerManagementLimit")
}

func (b *nvmlBoard) EnforcedLimit() (unit.Power, error) {
	return b.milliwatts(b.handle.GetEnforcedPowerLimit, "nvmlDeviceGetEnforcedPowerLimit")
}

func (b *nvmlBoard) DefaultLimit() (unit.Power, error) {
	return b.milliwatts(b.handle.GetPowerManagementDefaultLimit, "nvmlDeviceGetPowerManagementDefaultLimit")
}

func (b *nvmlBoard) LimitRange() (lo, hi unit.Power, err error) {
	const function = "nvmlDeviceGetPowerManagementLimitConstraints"
	if err := b.driver.need(function); err != nil {
		return 0, 0, err
	}
	least, most, ret := b.handle.GetPowerManagementLimitConstraints()
	if err := nvmlError(function, ret); err != nil {
		return 0, 0, err
	}
	lo, err = milliwatts(function, uint64(least))
	if err != nil {
		return 0, 0, err
	}
	hi, err = milliwatts(function, uint64(most))
	return lo, hi, err
}

// SetLimit rounds to NVML's unit, a milliwatt.
func (b *nvmlBoard) SetLimit(p unit.Power) error {
	const function = "nvmlDeviceSetPowerManagementLimit"
	if err := b.driver.need(function); err != nil {
		return err
	}
	mw := (p + unit.Milliwatt/2) / unit.Milliwatt
	if p <= 0 || mw >= math.MaxUint32 {
		return fmt.Errorf("%s: %v: %w", function, p, ErrOutOfRange)
	}
	return nvmlError(function, b.handle.SetPowerManagementLimit(uint32(mw)))
}

func (b *nvmlBoard) Processes() ([]int, error) {
	all, err := nvmlCall(b.driver, b.handle.GetComputeRunningProcesses, "nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses")
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(all))
	for _, p := range all {
		pids = append(pids, int(p.Pid))
	}
	return pids, nil
}

func (b *nvmlBoard) milliwatts(get func() (uint32, nvml.Return), function string) (unit.Power, error) {
	mw, err := nvmlCall(b.driver, get, function)
	if err != nil {
		return 0, err
	}
	return milliwatts(function, uint64(mw))
}
