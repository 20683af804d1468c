//go:build cgo && linux

package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/unit"
)

// PowerSamples asks in the order of preference and remembers what the board has said it does not have.
func (b *nvmlBoard) PowerSamples() ([]PowerSample, error) {
	if !b.noInstant {
		began := time.Now()
		p, err := b.instantPower()
		if !errors.Is(err, ErrNotSupported) {
			return oneSample(PowerSample{Power: p, At: began, From: PowerInstant}, err)
		}
		b.noInstant = true
	}
	if !b.noBuffer {
		all, err := b.bufferedPower()
		if !errors.Is(err, ErrNotSupported) {
			return all, err
		}
		b.noBuffer = true
	}
	began := time.Now()
	p, err := b.milliwatts(b.handle.GetPowerUsage, "nvmlDeviceGetPowerUsage")
	return oneSample(PowerSample{Power: p, At: began, Averaging: b.usageMean(), From: PowerUsage}, err)
}

func oneSample(s PowerSample, err error) ([]PowerSample, error) {
	if err != nil {
		return nil, err
	}
	return []PowerSample{s}, nil
}

// bufferedPower returns what the driver has sampled by itself since the call before.
func (b *nvmlBoard) bufferedPower() ([]PowerSample, error) {
	const function = "nvmlDeviceGetSamples"
	if err := b.driver.need(function); err != nil {
		return nil, err
	}
	kind, raw, ret := b.handle.GetSamples(nvml.TOTAL_POWER_SAMPLES, b.seen)
	if ret == nvml.ERROR_NOT_FOUND { // none is newer
		return nil, nil
	}
	if err := nvmlError(function, ret); err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, nil
	}
	if kind != nvml.VALUE_TYPE_UNSIGNED_INT {
		return nil, fmt.Errorf("%s: values of type %d: %w", function, kind, ErrNotSupported)
	}
	newest := raw[0].TimeStamp
	for _, s := range raw {
		newest = max(newest, s.TimeStamp)
	}
	since := b.seen
	if since == 0 {
		since = newest - 1 // what was before the first call is nobody's
	}
	now, zero := time.Now(), sampleZero(newest)
	var all []PowerSample
	for _, s := range raw { // some slots of a young buffer are empty
		if s.TimeStamp <= since || s.TimeStamp > math.MaxInt64/1000 {
			continue
		}
		all = append(all, PowerSample{
			Power: unit.Power(binary.NativeEndian.Uint32(s.SampleValue[:])) * unit.Milliwatt,
			At:    now.Add(min(0, time.Duration(s.TimeStamp)*time.Microsecond-zero)), From: PowerBuffer,
		})
	}
	b.seen = newest
	slices.SortFunc(all, func(x, y PowerSample) int { return x.At.Compare(y.At) })
	return all, nil
}

// sampleZero returns the present moment on the clock that a time stamp in µs was taken by. The library calls it the CPU's
// time and does not say whose zero it has: drivers have used the epoch and the boot. The clock that is ahead of the stamp by
// least is the one; with none within an hour, the newest stamp is taken for now.
func sampleZero(stamp uint64) time.Duration {
	const longest = time.Hour
	at := time.Duration(min(stamp, math.MaxInt64/1000)) * time.Microsecond
	best, zero := longest, at
	for _, clock := range []int32{unix.CLOCK_BOOTTIME, unix.CLOCK_MONOTONIC, unix.CLOCK_REALTIME} {
		var ts unix.Timespec
		if unix.ClockGettime(clock, &ts) != nil {
			continue
		}
		if age := time.Duration(ts.Nano()) - at; age > -time.Second && age < best {
			best, zero = age, time.Duration(ts.Nano())
		}
	}
	return zero
}

// usageMean returns what nvmlDeviceGetPowerUsage is the mean over: a second from Ampere on, except on the GA100 chip, and
// no time before (nvml.h). A board whose chip cannot be told gets the second.
func (b *nvmlBoard) usageMean() time.Duration {
	if b.mean < 0 {
		b.mean = b.findUsageMean()
	}
	return b.mean
}

func (b *nvmlBoard) findUsageMean() time.Duration {
	arch, err := nvmlCall(b.driver, b.handle.GetArchitecture, "nvmlDeviceGetArchitecture")
	switch {
	case errors.Is(err, ErrNotSupported): // the driver is older than Ampere, or the chip is
		return 0
	case err != nil:
		return time.Second
	case arch < nvml.DEVICE_ARCH_AMPERE:
		return 0
	case arch == nvml.DEVICE_ARCH_AMPERE && b.isGA100():
		return 0
	}
	return time.Second
}

// isGA100 reports whether the board has the chip of the A100, A30 and their kin: PCI device ids 0x20xx.
func (b *nvmlBoard) isGA100() bool {
	pci, err := nvmlCall(b.driver, b.handle.GetPciInfo,
		"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")
	return err == nil && pci.PciDeviceId>>24 == 0x20 // the upper half is the device's id
}
