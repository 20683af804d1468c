package daemon

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/unit"
)

func aFloor(device, condition string, watts float64, at time.Time) meter.Floor {
	return meter.Floor{
		Device: device, State: meter.FloorBare, Condition: condition, Mean: unit.FromWatts(watts), HalfWidth: 1000, Sigma: 1000, N: 30,
		Kernel: "6.1", BootID: "b", From: at, To: at.Add(30 * time.Second),
	}.Named()
}

func TestTheNewestFloorOfAPointIsKept(t *testing.T) {
	dir := host.NewDir(t.TempDir(), nil)
	log := slog.New(slog.DiscardHandler)
	open := func() *floorStore {
		t.Helper()
		s, err := openFloors(dir, log)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	at := time.Date(2026, 11, 30, 12, 0, 0, 1, time.UTC)
	old, other, fresh := aFloor("gpu/a", "x", 30, at), aFloor("gpu/a", "y", 31, at), aFloor("gpu/a", "x", 33, at.Add(time.Hour))
	s := open()
	for _, f := range []meter.Floor{old, other, fresh} {
		if err := s.put(f); err != nil {
			t.Fatal(err)
		}
	}
	if s = open(); len(s.all) != 2 || !slices.Contains(ids(s.all), fresh.ID) || slices.Contains(ids(s.all), old.ID) {
		t.Errorf("read back %v, want %s and %s", ids(s.all), other.ID, fresh.ID)
	}
	if _, err := s.forget(fresh.ID, "nothing"); !errors.Is(err, ErrNoFloor) || len(s.all) != 2 {
		t.Errorf("forgetting one that is not there: %v, %d left", err, len(s.all))
	}
	if gone, err := s.forget(fresh.ID); err != nil || len(gone) != 1 || len(open().all) != 1 {
		t.Errorf("forgotten %v, %v; %d left on disk", gone, err, len(open().all))
	}
	many := make([]meter.Floor, maxFloors+5)
	for i := range many {
		many[i] = aFloor("gpu/a", time.Duration(i).String(), 30, at.Add(time.Duration(i)*time.Hour))
	}
	if err := s.put(many...); err != nil || len(s.all) != maxFloors || slices.Contains(ids(s.all), many[3].ID) || len(open().all) != maxFloors {
		t.Errorf("%d floors are kept of more, %v", len(s.all), err)
	}
}

func ids(floors []meter.Floor) []string {
	var all []string
	for _, f := range floors {
		all = append(all, f.ID)
	}
	return all
}

func TestAFloorsFileThatCannotBeTrustedIsSetAside(t *testing.T) {
	good := aFloor("gpu/a", "x", 30, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	forged := good
	forged.Mean = 1 * unit.Watt
	short := aFloor("gpu/a", "x", 30, time.Unix(0, 0))
	short.To = short.From.Add(time.Second)
	for name, floors := range map[string][]meter.Floor{
		"another mean than its id says": {forged}, "two of one point": {good, good}, "measured for a second": {short.Named()},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			data, err := json.Marshal(floorsFile{Schema: 1, Floors: floors})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, FloorsFile), data, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := openFloors(host.NewDir(dir, nil), slog.New(slog.DiscardHandler))
			if err != nil || len(s.all) != 0 {
				t.Errorf("%d floors, %v", len(s.all), err)
			}
			if aside, _ := filepath.Glob(filepath.Join(dir, FloorsFile+".corrupt-*")); len(aside) != 1 {
				t.Errorf("set aside: %v", aside)
			}
		})
	}
}

// Whatever a file holds, what is believed can be charged by, and is written back as it was.
func FuzzFloorsFile(f *testing.F) {
	good, err := json.Marshal(floorsFile{Schema: 1, Floors: []meter.Floor{aFloor("gpu/a", "x", 30, time.Unix(1e9, 5).UTC())}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"schema":1,"floors":[{"id":"x","mean_uw":-1}]}`))
	f.Add([]byte(`{"schema":2}`))
	s := &floorStore{file: host.StateFile{Name: FloorsFile, Schema: 1, Log: slog.New(slog.DiscardHandler)}}
	f.Fuzz(func(t *testing.T, data []byte) {
		floors, err := s.decode(data)
		if err != nil {
			return
		}
		for _, floor := range floors {
			if err := floor.Check(); err != nil {
				t.Errorf("believed: %v", err)
			}
		}
		again, err := json.Marshal(floorsFile{Schema: 1, Floors: floors})
		if err != nil {
			t.Fatal(err)
		}
		if back, err := s.decode(again); err != nil || !slices.Equal(ids(back), ids(floors)) {
			t.Errorf("written back: %v, %v; want %v", ids(back), err, ids(floors))
		}
	})
}
