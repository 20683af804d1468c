package hostsim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/qunerd/quner/internal/unit"
)

// Where things lie below the directory of a simulation.
const (
	fixtureCopy = "sim/host.txtar"
	loadDir     = "sim/load"
	spareDir    = "sim/spare"
	rateFile    = "sim/rate"
)

// ErrNoSimulation means that a directory holds no simulated machine.
var ErrNoSimulation = errors.New("not the directory of a simulated host")

// unpack writes the fixture's tree below dir, unless it is there; fresh is whether it was not. The copy of the fixture
// comes last: without it the directory is no machine yet.
func unpack(dir string, f Fixture) (fresh bool, err error) {
	old, err := os.ReadFile(filepath.Join(dir, fixtureCopy))
	if err == nil {
		if !bytes.Equal(old, f.source) {
			return false, fmt.Errorf("%s: holds another simulated host than %s", dir, f.Name())
		}
		return false, nil
	}
	for _, sub := range []string{loadDir, spareDir, "var", "host/sys", "host/proc", "host/etc/quner"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return false, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		file := filepath.Join(dir, "host", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return false, err
		}
		if err := os.WriteFile(file, []byte(f.files[name]), 0o644); err != nil {
			return false, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.links)) {
		file := filepath.Join(dir, "host", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return false, err
		}
		// A start that was interrupted may have made it.
		if err := os.Symlink(f.links[name], file); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
	}
	return true, replace(dir, fixtureCopy, f.source)
}

// takeUp reads the settings and counters the tree stands at.
func (s *Sim) takeUp() error {
	k := knobs{limits: make([]unit.Power, len(s.fix.packages))}
	for name := range s.fix.files {
		var kept map[string]string
		switch {
		case attributeOf(name) != fixed:
			kept = s.settings
		case s.fix.moves(name):
			kept = s.began
		default:
			continue
		}
		data, err := os.ReadFile(filepath.Join(s.dir, "host", name))
		if err != nil {
			return err
		}
		kept[name] = string(data)
	}
	for i := range s.fix.zones {
		z := &s.fix.zones[i]
		var err error
		if z.start, err = strconv.ParseUint(strings.TrimSpace(s.began[z.file]), 10, 63); err != nil {
			return fmt.Errorf("%s: %w", z.file, err)
		}
	}
	for i := range s.fix.curves {
		b, err := s.newBoard(i)
		if err != nil {
			return err
		}
		s.boards = append(s.boards, b)
		k.caps = append(k.caps, b.found)
	}
	s.line.changes = []change{{0, s.withSettings(k)}}
	for _, b := range s.boards {
		if strings.TrimSpace(s.began[b.files.status]) == "active" {
			b.glance()
			b.wakes = 0
		}
		b.ruled()
	}
	return nil
}

// Settings returns every setting of the machine that can be written, by name, as it stands: files of the tree, and
// "gpu0/limit_mw" for an NVIDIA board's power cap.
func (s *Sim) Settings() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]string{}
	for name := range s.settings {
		data, err := os.ReadFile(filepath.Join(s.dir, "host", name))
		if err != nil {
			data = []byte(err.Error())
		}
		all[name] = string(data)
	}
	for i, c := range s.line.knobsAt(s.now()).caps {
		if !s.boards[i].hasLimit() {
			continue
		}
		all[boardName(i)+"/limit_mw"] = strconv.FormatInt(int64(c/unit.Milliwatt), 10)
	}
	return all
}

// Digest returns a hash of the whole machine: names, kinds and contents of its tree and the boards' caps. Only what runs
// by itself, counters and the load's figures, is left out.
func (s *Sim) Digest() string {
	h := sha256.New()
	root := filepath.Join(s.dir, "host")
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil || s.fix.moves(rel) || s.isProcess(rel) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %v ", rel, info.Mode().Type())
		var data []byte
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(file)
			fmt.Fprintf(h, "%q\n", target)
			return err
		case info.Mode().IsRegular():
			data, err = os.ReadFile(file)
		}
		fmt.Fprintf(h, "%q\n", data)
		return err
	})
	if err != nil {
		return "unreadable: " + err.Error()
	}
	settings := s.Settings()
	for i := range s.fix.curves {
		fmt.Fprintf(h, "%s\n", settings[boardName(i)+"/limit_mw"])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// moves reports whether a file of the machine's tree changes by itself.
func (f *Fixture) moves(name string) bool {
	return isCounter(name) || slices.ContainsFunc(f.boards, func(b boardFiles) bool { return b.status == name })
}

// isCounter reports whether a file changes by itself on every machine.
func isCounter(name string) bool {
	switch path.Base(name) {
	case "energy_uj", "scaling_cur_freq", "gpu_busy_percent":
		return true
	}
	if isPowerReading(name) || isEnergyReading(name) || isHeatCounter(name) {
		return true
	}
	return name == "proc/loadavg" || name == "proc/uptime" || name == "proc/stat"
}
