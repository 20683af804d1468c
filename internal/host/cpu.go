package host

import (
	"fmt"
	"io"
	"strings"
)

// CPU is what the kernel says of the first processor. A field it does not tell is empty.
type CPU struct {
	Model     string // "Intel(R) Core(TM) …"; on arm64 the implementer's and the part's numbers
	Microcode string // revision, as in "0x2c"
}

// cpuBlock is more than the first processor's block, which is all that is read: the whole file exceeds MaxFile on large
// machines.
const cpuBlock = 16 << 10

// CPU reads /proc/cpuinfo.
func (h *Host) CPU() CPU {
	f, err := h.Proc.Open("cpuinfo")
	if err != nil {
		return CPU{}
	}
	defer f.Close() //nolint:errcheck // opened for reading
	block := make([]byte, cpuBlock)
	n, err := f.ReadAt(block)
	if err != nil {
		return CPU{}
	}
	return parseCPU(strings.NewReader(string(block[:n])))
}

// parseCPU reads the first block of /proc/cpuinfo.
func parseCPU(r io.Reader) CPU {
	text, err := io.ReadAll(io.LimitReader(r, cpuBlock))
	if err != nil {
		return CPU{}
	}
	var cpu CPU
	arm := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, found := strings.Cut(line, ":")
		if !found {
			if strings.TrimSpace(line) == "" && (cpu.Model != "" || len(arm) > 0) {
				break
			}
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch key {
		case "model name":
			cpu.Model = value
		case "microcode":
			cpu.Microcode = value
		case "CPU implementer", "CPU part", "CPU variant", "CPU revision":
			arm[key] = value
		}
	}
	if cpu.Model == "" && arm["CPU implementer"] != "" {
		cpu.Model = fmt.Sprintf("arm64 %s part %s variant %s revision %s",
			arm["CPU implementer"], arm["CPU part"], arm["CPU variant"], arm["CPU revision"])
	}
	return cpu
}
