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
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
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
	sum   string // SHA-256 of a regular file, in hex; empty for anything else
}

func (m *Machine) look(name string) (presence, error) {
	info, err := m.root.Lstat(m.at(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return presence{}, nil
	case err != nil:
		return presence{}, err
	case !info.Mode().IsRegular():
		return presence{there: true, dir: info.IsDir()}, nil
	}
	f, err := m.root.Open(m.at(name))
	if err != nil {
		return presence{}, err
	}
	sum, err := sumOf(f)
	return presence{there: true, sum: sum}, errors.Join(err, f.Close())
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
	if err := m.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
		return errors.Join(fmt.Errorf("%s: %w", name, err), m.root.Remove(temp))
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
		if err := m.root.Remove(m.at(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
