package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCPUHeat(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, "sys/devices/system/cpu", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	h := Real(root, nil)
	if got, err := h.CPUHeat(); !errors.Is(err, ErrNotSupported) {
		t.Errorf("of no CPU: %v, %v", got, err)
	}
	put("cpufreq/policy0/scaling_governor", "powersave\n")
	put("cpu0/online", "1\n") // an AMD has no more
	if got, err := h.CPUHeat(); !errors.Is(err, ErrNotSupported) {
		t.Errorf("of a CPU that does not tell: %v, %v", got, err)
	}
	put("cpu3/thermal_throttle/core_throttle_count", "2\n")
	put("cpu3/thermal_throttle/package_throttle_count", "40\n")
	put("cpu3/thermal_throttle/core_throttle_total_time_ms", "7\n")
	put("cpu3/thermal_throttle/package_throttle_total_time_ms", "1000\n")
	put("cpu3/thermal_throttle/package_power_limit_count", "99\n") // not heat
	put("cpu17/thermal_throttle/core_throttle_count", "5\n")       // an older kernel
	put("cpu17/thermal_throttle/package_throttle_count", "much\n")
	got, err := h.CPUHeat()
	if diff := cmp.Diff(map[int]CPUHeat{3: {Events: 42, Spent: 1007 * time.Millisecond}, 17: {Events: 5}}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
