package host

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// CPUTime is for how many seconds the CPUs have been at work since boot, all of them together, and of how many: Total grows
// by a second for each CPU each second.
type CPUTime struct {
	Busy, Total float64
}

// CPUTime reads the first line of /proc/stat.
func (h *Host) CPUTime() (CPUTime, error) {
	f, err := h.Proc.Open("stat")
	if err != nil {
		return CPUTime{}, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	line := make([]byte, 512)
	n, err := f.ReadAt(line)
	if err != nil {
		return CPUTime{}, err
	}
	t, err := parseCPUTime(strings.NewReader(string(line[:n])))
	if err != nil {
		return t, fmt.Errorf("%s: %w", h.Proc.File("stat"), err)
	}
	return t, nil
}

var errNoCPUTime = errors.New("the first line is not of all CPUs")

// jiffy is USER_HZ: 100 on every architecture there is a GPU for.
const jiffy = 0.01

// parseCPUTime reads "cpu  user nice system idle iowait irq softirq steal guest guest_nice", in jiffies. Idle and iowait are
// not work; guest is in user already.
func parseCPUTime(r io.Reader) (CPUTime, error) {
	text, err := io.ReadAll(io.LimitReader(r, 512))
	if err != nil {
		return CPUTime{}, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 5 || fields[0] != "cpu" {
		return CPUTime{}, errNoCPUTime
	}
	var t CPUTime
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return CPUTime{}, errNoCPUTime
		}
		spent := float64(n) * jiffy
		t.Total += spent
		if i != 3 && i != 4 {
			t.Busy += spent
		}
	}
	return t, nil
}
