package meter

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// tree is a powercap tree in a temporary directory.
type tree struct {
	t   testing.TB
	dir string
	h   *host.Host
}

// powercapTree lays zones out, given as "intel-rapl:0=package-0".
func powercapTree(t testing.TB, hook host.Hook, zones ...string) *tree {
	t.Helper()
	dir := t.TempDir()
	tr := &tree{t: t, dir: dir, h: host.Real(dir, nil)}
	tr.h.Sys = host.NewDir(dir, hook).Sub("sys")
	tr.h.Asleep = func() time.Duration { return 0 }
	for _, z := range zones {
		var zone, name string
		if _, err := fmt.Sscanf(z, "%s %s", &zone, &name); err != nil {
			t.Fatal(err)
		}
		tr.put(zone, "name", name)
		tr.put(zone, "max_energy_range_uj", "262143328850")
		tr.set(zone, 1_000_000)
	}
	return tr
}

func (tr *tree) put(zone, file, text string) {
	tr.t.Helper()
	dir := filepath.Join(tr.dir, "sys", powercap, zone)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o600); err != nil {
		tr.t.Fatal(err)
	}
}

// set gives a zone's counter a value; a zone is written in place, since the meter holds the file open.
func (tr *tree) set(zone string, uj int64) {
	tr.t.Helper()
	tr.put(zone, "energy_uj", fmt.Sprintf("%012d", uj))
}

func (tr *tree) meter() *Meter {
	tr.t.Helper()
	m, err := New(context.Background(), tr.h, Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		tr.t.Fatal(err)
	}
	return m
}

func (tr *tree) window(m *Meter) *Window {
	tr.t.Helper()
	w, err := m.Open(context.Background(), OpenRequest{Name: "test", Exact: true})
	if err != nil {
		tr.t.Fatal(err)
	}
	return w
}

func (tr *tree) result(w *Window) Result {
	tr.t.Helper()
	r, err := w.Close(context.Background(), CloseRequest{})
	if err != nil {
		tr.t.Fatal(err)
	}
	return r
}

func TestZonesAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zones := map[string]string{
			"intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "uncore", "intel-rapl:0:2": "dram",
			"intel-rapl:1": "psys", "intel-rapl-mmio:0": "package-0", "intel-rapl-mmio:0:0": "dram",
		}
		grow := map[string]int64{
			"intel-rapl:0": 10e6, "intel-rapl:0:0": 8e6, "intel-rapl:0:1": 1e6, "intel-rapl:0:2": 3e6,
			"intel-rapl:1": 25e6, "intel-rapl-mmio:0": 10e6, "intel-rapl-mmio:0:0": 3e6,
		}
		var list []string
		for zone, name := range zones {
			list = append(list, zone+" "+name)
		}
		tr := powercapTree(t, nil, list...)
		tr.put("intel-rapl", "enabled", "1")
		m := tr.meter()
		w := tr.window(m)
		time.Sleep(time.Second)
		for zone, e := range grow {
			tr.set(zone, 1_000_000+e)
		}
		r := tr.result(w)
		if r.Gross != 13*unit.Joule || r.Platform != 25*unit.Joule || !r.HasPlatform || len(r.Devices) != 2 {
			t.Errorf("%+v", r)
		}
		if r.Devices[0].Gross != 10*unit.Joule || r.Devices[1].Gross != 3*unit.Joule {
			t.Errorf("%+v", r.Devices)
		}
		if len(m.Sensors()) != len(zones)+1 { // and the GPU that is not there
			t.Errorf("%+v", m.Sensors())
		}
	})
}

// Without MSR the MMIO zones are the only ones, and count.
func TestMMIOAloneCounts(t *testing.T) {
	tr := powercapTree(t, nil, "intel-rapl-mmio:0 package-0")
	if got := tr.meter().Devices(); !slices.Equal(got, []string{"cpu/package-0"}) {
		t.Errorf("devices %v", got)
	}
}

func TestMirroredDiesCountOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		second  int64 // growth of the second die for each 10 ms of the first's 100 mJ
		gross   unit.Energy
		devices int
	}{{"mirrored", 100_000, 100 * unit.Joule, 1}, {"apart", 70_000, 170 * unit.Joule, 2}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var tr *tree
			hook := func(a host.Access) error {
				ticks := int64(time.Since(began) / (10 * time.Millisecond))
				if a.Op == host.OpRead && tr != nil {
					tr.set("intel-rapl:0", 1e6+100_000*ticks)
					tr.set("intel-rapl:1", 1e6+c.second*ticks)
				}
				return nil
			}
			tr = powercapTree(t, hook, "intel-rapl:0 package-0-die-0", "intel-rapl:1 package-0-die-1")
			m := tr.meter()
			w := tr.window(m)
			time.Sleep(10 * time.Second)
			r := tr.result(w)
			if r.Gross != c.gross || len(r.Devices) != c.devices || len(m.Devices()) != c.devices {
				t.Errorf("%s: %+v", c.name, r)
			}
			m.Tick(context.Background())
			i := slices.IndexFunc(m.Sensors(), func(s Sensor) bool { return s.Name == "cpu/package-0-die-1" })
			if s := m.Sensors()[i]; (s.Reason == ReasonMirrored) != (c.devices == 1) || s.Counted != (c.devices == 2) {
				t.Errorf("%s: %+v", c.name, s)
			}
		})
	}
}

// A counter that stands still did not see a machine at no power.
func TestFrozenCounterIsNoMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := powercapTree(t, nil, "intel-rapl:0 package-0")
		w := tr.window(tr.meter())
		time.Sleep(10 * time.Second)
		r := tr.result(w)
		if r.Method != Unknown || !slices.Contains(r.Reasons, ReasonFrozen) || r.UpperBound < 10*unit.Kilojoule {
			t.Errorf("%+v", r)
		}
	})
}

// energy_uj is readable by root alone.
func TestZoneOfRootAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := true
		hook := func(a host.Access) error {
			if denied && a.Op == host.OpOpen && filepath.Base(a.Name) == "energy_uj" {
				return unix.EACCES
			}
			return nil
		}
		tr := powercapTree(t, hook, "intel-rapl:0 package-0")
		m := tr.meter()
		if s := m.Sensors()[0]; s.Reason != ReasonPermission || !s.Counted {
			t.Errorf("%+v", s)
		}
		w := tr.window(m)
		time.Sleep(5 * time.Second)
		r := tr.result(w)
		if r.Method != Unknown || r.Coverage != 0 || !slices.Contains(r.Reasons, ReasonPermission) || !r.HasUpperBound {
			t.Errorf("%+v", r)
		}
		denied = false
		m.Tick(context.Background())
		if s := m.Sensors()[0]; s.Reason != "" {
			t.Errorf("once it may be read: %+v", s)
		}
	})
}

func TestResetShowsInTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := powercapTree(t, nil, "intel-rapl:0 package-0")
		tr.set("intel-rapl:0", 200e9)
		m := tr.meter()
		w := tr.window(m)
		time.Sleep(5 * time.Second)
		tr.set("intel-rapl:0", 5e6)
		m.Tick(context.Background())
		time.Sleep(45 * time.Second)
		tr.set("intel-rapl:0", 905e6)
		r := tr.result(w)
		if r.Gross != 900*unit.Joule || r.Coverage != 0.9 || r.MaxGap != 5*time.Second || r.Method != Sampled {
			t.Errorf("%+v", r)
		}
		if !slices.Contains(r.Reasons, ReasonReset) || !slices.Contains(r.Reasons, ReasonGap) || r.HalfWidth < 100*unit.Joule {
			t.Errorf("reasons %v, half-width %v", r.Reasons, r.HalfWidth)
		}
	})
}

func TestLimitComesFromTheLargestConstraint(t *testing.T) {
	tr := powercapTree(t, nil, "intel-rapl:0 package-0", "intel-rapl:1 package-1")
	tr.put("intel-rapl:1", "constraint_0_power_limit_uw", "700000000")
	tr.put("intel-rapl:1", "constraint_1_max_power_uw", "900000000")
	m := tr.meter()
	if a, b := m.devices()[0].limit, m.devices()[1].limit; a != unit.Kilowatt || b != 1350*unit.Watt {
		t.Errorf("limits %v and %v", a, b)
	}
}
