package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxFile is the most a file of quner or of the kernel may hold, 1 MiB. Longer files are an error, never cut.
const MaxFile = 1 << 20

// Op is a kind of file access.
type Op uint8

// The kinds of access a Hook sees. Everything from OpWrite on changes the host.
const (
	OpStat Op = iota
	OpList
	OpOpen // a file is opened to be held
	OpRead
	OpWrite // an existing file gets new content: a sysfs attribute
	OpCreate
	OpSync
	OpRename
	OpRemove
	OpMkdir
	OpLock
)

// String names the operation as in strace.
func (o Op) String() string {
	names := [...]string{"stat", "list", "open", "read", "write", "create", "sync", "rename", "remove", "mkdir", "lock"}
	if int(o) < len(names) {
		return names[o]
	}
	return "op" + strconv.Itoa(int(o))
}

// Changes reports whether the operation alters the host.
func (o Op) Changes() bool { return o >= OpWrite && o != OpLock }

// Access is one file access about to happen. Name is the path within the Dir's root; To is the new name of an OpRename;
// Data is what an OpWrite or OpCreate is about to write.
type Access struct {
	Op   Op
	Name string
	To   string
	Data []byte
}

// Hook sees every access before it happens. An error stops the access and is what the caller gets, except Handled: then
// the hook has done it itself and the caller gets success. A hook that blocks is a kernel that hangs.
type Hook func(Access) error

// Handled is returned by a Hook that has performed the access itself.
var Handled = errors.New("handled by the hook") //nolint:gochecknoglobals,revive,staticcheck // a verdict, not a fault

// Dir is a directory every access goes through. The zero Dir is not usable; a nil hook means the real files.
type Dir struct {
	root string // what the hook's names are relative to
	sub  string // slash-separated, below root; "" for the root itself
	hook Hook
}

// NewDir returns the directory at path. hook may be nil.
func NewDir(path string, hook Hook) Dir { return Dir{root: filepath.Clean(path), hook: hook} }

// Sub returns a directory below d, with the same hook; names seen by the hook stay relative to the root.
func (d Dir) Sub(name string) Dir {
	d.sub = path.Join(d.sub, name)
	return d
}

// Path returns the path of d, for messages and for libraries that open files themselves.
func (d Dir) Path() string { return filepath.Join(d.root, filepath.FromSlash(d.sub)) }

// File returns the path of a file in d, for messages.
func (d Dir) File(name string) string { return filepath.Join(d.Path(), filepath.FromSlash(name)) }

func (d Dir) ask(op Op, name string, data []byte) error {
	return d.askTo(Access{Op: op, Name: path.Join(d.sub, name), Data: data})
}

func (d Dir) askTo(a Access) error {
	if d.hook == nil {
		return nil
	}
	err := d.hook(a)
	if err == nil || errors.Is(err, Handled) {
		return err
	}
	return &fs.PathError{Op: a.Op.String(), Path: filepath.Join(d.root, a.Name), Err: err}
}

// Read returns the content of a file of at most MaxFile bytes.
func (d Dir) Read(name string) ([]byte, error) {
	if err := d.ask(OpRead, name, nil); err != nil {
		return nil, err
	}
	f, err := os.Open(d.File(name))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxFile {
		return nil, &fs.PathError{Op: "read", Path: d.File(name), Err: fmt.Errorf("longer than %d bytes", MaxFile)}
	}
	return data, nil
}

// ReadString returns the content of a file without the space around it.
func (d Dir) ReadString(name string) (string, error) {
	data, err := d.Read(name)
	return strings.TrimSpace(string(data)), err
}

// ReadUint returns the number a file holds in decimal. Anything else, a sign included, is an error that names the file.
func (d Dir) ReadUint(name string) (uint64, error) {
	s, err := d.ReadString(name)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number", d.File(name), truncated(s))
	}
	return v, nil
}

// Write gives an existing file new content with one write(2), as a sysfs attribute wants it. It creates nothing.
func (d Dir) Write(name string, data []byte) error {
	if err := d.ask(OpWrite, name, data); err != nil {
		return done(err)
	}
	f, err := os.OpenFile(d.File(name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// List returns the sorted names in a directory.
func (d Dir) List(name string) ([]string, error) {
	if err := d.ask(OpList, name, nil); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(d.File(name))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	slices.Sort(names)
	return names, nil
}

// Stat describes a file without following a final link.
func (d Dir) Stat(name string) (fs.FileInfo, error) {
	if err := d.ask(OpStat, name, nil); err != nil {
		return nil, err
	}
	return os.Lstat(d.File(name))
}

// Exists reports whether something is at name; links are followed.
func (d Dir) Exists(name string) bool {
	if d.ask(OpStat, name, nil) != nil {
		return false
	}
	_, err := os.Stat(d.File(name))
	return err == nil
}

// Link returns where the symbolic link at name points.
func (d Dir) Link(name string) (string, error) {
	if err := d.ask(OpStat, name, nil); err != nil {
		return "", err
	}
	return os.Readlink(d.File(name))
}

// Mkdir makes a directory, and those above it within d, with the mode given from the first instant. One that is there is
// left as it is.
func (d Dir) Mkdir(name string, perm fs.FileMode) error {
	if d.Exists(name) {
		return nil
	}
	if err := d.ask(OpMkdir, name, nil); err != nil {
		return done(err)
	}
	return os.MkdirAll(d.File(name), perm)
}

// Remove deletes a file. One that is not there is no error.
func (d Dir) Remove(name string) error {
	if err := d.ask(OpRemove, name, nil); err != nil {
		return done(err)
	}
	if err := os.Remove(d.File(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Rename moves a file within d.
func (d Dir) Rename(from, to string) error {
	a := Access{Op: OpRename, Name: path.Join(d.sub, from), To: path.Join(d.sub, to)}
	if err := d.askTo(a); err != nil {
		return done(err)
	}
	return os.Rename(d.File(from), d.File(to))
}

// Lock takes the advisory lock of a file, made if need be, for as long as the process lives or until release is called.
// It does not wait: a lock held elsewhere is ErrLocked.
func (d Dir) Lock(name string) (release func(), err error) {
	if err := d.ask(OpLock, name, nil); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.File(name), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("%s: %w", d.File(name), err)
	}
	return func() { _ = f.Close() }, nil
}

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// done turns a hook's verdict into what the caller of a changing access gets.
func done(err error) error {
	if errors.Is(err, Handled) {
		return nil
	}
	return err
}

func truncated(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
