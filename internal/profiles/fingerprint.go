package profiles

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
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
		fmt.Fprintf(sum, "%q=%q\n", name, f[name]) //nolint:errcheck // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
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
	cpu := readCPU(h)
	f.Hard.put("cpu", cpu.model)
	f.Soft.put("microcode", cpu.microcode)
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

// CPUModel returns the processor's name as the kernel prints it, or "" where it prints none.
func CPUModel(h *host.Host) string { return readCPU(h).model }

// cpuIdentity is what the first block of /proc/cpuinfo says.
type cpuIdentity struct{ model, microcode string }

// cpuBlock is more than the first processor's block, which is all that is read: the whole file exceeds host.MaxFile on
// large machines.
const cpuBlock = 16 << 10

func readCPU(h *host.Host) cpuIdentity {
	f, err := h.Proc.Open("cpuinfo")
	if err != nil {
		return cpuIdentity{}
	}
	defer f.Close() //nolint:errcheck // opened for reading
	block := make([]byte, cpuBlock)
	n, err := f.ReadAt(block)
	if err != nil {
		return cpuIdentity{}
	}
	return parseCPU(strings.NewReader(string(block[:n])))
}

// parseCPU reads the first block of /proc/cpuinfo: x86 prints a model name, arm64 the implementer's and part's numbers.
func parseCPU(r io.Reader) cpuIdentity {
	text, err := io.ReadAll(io.LimitReader(r, cpuBlock))
	if err != nil {
		return cpuIdentity{}
	}
	var id cpuIdentity
	arm := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, found := strings.Cut(line, ":")
		if !found {
			if strings.TrimSpace(line) == "" && (id.model != "" || len(arm) > 0) {
				break
			}
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch key {
		case "model name":
			id.model = value
		case "microcode":
			id.microcode = value
		case "CPU implementer", "CPU part", "CPU variant", "CPU revision":
			arm[key] = value
		}
	}
	if id.model == "" && arm["CPU implementer"] != "" {
		id.model = strings.TrimSpace(fmt.Sprintf("arm %s part %s variant %s revision %s",
			arm["CPU implementer"], arm["CPU part"], arm["CPU variant"], arm["CPU revision"]))
	}
	return id
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
