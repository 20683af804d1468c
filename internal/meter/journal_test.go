package meter_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/unit"
)

// lives runs a test on a simulated machine on which one meter follows another.
func lives(t *testing.T, name string, f func(t *testing.T, sim *hostsim.Sim)) {
	t.Helper()
	fixture, err := hostsim.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		sim, err := hostsim.New(t.TempDir(), fixture, hostsim.Options{Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		f(t, sim)
	})
}

// live is one meter's life: it ends in an orderly way with suspend, else as by SIGKILL.
func live(t *testing.T, sim *hostsim.Sim, suspend bool, f func(*rig)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := sim.Host()
	if err := h.GPUs.Open(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := meter.New(ctx, h, meter.Options{Journal: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Meter: m, t: t, sim: sim}
	for _, gpu := range h.GPUs.All() {
		r.gpu = "gpu/" + gpu.Info().UUID
	}
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	defer func() {
		cancel()
		running.Wait()
		if suspend {
			m.Suspend(context.Background())
		}
		if err := h.GPUs.Close(); err != nil {
			t.Error(err)
		}
	}()
	f(r)
}

func truth(sim *hostsim.Sim) unit.Energy {
	return sim.Truth("package-0") + sim.Truth("dram") + sim.Truth("gpu0")
}

func TestWindowOutlivesTheMeter(t *testing.T) {
	for name, suspend := range map[string]bool{"stopped": true, "killed": false} {
		t.Run(name, func(t *testing.T) {
			lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
				me := meter.Viewer{UID: 7, Exact: true}
				sim.SetLoad("gpu0", 1)
				var id, detached string
				var before unit.Energy
				live(t, sim, suspend, func(r *rig) {
					time.Sleep(3300 * time.Millisecond)
					before = truth(sim)
					w := r.open(meter.OpenRequest{Owner: 7, Exact: true, Unit: "token", IdleWatts: map[string]float64{"gpu": 0, "cpu": 0}})
					id = w.ID()
					time.Sleep(4200 * time.Millisecond)
					if _, err := w.Mark(context.Background(), "prefill"); err != nil {
						t.Fatal(err)
					}
					detached = r.open(meter.OpenRequest{Owner: 8, Detached: true, Limit: time.Hour, Devices: []string{"cpu"}}).ID()
					time.Sleep(2500 * time.Millisecond)
				})
				time.Sleep(7 * time.Second)
				live(t, sim, false, func(r *rig) {
					if n := r.OpenCount(); n != 2 {
						t.Fatalf("%d windows have outlived the meter", n)
					}
					time.Sleep(5 * time.Second)
					if _, err := r.Resume(id, meter.Viewer{UID: 8, Exact: true}); !errors.Is(err, meter.ErrNoWindow) {
						t.Errorf("another uid takes it up: %v", err)
					}
					if _, err := r.Resume(detached, meter.Viewer{UID: 8}); !errors.Is(err, meter.ErrNoWindow) {
						t.Errorf("a detached window is taken up: %v", err)
					}
					w, err := r.Resume(id, me)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Minute) // the grace is for those that wait
					want := truth(sim) - before
					res := r.close(w, meter.CloseRequest{Synced: true, Work: 1000})
					has(t, res.Reasons, meter.ReasonRestarted)
					if res.Method != meter.Sampled || res.Coverage < 0.999 || res.MaxGap > 0 {
						t.Errorf("%s, coverage %g, gap %v, %v", res.Method, res.Coverage, res.MaxGap, res.Reasons)
					}
					// The other window was there for all but 4.2 s, with half of the CPU's.
					half := res.Devices[0].Total - res.Devices[0].Gross + res.Devices[1].Total - res.Devices[1].Gross
					within(t, "energy", res.Energy+half, want, res.HalfWidth+unit.Joule)
					if len(res.Stages) != 2 || res.Stages[0].Name != "prefill" || res.Stages[0].Duration != 4200*time.Millisecond {
						t.Errorf("stages %+v", res.Stages)
					}
					var sum unit.Energy
					for _, s := range res.Stages {
						sum += s.Gross
					}
					within(t, "stages", sum, res.Gross, unit.Joule)
					if res.Unit != "token" || !res.HasPerUnit {
						t.Errorf("%+v", res)
					}
					other, err := r.CloseDetached(context.Background(), detached, meter.Viewer{UID: 8}, meter.CloseRequest{})
					if err != nil || other.Energy <= 0 {
						t.Errorf("%v, %+v", err, other)
					}
					has(t, other.Reasons, meter.ReasonRestarted, meter.ReasonCoarse)
				})
			})
		})
	}
}

