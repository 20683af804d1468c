package profiles

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/qunerd/quner/internal/host"
)

// Facts are named properties of a host, for comparing one with another.
type Facts map[string]string

// Key is a short name for the facts: equal facts have equal keys, and different ones different. 32 hexadecimal digits.
func (f Facts) Key() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(sum, "%q=%q\n", name, f[name])
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Changes are the facts that are otherwise in now, sorted, in words: "kernel: 6.1.0 → 6.6.0". Without facts of before
// nothing can be said.
func (f Facts) Changes(now Facts) []string {
	if len(f) == 0 {
		return nil
	}
	all := maps.Clone(f)
	maps.Copy(all, now)
	var words []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, is := f[name], now[name]
		if was != is {
			words = append(words, fmt.Sprintf("%s: %s → %s", name, cmp.Or(was, "none"), cmp.Or(is, "none")))
		}
	}
	return words
}

// Fingerprint tells on which machine a point was tuned. A point of another Hard key is never applied; one of another
// Soft key is, and is to be validated again.
type Fingerprint struct {
	Hard Facts // CPU model, cpufreq driver and its mode, boards with vbios and cap range
	Soft Facts // kernel, microcode, GPU driver
}

// FingerprintOf reads the fingerprint of a host whose GPUs are open. A fact the host does not tell is left out.
func FingerprintOf(h *host.Host) Fingerprint {
	f := Fingerprint{Hard: Facts{}, Soft: Facts{}}
	cpu := h.CPU()
	f.Hard.put("cpu", cpu.Model)
	f.Soft.put("microcode", cpu.Microcode)
	f.Hard.put("cpufreq", DriverOf(h).String())
	if kernel, err := h.Proc.ReadString("sys/kernel/osrelease"); err == nil {
		f.Soft.put("kernel", kernel)
	}
	boards := h.GPUs.All()
	for _, gpu := range boards {
		info := gpu.Info()
		text := info.VBIOS
		if lo, hi, err := gpu.LimitRange(); err == nil {
			text = fmt.Sprintf("%s %d…%d µW", info.VBIOS, lo, hi)
		}
		f.Hard["gpu/"+info.UUID] = text
	}
	if len(boards) > 0 {
		f.Soft.put("gpu driver", h.GPUs.Version())
	}
	return f
}

func (f Facts) put(name, value string) {
	if value != "" {
		f[name] = value
	}
}

// Driver is what scales the CPU's frequency, and how.
type Driver struct {
	Name string // scaling_driver: "intel_pstate", "acpi-cpufreq"; "" without cpufreq
	Mode string // status of a pstate driver: "active", "passive", "guided"
}

// DriverOf reads the cpufreq driver of a host, by its first policy: all policies have one driver.
func DriverOf(h *host.Host) Driver {
	var d Driver
	names, err := h.Sys.List("devices/system/cpu/cpufreq")
	if err != nil {
		return d
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "policy") {
			continue
		}
		if d.Name, err = h.Sys.ReadString("devices/system/cpu/cpufreq/" + name + "/scaling_driver"); err == nil {
			break
		}
	}
	for _, dir := range []string{"intel_pstate", "amd_pstate"} {
		if mode, err := h.Sys.ReadString("devices/system/cpu/" + dir + "/status"); err == nil && mode != "off" {
			d.Mode = mode
			break
		}
	}
	return d
}

// String is the driver with its mode: "intel_pstate active"; empty without one.
func (d Driver) String() string { return strings.TrimSpace(d.Name + " " + d.Mode) }

// Active reports whether the processor itself chooses the frequency, so that its governor "powersave" is the normal,
// dynamic one. With any other driver "powersave" pins the lowest frequency.
func (d Driver) Active() bool { return d.Name == "intel_pstate" || d.Name == "amd-pstate-epp" }
