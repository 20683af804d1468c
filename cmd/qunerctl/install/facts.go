package install

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qunerd/quner/deploy/systemd"
)

// Wish is what the person asks for.
type Wish struct {
	Version    string
	Sources    map[string]string // file of each program on this machine, by its name
	Path       string            // root's PATH: where programs are looked for
	AdminGroup *string           // nil: as it is
	Retune     *string           // time between explorations at rest: RetuneOff, or a duration; nil: as it is
	Purge      bool
	Restorer   string // of an uninstallation: a qunerd to put the machine back with where the installed one is gone; may be empty
}

// Facts are what an installation, or its end, is planned from.
type Facts struct {
	wish     Wish
	live     bool
	root     string // where the machine's files are known here
	bin      string
	group    string // may use the admin socket
	retune   string // as in the manifest
	files    []file
	manifest *Manifest
	kept     *kept // what an uninstallation has left
	present  map[string]presence
	hasGroup bool // the group quner
	units    map[string]unitState
	rivals   []Rival
	unseen   error // why it is not known which others run
	config   error // why the configuration that stays is no good
}

// file is one file that is to be there.
type file struct {
	systemd.File
	source string // of a program
	sum    string
}

// unitState is what the service manager says of a unit.
type unitState struct{ load, active, enabled, fragment string }

func (u unitState) running() bool {
	return u.active == "active" || u.active == "activating" || u.active == "reloading"
}

// Rival is another service that moves what quner moves.
type Rival struct {
	Daemon   string   `json:"daemon"`
	Unit     string   `json:"unit"`
	Contests []string `json:"contests"`
	Remedy   string   `json:"remedy"`
	Detail   string   `json:"detail"`
}

// Rivals are the other services that run, as the daemon's doctor knows them.
func (f *Facts) Rivals() []Rival { return f.rivals }

// Installed is the version that is installed; empty if none is.
func (f *Facts) Installed() string {
	if f.manifest == nil {
		return ""
	}
	return f.manifest.Version
}

// Unseen is why it is not known which others run; nil if it is.
func (f *Facts) Unseen() error { return f.unseen }

// packagedUnit is there where a package of quner is installed.
const packagedUnit = "/usr/lib/systemd/system/" + systemd.Service

// packaged reports whether a package of quner is installed too: configuration, state and group are its own as well.
func (f *Facts) packaged() bool { return f.present[packagedUnit].there }

// predecessor is the service of the Python program that quner succeeds.
const predecessor = "quner.service"

// unitNames are the units that are started and enabled, the timer if that is wished.
func unitNames() []string {
	return []string{systemd.PublicSocket, systemd.AdminSocket, systemd.Service, systemd.RetuneTimer}
}

// RetuneOff is the wish that the machine be not explored at rest by a timer.
const RetuneOff = "off"

// ParseRetune reads the time between two explorations at rest. Equal times have equal texts, and the usual one has none.
func ParseRetune(text string, duration func(string) (time.Duration, error)) (string, error) {
	if text == RetuneOff {
		return RetuneOff, nil
	}
	d, err := duration(text)
	switch {
	case err != nil:
		return "", err
	case d < leastRetune || d > mostRetune:
		return "", fmt.Errorf("%s: not from %v to %v", text, leastRetune, mostRetune)
	case d.Truncate(time.Second) == systemd.RetuneInterval:
		return "", nil
	}
	return d.Truncate(time.Second).String(), nil
}

// What the time between two explorations may be.
const (
	leastRetune = 5 * time.Minute
	mostRetune  = 30 * 24 * time.Hour
)

// unitNames are the units that are to run here.
func (f *Facts) unitNames() []string {
	return slices.DeleteFunc(unitNames(), func(u string) bool { return u == systemd.RetuneTimer && f.retune == RetuneOff })
}

// socketDirs are the directories of the sockets.
func socketDirs() []string { return []string{"/run/quner", "/run/quner-admin"} }

