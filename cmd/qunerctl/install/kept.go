package install

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/qunerd/quner/deploy/systemd"
)

// keptFile is what an uninstallation leaves beside a configuration that somebody has changed.
const keptFile = StateDir + "/kept.json"

// kept tells the next installation that the configuration it finds is one that quner once wrote, so that it is not taken
// for one that was there before quner came, which nothing ever removes.
type kept struct {
	Schema int      `json:"schema"`
	SHA256 string   `json:"sha256"` // of quner.toml as quner wrote it
	Left   string   `json:"left"`   // of quner.toml as it was left; another is not known
	Dirs   []string `json:"dirs"`   // made by the installation, and still in use
}

// kept reads what an uninstallation has left; nil if there is nothing that can be relied on. A configuration of which
// nothing is known counts as found, which costs nobody a file.
func (m *Machine) kept() *kept {
	data, err := m.read(keptFile)
	if err != nil {
		return nil
	}
	return parseKept(data)
}

func parseKept(data []byte) *kept {
	var k kept
	if err := json.Unmarshal(data, &k); err != nil || k.Schema < 1 || k.Schema > schema || k.SHA256 == "" || k.Left == "" {
		return nil
	}
	k.Dirs = keptDirs(k.Dirs)
	return &k
}

// keptDirs are those of an installation's directories that stay with the configuration and this record.
func keptDirs(dirs []string) []string {
	stay := slices.Concat(parents(systemd.Config), parents(StateDir))
	return slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return !slices.Contains(stay, d) })
}

// entry is what is known of a file: by the manifest, or of a configuration by what an uninstallation has left.
func (f *Facts) entry(path string) (Entry, bool) {
	if e, listed := f.manifest.entry(path); listed {
		return e, true
	}
	if path == systemd.Config && f.kept != nil && f.kept.Left == f.present[path].sum {
		return Entry{Path: path, SHA256: f.kept.SHA256}, true
	}
	return Entry{}, false
}

// keptSteps leave word of the configuration, if it stays and is quner's, and none of any other.
func (f *Facts) keptSteps() Plan {
	e, listed := f.manifest.entry(systemd.Config)
	there := f.present[systemd.Config]
	switch {
	case listed && !e.Found && there.sum != "" && !e.wrote(there.sum):
		return Plan{&leave{kept: kept{schema, e.SHA256, there.sum, keptDirs(f.manifest.Dirs)}}}
	case f.present[keptFile].there:
		return Plan{&remove{path: keptFile}}
	}
	return nil
}

// leave writes what the next installation has to know.
type leave struct {
	inert
	kept
}

func (s *leave) Line() Line {
	return Line{"write", keptFile, "so that a later --purge knows this configuration for quner's"}
}

func (s *leave) do(_ context.Context, m *Machine) error {
	data, err := json.MarshalIndent(s.kept, "", "  ")
	if err != nil {
		return err
	}
	return m.write(keptFile, 0o600, append(data, '\n'))
}
