package host

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Writable returns nil if this process may write a file, and else why not, without writing: EROFS for a read-only mount,
// EACCES for a missing right.
func (d Dir) Writable(name string) error {
	if err := d.ask(OpStat, name, nil); err != nil {
		return err
	}
	if err := unix.Faccessat(unix.AT_FDCWD, d.File(name), unix.W_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "access", Path: d.File(name), Err: err}
	}
	return nil
}

// ReadOnly returns the directory as one that nothing can be changed in: whoever tries gets EROFS. What only looks is given
// this one.
func (d Dir) ReadOnly() Dir {
	was := d.hook
	d.hook = func(a Access) error {
		switch {
		case a.Op.Changes() || a.Op == OpLock:
			return unix.EROFS
		case was != nil:
			return was(a)
		}
		return nil
	}
	return d
}
