package install

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/qunerd/quner/deploy/systemd"
)

// Refusal is a machine on which what was asked for must not be done, with what to do instead.
type Refusal struct {
	Why    string
	Remedy string
}

func (r *Refusal) Error() string { return r.Why }

// Hint is the exact remedy.
func (r *Refusal) Hint() string { return r.Remedy }

// Plan is what an installation, or its end, does, in order.
type Plan []Step

// Lines tells the plan beforehand.
func (p Plan) Lines() []Line {
	lines := []Line{}
	for _, s := range p {
		if l := s.Line(); l.Do != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

// Changes reports whether the plan does anything.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p, func(s Step) bool {
		do := s.Line().Do
		return do != "keep" && do != "note"
	})
}

// Install plans an installation, an upgrade, or the completion of one that died. It is a Refusal where one of them would
// do harm.
func Install(f *Facts) (Plan, error) {
	if err := f.mayInstall(); err != nil {
		return nil, err
	}
	c := f.compare()
	var p Plan
	if f.live && c.changed {
		p = append(p, f.bookends()...)
	}
	if c.changed {
		p = append(p, c.books...)
		p = append(p, &record{manifest: c.manifest, before: f.manifest})
	}
	p = append(p, c.dirs...)
	p = append(p, c.files...)
	if f.live {
		p = append(p, f.liveSteps(c)...)
	} else {
		p = append(p, f.stagedSteps()...)
	}
	if c.changed {
		p = append(p, &record{manifest: c.done(), before: &c.manifest})
	}
	return p, nil
}

// mayInstall refuses what must not be done here.
func (f *Facts) mayInstall() error {
	if f.units[predecessor].running() {
		return &Refusal{"the Python predecessor of quner runs (" + predecessor + "): two daemons on the same levers would undo each other",
			"sudo systemctl disable --now " + predecessor}
	}
	for _, u := range f.unitNames() {
		state := f.units[u]
		if state.load == "masked" && u == systemd.RetuneTimer {
			return &Refusal{u + " is masked: somebody has decided that it must not run", "install --retune-interval off, or sudo systemctl unmask " + u}
		}
		if state.load == "masked" {
			return &Refusal{u + " is masked: somebody has decided that it must not run", "sudo systemctl unmask " + u}
		}
		if state.fragment != "" && path.Dir(state.fragment) != systemd.UnitDir && !strings.HasPrefix(state.fragment, "/run/") {
			return &Refusal{fmt.Sprintf("%s is installed by a package (%s)", u, state.fragment),
				"update it with the package manager, or remove the package first"}
		}
	}
	for _, want := range f.files {
		if err := f.mayWrite(want); err != nil {
			return err
		}
	}
	if f.config != nil && f.keepsConfig() {
		return &Refusal{"the configuration that is there would not let the daemon start: " + f.config.Error(), "sudoedit " + systemd.Config}
	}
	return nil
}

// mayWrite refuses to write over what the installation has not put there.
func (f *Facts) mayWrite(want file) error {
	there := f.present[want.Path]
	entry, listed := f.entry(want.Path)
	ours := listed && entry.wrote(there.sum)
	switch {
	case !there.there, ours && there.sum != want.sum:
		return nil
	case there.loose != "" && (there.sum == want.sum || want.Config):
		return &Refusal{fmt.Sprintf("%s: %s: others than root may write what root is to heed", want.Path, there.loose),
			fmt.Sprintf("sudo chown root:root %s && sudo chmod %04o %[1]s", want.Path, want.Mode)}
	case there.sum == want.sum && there.perm&want.Mode&0o500 != want.Mode&0o500:
		return &Refusal{fmt.Sprintf("%s: mode %04o: root can make no use of it", want.Path, there.perm),
			fmt.Sprintf("sudo chmod %04o %s", want.Mode, want.Path)}
	case there.sum == want.sum:
		return nil
	case there.sum == "":
		return &Refusal{want.Path + ": something that is no file is in its place", "look at it: ls -ld " + want.Path}
	case want.Config:
		return nil // stays
	case listed && !entry.Found:
		return &Refusal{want.Path + ": changed since it was installed", "to have it replaced: sudo rm " + want.Path}
	}
	return &Refusal{want.Path + ": is there already, and was not put there by this command", "to have it replaced: sudo rm " + want.Path}
}

func (f *Facts) keepsConfig() bool {
	there := f.present[systemd.Config]
	entry, _ := f.entry(systemd.Config)
	as := slices.IndexFunc(f.files, func(w file) bool { return w.Path == systemd.Config && w.sum == there.sum })
	return there.there && (as >= 0 || !entry.wrote(there.sum))
}

