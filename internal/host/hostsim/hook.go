package hostsim

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

// ErrCut is what every access gets after the boundary set with CutAt: the process has crashed, and does not know it.
var ErrCut = errors.New("cut off: the process is dead to this machine")

// hook returns the hook of a directory whose names are given prefix, so that they are told apart: "sys/…", "proc/…",
// "etc/…", "run/…", "var/…".
func (s *Sim) hook(prefix string) host.Hook {
	return func(a host.Access) error {
		a.Name = prefix + a.Name
		if a.To != "" {
			a.To = prefix + a.To
		}
		return s.access(a)
	}
}

func (s *Sim) access(a host.Access) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.resolve(a.Name)
	if err := s.pass(a, name); err != nil {
		return err
	}
	top, _, _ := strings.Cut(name, "/")
	if top != "sys" && top != "proc" {
		return nil
	}
	if err := s.refused(a.Op, name); err != nil {
		return err
	}
	s.peek(a.Op, name)
	switch a.Op {
	case host.OpRead, host.OpOpen:
		return s.refresh(name)
	case host.OpWrite:
		if err := s.writeTree(name, a.Data); err != nil {
			return err
		}
		return host.Handled
	case host.OpCreate, host.OpRename, host.OpRemove, host.OpMkdir, host.OpLock:
		return unix.EPERM
	}
	return nil
}

// writeTree is write(2) on a file of sysfs or procfs.
func (s *Sim) writeTree(name string, data []byte) error {
	if _, ok := s.fix.files[name]; !ok {
		return unix.ENOENT
	}
	return s.put(name, data)
}

// pass counts an access and decides whether it comes about: not after the cut, not where a fault is set. It may let go of
// the lock while a fault hangs.
func (s *Sim) pass(a host.Access, name string) error {
	s.touch(a.Name, name, a.Op.Changes())
	if err := s.cutting(a.Op.Changes(), func() { s.tear(a, name) }); err != nil {
		return err
	}
	return s.fault(a.Op, a.Name, name, a.To)
}

// tear leaves of the last access before the crash what a crash can leave: half a file where the file is an ordinary one.
// A write to the kernel is one system call, which happens or does not: here it has happened, and nobody was told.
func (s *Sim) tear(a host.Access, name string) {
	half := a.Data[:len(a.Data)/2]
	switch {
	case a.Op == host.OpWrite && (strings.HasPrefix(name, "sys/") || strings.HasPrefix(name, "proc/")):
		_ = s.writeTree(name, a.Data) // a refusal reaches nobody
	case a.Op == host.OpCreate, a.Op == host.OpWrite:
		_ = os.WriteFile(s.onDisk(a.Name), half, 0o600) // likewise
	}
}

// onDisk returns where a name of the hook's lies.
func (s *Sim) onDisk(name string) string {
	top, rest, _ := strings.Cut(name, "/")
	switch top {
	case "run":
		return filepath.Join(s.dir, rest)
	case "var":
		return filepath.Join(s.dir, name)
	}
	return filepath.Join(s.dir, "host", name)
}

// resolve returns a name of the tree with the fixture's links followed, which never change.
func (s *Sim) resolve(name string) string {
	if c, ok := s.canonical[name]; ok {
		return c
	}
	c := name
	for range 40 { // as many as the kernel follows
		next := s.followOne(c)
		if next == c {
			break
		}
		c = next
	}
	if len(s.canonical) < 4096 {
		s.canonical[name] = c
	}
	return c
}

// followOne replaces the first link in a name by its target.
func (s *Sim) followOne(name string) string {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		if target, ok := s.fix.links[name[:i]]; ok {
			return path.Join(path.Dir(name[:i]), target, name[i:])
		}
	}
	return name
}
