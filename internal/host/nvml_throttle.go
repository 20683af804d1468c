//go:build cgo && linux

package host

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Throttling reads the reasons for which clocks are low now, and the time spent under those of them that are slowdowns.
func (b *nvmlBoard) Throttling() Throttling {
	var t Throttling
	t.Now, t.NowErr = b.slowdownNow()
	t.Spent, t.SpentErr = b.slowdownSpent()
	return t
}

// slowdownNow reads the reasons by the name that drivers have had for them since 2023, or by the one before.
func (b *nvmlBoard) slowdownNow() (Slowdown, error) {
	const name, before = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
	if !b.tellsSlowdown() {
		return 0, fmt.Errorf("%s: slowdowns are none of the board's reasons: %w", name, ErrNotSupported)
	}
	bits, err := nvmlCall(b.driver, b.handle.GetCurrentClocksEventReasons, name)
	if errors.Is(err, ErrNotSupported) {
		bits, err = nvmlCall(b.driver, b.handle.GetCurrentClocksThrottleReasons, before)
	}
	if err != nil {
		return 0, err
	}
	return slowdownOf(bits), nil
}

// tellsSlowdown reports whether any slowdown is among the reasons that the board says it can have. A board that does not say
// which it can have may have all.
func (b *nvmlBoard) tellsSlowdown() bool {
	if b.reasons == 0 {
		bits, err := nvmlCall(b.driver, b.handle.GetSupportedClocksEventReasons, "nvmlDeviceGetSupportedClocksEventReasons")
		if errors.Is(err, ErrNotSupported) {
			bits, err = nvmlCall(b.driver, b.handle.GetSupportedClocksThrottleReasons, "nvmlDeviceGetSupportedClocksThrottleReasons")
		}
		if b.reasons = bits; err != nil || bits == 0 {
			b.reasons = math.MaxUint64
		}
	}
	return slowdownOf(b.reasons) != 0
}

// slowdownOf picks the slowdowns out of NVML's reasons. The software power cap (0x4), idleness, clocks that somebody has set,
// sync boost and the limits of board and reliability are none. The hardware's slowdown is a reason beside its causes, where
// it has one that is told.
func slowdownOf(bits uint64) Slowdown {
	var s Slowdown
	for _, r := range []struct {
		bit  uint64
		slow Slowdown
	}{
		{nvml.ClocksEventReasonSwThermalSlowdown, SlowHeat},
		{nvml.ClocksThrottleReasonHwThermalSlowdown, SlowHotChip},
		{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, SlowPowerBrake},
	} {
		if bits&r.bit != 0 {
			s |= r.slow
		}
	}
	if bits&nvml.ClocksThrottleReasonHwSlowdown != 0 && s&(SlowHotChip|SlowPowerBrake) == 0 {
		s |= SlowChip
	}
	return s
}

// slowdownSpent adds up the driver's counters of slowdowns, all in ns. Drivers without them have the time of thermal
// violations, which is the first of them by its older name.
func (b *nvmlBoard) slowdownSpent() (time.Duration, error) {
	var sum uint64
	told := false
	for _, id := range []uint32{
		nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
		nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
	} {
		if ns, ok := b.field(id, 0); ok {
			sum, told = sum+ns, true
		}
	}
	const function = "nvmlDeviceGetViolationStatus"
	if !told {
		v, err := nvmlCall(b.driver, func() (nvml.ViolationTime, nvml.Return) {
			return b.handle.GetViolationStatus(nvml.PERF_POLICY_THERMAL)
		}, function)
		if err != nil {
			return 0, err
		}
		sum = v.ViolationTime
	}
	if sum > math.MaxInt64 {
		return 0, fmt.Errorf("%s: %d ns: %w", function, sum, ErrUnread)
	}
	return time.Duration(sum), nil
}