func unitFile(unit string) string { return path.Join(systemd.UnitDir, unit) }

// programs are what is installed.
func programs() []string { return []string{"qunerctl", "qunerd"} }

// Look finds out about a machine. It changes nothing.
func Look(ctx context.Context, m *Machine, w Wish) (*Facts, error) {
	f := &Facts{wish: w, live: m.Live, root: m.root.Name(), present: map[string]presence{}, units: map[string]unitState{}}
	var err error
	if f.manifest, err = m.manifest(); err != nil {
		return nil, err
	}
	f.kept = m.kept()
	f.bin = binDir(w.Path)
	if f.manifest != nil {
		f.bin, f.group, f.retune = f.manifest.Bin, f.manifest.AdminGroup, f.manifest.Retune
	}
	if w.Retune != nil {
		f.retune = *w.Retune
	}
	if w.AdminGroup != nil {
		f.group = *w.AdminGroup
	}
	if f.group == "root" {
		f.group = ""
	}
	if err := f.wanted(); err != nil {
		return nil, err
	}
	if err := f.lookAround(m); err != nil {
		return nil, err
	}
	f.hasGroup = m.hasGroup(systemd.Group)
	if f.group != "" && !m.hasGroup(f.group) {
		return nil, &Refusal{fmt.Sprintf("group %s: there is none", f.group), "sudo groupadd --system " + f.group}
	}
	if !m.Live {
		return f, nil
	}
	return f, f.askMachine(ctx, m)
}

// binDir is where root's PATH finds a program that an administrator installs.
func binDir(searched string) string {
	dirs := filepath.SplitList(searched)
	for _, d := range []string{"/usr/local/bin", "/usr/local/sbin", "/usr/bin"} {
		if slices.Contains(dirs, d) {
			return d
		}
	}
	return "/usr/local/bin"
}

