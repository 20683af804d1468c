package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/meter"
)

// FloorsFile is where the certificates of idle floors are, in the state directory.
const FloorsFile = "floors.json"

// maxFloors is how many certificates are kept; beyond, the oldest go.
const maxFloors = 1000

// ErrNoFloor means that no certificate has an id.
var ErrNoFloor = errors.New("no such floor")

// floorStore remembers the certificates of idle floors on disk. It belongs to the loop.
type floorStore struct {
	file host.StateFile
	all  []meter.Floor // one for each device, state and condition
}

// floorsFile is the layout of FloorsFile.
type floorsFile struct {
	Schema int           `json:"schema"`
	Floors []meter.Floor `json:"floors"`
}

// openFloors reads the certificates of a state directory. A file that cannot be trusted is set aside: a floor can be
// measured again. The error is a directory that cannot be read.
func openFloors(state host.Dir, log *slog.Logger) (*floorStore, error) {
	s := &floorStore{file: host.StateFile{Dir: state, Name: FloorsFile, Schema: 1, Log: log}}
	err := s.file.Load(func(data []byte) error {
		floors, err := s.decode(data)
		if err == nil {
			s.all = floors
		}
		return err
	})
	return s, err
}

func (s *floorStore) decode(data []byte) ([]meter.Floor, error) {
	var content floorsFile
	err := s.file.Decode(data, &content, func() error {
		for i, f := range content.Floors {
			if err := f.Check(); err != nil {
				return err
			}
			if slices.ContainsFunc(content.Floors[:i], f.Same) {
				return fmt.Errorf("floor %q: a second one of the same device, state and operating point", f.ID)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return content.Floors, nil
}

// put keeps certificates in the place of older ones of the same device, state and operating point.
func (s *floorStore) put(floors ...meter.Floor) error {
	next := slices.Clone(s.all)
	for _, f := range floors {
		next = append(slices.DeleteFunc(next, f.Same), f)
	}
	slices.SortStableFunc(next, func(a, b meter.Floor) int { return a.To.Compare(b.To) })
	return s.save(next[max(0, len(next)-maxFloors):])
}

// find returns the certificates with these ids, or ErrNoFloor.
func (s *floorStore) find(ids ...string) ([]meter.Floor, error) {
	var found []meter.Floor
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		i := slices.IndexFunc(s.all, func(f meter.Floor) bool { return f.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("floor %q: %w", id, ErrNoFloor)
		}
		found = append(found, s.all[i])
	}
	return found, nil
}

// forget removes the certificates with these ids, all or none.
func (s *floorStore) forget(ids ...string) ([]meter.Floor, error) {
	gone, err := s.find(ids...)
	if err != nil || len(gone) == 0 {
		return gone, err
	}
	return gone, s.save(slices.DeleteFunc(slices.Clone(s.all), func(f meter.Floor) bool { return slices.Contains(ids, f.ID) }))
}

// save writes what the store is to hold, and only then takes it over.
func (s *floorStore) save(next []meter.Floor) error {
	if err := s.file.Save(floorsFile{Schema: s.file.Schema, Floors: next}); err != nil {
		return err
	}
	s.all = next
	return nil
}

// sortedFloors are certificates by device, operating point and state.
func sortedFloors(floors []FloorEntry) []FloorEntry {
	slices.SortFunc(floors, func(a, b FloorEntry) int {
		return cmp.Or(strings.Compare(a.Device, b.Device), strings.Compare(a.Condition, b.Condition), strings.Compare(string(a.State), string(b.State)))
	})
	return floors
}
