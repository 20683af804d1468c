package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Line is a step for people and scripts.
type Line struct {
	Do   string `json:"do"`   // "make", "write", "link", "keep", "run", "remove", "note"
	What string `json:"what"` // a path, or a command
	Why  string `json:"why,omitempty"`
}

// Step is one change of the machine.
type Step interface {
	// Line tells the change beforehand; one whose Do is empty is not worth telling.
	Line() Line
	do(ctx context.Context, m *Machine) error
	// undo takes back what do has done, also where do failed in its midst.
	undo(ctx context.Context, m *Machine) error
	// undoes reports whether undo ever does anything.
	undoes() bool
}

// inert is the undo of a step that leaves nothing to take back.
type inert struct{}

func (inert) undoes() bool                         { return false }
func (inert) undo(context.Context, *Machine) error { return nil }

// keep leaves a file, and says why.
type keep struct {
	inert
	what, why string
}

func (s *keep) Line() Line                       { return Line{"keep", s.what, s.why} }
func (*keep) do(context.Context, *Machine) error { return nil }

// note is told and does nothing.
type note struct {
	inert
	what, why string
}

func (s *note) Line() Line                       { return Line{"note", s.what, s.why} }
func (*note) do(context.Context, *Machine) error { return nil }

// makeDir makes a directory.
type makeDir struct {
	path string
	mode fs.FileMode
	made bool
}

func (*makeDir) undoes() bool { return true }

func (s *makeDir) Line() Line { return Line{"make", s.path + "/", fmt.Sprintf("mode %04o", s.mode)} }

func (s *makeDir) do(_ context.Context, m *Machine) error {
	err := m.makeDir(s.path, s.mode)
	s.made = err == nil
	return err
}

func (s *makeDir) undo(ctx context.Context, m *Machine) error {
	if !s.made {
		return nil
	}
	// What a daemon that did run has left in it stays: it may be what puts the host back.
	return (&removeDir{path: s.path}).do(ctx, m)
}

// write puts a file in its place: a copy of source, or content.
type write struct {
	path    string
	mode    fs.FileMode
	source  string // on this machine, whatever the root
	sum     string // of source, as it was planned
	content []byte
	why     string

	begun bool
	old   []byte // nil: there was none
	perm  fs.FileMode
}

func (*write) undoes() bool { return true }

func (s *write) Line() Line { return Line{"write", s.path, s.why} }