// wanted lists the files that are to be there.
func (f *Facts) wanted() error {
	for _, name := range programs() {
		source, ok := f.wish.Sources[name]
		if !ok {
			continue // an uninstallation has none
		}
		r, err := os.Open(source)
		if errors.Is(err, fs.ErrNotExist) {
			return &Refusal{fmt.Sprintf("%s: there is no %s beside this program", source, name), "make build, then sudo bin/qunerctl install"}
		}
		if err != nil {
			return err
		}
		sum, err := sumOf(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
		f.files = append(f.files, file{systemd.File{Path: path.Join(f.bin, name), Mode: 0o755}, source, sum})
	}
	every, err := time.ParseDuration(f.retune)
	if err != nil {
		every = 0 // the usual time, or a timer that is off
	}
	all, err := systemd.Layout{Bin: f.bin, AdminGroup: f.group, Retune: every}.Files()
	for _, one := range all {
		f.files = append(f.files, file{File: one, sum: sumOfBytes(one.Content)})
	}
	return err
}

// lookAround finds what lies where files are to be or have been put.
func (f *Facts) lookAround(m *Machine) error {
	var paths []string
	for _, one := range f.files {
		paths = append(append(paths, one.Path), parents(one.Path)...)
	}
	if f.manifest != nil {
		for _, e := range f.manifest.Files {
			paths = append(paths, e.Path)
		}
		paths = append(paths, f.manifest.Dirs...)
	}
	for _, u := range bootLinks() {
		paths = append(append(paths, u.path), parents(u.path)...)
	}
	paths = append(append(append(paths, StateDir, primeFile, keptFile, packagedUnit), socketDirs()...), parents(StateDir)...)
	for _, p := range paths {
		if _, known := f.present[p]; known {
			continue
		}
		found, err := m.look(p)
		if err != nil {
			return err
		}
		f.present[p] = found
	}
	return nil
}

// bootLinks are the links by which the units start at boot.
func bootLinks() []link {
	wants := map[string]string{systemd.PublicSocket: "sockets", systemd.AdminSocket: "sockets", systemd.Service: "multi-user", systemd.RetuneTimer: "timers"}
	var all []link
	for _, u := range unitNames() {
		all = append(all, link{path.Join(systemd.UnitDir, wants[u]+".target.wants", u), unitFile(u)})
	}
	return all
}

// hasGroup looks a group up: in the tree's own file, and on this machine wherever else groups are kept.
func (m *Machine) hasGroup(name string) bool {
	data, err := m.read("/etc/group")
	for line := range strings.Lines(string(data)) {
		if err == nil && strings.HasPrefix(line, name+":") {
			return true
		}
	}
	if m.root.Name() != "/" {
		return false
	}
	_, err = user.LookupGroup(name)
	return err == nil
}

// askMachine asks the service manager, and the daemon's own doctor, how things stand.
func (f *Facts) askMachine(ctx context.Context, m *Machine) error {
	if booted, err := m.look("/run/systemd/system"); err != nil || !booted.dir {
		return &Refusal{"this machine does not run on systemd (there is no /run/systemd/system)",
			"start the daemon by other means: \"sudo qunerd run\" under a supervisor that sends TERM to stop it, and \"sudo qunerd restore\" after a crash"}
	}
	out, err := m.run(ctx, "systemctl", "--version")
	if err != nil {
		return err
	}
	if v, ok := systemdVersion(out); ok && v < oldest {
		return &Refusal{fmt.Sprintf("systemd %d: quner's units need %d or newer", v, oldest), "run the daemon by hand: sudo qunerd run"}
	}
	out, err = m.run(ctx, append([]string{"systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState,FragmentPath"},
		append(unitNames(), predecessor)...)...)
	if err != nil {
		return err
	}
	f.units = parseUnits(out)
	if daemon, ok := f.wish.Sources["qunerd"]; ok {
		return f.askDaemon(ctx, m, daemon)
	}
	return nil
}

// askDaemon runs the qunerd that is to be installed: it must run here, be of one make with this program, know the
// configuration that stays, and say who else moves levers.
func (f *Facts) askDaemon(ctx context.Context, m *Machine, daemon string) error {
	out, err := m.run(ctx, daemon, "version")
	if err != nil {
		return &Refusal{"qunerd does not run here: " + err.Error(), "build it on this machine: make build"}
	}
	if _, v, _ := strings.Cut(strings.TrimSpace(out), " "); v != f.wish.Version {
		return &Refusal{fmt.Sprintf("%s is version %s, this qunerctl is %s", daemon, v, f.wish.Version), "build both together: make build"}
	}
	if f.present[systemd.Config].there {
		if _, err := m.run(ctx, daemon, "check-config", m.Host(path.Dir(systemd.Config))); err != nil {
			f.config = err
		}
	}
	out, err = m.run(ctx, daemon, "doctor", "--json")
	var report struct {
		Conflicts []Rival `json:"conflicts"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &report)
	}
	f.rivals, f.unseen = report.Conflicts, err
	return nil
}

// oldest is the oldest systemd whose units quner's are: Debian 11's.
const oldest = 247

// systemdVersion reads what "systemctl --version" begins with: "systemd 252 (252.38-1~deb12u1)".
func systemdVersion(out string) (version int, ok bool) {
	fields := strings.Fields(out)
	if len(fields) < 2 || fields[0] != "systemd" {
		return 0, false
	}
	digits := strings.TrimLeft(fields[1], "v")
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	v, err := strconv.Atoi(digits)
	return v, err == nil
}

// parseUnits reads what "systemctl show" prints: a block of Key=value lines for each unit.
func parseUnits(out string) map[string]unitState {
	units := map[string]unitState{}
	block := map[string]string{}
	flush := func() {
		if block["Id"] != "" {
			units[block["Id"]] = unitState{block["LoadState"], block["ActiveState"], block["UnitFileState"], block["FragmentPath"]}
		}
		block = map[string]string{}
	}
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok {
			block[key] = value
		} else {
			flush()
		}
	}
	flush()
	return units
}
