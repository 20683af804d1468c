package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic returns CLOCK_MONOTONIC, which a process that is started anew goes on with until the machine boots. A host
// without a clock of its own, such as a simulated one, has the wall's.
func (h *Host) Monotonic() time.Duration {
	if h.Clock == nil {
		return time.Duration(time.Now().UnixNano())
	}
	return h.Clock()
}

func monotonic() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
