package hostsim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// replace gives a file of the simulation new content such that no reader sees it empty or half written: the content goes
// to a spare file, which then changes places with the file. The spare one stays for the next time, since making a file
// costs a disk's file system twenty times as much as writing one.
func replace(dir, name string, data []byte) error {
	file := filepath.Join(dir, name)
	spare := filepath.Join(dir, spareDir, strings.ReplaceAll(name, "/", "!"))
	err := overwrite(spare, data)
	if errors.Is(err, unix.ENOENT) {
		// The umask may be another than when the tree was unpacked; all its files are public.
		err = errors.Join(os.WriteFile(spare, data, 0o644), os.Chmod(spare, 0o644))
	}
	if err != nil {
		return err
	}
	if unix.Renameat2(unix.AT_FDCWD, spare, unix.AT_FDCWD, file, unix.RENAME_EXCHANGE) == nil {
		return nil
	}
	// There is nothing to change places with, or the file system knows only plain renames.
	return os.Rename(spare, file)
}

// overwrite gives an existing file new content. It asks the kernel directly: a counter is written each time it is read.
func overwrite(file string, data []byte) error {
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Pwrite(fd, data, 0)
	// The length is cut afterwards, so that somebody who still holds the file open never finds it empty.
	return errors.Join(err, unix.Ftruncate(fd, int64(len(data))), unix.Close(fd))
}
