package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// journalFile is the daemon's journal of what the levers were before it moved them.
const journalFile = StateDir + "/rollback.json"

// held tells how many levers the journal says are not as they were found.
func (m *Machine) held() (int, error) {
	data, err := m.read(journalFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var journal struct {
		Schema  int               `json:"schema"`
		Entries []json.RawMessage `json:"entries"`
	}
	if err == nil {
		err = json.Unmarshal(data, &journal)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", journalFile, err)
	}
	return len(journal.Entries), nil
}

// LeavesLever reports whether a step that was done tells of a lever that is not as it was found: "qunerd restore" has said
// so, or the journal that knows what it was is kept.
func (l Line) LeavesLever() bool {
	return l.Do == "note" && l.What == "qunerd" && strings.Contains(l.Why, ": left as it is: ") || l.Do == "keep" && l.What == journalFile
}

// nothingHeld goes on only where there is nothing that the daemon's program, which is gone, would have to put back.
type nothingHeld struct {
	inert
	gone string
}

func (s *nothingHeld) Line() Line {
	return Line{"note", s.gone, "is gone: there must be nothing left to put back"}
}

func (s *nothingHeld) do(_ context.Context, m *Machine) error {
	n, err := m.held()
	if err != nil {
		return err
	}
	if n > 0 {
		return &Refusal{fmt.Sprintf("levers are not as they were found (%d), and the program that puts them back is gone", n),
			"from a build of quner: sudo bin/qunerctl uninstall"}
	}
	return nil
}

// forget removes what the daemon has learned, but for a journal that still holds what a lever was: of a board that is not
// there at present, say.
type forget struct {
	inert
	kept int
}

func (*forget) Line() Line { return Line{"remove", StateDir + "/*", "points, floors, mode, history"} }

func (s *forget) do(_ context.Context, m *Machine) error {
	n, err := m.held()
	if err != nil {
		return err
	}
	s.kept = n
	dir, err := m.root.Open(strings.TrimSuffix(m.at(StateDir+"/x"), "/x")) // of a link, what it leads to
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return err
	}
	for _, name := range names {
		p := path.Join(StateDir, name)
		if p == ManifestFile || n > 0 && strings.HasPrefix(p, journalFile) {
			continue // the manifest goes last
		}
		if err := m.root.RemoveAll(m.at(p)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s *forget) notes() []Line {
	if s.kept == 0 {
		return nil
	}
	return []Line{{"keep", journalFile, fmt.Sprintf("what is not there, and so could not be put back, was otherwise (%d)", s.kept)}}
}
