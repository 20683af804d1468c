package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Where an installation keeps its books.
const (
	StateDir = "/var/lib/quner"
	// ManifestFile is a Manifest in JSON.
	ManifestFile = StateDir + "/install.json"
)

// schema is the newest version of the manifest that this code knows.
const schema = 1

// Manifest is what an installation has put on a machine. It is on disk before the first file is, so that a run that dies
// in its midst can be completed or taken back.
type Manifest struct {
	Schema     int      `json:"schema"`
	Version    string   `json:"version"`
	Complete   bool     `json:"complete"` // the run that wrote it came to its end
	Bin        string   `json:"bin"`      // directory of the programs
	AdminGroup string   `json:"admin_group,omitempty"`
	Retune     string   `json:"retune_interval,omitempty"` // "off", or a duration; empty: the unit's own
	MadeGroup  bool     `json:"made_group"`                // the group quner was made by the installation
	Files      []Entry  `json:"files"`
	Dirs       []string `json:"dirs"` // made by the installation, each after its parent
}

// Entry is one file of an installation.
type Entry struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Was    string `json:"was,omitempty"`   // while an upgrade is under way: the file it replaces
	Found  bool   `json:"found,omitempty"` // was there before: stays when the rest goes
}

func (m *Manifest) entry(path string) (Entry, bool) {
	if m == nil {
		return Entry{}, false
	}
	i := slices.IndexFunc(m.Files, func(e Entry) bool { return e.Path == path })
	if i < 0 {
		return Entry{}, false
	}
	return m.Files[i], true
}

// wrote reports whether a file with this sum is one that the installation has put there.
func (e Entry) wrote(sum string) bool {
	return !e.Found && sum != "" && (sum == e.SHA256 || sum == e.Was)
}

// encode is the manifest as it lies on disk.
func (m *Manifest) encode() ([]byte, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	return append(data, '\n'), err
}

// ErrManifest means that what is known of an installation cannot be trusted.
var ErrManifest = errors.New("the manifest of the installation is not readable")

// manifest reads the machine's manifest; nil if there is none.
func (m *Machine) manifest() (*Manifest, error) {
	there, err := m.look(ManifestFile)
	if err != nil || !there.there {
		return nil, err
	}
	if there.loose != "" {
		return nil, fmt.Errorf("%s: %w: %s: others than root may have written it", ManifestFile, ErrManifest, there.loose)
	}
	data, err := m.read(ManifestFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	found, err := parseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	return found, nil
}

func parseManifest(data []byte) (*Manifest, error) {
	var found Manifest
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if found.Schema < 1 || found.Schema > schema {
		return nil, fmt.Errorf("%w: schema %d, known up to %d", ErrManifest, found.Schema, schema)
	}
	for _, e := range found.Files {
		if !absolute(e.Path) {
			return nil, fmt.Errorf("%w: path %q", ErrManifest, e.Path)
		}
	}
	for _, d := range found.Dirs {
		if !absolute(d) {
			return nil, fmt.Errorf("%w: path %q", ErrManifest, d)
		}
	}
	if !absolute(found.Bin) {
		return nil, fmt.Errorf("%w: path %q", ErrManifest, found.Bin)
	}
	return &found, nil
}

// absolute tells a path that names one file below the root and no other.
func absolute(name string) bool {
	return len(name) > 1 && name[0] == '/' && fs.ValidPath(name[1:])
}
