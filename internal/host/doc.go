// Package host is the machine quner runs on: every file it may touch, its GPUs as actors with one owner each, and the
// reasons why something is not there. The daemon holds one Host; a simulation is the same Host with a hook in its files
// and another GPU driver.
package host

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Host is one machine. Its directories stand for /sys, /proc, /etc, the runtime and the state directory.
type Host struct {
	Sys  Dir // /sys
	Proc Dir // /proc; prometheus/procfs opens files below its path too, past the hook
	Etc  Dir // /etc/quner
	Run  Dir // /run: holds quner/ (public) and quner-admin/ (root only)
	Var  Dir // /var/lib/quner

	GPUs *GPUs // never nil; may own no device

	// Asleep returns how long the machine has been suspended since it booted: CLOCK_BOOTTIME − CLOCK_MONOTONIC. It only
	// grows. Tests fake time itself with testing/synctest, which knows nothing of suspend; hence this one function.
	Asleep func() time.Duration
	// Clock is what Monotonic returns; nil: the wall's clock.
	Clock func() time.Duration
}

// Real returns the machine this process runs on, below root ("/" but in tests). GPUs come from driver, which may be nil.
func Real(root string, driver Driver) *Host {
	sys, proc := NewDir(root, nil).Sub("sys"), NewDir(root, nil).Sub("proc")
	return &Host{
		Sys:    sys,
		Proc:   proc,
		Etc:    NewDir(root, nil).Sub("etc/quner"),
		Run:    NewDir(root, nil).Sub("run"),
		Var:    NewDir(root, nil).Sub("var/lib/quner"),
		GPUs:   NewGatedGPUs(driver, sys, proc),
		Asleep: asleep,
		Clock:  monotonic,
	}
}

// BootID returns the kernel's random id of this boot, or "" where the kernel does not tell.
func (h *Host) BootID() string {
	id, err := h.Proc.ReadString("sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.ToLower(id)
}

func asleep() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
		return 0
	}
	return max(0, time.Duration(boot.Nano()-mono.Nano()))
}