func (s *write) do(_ context.Context, m *Machine) error {
	data := s.content
	if s.source != "" {
		var err error
		if data, err = os.ReadFile(s.source); err != nil {
			return err
		}
		if sumOfBytes(data) != s.sum {
			return fmt.Errorf("%s: changed meanwhile", s.source)
		}
	}
	info, err := m.root.Lstat(m.at(s.path))
	if err == nil {
		s.perm = info.Mode().Perm()
		s.old, err = m.root.ReadFile(m.at(s.path))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.begun = true
	return m.write(s.path, s.mode, data)
}

func (s *write) undo(_ context.Context, m *Machine) error {
	switch {
	case !s.begun:
		return nil
	case s.old != nil:
		return m.write(s.path, s.perm, s.old)
	}
	return m.remove(s.path)
}

// link makes a unit part of a target, as systemctl enable does, in a tree that no service manager runs on.
type link struct{ path, to string }

func (*link) undoes() bool { return true }

func (s *link) Line() Line { return Line{"link", s.path, "-> " + s.to} }

func (s *link) do(_ context.Context, m *Machine) error {
	// The root takes no absolute link as the way to a file, but holds one.
	return m.root.Symlink(s.to, m.at(s.path))
}

func (s *link) undo(_ context.Context, m *Machine) error { return m.remove(s.path) }

// remove removes a file, or a directory with all that is in it.
type remove struct {
	inert
	path, why string
	all       bool
}

func (s *remove) Line() Line { return Line{"remove", s.path, s.why} }

func (s *remove) do(_ context.Context, m *Machine) error {
	if s.all {
		return m.root.RemoveAll(m.at(s.path))
	}
	return m.remove(s.path)
}

// removeDir removes a directory if it is empty.
type removeDir struct {
	inert
	path string
}

func (s *removeDir) Line() Line { return Line{"remove", s.path + "/", "if nothing else is in it"} }

func (s *removeDir) do(_ context.Context, m *Machine) error {
	if info, err := m.root.Lstat(m.at(s.path)); err == nil && !info.IsDir() {
		return nil // a link to one is somebody's
	}
	dir, err := m.root.Open(m.at(s.path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, _ := dir.Readdirnames(1) // io.EOF: empty; what else is wrong, Remove finds too
	if err := dir.Close(); err != nil || len(names) > 0 {
		return err
	}
	return m.root.Remove(m.at(s.path))
}

// run runs a command; either may be missing.
type run struct {
	argv    []string
	back    []string              // takes it back
	backIf  func(m *Machine) bool // whether there is anything to take back; nil: always
	why     string
	lenient bool // its failure is told, and ends nothing
	idle    bool // its failure means that there was nothing to do
	heard   bool // what it says is told
	again   bool // it may fail because systemd was about to start what it stops, and is tried twice
	told    []string
}

func (s *run) undoes() bool { return len(s.back) > 0 }

func (s *run) Line() Line {
	if len(s.argv) == 0 {
		return Line{}
	}
	return Line{"run", strings.Join(s.argv, " "), s.why}
}

func (s *run) do(ctx context.Context, m *Machine) error {
	if len(s.argv) == 0 {
		return nil
	}
	out, err := m.run(ctx, s.argv...)
	if err != nil && s.again {
		out, err = m.run(ctx, s.argv...)
	}
	if s.heard {
		s.told = strings.FieldsFunc(out, func(r rune) bool { return r == '\n' })
	}
	switch {
	case err == nil || s.idle:
		return nil
	case s.lenient:
		s.told, err = append(s.told, err.Error()), nil
	}
	return err
}

func (s *run) notes() []Line {
	var all []Line
	for _, t := range s.told {
		all = append(all, Line{"note", filepath.Base(s.argv[0]), t})
	}
	return all
}

func (s *run) undo(ctx context.Context, m *Machine) error {
	if len(s.back) == 0 || s.backIf != nil && !s.backIf(m) {
		return nil
	}
	_, err := m.run(ctx, s.back...)
	return err
}

// makeSocketDirs runs the command that makes the sockets' directories.
type makeSocketDirs struct {
	run
	there map[string]presence
}

func (*makeSocketDirs) undoes() bool { return true }

func (s *makeSocketDirs) undo(_ context.Context, m *Machine) error {
	for _, d := range socketDirs() {
		if !s.there[d].there {
			if err := m.root.RemoveAll(m.at(d)); err != nil {
				return err
			}
		}
	}
	return nil
}

// record writes the manifest. Taking the first one back removes it; then the machine is as if nothing had been tried.
type record struct {
	manifest Manifest
	before   *Manifest
}

func (*record) undoes() bool { return true }

func (s *record) Line() Line {
	why := "what is about to be written"
	if s.manifest.Complete {
		why = "all is written"
	}
	return Line{"write", ManifestFile, why}
}

func (s *record) do(_ context.Context, m *Machine) error {
	data, err := s.manifest.encode()
	if err != nil {
		return err
	}
	return m.write(ManifestFile, 0o600, data)
}

func (s *record) undo(_ context.Context, m *Machine) error {
	if s.before == nil {
		return m.remove(ManifestFile)
	}
	data, err := s.before.encode()
	if err != nil {
		return err
	}
	return m.write(ManifestFile, 0o600, data)
}

// parents lists the directories above a path, from the root down, without the root.
func parents(name string) []string {
	var all []string
	for d := path.Dir(name); d != "/"; d = path.Dir(d) {
		all = append([]string{d}, all...)
	}
	return all
}
