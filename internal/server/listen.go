package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

// ErrLive means that another daemon answers on a socket.
var ErrLive = errors.New("another daemon answers")

// Sockets are the two places the server listens on.
type Sockets struct {
	Public, Admin *net.UnixListener
	AdminGroup    *uint32 // the group that the admin socket's directory lets in, if any
}

// Close stops listening and removes the sockets that Listen made; those of systemd stay.
func (s *Sockets) Close() error {
	var errs []error
	for _, l := range []*net.UnixListener{s.Public, s.Admin} {
		if l == nil {
			continue
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// place is where a socket belongs, and who may reach it.
type place struct {
	name    string // of systemd's file descriptor
	dir     string // in the runtime directory
	file    string
	dirMode fs.FileMode
	mode    fs.FileMode
}

func publicPlace() place { return place{"quner", "quner", "quner.sock", 0o755, 0o666} }
func adminPlace() place  { return place{"quner-admin", "quner-admin", "admin.sock", 0o700, 0o600} }

// Listen opens the public and the admin socket below a runtime directory, or takes them over from systemd. It sets the
// process's umask for a moment, so it is called before any goroutine makes files. A socket that somebody answers on is
// ErrLive; one that nobody answers on is replaced; anything else in its place is an error and stays.
func Listen(run host.Dir) (*Sockets, error) {
	given, err := activation.ListenersWithNames()
	if err != nil {
		return nil, fmt.Errorf("sockets of systemd: %w", err)
	}
	return listenOn(run, given)
}

func listenOn(run host.Dir, given map[string][]net.Listener) (*Sockets, error) {
	s := new(Sockets)
	var err error
	if s.Public, err = listenAt(run, publicPlace(), given); err == nil {
		s.Admin, err = listenAt(run, adminPlace(), given)
	}
	if err == nil {
		s.AdminGroup, err = groupOf(run.File(adminPlace().dir))
	}
	for _, left := range given {
		for _, l := range left {
			if err == nil {
				err = fmt.Errorf("socket %s of systemd: its name is neither %s nor %s, or it is a second one", l.Addr(), publicPlace().name, adminPlace().name)
			}
			_ = l.Close()
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// listenAt takes the listener that systemd gave for a place, or makes one.
func listenAt(run host.Dir, p place, given map[string][]net.Listener) (*net.UnixListener, error) {
	if all := given[p.name]; len(all) > 0 {
		l, ok := all[0].(*net.UnixListener)
		if !ok {
			return nil, fmt.Errorf("socket %s of systemd: not a Unix socket", p.name)
		}
		given[p.name] = all[1:]
		return l, nil
	}
	if err := makeDir(run, p); err != nil {
		return nil, err
	}
	return bind(run.File(p.dir+"/"+p.file), p.mode)
}

// makeDir makes a socket's directory with its mode, or checks that the one there is as closed as it must be.
func makeDir(run host.Dir, p place) error {
	defer syscall.Umask(syscall.Umask(int(0o777 &^ p.dirMode)))
	if err := run.Mkdir(p.dir, p.dirMode); err != nil {
		return err
	}
	path := run.File(p.dir)
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	owner, mode := info.Sys().(*syscall.Stat_t).Uid, info.Mode().Perm()
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s: %v: not a directory", path, info.Mode())
	case owner != 0 && int(owner) != os.Geteuid():
		return fmt.Errorf("%s: owned by uid %d: %w", path, owner, errForeign)
	case mode&0o022 != 0, p.dirMode&0o007 == 0 && mode&0o007 != 0:
		return fmt.Errorf("%s: mode %04o lets others in, want %04o: %w", path, mode, p.dirMode, errForeign)
	case mode&p.dirMode != p.dirMode && int(owner) == os.Geteuid():
		return os.Chmod(path, p.dirMode) // wider: nobody could be let in too early
	}
	return nil
}

// errForeign means that a directory is not to be trusted with a socket.
var errForeign = errors.New("directory is not only the daemon's")

// bind makes a socket whose mode holds from the first instant.
func bind(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if most := len(unix.RawSockaddrUnix{}.Path) - 1; len(path) > most {
		return nil, fmt.Errorf("%s: %d bytes is too long for a socket's path, at most %d", path, len(path), most)
	}
	if err := clearPlace(path); err != nil {
		return nil, err
	}
	defer syscall.Umask(syscall.Umask(int(0o777 &^ mode)))
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// answerTime is how long a daemon that lives may take to accept.
const answerTime = time.Second

// clearPlace removes a socket that nobody answers on, and nothing else.
func clearPlace(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s: %v is in the socket's place", path, info.Mode())
	}
	conn, err := net.DialTimeout("unix", path, answerTime)
	if err == nil {
		return errors.Join(fmt.Errorf("%s: %w", path, ErrLive), conn.Close())
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%s: neither answers nor refuses: %w", path, err)
	}
	return os.Remove(path)
}

// groupOf returns the group that may enter a directory, if its mode lets one in and it is not root's.
func groupOf(dir string) (*uint32, error) {
	info, err := os.Stat(filepath.Clean(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // systemd holds the socket elsewhere
	}
	if err != nil {
		return nil, err
	}
	gid := info.Sys().(*syscall.Stat_t).Gid
	if info.Mode().Perm()&0o010 == 0 || gid == 0 {
		return nil, nil
	}
	return &gid, nil
}
