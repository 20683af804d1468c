package install

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// lockFile keeps two runs apart. It lies where only root can reach it, since who could open it could hold it; what a run
// that was killed has left of it stands in nobody's way.
const lockFile = "/run/qunerctl-install.lock"

// Lock makes this the only run that changes the machine, until release is called. It is a Refusal where another is under
// way. What Look finds holds only under it.
func (m *Machine) Lock() (release func(), err error) {
	if !m.Live {
		f, err := m.root.Open(".")
		if err != nil {
			return nil, err
		}
		return hold(f, func() {})
	}
	for {
		f, err := m.root.OpenFile(m.at(lockFile), os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		release, err := hold(f, func() { _ = m.root.Remove(m.at(lockFile)) })
		if err != nil {
			return nil, err
		}
		mine, err := f.Stat()
		named, gone := m.root.Lstat(m.at(lockFile))
		if err == nil && gone == nil && os.SameFile(mine, named) {
			return release, nil
		}
		// Another has ended meanwhile, and its file with it.
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			return nil, gone
		}
	}
}

// hold locks an open file; release does last what remains to do, and lets go.
func hold(f *os.File, last func()) (release func(), err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = &Refusal{"another installation or uninstallation is under way here", "wait until it has ended, and look: qunerctl install --dry-run"}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		last()
		_ = f.Close()
	}, nil
}