// comparison is what is to be there against what is.
type comparison struct {
	changed  bool   // anything has to be written
	restart  bool   // the daemon would not run as it is installed
	sockets  bool   // nor would the sockets
	timer    bool   // nor would the timer
	books    []Step // directories of the manifest, which come before it
	dirs     []Step
	files    []Step
	manifest Manifest
}

func (f *Facts) compare() *comparison {
	c := &comparison{manifest: Manifest{Schema: schema, Version: f.wish.Version, Bin: f.bin, AdminGroup: f.group, Retune: f.retune}}
	if f.manifest != nil {
		c.manifest.Dirs = slices.Clone(f.manifest.Dirs)
		c.manifest.MadeGroup = f.manifest.MadeGroup
		c.changed = !f.manifest.Complete || f.manifest.Version != f.wish.Version || f.manifest.AdminGroup != f.group ||
			f.manifest.Retune != f.retune
	} else {
		c.changed = true
		if _, ours := f.entry(systemd.Config); ours {
			c.manifest.Dirs = slices.Clone(f.kept.Dirs)
		}
	}
	if f.live && !f.hasGroup {
		c.manifest.MadeGroup, c.changed = true, true
	}
	made := map[string]bool{}
	for _, d := range append(parents(StateDir), StateDir) {
		f.wantDir(c, d, made)
	}
	c.books, c.dirs = c.dirs, nil
	if !slices.Contains(c.manifest.Dirs, StateDir) { // one that a run has left that died before it could note it
		c.manifest.Dirs = append(c.manifest.Dirs, StateDir)
	}
	for _, want := range f.files {
		for _, d := range parents(want.Path) {
			f.wantDir(c, d, made)
		}
		f.wantFile(c, want)
	}
	if !f.live {
		for _, l := range bootLinks() {
			for _, d := range parents(l.path) {
				f.wantDir(c, d, made)
			}
		}
	}
	return c
}

func (f *Facts) wantDir(c *comparison, dir string, made map[string]bool) {
	if f.present[dir].there || made[dir] {
		return
	}
	made[dir], c.changed = true, true
	mode := makeDir{path: dir, mode: 0o755}
	if dir == StateDir {
		mode.mode = 0o700
	}
	c.dirs = append(c.dirs, &mode)
	if !slices.Contains(c.manifest.Dirs, dir) {
		c.manifest.Dirs = append(c.manifest.Dirs, dir)
	}
}

// wantFile decides about one file, and enters it into the manifest.
func (f *Facts) wantFile(c *comparison, want file) {
	there := f.present[want.Path]
	entry, listed := f.entry(want.Path)
	now := Entry{Path: want.Path, SHA256: want.sum, Found: entry.Found}
	differs := listed && (entry.SHA256 != want.sum || entry.Was != "")
	switch {
	case there.there && want.Config && there.sum != want.sum && !entry.wrote(there.sum):
		if listed {
			now = entry // so that it counts as changed for ever
		} else {
			now.SHA256, now.Found = there.sum, true
		}
		differs = false
		c.files = append(c.files, &keep{what: want.Path, why: "yours: it is not as quner wrote it"})
	case there.there && there.sum == want.sum:
		now.Found = !listed || entry.Found
		if differs { // until the daemon runs it
			now.Was = cmp.Or(entry.Was, entry.SHA256)
		}
		c.files = append(c.files, &keep{what: want.Path, why: "as it should be"})
	default:
		w := &write{path: want.Path, mode: want.Mode, source: want.source, sum: want.sum, content: want.Content}
		if want.source != "" {
			w.why = "from " + want.source
		}
		if there.there {
			now.Was = there.sum
			w.why = strings.TrimPrefix(w.why+", over the one that quner wrote", ", ")
		}
		c.files, differs = append(c.files, w), true
	}
	c.manifest.Files = append(c.manifest.Files, now)
	if !differs {
		return
	}
	c.changed = true
	switch want.Path {
	case unitFile(systemd.PublicSocket), unitFile(systemd.AdminSocket), systemd.Tmpfiles:
		c.sockets = true
	case unitFile(systemd.RetuneTimer):
		c.timer = true
	case path.Join(f.bin, "qunerd"), unitFile(systemd.Service), systemd.Config:
		c.restart = true
	}
}

// done is the manifest of an installation that has come to its end.
func (c *comparison) done() Manifest {
	m := c.manifest
	m.Complete, m.Files = true, slices.Clone(m.Files)
	for i := range m.Files {
		m.Files[i].Was = ""
	}
	return m
}

