package host

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Reason says, for machines and people alike, why a control or a counter is not usable. The empty Reason means it is.
type Reason string

// The reasons. Each is a fact about the host, never a failure of quner.
const (
	Absent         Reason = "ABSENT"          // the host has no such thing
	NoDriver       Reason = "NO_DRIVER"       // the kernel module or the vendor library is not loaded
	VM             Reason = "VM"              // a virtual machine hides it
	BIOSLocked     Reason = "BIOS_LOCKED"     // firmware refuses writes until the next boot
	ECManaged      Reason = "EC_MANAGED"      // the embedded controller of a laptop owns it
	ZeroRange      Reason = "ZERO_RANGE"      // its lowest and highest value are the same
	ReadOnlySysfs  Reason = "READ_ONLY_SYSFS" // /sys is mounted read-only here (container, sandbox)
	NoPermission   Reason = "NO_PERMISSION"   // this process lacks the right
	NotSupported   Reason = "NOT_SUPPORTED"   // the device says it cannot
	Suspended      Reason = "SUSPENDED"       // the device sleeps and is not to be woken
	MIG            Reason = "MIG"             // the device is a slice of another
	Lost           Reason = "LOST"            // the device fell off the bus or its driver went away
	Hung           Reason = "HUNG"            // a driver call has not come back
	Unreadable     Reason = "UNREADABLE"      // it is there and reading it fails
	ImpliedByOther Reason = "IMPLIED"         // another control decides it at present
)

// Errors of a device or its driver. One table (the adapter's) turns a vendor's codes into them.
var (
	ErrNoDriver     = errors.New("driver not loaded")
	ErrNotSupported = errors.New("not supported by this device")
	ErrNoPermission = errors.New("no permission")
	ErrOutOfRange   = errors.New("outside the device's range")
	ErrLost         = errors.New("device is lost")
	ErrHung         = errors.New("a driver call has not come back")
	ErrSuspended    = errors.New("device is suspended")
	ErrUnread       = errors.New("reading is not available")
	ErrImplied      = errors.New("another control decides it at present")
)

// ReasonOf names the reason behind an error from this package or the kernel. It returns Unreadable for an error it does
// not know and "" for nil.
func ReasonOf(err error) Reason {
	for _, m := range []struct {
		is     error
		reason Reason
	}{
		{ErrNoDriver, NoDriver}, {ErrNotSupported, NotSupported}, {ErrOutOfRange, NotSupported}, {ErrNoPermission, NoPermission},
		{ErrLost, Lost}, {ErrHung, Hung}, {ErrSuspended, Suspended},
		{ErrImplied, ImpliedByOther},
		{unix.EROFS, ReadOnlySysfs}, {unix.ENODATA, BIOSLocked}, {unix.ENODEV, Lost}, {unix.EOPNOTSUPP, NotSupported},
		{fs.ErrPermission, NoPermission}, {fs.ErrNotExist, Absent}, {os.ErrDeadlineExceeded, Hung},
	} {
		if errors.Is(err, m.is) {
			return m.reason
		}
	}
	if err == nil {
		return ""
	}
	return Unreadable
}
