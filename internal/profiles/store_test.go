package profiles

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/unit"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// tuned is a point of a sweep on host "here".
func tuned(workload string, certified bool, age time.Duration) TunedPoint {
	return TunedPoint{
		Profile: Training, Workload: workload, PowerSource: Mains, Certified: certified,
		Point: levers.NewPoint(levers.Setting{Lever: "nvml/GPU-1", Value: "180000"},
			levers.Setting{Lever: "cpufreq/policy0", Value: "powersave"}),
		Units:   map[string]string{"nvml/GPU-1": "mW"},
		Verdict: "interior", Objective: "work-per-joule", Saving: 0.12, SavingHalfWidth: 0.01, Slowdown: 0.05,
		Windows: 24, Energy: 70 * unit.Kilojoule, TunedAt: noon.Add(-age), Hard: "here", Soft: "kernel 6.12",
	}
}

func openStore(t *testing.T, dir host.Dir) *Store {
	t.Helper()
	s, err := OpenStore(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, p TunedPoint) TunedPoint {
	t.Helper()
	p, err := s.Put(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStoreOutlivesTheProcess(t *testing.T) {
	dir := host.NewDir(filepath.Join(t.TempDir(), "quner"), nil)
	p := put(t, openStore(t, dir), tuned("", true, 0))
	again := openStore(t, dir)
	got, ok := again.Point("here", Training, "", Mains)
	if diff := cmp.Diff(p, got); !ok || diff != "" {
		t.Fatal(ok, diff)
	}
	info, err := os.Stat(dir.File(PointsFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	got.Point[0].Value = "performance"
	if now, _ := again.Point("here", Training, "", Mains); now.Point[0].Value != "powersave" {
		t.Error("a caller changed the store's point")
	}
}

func TestStoreChoosesTheFittingPoint(t *testing.T) {
	s := openStore(t, host.NewDir(t.TempDir(), nil))
	bert := put(t, s, tuned("bert", false, 0))
	if got, ok := s.Point("here", Training, "", Mains); !ok || got.ID != bert.ID {
		t.Errorf("the only one: %v %v", got.ID, ok)
	}
	old := put(t, s, tuned("resnet", true, time.Hour))
	if got, _ := s.Point("here", Training, "", Mains); got.ID != old.ID {
		t.Error("a certified point comes before a newer one")
	}
	general := put(t, s, tuned("", false, 2*time.Hour))
	if got, _ := s.Point("here", Training, "", Mains); got.ID != general.ID {
		t.Error("a point of no workload in particular comes first")
	}
	if got, _ := s.Point("here", Training, "bert", Mains); got.ID != bert.ID {
		t.Error("a named workload has its own")
	}
	for name, ok := range map[string]bool{
		"another host":     has(s.Point("there", Training, "", Mains)),
		"another profile":  has(s.Point("here", Idle, "", Mains)),
		"another source":   has(s.Point("here", Training, "", Battery)),
		"another workload": has(s.Point("here", Training, "gpt", Mains)),
	} {
		if ok {
			t.Errorf("%s has a point", name)
		}
	}
	again := tuned("bert", true, 0)
	again.Saving = 0.2
	if id := put(t, s, again).ID; id != bert.ID || len(s.All()) != 3 {
		t.Errorf("tuned again: id %s, %d points", id, len(s.All()))
	}
}

func has(_ TunedPoint, ok bool) bool { return ok }

func TestStoreForgets(t *testing.T) {
	dir := host.NewDir(t.TempDir(), nil)
	s := openStore(t, dir)
	a, b := put(t, s, tuned("a", true, 0)), put(t, s, tuned("b", true, 0))
	if _, err := s.Forget(a.ID, "000000000000"); !errors.Is(err, ErrNoPoint) || len(s.All()) != 2 {
		t.Fatalf("an unknown id: %v, %d left", err, len(s.All()))
	}
	gone, err := s.Forget(a.ID, a.ID)
	if err != nil || len(gone) != 1 || gone[0].ID != a.ID {
		t.Fatal(gone, err)
	}
	if left := openStore(t, dir).All(); len(left) != 1 || left[0].ID != b.ID {
		t.Fatal(left)
	}
}

func TestStoreRefusesWhatNoSweepMakes(t *testing.T) {
	s := openStore(t, host.NewDir(t.TempDir(), nil))
	for name, spoil := range map[string]func(*TunedPoint){
		"no profile":      func(p *TunedPoint) { p.Profile = Unknown },
		"no power source": func(p *TunedPoint) { p.PowerSource = "" },
		"no host":         func(p *TunedPoint) { p.Hard = "" },
		"not a number":    func(p *TunedPoint) { p.Saving /= 0 * p.Saving },
		"empty value":     func(p *TunedPoint) { p.Point[0].Value = "" },
	} {
		p := tuned("x", true, 0)
		spoil(&p)
		if _, err := s.Put(p); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if len(s.All()) != 0 {
		t.Error("something stayed")
	}
}

func TestStoreSetsAsideWhatItCannotTrust(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"empty":         func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"half written":  func(p string) error { return os.Truncate(p, 80) },
		"newer":         func(p string) error { return os.WriteFile(p, []byte(`{"schema": 2}`), 0o600) },
		"others' write": func(p string) error { return os.Chmod(p, 0o622) },
		"a link": func(p string) error {
			return errors.Join(os.Rename(p, p+".real"), os.Symlink(p+".real", p))
		},
		"too long": func(p string) error { return os.Truncate(p, host.MaxFile+1) },
		"foreign id": func(p string) error {
			data, err := os.ReadFile(p)
			return errors.Join(err, os.WriteFile(p, []byte(strings.Replace(string(data), `"hard": "here"`, `"hard": "there"`, 1)), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := host.NewDir(t.TempDir(), nil)
			put(t, openStore(t, dir), tuned("", true, 0))
			if err := spoil(dir.File(PointsFile)); err != nil {
				t.Fatal(err)
			}
			s := openStore(t, dir)
			if len(s.All()) != 0 {
				t.Error("believed it")
			}
			aside, err := filepath.Glob(dir.File(PointsFile) + ".corrupt-*")
			if err != nil || len(aside) != 1 {
				t.Errorf("set aside: %v %v", aside, err)
			}
			put(t, s, tuned("", true, 0))
		})
	}
}

func TestStoreTakesUpAWriteThatWasCutShort(t *testing.T) {
	dir := host.NewDir(t.TempDir(), nil)
	p := put(t, openStore(t, dir), tuned("", true, 0))
	// The rename never came, and the old file is lost to a disk fault.
	if err := errors.Join(dir.Rename(PointsFile, host.Temp(PointsFile)), os.WriteFile(dir.File(PointsFile), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if all := openStore(t, dir).All(); len(all) != 1 || all[0].ID != p.ID {
		t.Error(all)
	}
}

func TestStoreStaysAsItWasWhenTheDiskFails(t *testing.T) {
	path := t.TempDir()
	put(t, openStore(t, host.NewDir(path, nil)), tuned("a", true, 0))
	s := openStore(t, faulty(path, PointsFile+".tmp", errDisk))
	if _, err := s.Put(tuned("b", true, 0)); !errors.Is(err, errDisk) || len(s.All()) != 1 {
		t.Errorf("%v, %d points", err, len(s.All()))
	}
	if _, err := OpenStore(faulty(path, PointsFile, errDisk), slog.New(slog.DiscardHandler)); !errors.Is(err, errDisk) {
		t.Errorf("an unreadable directory: %v", err)
	}
}

func TestStoreIsBounded(t *testing.T) {
	s := openStore(t, host.NewDir(t.TempDir(), nil))
	for i := range 40 {
		p := tuned(fmt.Sprint(i), true, 0)
		p.Verdict = strings.Repeat("x", 50_000)
		if _, err := s.Put(p); errors.Is(err, host.ErrFull) {
			if len(s.All()) != i {
				t.Errorf("%d points after %d", len(s.All()), i)
			}
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("never full")
}

func FuzzPointsFile(f *testing.F) {
	f.Add([]byte(`{"schema":1,"points":[]}`))
	f.Add([]byte(`{"schema":1,"points":[{"id":"x","profile":"idle","power_source":"ac","hard":"h","settings":[{"lever":"a","value":"b"}]}]}`))
	f.Add([]byte(`{"schema":1,"points":[null]}`))
	f.Add([]byte(`{"schema":2`))
	s := &Store{file: host.StateFile{Name: PointsFile, Schema: schema}}
	f.Fuzz(func(t *testing.T, data []byte) {
		points, err := s.decode(data)
		for id, p := range points {
			if err == nil && (p.ID != id || p.check() != nil) {
				t.Errorf("took %+v", p)
			}
		}
	})
}

func TestModeStore(t *testing.T) {
	dir := host.NewDir(t.TempDir(), nil)
	log := slog.New(slog.DiscardHandler)
	first, err := NewModeStore(dir, log).Load()
	if err != nil || first != (ModeState{Mode: ModeAuto}) {
		t.Fatal(first, err)
	}
	paused := ModeState{Mode: ModeOff, UID: 1000, Set: noon, Until: noon.Add(time.Hour), Before: ModeTraining}
	if err := NewModeStore(dir, log).Save(paused); err != nil {
		t.Fatal(err)
	}
	if got, err := NewModeStore(dir, log).Load(); err != nil || got != paused {
		t.Fatal(got, err)
	}
	for _, m := range []ModeState{{}, {Mode: "turbo"}, {Mode: ModeOff, Before: ModeOff}} {
		if err := NewModeStore(dir, log).Save(m); err == nil {
			t.Errorf("saved %+v", m)
		}
	}
	if err := os.WriteFile(dir.File(ModeFile), []byte(`{"schema":1,"mode":"turbo"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := NewModeStore(dir, log).Load(); err != nil || got.Mode != ModeAuto {
		t.Fatal(got, err)
	}
}

func TestLeverOwnersOutliveModesAndProcesses(t *testing.T) {
	dir, log := host.NewDir(t.TempDir(), nil), slog.New(slog.DiscardHandler)
	s := NewModeStore(dir, log)
	if err := s.SetOwner(OwnerOthers, "cpufreq/policy0", "cpufreq/policy1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(ModeState{Mode: ModeIdle}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetOwner(OwnerQuner, "cpufreq/policy1"); err != nil {
		t.Fatal(err)
	}
	again := NewModeStore(dir, log)
	mode, err := again.Load()
	if err != nil || mode.Mode != ModeIdle {
		t.Errorf("mode %+v, %v", mode, err)
	}
	want := map[string]Owner{"cpufreq/policy0": OwnerOthers, "cpufreq/policy1": OwnerQuner}
	if got := again.Owners(); !maps.Equal(got, want) {
		t.Errorf("owners %v, want %v", got, want)
	}
	if err := os.WriteFile(dir.File(ModeFile), []byte(`{"schema":1,"mode":"auto","lever_owners":{"a":"nobody"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	last := NewModeStore(dir, log)
	if _, err := last.Load(); err != nil || len(last.Owners()) != 0 {
		t.Errorf("an owner that is none was taken over: %v, %v", last.Owners(), err)
	}
}

func FuzzModeFile(f *testing.F) {
	f.Add([]byte(`{"schema":1,"mode":"off","set_by_uid":0,"before":"auto"}`))
	f.Add([]byte(`{"schema":1,"mode":"off","until":"x"}`))
	s := ModeStore{file: host.StateFile{Name: ModeFile, Schema: schema}}
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := s.decode(data); err == nil && m.check() != nil {
			t.Errorf("took %+v", m)
		}
	})
}

func TestFactsTellWhatHasChanged(t *testing.T) {
	was := Facts{"kernel": "6.1", "microcode": "0x2c", "gpu driver": "550"}
	now := Facts{"kernel": "6.6", "microcode": "0x2c"}
	want := []string{"gpu driver: 550 → none", "kernel: 6.1 → 6.6"}
	if diff := cmp.Diff(want, was.Changes(now)); diff != "" {
		t.Error(diff)
	}
	if got := (Facts)(nil).Changes(now); got != nil {
		t.Errorf("of a point without facts: %q", got)
	}
}
