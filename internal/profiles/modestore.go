package profiles

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/qunerd/quner/internal/host"
)

// ModeFile is where the mode is, in the state directory.
const ModeFile = "mode.json"

// ModeStore remembers on disk who decides the profile. It belongs to one goroutine.
type ModeStore struct{ file stateFile }

// modeFile is the layout of ModeFile.
type modeFile struct {
	Schema int `json:"schema"`
	ModeState
}

// NewModeStore returns the store of a state directory.
func NewModeStore(state host.Dir, log *slog.Logger) *ModeStore {
	return &ModeStore{stateFile{state, ModeFile, log}}
}

// Load returns the mode last saved, or ModeAuto where none was or where the file cannot be trusted. The error is a
// directory that cannot be read.
func (s *ModeStore) Load() (ModeState, error) {
	mode := ModeState{Mode: ModeAuto}
	err := s.file.load(func(data []byte) error {
		read, err := s.decode(data)
		if err == nil {
			mode = read
		}
		return err
	})
	return mode, err
}

func (s *ModeStore) decode(data []byte) (ModeState, error) {
	var content modeFile
	err := s.file.decode(data, &content, func() error {
		read := content.ModeState // only now it holds what was read
		return read.check()
	})
	return content.ModeState, err
}

// Save keeps a mode.
func (s *ModeStore) Save(m ModeState) error {
	if err := m.check(); err != nil {
		return err
	}
	return s.file.save(modeFile{schema, m})
}

func (m ModeState) check() error {
	modes := []Mode{ModeAuto, ModeIdle, ModeTraining, ModeOff}
	if !slices.Contains(modes, m.Mode) {
		return fmt.Errorf("mode %q: allowed are %q", m.Mode, modes)
	}
	if m.Before != "" && (m.Before == ModeOff || !slices.Contains(modes, m.Before)) {
		return fmt.Errorf("mode before the pause %q: allowed are %q", m.Before, modes[:3])
	}
	return nil
}
