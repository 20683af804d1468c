// Package install puts quner on a machine and takes it off again, for qunerctl install and uninstall: it looks, plans
// steps that can be printed, and does them. The machine's files and its service manager are changed here and nowhere
// else.
package install

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Machine is where quner is installed.
type Machine struct {
	// Live tells that this machine runs below the root: its service manager is spoken to. Else files are staged.
	Live bool

	root *os.Root
	run  func(ctx context.Context, argv ...string) (string, error)
}

// Open opens the machine whose files are below dir: "/" is this one. run runs a command and returns its standard output;
// nil runs real ones. Close must be called.
func Open(dir string, live bool, run func(ctx context.Context, argv ...string) (string, error)) (*Machine, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if run == nil {
		run = command
	}
	return &Machine{Live: live, root: root, run: run}, nil
}

// Close lets the root go.
func (m *Machine) Close() error { return m.root.Close() }

// Host returns the path by which a file of the machine is known here.
func (m *Machine) Host(name string) string { return filepath.Join(m.root.Name(), name) }

// command runs a program. Its error says what the program said.
func command(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// Of its own group: an impatient second Ctrl-C must not end what takes the first one back.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if text := strings.Join(strings.FieldsFunc(said.String(), func(r rune) bool { return r == '\n' }), " "); err != nil && text != "" {
		err = fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, text)
	} else if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return out.String(), err
}

// at turns a path of the machine into one below its root. A root refuses absolute links, which keeps a staged tree from
// reaching out of itself; on the machine itself they are what they are.
func (m *Machine) at(name string) string {
	if m.root.Name() == "/" {
		if dir, err := filepath.EvalSymlinks(path.Dir(name)); err == nil {
			name = path.Join(dir, path.Base(name))
		}
	}
	return strings.TrimPrefix(path.Clean(name), "/")
}

// presence is what lies at a path.
type presence struct {
	there bool
	dir   bool
	sum   string      // SHA-256 of a regular file, in hex; empty for anything else
	perm  fs.FileMode // of a regular file
	loose string      // who else than root, or this process's own user, may write a regular file; empty: nobody
}

func (m *Machine) look(name string) (presence, error) {
	info, err := m.root.Lstat(m.at(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return presence{}, nil
	case err != nil:
		return presence{}, cmp.Or(m.blocked(name), err)
	case !info.Mode().IsRegular():
		return presence{there: true, dir: info.IsDir()}, nil
	}
	f, err := m.root.Open(m.at(name))
	if err != nil {
		return presence{}, err
	}
	sum, err := sumOf(f)
	return presence{there: true, sum: sum, perm: info.Mode().Perm(), loose: loose(info)}, errors.Join(err, f.Close())
}

// blocked is a Refusal that names what lies where a directory above a path is to be; nil if nothing does.
func (m *Machine) blocked(name string) error {
	for _, d := range parents(name) {
		_, err := m.root.Lstat(m.at(d))
		if info, err2 := m.root.Stat(strings.TrimSuffix(m.at(d+"/x"), "/x")); err == nil && (err2 != nil || !info.IsDir()) {
			return &Refusal{d + ": is there, and is no directory", "look at it: ls -ld " + d}
		}
	}
	return nil
}

// loose says how others than root, or this process's own user, may write a file; empty if they may not.
func loose(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Sprintf("owned by uid %d", st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Sprintf("mode %04o", info.Mode().Perm())
	}
	return ""
}

// maxFile is far more than any file that is read here holds.
const maxFile = 1 << 20

// read reads a regular file: a tree that somebody else made may hold a pipe in its place.
func (m *Machine) read(name string) ([]byte, error) {
	f, err := m.root.OpenFile(m.at(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s: %v: not a regular file", name, info.Mode())
	case info.Size() > maxFile:
		err = fmt.Errorf("%s: longer than %d bytes", name, maxFile)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

func sumOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

func sumOfBytes(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// draft is where a file is written before it takes its place. The name is fixed, so that a run that died leaves at most
// this one, which the next run overwrites or removes.
func draft(name string) string { return name + ".quner-new" }

// write puts a file in its place, whole and on disk or not at all.
func (m *Machine) write(name string, mode fs.FileMode, data []byte) error {
	temp := m.at(draft(name))
	if err := m.remove(draft(name)); err != nil {
		return err
	}
	f, err := m.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = m.root.Rename(temp, m.at(name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), m.remove(draft(name)))
	}
	return m.syncDir(path.Dir(name))
}

func (m *Machine) syncDir(name string) error {
	// Where a link leads to the directory, it is the directory that is meant.
	d, err := m.root.Open(cmp.Or(path.Dir(m.at(path.Join(name, "x"))), "."))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (m *Machine) makeDir(name string, mode fs.FileMode) error {
	if err := m.root.Mkdir(m.at(name), mode); err != nil {
		return err
	}
	return m.root.Chmod(m.at(name), mode) // whatever the umask
}

// remove removes a file and what a run that died may have left beside it.
func (m *Machine) remove(name string) error {
	for _, n := range []string{draft(name), name} {
		// Where nothing may be written, not even what is not there can be removed.
		if _, err := m.root.Lstat(m.at(n)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := m.root.Remove(m.at(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
