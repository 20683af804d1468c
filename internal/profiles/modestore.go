package profiles

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/host"
)

// ModeFile is where the mode and the owners of levers are, in the state directory.
const ModeFile = "mode.json"

// MaxPause is the longest a pause with an end may be; one without an end lasts until it is resumed.
const MaxPause = 366 * 24 * time.Hour

// Owner is who moves a lever, as a person has decided it.
type Owner string

// The owners. A lever nobody has decided about is quner's unless another power daemon runs that contests it.
const (
	OwnerQuner  Owner = "quner"  // quner, whoever else runs
	OwnerOthers Owner = "others" // anybody but quner
)

// ModeStore remembers on disk who decides the profile, and who moves which lever. It belongs to one goroutine.
type ModeStore struct {
	file host.StateFile
	now  modeFile
}

// modeFile is the layout of ModeFile.
type modeFile struct {
	Schema int `json:"schema"`
	ModeState
	Owners map[string]Owner `json:"lever_owners,omitempty"` // by lever
}

// NewModeStore returns the store of a state directory, in ModeAuto until it is loaded.
func NewModeStore(state host.Dir, log *slog.Logger) *ModeStore {
	return &ModeStore{
		file: host.StateFile{Dir: state, Name: ModeFile, Schema: schema, Log: log},
		now:  modeFile{Schema: schema, ModeState: ModeState{Mode: ModeAuto}},
	}
}

// Load returns the mode last saved, or ModeAuto where none was or where the file cannot be trusted. The error is a
// directory that cannot be read.
func (s *ModeStore) Load() (ModeState, error) {
	err := s.file.Load(func(data []byte) error {
		read, err := s.decode(data)
		if err == nil {
			s.now = read
		}
		return err
	})
	return s.now.ModeState, err
}

func (s *ModeStore) decode(data []byte) (modeFile, error) {
	var content modeFile
	err := s.file.Decode(data, &content, func() error {
		for lever, o := range content.Owners {
			if o != OwnerQuner && o != OwnerOthers {
				return fmt.Errorf("owner of lever %q: %q: allowed are %q and %q", lever, o, OwnerQuner, OwnerOthers)
			}
		}
		return content.check()
	})
	return content, err
}

// Save keeps a mode.
func (s *ModeStore) Save(m ModeState) error {
	if err := m.check(); err != nil {
		return err
	}
	next := s.now
	next.ModeState = m
	return s.keep(next)
}

// Owners returns what was decided about levers, by name.
func (s *ModeStore) Owners() map[string]Owner { return maps.Clone(s.now.Owners) }

// SetOwner decides about levers. On an error nothing is decided.
func (s *ModeStore) SetOwner(o Owner, levers ...string) error {
	next := s.now
	next.Owners = maps.Clone(s.now.Owners)
	if next.Owners == nil {
		next.Owners = map[string]Owner{}
	}
	for _, l := range levers {
		next.Owners[l] = o
	}
	return s.keep(next)
}

func (s *ModeStore) keep(next modeFile) error {
	if err := s.file.Save(next); err != nil {
		return err
	}
	s.now = next
	return nil
}

func (m ModeState) check() error {
	modes := []Mode{ModeAuto, ModeIdle, ModeTraining, ModeOff}
	if !slices.Contains(modes, m.Mode) {
		return fmt.Errorf("mode %q: allowed are %q", m.Mode, modes)
	}
	if m.Before != "" && (m.Before == ModeOff || !slices.Contains(modes, m.Before)) {
		return fmt.Errorf("mode before the pause %q: allowed are %q", m.Before, modes[:3])
	}
	switch paused := m.Mode == ModeOff; {
	case paused && m.Before == "":
		return errors.New("a pause without the mode it returns to")
	case !paused && !m.Until.IsZero():
		return fmt.Errorf("mode %q with an end: only a pause has one", m.Mode)
	case paused && m.Until.Sub(m.Set) > MaxPause:
		return fmt.Errorf("a pause until %v: at most %v after it was set", m.Until, MaxPause)
	}
	return nil
}
