package profiles

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/qunerd/quner/internal/host"
)

// schema is the version of the state files of this package.
const schema = 1

// PointsFile is where the tuned points are, in the state directory.
const PointsFile = "points.json"

// Store remembers tuned points on disk. Its methods may be called from several goroutines.
type Store struct {
	file host.StateFile

	mu     sync.Mutex
	points map[string]TunedPoint // by id
}

// pointsFile is the layout of PointsFile.
type pointsFile struct {
	Schema int      `json:"schema"`
	Points []record `json:"points"`
}

// OpenStore reads the points of a state directory. A file that cannot be trusted is set aside and the store begins
// empty: a point can be tuned again. The error is a directory that cannot be read.
func OpenStore(state host.Dir, log *slog.Logger) (*Store, error) {
	s := &Store{file: host.StateFile{Dir: state, Name: PointsFile, Schema: schema, Log: log}, points: map[string]TunedPoint{}}
	err := s.file.Load(func(data []byte) error {
		points, err := s.decode(data)
		if err == nil {
			s.points = points
		}
		return err
	})
	return s, err
}

func (s *Store) decode(data []byte) (map[string]TunedPoint, error) {
	var content pointsFile
	points := map[string]TunedPoint{}
	err := s.file.Decode(data, &content, func() error {
		for _, r := range content.Points {
			p := r.point()
			if err := p.check(); err != nil {
				return err
			}
			if id := p.findID(); p.ID != id {
				return fmt.Errorf("point %q: its host, profile, workload and power source make it %q", p.ID, id)
			}
			points[p.ID] = p
		}
		return nil
	})
	return points, err
}

// Point returns the point to apply on the host with a hard key: for the named workload, or with an empty name the best
// one of the profile. The power source must be the one it was tuned on.
func (s *Store) Point(hard string, profile Profile, workload string, source Source) (TunedPoint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best TunedPoint
	found := false
	for _, p := range s.points {
		if p.Hard != hard || p.Profile != profile || p.PowerSource != source {
			continue
		}
		if workload != "" && p.Workload != workload {
			continue
		}
		if !found || p.better(best) {
			best, found = p, true
		}
	}
	return copyOf(best), found
}

// Put keeps a point, in the place of one with the same host, profile, workload and power source, and returns it with its
// id. On an error, host.ErrFull or one of the file, the store is as before.
func (s *Store) Put(p TunedPoint) (TunedPoint, error) {
	p = copyOf(p)
	p.ID = p.findID()
	if err := p.check(); err != nil {
		return p, err
	}
	return p, s.change(func(points map[string]TunedPoint) { points[p.ID] = p })
}

// Forget removes the points with these ids, all or none: an id that is not there is ErrNoPoint. It returns them.
func (s *Store) Forget(ids ...string) ([]TunedPoint, error) {
	gone, err := s.Find(ids...)
	if err != nil || len(gone) == 0 {
		return gone, err
	}
	return gone, s.change(func(points map[string]TunedPoint) {
		for _, id := range ids {
			delete(points, id)
		}
	})
}

// Find returns the points with these ids, or ErrNoPoint.
func (s *Store) Find(ids ...string) ([]TunedPoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make([]TunedPoint, 0, len(ids))
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		p, ok := s.points[id]
		if !ok {
			return nil, fmt.Errorf("point %q: %w", id, ErrNoPoint)
		}
		found = append(found, copyOf(p))
	}
	return found, nil
}

// ErrNoPoint means that no cached point has an id.
var ErrNoPoint = errors.New("no such tuned point")

// All returns every point, sorted by profile, workload and id.
func (s *Store) All() []TunedPoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.points)
}

// change saves what edit makes of the points, and only then takes it over.
func (s *Store) change(edit func(map[string]TunedPoint)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.points)
	edit(next)
	content := pointsFile{Schema: schema, Points: []record{}}
	for _, p := range sorted(next) {
		content.Points = append(content.Points, toRecord(p))
	}
	if err := s.file.Save(content); err != nil {
		return err
	}
	s.points = next
	return nil
}

func sorted(points map[string]TunedPoint) []TunedPoint {
	all := make([]TunedPoint, 0, len(points))
	for _, p := range points {
		all = append(all, copyOf(p))
	}
	slices.SortFunc(all, func(a, b TunedPoint) int {
		return strings.Compare(string(a.Profile)+"\x00"+a.Workload+"\x00"+a.ID, string(b.Profile)+"\x00"+b.Workload+"\x00"+b.ID)
	})
	return all
}

// copyOf keeps callers from sharing a point's settings with the store.
func copyOf(p TunedPoint) TunedPoint {
	p.Point, p.Units = slices.Clone(p.Point), maps.Clone(p.Units)
	return p
}