func TestWindowThatIsNotTakenUpIsOrphaned(t *testing.T) {
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		me := meter.Viewer{UID: 7, Exact: true}
		var id string
		live(t, sim, false, func(r *rig) {
			id = r.open(meter.OpenRequest{Owner: 7, Exact: true}).ID()
			time.Sleep(2500 * time.Millisecond)
		})
		live(t, sim, false, func(r *rig) {
			list := r.Running(context.Background(), me, false)
			if len(list) != 1 || list[0].Life != meter.Waiting {
				t.Fatalf("%+v", list)
			}
			time.Sleep(62 * time.Second)
			if _, err := r.Resume(id, me); !errors.Is(err, meter.ErrNoWindow) {
				t.Errorf("after the grace: %v", err)
			}
			results, _ := r.Kept(me)
			if len(results) != 1 || results[0].ID != id || r.OpenCount() != 0 {
				t.Fatalf("%d windows open, kept %+v", r.OpenCount(), results)
			}
			has(t, results[0].Reasons, meter.ReasonOrphaned, meter.ReasonRestarted)
		})
		live(t, sim, false, func(r *rig) {
			if n := r.OpenCount(); n != 0 {
				t.Errorf("%d windows come back from the dead", n)
			}
		})
	})
}

// What the counter did while nobody looked is judged by its rule.
func TestCounterThatStartedAnewIsAGap(t *testing.T) {
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		me := meter.Viewer{UID: 7, Exact: true}
		var id string
		live(t, sim, true, func(r *rig) {
			id = r.open(meter.OpenRequest{Owner: 7, Exact: true, Devices: []string{"cpu"}}).ID()
			time.Sleep(10 * time.Second)
		})
		file := sim.Host().Run.File("quner-admin/windows.json")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		// A counter that was far beyond, before the driver was loaded anew.
		text = []byte(strings.ReplaceAll(string(text), `"value_uj":`, `"value_uj":9`))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		live(t, sim, false, func(r *rig) {
			w, err := r.Resume(id, me)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			res := r.close(w, meter.CloseRequest{})
			has(t, res.Reasons, meter.ReasonRestarted, meter.ReasonGap)
			if res.Coverage > 0.8 || res.Coverage < 0.6 || res.MaxGap < 10*time.Second {
				t.Errorf("coverage %g, gap %v, %v", res.Coverage, res.MaxGap, res.Reasons)
			}
		})
	})
}

// A journal that cannot be believed costs the windows, never the start.
func TestOddJournalIsSetAside(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "not JSON": "{", "another schema": `{"schema":99}`, "another boot": `{"schema":1,"boot":"0-0"}`,
		"an array": "[]", "long": strings.Repeat(" ", 1<<20+1), "nested": strings.Repeat("[", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
				dir := sim.Host().Run.File("quner-admin")
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "windows.json"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				live(t, sim, false, func(r *rig) {
					if n := r.OpenCount(); n != 0 {
						t.Errorf("%d windows", n)
					}
					r.close(r.open(meter.OpenRequest{}), meter.CloseRequest{})
				})
				aside, _ := filepath.Glob(filepath.Join(dir, "windows.json.corrupt-*"))
				if len(aside) != 1 {
					t.Errorf("set aside: %v", aside)
				}
			})
		})
	}
}

func TestJournalGoesWithItsLastWindow(t *testing.T) {
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		file := sim.Host().Run.File("quner-admin/windows.json")
		live(t, sim, false, func(r *rig) {
			w := r.open(meter.OpenRequest{})
			if _, err := os.Stat(file); err == nil {
				t.Error("written down at the open")
			}
			time.Sleep(1100 * time.Millisecond)
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
			r.close(w, meter.CloseRequest{})
			time.Sleep(1100 * time.Millisecond)
			if _, err := os.Stat(file); err == nil {
				t.Error("a journal of nothing is left")
			}
		})
	})
}

