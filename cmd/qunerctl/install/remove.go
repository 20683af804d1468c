package install

import (
	"path"
	"slices"

	"github.com/qunerd/quner/deploy/systemd"
)

// primeFile is what qunerctl prime keeps until it is taken back.
const primeFile = StateDir + "/prime.json"

// Uninstall plans the end of an installation: the host is put back first, then goes exactly what the manifest lists. It
// is a Refusal where there is nothing of the kind.
func Uninstall(f *Facts) (Plan, error) {
	if f.manifest == nil {
		r := &Refusal{"there is no installation by qunerctl here (no " + path.Join(f.root, manifestFile) + ")", "nothing is to be done; a package is removed by its package manager"}
		if at := f.units[systemd.Service].fragment; at != "" {
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
		for _, u := range unitNames() {
			p = append(p, &run{argv: []string{"systemctl", "reset-failed", u}, why: "had it failed", idle: true})
		}
	}
	if f.live && f.manifest.MadeGroup && f.hasGroup {
		p = append(p, &run{argv: []string{"groupdel", systemd.Group}, lenient: true})
	}
	for _, d := range socketDirs() {
		if f.live && f.present[d].there {
			p = append(p, &remove{path: d, all: true})
		}
	}
	return append(p, f.removeState()...), nil
}

// stop ends the service and makes sure that the host is as it was found, before anything that could do that is gone.
func (f *Facts) stop() Plan {
	var p Plan
	known := f.unitsThat(func(u unitState) bool { return u.load != "" && u.load != "not-found" })
	if len(known) > 0 {
		p = append(p, &run{argv: append([]string{"systemctl", "disable", "--now"}, known...), why: "puts the host back"})
	}
	if daemon := path.Join(f.bin, "qunerd"); f.present[daemon].sum != "" {
		p = append(p, &run{argv: []string{daemon, "restore"}, why: "were anything left to put back"})
	}
	return p
}

func (f *Facts) removeFiles() Plan {
	var p Plan
	for _, e := range slices.Backward(f.manifest.Files) {
		there := f.present[e.Path]
		switch {
		case !there.there:
			p = append(p, &remove{path: e.Path, why: "is gone already"})
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
func (f *Facts) removeState() Plan {
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
	if f.wish.Purge {
		p = append(p, &remove{path: StateDir, why: "points, floors, mode, history", all: true})
	} else {
		p = append(p, f.keptSteps()...)
		p = append(p, &note{what: StateDir, why: "points, floors, mode and history stay; --purge removes them"},
			&remove{path: manifestFile}, &removeDir{path: StateDir})
	}
	return append(p, last...)
}