// bookends are what has to be done last where the steps after them are taken back.
func (f *Facts) bookends() Plan {
	var p Plan
	if f.units[systemd.Service].running() {
		p = append(p, &run{back: []string{"systemctl", "restart", systemd.Service}})
	}
	return append(p, &run{back: []string{"systemctl", "daemon-reload"}})
}

// liveSteps make the machine take up what has been written.
func (f *Facts) liveSteps(c *comparison) Plan {
	var p Plan
	if !f.hasGroup {
		p = append(p, &run{argv: []string{"systemd-sysusers", systemd.Sysusers}, back: []string{"groupdel", systemd.Group},
			backIf: func(m *Machine) bool { return m.hasGroup(systemd.Group) }, why: "makes the group quner"})
	}
	if c.changed {
		p = append(p, f.runtimeDirs(), &run{argv: []string{"systemctl", "daemon-reload"}})
	}
	if timer := f.units[systemd.RetuneTimer]; f.retune == RetuneOff && (timer.running() || timer.enabled == "enabled") {
		p = append(p, &run{argv: []string{"systemctl", "disable", "--now", systemd.RetuneTimer},
			back: []string{"systemctl", "enable", "--now", systemd.RetuneTimer}, why: "the machine is not explored at rest"})
	}
	if off := f.unitsThat(func(u unitState) bool { return u.enabled != "enabled" }); len(off) > 0 {
		p = append(p, &run{argv: append([]string{"systemctl", "enable"}, off...), back: append([]string{"systemctl", "disable"}, off...)})
	}
	return append(p, f.start(c)...)
}

func (f *Facts) runtimeDirs() Step {
	return &makeSocketDirs{run: run{argv: []string{"systemd-tmpfiles", "--create", systemd.Tmpfiles}, why: "makes the sockets' directories"},
		there: f.present}
}

// start starts what does not run, and anew what runs otherwise than it is installed.
func (f *Facts) start(c *comparison) Plan {
	stopped := func(u unitState) bool { return !u.running() }
	service := f.units[systemd.Service]
	down := f.unitsThat(stopped)
	var p Plan
	if failed := f.unitsThat(func(u unitState) bool { return u.active == "failed" }); len(failed) > 0 {
		p = append(p, &run{argv: append([]string{"systemctl", "reset-failed"}, failed...), why: "forgets the crashes that forbid a start", lenient: true})
	}
	if c.timer && f.retune != RetuneOff && f.units[systemd.RetuneTimer].running() {
		p = append(p, &run{argv: []string{"systemctl", "restart", systemd.RetuneTimer}})
	}
	if c.sockets && len(down) < len(f.unitNames()) {
		p = append(p, &run{argv: []string{"systemctl", "stop", systemd.Service}, why: "puts the host back; what is tuned stays"},
			&run{argv: []string{"systemctl", "restart", systemd.PublicSocket, systemd.AdminSocket}})
		down = slices.DeleteFunc(down, func(u string) bool { return u == systemd.PublicSocket || u == systemd.AdminSocket })
		if !slices.Contains(down, systemd.Service) {
			down = append(down, systemd.Service)
		}
	} else if c.restart && service.running() {
		p = append(p, &run{argv: []string{"systemctl", "restart", systemd.Service}, why: "waits until it is ready; what is tuned stays"})
		down = slices.DeleteFunc(down, func(u string) bool { return u == systemd.Service })
	}
	sockets := slices.DeleteFunc(slices.Clone(down), func(u string) bool { return u == systemd.Service })
	if len(sockets) > 0 {
		p = append(p, &run{argv: append([]string{"systemctl", "start"}, sockets...), back: append([]string{"systemctl", "stop"}, sockets...)})
	}
	if slices.Contains(down, systemd.Service) {
		p = append(p, &run{argv: []string{"systemctl", "start", systemd.Service}, back: []string{"systemctl", "stop", systemd.Service},
			why: "waits until it is ready"})
	}
	return p
}

func (f *Facts) unitsThat(holds func(unitState) bool) []string {
	return slices.DeleteFunc(f.unitNames(), func(u string) bool { return !holds(f.units[u]) })
}

// stagedSteps enable the units in a tree that nothing runs in.
func (f *Facts) stagedSteps() Plan {
	var p Plan
	for _, l := range bootLinks() {
		there, wanted := f.present[l.path].there, slices.Contains(f.unitNames(), path.Base(l.path))
		if !there && wanted {
			p = append(p, &link{path: l.path, to: l.to})
		} else if there && !wanted {
			p = append(p, &remove{path: l.path, why: "the machine is not explored at rest"})
		}
	}
	if !f.hasGroup {
		p = append(p, &note{what: systemd.Group, why: "the group is made where that tree runs: systemd-sysusers"})
	}
	return p
}
