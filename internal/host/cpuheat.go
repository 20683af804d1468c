package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"time"
)

// CPUHeat is what the kernel has counted since boot of one CPU being slowed down for its heat, alone or with its package. Only
// Intel's CPUs tell. Limits of power are counted apart, and are not in it.
type CPUHeat struct {
	Events uint64        // how often a slowdown has begun
	Spent  time.Duration // in those that have ended; 0 before Linux 5.6
}

// CPUHeat reads the thermal_throttle counters of every CPU that is online, by its number. The error wraps ErrNotSupported
// where none has any.
func (h *Host) CPUHeat() (map[int]CPUHeat, error) {
	const dir = "devices/system/cpu"
	names, err := h.Sys.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all, form := map[int]CPUHeat{}, regexp.MustCompile(`^cpu([0-9]{1,5})$`)
	for _, name := range names {
		m := form.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		if n, err := strconv.Atoi(m[1]); err == nil {
			if heat, ok := h.heatOf(path.Join(dir, name, "thermal_throttle")); ok {
				all[n] = heat
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no thermal_throttle: %w", h.Sys.File(dir), ErrNotSupported)
	}
	return all, nil
}

// heatOf adds up the counters of one CPU; a CPU, or a kernel, has only some of them.
func (h *Host) heatOf(dir string) (sum CPUHeat, ok bool) {
	for _, part := range []string{"core", "package"} {
		if n, err := h.Sys.ReadUint(path.Join(dir, part+"_throttle_count")); err == nil {
			sum.Events, ok = sum.Events+n, true
		}
		if ms, err := h.Sys.ReadUint(path.Join(dir, part+"_throttle_total_time_ms")); err == nil {
			sum.Spent += time.Duration(ms) * time.Millisecond
		}
	}
	return sum, ok
}
