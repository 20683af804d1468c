// Package systemd holds the files that make quner a service: units, group, directories and the reference configuration.
// qunerctl install writes them, packages ship them as they lie here, and nothing else uses them.
package systemd

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"time"
)

//go:embed qunerd.service qunerd.socket qunerd-admin.socket quner-retune.service quner-retune.timer quner.sysusers quner.tmpfiles quner.toml
var files embed.FS

// Units of an installation, in the order in which they are started.
const (
	PublicSocket = "qunerd.socket"
	AdminSocket  = "qunerd-admin.socket"
	Service      = "qunerd.service"
	// RetuneTimer starts RetuneService, which looks for the idle point.
	RetuneTimer   = "quner-retune.timer"
	RetuneService = "quner-retune.service"
)

// RetuneInterval is the time between two explorations of the machine at rest, in the timer as it lies here.
const RetuneInterval = 30 * time.Minute

// Group is the group whose members see exact CPU energy. sysusers.d makes it.
const Group = "quner"

// Where an administrator's own installation has its files; a package's are below /usr/lib.
const (
	UnitDir  = "/etc/systemd/system"
	Sysusers = "/etc/sysusers.d/quner.conf"
	Tmpfiles = "/etc/tmpfiles.d/quner.conf"
	Config   = "/etc/quner/quner.toml"
)

// packagedBin is where the files as they lie here expect the programs.
const packagedBin = "/usr/bin"

// Layout is what differs between two installations.
type Layout struct {
	Bin        string        // absolute directory of the programs
	AdminGroup string        // may use the admin socket; "" for root alone
	Retune     time.Duration // between two explorations of the machine at rest; 0: RetuneInterval
}

// File is one file of an installation.
type File struct {
	Path    string // absolute
	Mode    fs.FileMode
	Content []byte
	Config  bool // an administrator edits it: never overwritten once changed
}

// ErrName means that a name would not mean in a unit what it says.
type ErrName struct{ Name string }

func (e ErrName) Error() string { return fmt.Sprintf("%q: not a name that a unit can hold", e.Name) }

// Files returns the files of an installation. A directory or group whose name has a meaning of its own in a unit file
// (spaces, %, quotes) is an ErrName.
func (l Layout) Files() ([]File, error) {
	if !regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`).MatchString(l.Bin) {
		return nil, ErrName{l.Bin}
	}
	if l.AdminGroup != "" && !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`).MatchString(l.AdminGroup) {
		return nil, ErrName{l.AdminGroup}
	}
	all := []File{
		{Path: path.Join(UnitDir, PublicSocket), Content: content(PublicSocket)},
		{Path: path.Join(UnitDir, AdminSocket), Content: l.adminSocket()},
		{Path: path.Join(UnitDir, Service), Content: l.service()},
		{Path: path.Join(UnitDir, RetuneService), Content: l.retuneService()},
		{Path: path.Join(UnitDir, RetuneTimer), Content: l.retuneTimer()},
		{Path: Sysusers, Content: content("quner.sysusers")},
		{Path: Tmpfiles, Content: l.tmpfiles()},
		{Path: Config, Content: content("quner.toml"), Config: true},
	}
	for i := range all {
		all[i].Mode = 0o644
	}
	return all, nil
}

func (l Layout) service() []byte {
	return bytes.ReplaceAll(content(Service), []byte("="+packagedBin+"/qunerd "), []byte("="+l.Bin+"/qunerd "))
}

func (l Layout) retuneService() []byte {
	return bytes.ReplaceAll(content(RetuneService), []byte("="+packagedBin+"/qunerctl "), []byte("="+l.Bin+"/qunerctl "))
}

func (l Layout) retuneTimer() []byte {
	timer := content(RetuneTimer)
	if l.Retune == 0 || l.Retune == RetuneInterval {
		return timer
	}
	every := fmt.Appendf(nil, "OnUnitActiveSec=%ds", l.Retune/time.Second)
	return bytes.Replace(timer, []byte("OnUnitActiveSec=30min"), every, 1)
}

func (l Layout) adminSocket() []byte {
	unit := content(AdminSocket)
	if l.AdminGroup == "" {
		return unit
	}
	unit = bytes.Replace(unit, []byte("SocketGroup=root"), []byte("SocketGroup="+l.AdminGroup), 1)
	return bytes.Replace(unit, []byte("SocketMode=0600"), []byte("SocketMode=0660"), 1)
}

func (l Layout) tmpfiles() []byte {
	conf := content("quner.tmpfiles")
	if l.AdminGroup == "" {
		return conf
	}
	return bytes.Replace(conf, []byte("/run/quner-admin 0700 root root"), []byte("/run/quner-admin 0750 root "+l.AdminGroup), 1)
}

// content is an embedded file, which is there: the compiler has seen to it.
func content(name string) []byte {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return data
}
