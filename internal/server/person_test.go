package server

import (
	"fmt"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// become gives the calling thread, and no other, a user's identity. The raw calls are the kernel's own; those of package
// syscall would change every thread.
func (p person) become() error {
	var groups unsafe.Pointer
	if len(p.groups) > 0 {
		groups = unsafe.Pointer(&p.groups[0])
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(p.groups)), uintptr(groups), 0); errno != 0 {
		return fmt.Errorf("groups: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(p.gid), uintptr(p.gid), uintptr(p.gid)); errno != 0 {
		return fmt.Errorf("gid: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(p.uid), uintptr(p.uid), uintptr(p.uid)); errno != 0 {
		return fmt.Errorf("uid: %w", errno)
	}
	return nil
}

// knock is what a child process in another user namespace does: it says who it is there and connects. Its exit status
// says how that went: 0 connected, 1 refused by the kernel.
func knock(path string) int {
	conn, err := net.Dial("unix", path)
	if err != nil {
		fmt.Println("uid", os.Getuid(), err)
		return 1
	}
	defer conn.Close()
	fmt.Println("uid", os.Getuid(), "connected")
	// The parent closes stdin when it has seen enough.
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}
