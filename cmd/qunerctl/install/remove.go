package install

import (
	"path"
	"slices"
	"strings"

	"github.com/qunerd/quner/deploy/systemd"
)

// primeFile is what qunerctl prime keeps until it is taken back.
const primeFile = StateDir + "/prime.json"

// Uninstall plans the end of an installation: the host is put back first, then goes exactly what the manifest lists. It
// is a Refusal where there is nothing of the kind.
func Uninstall(f *Facts) (Plan, error) {
	if f.manifest == nil {
		r := &Refusal{"there is no installation by qunerctl here (no " + path.Join(f.root, ManifestFile) + ")", "nothing is to be done; a package is removed by its package manager"}
		if at := f.units[systemd.Service].fragment; path.Dir(at) == systemd.UnitDir {
			r = &Refusal{at + " is there, and " + ManifestFile + " is not: what was installed, and by whom, is not known",
				"sudo systemctl disable --now " + strings.Join(unitNames(), " ") + " && sudo qunerd restore, and remove the files that \"qunerctl install --dry-run\" names"}
		} else if at != "" {
			r = &Refusal{"quner is installed by a package (" + at + ")", "sudo apt remove quner, or sudo dnf remove quner"}
		} else if _, left := f.entry(systemd.Config); left && f.wish.Purge {
			r.Remedy = "for what an uninstallation has left: sudo rm -r " + systemd.Config + " " + StateDir
		}
		return nil, r
	}
	if f.wish.Purge && f.present[primeFile].there {
		return nil, &Refusal{"the display is driven otherwise than it was found, and what it was would be forgotten", "sudo qunerctl prime disable"}
	}
	var p Plan
	if f.live {
		p = append(p, f.stop()...)
	} else {
		for _, l := range bootLinks() {
			if f.present[l.path].there {
				p = append(p, &remove{path: l.path})
			}
		}
	}
	p = append(p, f.removeFiles()...)
	if f.live {
		p = append(p, &run{argv: []string{"systemctl", "daemon-reload"}})
		// A unit that has failed stays known until this; where none has, systemctl calls that an error.
		for _, u := range append(unitNames(), systemd.RetuneService) {
			p = append(p, &run{argv: []string{"systemctl", "reset-failed", u}, why: "had it failed", idle: true})
		}
	}
	if f.packaged() {
		p = append(p, &note{what: packagedUnit, why: "quner's package stays, and its service is stopped: sudo systemctl enable --now " + strings.Join(unitNames(), " ")})
		return append(p, f.removeState(false)...), nil
	}
	if f.live && f.manifest.MadeGroup && f.hasGroup {
		p = append(p, &run{argv: []string{"groupdel", systemd.Group}, lenient: true})
	}
	if f.live {
		for _, d := range socketDirs() { // also those that a command of a run that died has yet to make
			p = append(p, &remove{path: d, all: true})
		}
	}
	return append(p, f.removeState(f.wish.Purge)...), nil
}

// stop ends the service and makes sure that the host is as it was found, before anything that could do that is gone.
func (f *Facts) stop() Plan {
	var p Plan
	known := f.unitsThat(func(u unitState) bool { return u.load != "" && u.load != "not-found" })
	if len(known) > 0 {
		p = append(p, &run{argv: append([]string{"systemctl", "disable", "--now"}, known...), why: "puts the host back", again: true})
	}
	daemon := path.Join(f.bin, "qunerd")
	if f.present[daemon].sum == "" {
		daemon = f.wish.Restorer
	}
	if daemon == "" {
		return append(p, &nothingHeld{gone: path.Join(f.bin, "qunerd")})
	}
	return append(p, &run{argv: []string{daemon, "restore"}, why: "were anything left to put back", heard: true})
}

func (f *Facts) removeFiles() Plan {
	var p Plan
	for _, e := range slices.Backward(f.manifest.Files) {
		there := f.present[e.Path]
		switch {
		case !there.there:
			p = append(p, &remove{path: e.Path, why: "is gone already"})
		case e.Path == systemd.Config && f.packaged():
			p = append(p, &keep{what: e.Path, why: "quner's package has it too"})
		case e.Found:
			p = append(p, &keep{what: e.Path, why: "was here before quner"})
		case e.Path == systemd.Config && f.wish.Purge, e.wrote(there.sum):
			p = append(p, &remove{path: e.Path})
		default:
			p = append(p, &keep{what: e.Path, why: "yours: it is not as quner wrote it"})
		}
	}
	return p
}

// removeState removes what the daemon has learned, if that is wished, and the manifest as the last thing.
func (f *Facts) removeState(purge bool) Plan {
	above := parents(StateDir)
	var p, last Plan
	for _, d := range slices.Backward(f.manifest.Dirs) {
		switch {
		case d == StateDir || !f.present[d].there:
		case slices.Contains(above, d):
			last = append(last, &removeDir{path: d})
		default:
			p = append(p, &removeDir{path: d})
		}
	}
	if purge {
		p = append(p, &forget{})
	} else {
		p = append(p, f.keptSteps()...)
		p = append(p, &note{what: StateDir, why: "points, floors, mode and history stay; --purge removes them"})
	}
	return append(append(p, &remove{path: ManifestFile}, &removeDir{path: StateDir}), last...)
}
