package profiles

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/qunerd/quner/internal/host"
)

// Sample is what the detector judges: how busy the machine is.
type Sample struct {
	GPUUtilisation float64  `json:"gpu_utilisation"`  // highest of all boards, 0…1; one that sleeps counts as 0
	Load1          float64  `json:"load1"`            // 1-minute load average
	CPUs           int      `json:"cpus"`             // online
	GPUs           int      `json:"gpus"`             // boards that told their utilisation, or sleep
	Unread         []string `json:"unread,omitempty"` // signals that are there and could not be read, with the fact
}

// TakeSample looks at the load average, the online CPUs and every board. A board's reading may be maxAge old, so that one
// visit serves all who ask in the same tick. A signal that cannot be read is in Unread; there is no error beside that.
func TakeSample(ctx context.Context, h *host.Host, maxAge time.Duration) Sample {
	var s Sample
	if err := s.addCPU(h); err != nil {
		s.Unread = append(s.Unread, err.Error())
	}
	for _, b := range h.GPUs.Waiting() {
		if b.Asleep {
			s.GPUs++
		}
	}
	for _, gpu := range h.GPUs.All() {
		if err := s.addGPU(ctx, gpu, maxAge); err != nil {
			s.Unread = append(s.Unread, err.Error())
		}
	}
	return s
}

func (s *Sample) addCPU(h *host.Host) error {
	proc, err := procfs.NewFS(h.Proc.Path())
	if err != nil {
		return fmt.Errorf("load average: %w", err)
	}
	load, err := proc.LoadAvg()
	if err != nil {
		return fmt.Errorf("load average: %w", err)
	}
	cpus, err := onlineCPUs(h, proc)
	if err != nil {
		return fmt.Errorf("online CPUs: %w", err)
	}
	s.Load1, s.CPUs = load.Load1, cpus
	return nil
}

// addGPU counts one board. A board that cannot tell for good is no signal, and so no fault: one that is a slice, is lost,
// or has no such figure.
func (s *Sample) addGPU(ctx context.Context, gpu *host.GPU, maxAge time.Duration) error {
	r, err := gpu.Read(ctx, maxAge)
	if err == nil {
		err = r.UtilErr
	}
	switch {
	case err == nil:
		s.GPUUtilisation = max(s.GPUUtilisation, r.Utilisation)
		s.GPUs++
	case errors.Is(err, host.ErrSuspended):
		s.GPUs++
	case errors.Is(err, host.ErrNotSupported), errors.Is(err, host.ErrLost), errors.Is(err, host.ErrNoDriver):
	default:
		return fmt.Errorf("gpu/%s: utilisation: %w", gpu.Info().UUID, err)
	}
	return nil
}

// onlineCPUs counts the CPUs of the kernel's list; a host without that file has them as lines of /proc/stat, which costs
// the kernel much more to print.
func onlineCPUs(h *host.Host, proc procfs.FS) (int, error) {
	list, err := h.Sys.ReadString("devices/system/cpu/online")
	if err == nil {
		return countCPUs(list)
	}
	stat, statErr := proc.Stat()
	if statErr != nil {
		return 0, errors.Join(err, statErr)
	}
	if len(stat.CPU) == 0 {
		return 0, errors.New("/proc/stat names none")
	}
	return len(stat.CPU), nil
}

// maxCPU is the highest CPU number a list may hold: the kernel's own limit is 8192.
const maxCPU = 1 << 20

// countCPUs counts the members of a kernel CPU list: "0-3,8,10-11" has 7.
func countCPUs(list string) (int, error) {
	n := 0
	next := 0 // ranges ascend and do not overlap
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, errLo := strconv.Atoi(first)
		hi, errHi := strconv.Atoi(last)
		if errLo != nil || errHi != nil || lo < next || hi < lo || hi > maxCPU {
			return 0, fmt.Errorf("CPU list: part %q is no number or ascending range", part)
		}
		n += hi - lo + 1
		next = hi + 1
	}
	return n, nil
}