// A window keeps the floors of the points it has seen, over the meter's end too.
func TestFloorsOutliveTheMeter(t *testing.T) {
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		ctx, me := context.Background(), meter.Viewer{UID: 7, Exact: true}
		floors := []meter.Floor{certificate("cpu/package-0", "", 9, 0), certificate("cpu/package-0", "b", 5, 0)}
		var id string
		live(t, sim, true, func(r *rig) {
			r.SetFloors(floors)
			id = r.open(meter.OpenRequest{Owner: 7, Exact: true, Devices: []string{"cpu/package-0"}}).ID()
			time.Sleep(10 * time.Second)
			r.SetCondition(ctx, "b")
			time.Sleep(10 * time.Second)
		})
		live(t, sim, false, func(r *rig) {
			r.SetFloors(floors)
			r.SetCondition(ctx, "b")
			time.Sleep(10 * time.Second)
			r.SetCondition(ctx, "")
			time.Sleep(10 * time.Second)
			w, err := r.Resume(id, me)
			if err != nil {
				t.Fatal(err)
			}
			res := r.close(w, meter.CloseRequest{})
			within(t, "floor", res.Floor, (20*9+20*5)*unit.Joule, unit.Joule/10)
			has(t, res.Reasons, meter.ReasonPointChanged, meter.ReasonRestarted)
			if !res.AboveIdle {
				t.Error("no floor")
			}
		})
	})
}

// Who has many windows cannot take the room in the journal of those who have few.
func TestJournalHasRoomForEachOwner(t *testing.T) {
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		file := sim.Host().Run.File("quner-admin/windows.json")
		live(t, sim, false, func(r *rig) {
			for uid := range uint32(3) {
				for range 1000 {
					r.open(meter.OpenRequest{Owner: uid, Exact: true, Name: strings.Repeat("n", 64), Workload: strings.Repeat("w", 64)})
				}
			}
			r.open(meter.OpenRequest{Owner: 4})
			time.Sleep(1100 * time.Millisecond)
			if r.JournalTrouble() == nil {
				t.Error("not a word of what has no room")
			}
		})
		if info, err := os.Stat(file); err != nil || info.Size() > 1<<20 {
			t.Fatalf("%v, %v", info, err)
		}
		live(t, sim, false, func(r *rig) {
			if r.OpenCount() < 1000 {
				t.Errorf("%d windows are left", r.OpenCount())
			}
			counts := map[uint32]int{}
			for uid := range uint32(5) {
				counts[uid] = len(r.Running(context.Background(), meter.Viewer{UID: uid, Exact: true}, false))
			}
			if counts[4] != 1 || counts[0] < counts[2]-1 || counts[0] > counts[2]+1 {
				t.Errorf("windows left by owner: %v", counts)
			}
		})
	})
}

// A power sensor tells nothing of the time when nobody looked.
func TestSensorHasAGapWhileNoMeterRan(t *testing.T) {
	lives(t, "amd", func(t *testing.T, sim *hostsim.Sim) {
		me := meter.Viewer{UID: 7, Exact: true}
		sim.SetLoad("gpu0", 1)
		var id string
		var drawn unit.Energy
		live(t, sim, true, func(r *rig) {
			time.Sleep(3 * time.Second)
			before := sim.Truth("gpu0")
			id = r.open(meter.OpenRequest{Owner: 7, Exact: true, Devices: []string{"gpu"}}).ID()
			time.Sleep(20 * time.Second)
			drawn = sim.Truth("gpu0") - before
		})
		time.Sleep(10 * time.Second)
		live(t, sim, false, func(r *rig) {
			w, err := r.Resume(id, me)
			if err != nil {
				t.Fatal(err)
			}
			before := sim.Truth("gpu0")
			time.Sleep(20 * time.Second)
			drawn += sim.Truth("gpu0") - before
			res := r.close(w, meter.CloseRequest{Synced: true})
			has(t, res.Reasons, meter.ReasonRestarted, meter.ReasonGap)
			if res.Coverage < 0.7 || res.Coverage > 0.85 || res.MaxGap < 9*time.Second {
				t.Errorf("coverage %g, gap %v, %v", res.Coverage, res.MaxGap, res.Reasons)
			}
			within(t, "the time it was looked at", res.Gross, drawn, res.HalfWidth)
		})
	})
}
