package meter_test

import (
	"context"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/meter"
)

const resultsFile = "quner-admin/results.json"

// A detached window that has ended by itself waits for its owner over the daemon's end, be that by SIGKILL.
func TestResultThatWasNotFetchedOutlivesTheMeter(t *testing.T) {
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		ctx, me := context.Background(), meter.Viewer{UID: 7, Exact: true}
		var id, orphan string
		var want []meter.Ended
		live(t, sim, false, func(r *rig) {
			id = r.open(meter.OpenRequest{Owner: 7, Exact: true, Detached: true, Limit: 3 * time.Second, Unit: "step",
				IdleWatts: map[string]float64{"cpu": 1}}).ID()
			time.Sleep(4100 * time.Millisecond)
			w := r.open(meter.OpenRequest{Owner: 8})
			orphan = w.ID()
			time.Sleep(2500 * time.Millisecond)
			r.Orphan(w)
			want, _ = r.Kept(me)
			time.Sleep(150 * time.Millisecond) // no heartbeat: no window is open
		})
		if info, err := os.Stat(sim.Host().Run.File(resultsFile)); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		time.Sleep(7 * time.Second)
		live(t, sim, false, func(r *rig) {
			if got, _ := r.Kept(me); len(got) != 1 || !sameResult(got[0], want[0]) {
				t.Errorf("kept %+v, want %+v", got, want)
			}
			for _, v := range []meter.Viewer{{UID: 8, Exact: true}, {UID: 7}, {UID: 0, Exact: true}} {
				if _, err := r.CloseDetached(ctx, id, v, meter.CloseRequest{}); !errors.Is(err, meter.ErrNoWindow) {
					t.Errorf("%+v is told: %v", v, err)
				}
			}
			res, err := r.CloseDetached(ctx, id, me, meter.CloseRequest{Work: 4})
			if err != nil || res.Energy != want[0].Energy || res.PerUnit != res.Energy.Joules()/4 || !res.HasPerUnit {
				t.Errorf("%v, %+v", err, res)
			}
			has(t, res.Reasons, meter.ReasonTimeLimit)
			if _, err := r.CloseDetached(ctx, orphan, meter.Viewer{UID: 8}, meter.CloseRequest{}); err != nil {
				t.Errorf("the orphaned one: %v", err)
			}
			time.Sleep(150 * time.Millisecond)
		})
		live(t, sim, false, func(r *rig) {
			if _, err := r.CloseDetached(ctx, id, me, meter.CloseRequest{}); !errors.Is(err, meter.ErrNoWindow) {
				t.Errorf("told again by the third: %v", err)
			}
			time.Sleep(meter.KeepTime)
			r.Tick(ctx)
			if got, _ := r.Kept(me); len(got) != 0 {
				t.Errorf("kept for ever: %+v", got)
			}
		})
	})
}

func sameResult(a, b meter.Ended) bool {
	strip := func(e *meter.Ended) {
		e.Devices = append([]meter.DeviceEnergy(nil), e.Devices...)
		for i := range e.Devices {
			if d := e.Devices[i].Began; !d.Equal(b.Devices[i].Began) {
				return
			}
			e.Devices[i].Began = time.Time{}
		}
	}
	at := a.At.Equal(b.At)
	strip(&a)
	strip(&b)
	a.At, b.At = time.Time{}, time.Time{}
	return at && reflect.DeepEqual(a, b)
}

// An orderly stop keeps what has been told too, and sums come out the same.
func TestSumsOutliveAnOrderlyStop(t *testing.T) {
	lives(t, "laptop", func(t *testing.T, sim *hostsim.Sim) {
		me := meter.Viewer{UID: 7, Exact: true}
		sum := func(r *rig) meter.Sum {
			all, _ := r.Kept(me)
			var results []meter.Result
			for _, e := range all {
				results = append(results, e.Result)
			}
			return meter.SumOf(results)
		}
		var want meter.Sum
		live(t, sim, true, func(r *rig) {
			for range 5 {
				w := r.open(meter.OpenRequest{Owner: 7, Exact: true, Unit: "token"})
				time.Sleep(700 * time.Millisecond)
				if _, err := w.Mark(context.Background(), "half"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(700 * time.Millisecond)
				r.close(w, meter.CloseRequest{Work: 3})
			}
			want = sum(r)
		})
		live(t, sim, false, func(r *rig) {
			if got := sum(r); got != want || got.Windows != 5 {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	})
}

// Results that cannot be believed cost the results, never the start.
func TestOddResultsAreSetAside(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "not JSON": "{", "another schema": `{"schema":99}`, "another boot": `{"schema":1,"boot":"0-0"}`,
		"long": strings.Repeat(" ", 1<<20+1), "nested": strings.Repeat("[", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
				run := sim.Host().Run
				if err := run.Mkdir("quner-admin", 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(run.File(resultsFile), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				live(t, sim, false, func(r *rig) {
					if got, _ := r.Kept(meter.Viewer{Exact: true}); len(got) != 0 {
						t.Errorf("%+v", got)
					}
					r.close(r.open(meter.OpenRequest{}), meter.CloseRequest{})
				})
				names, err := run.List("quner-admin")
				if err != nil || len(names) != 1 || !strings.HasPrefix(names[0], "results.json.corrupt-") {
					t.Errorf("set aside: %v, %v", names, err)
				}
			})
		})
	}
}

// A disk that is full is told, costs no window, and is tried again.
func TestResultsOnAFullDisk(t *testing.T) {
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		ctx, me := context.Background(), meter.Viewer{UID: 7, Exact: true}
		var full atomic.Bool
		h := sim.Host()
		was := h.Run
		defer func() { h.Run = was }()
		h.Run = host.NewDir(was.Path(), func(a host.Access) error {
			if full.Load() && a.Op == host.OpCreate {
				return unix.ENOSPC
			}
			return nil
		})
		var id string
		live(t, sim, false, func(r *rig) {
			full.Store(true)
			id = r.open(meter.OpenRequest{Owner: 7, Exact: true, Detached: true, Limit: 2 * time.Second}).ID()
			time.Sleep(4 * time.Second)
			if err := r.JournalTrouble(); !errors.Is(err, unix.ENOSPC) {
				t.Errorf("trouble: %v", err)
			}
			if got, _ := r.Kept(me); len(got) != 1 {
				t.Errorf("kept %+v", got)
			}
			full.Store(false)
			r.Tick(ctx)
			time.Sleep(200 * time.Millisecond)
			if err := r.JournalTrouble(); err != nil {
				t.Errorf("well again: %v", err)
			}
		})
		live(t, sim, false, func(r *rig) {
			if _, err := r.CloseDetached(ctx, id, me, meter.CloseRequest{}); err != nil {
				t.Error(err)
			}
		})
	})
}

// A window that is in both files has ended: the results are written first.
func TestResultGoesBeforeAnOlderJournal(t *testing.T) {
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		ctx, me := context.Background(), meter.Viewer{UID: 7, Exact: true}
		var id string
		var older []byte
		file := sim.Host().Run.File("quner-admin/windows.json")
		live(t, sim, false, func(r *rig) {
			id = r.open(meter.OpenRequest{Owner: 7, Exact: true, Detached: true, Limit: 3 * time.Second}).ID()
			time.Sleep(2500 * time.Millisecond)
			var err error
			if older, err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		})
		if err := os.WriteFile(file, older, 0o600); err != nil {
			t.Fatal(err)
		}
		live(t, sim, false, func(r *rig) {
			if n := r.OpenCount(); n != 0 {
				t.Errorf("%d windows are open", n)
			}
			res, err := r.CloseDetached(ctx, id, me, meter.CloseRequest{})
			if err != nil {
				t.Fatal(err)
			}
			has(t, res.Reasons, meter.ReasonTimeLimit)
		})
	})
}

// Who has many results cannot take the room of those who have few, and what was told not that of what was not.
func TestResultsHaveRoomForEachOwner(t *testing.T) {
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		viewer := func(uid uint32) meter.Viewer { return meter.Viewer{UID: uid, Exact: true} }
		live(t, sim, true, func(r *rig) {
			for uid := range uint32(3) {
				for range 700 {
					w := r.open(meter.OpenRequest{Owner: uid, Exact: true, Name: strings.Repeat("n", 64)})
					if uid == 0 {
						r.close(w, meter.CloseRequest{})
					} else {
						r.Orphan(w)
					}
				}
			}
			r.Orphan(r.open(meter.OpenRequest{Owner: 4, Exact: true}))
			time.Sleep(time.Second)
			if r.JournalTrouble() == nil {
				t.Error("not a word of what has no room")
			}
		})
		if info, err := os.Stat(sim.Host().Run.File(resultsFile)); err != nil || info.Size() > 1<<20 {
			t.Fatalf("%v, %v", info, err)
		}
		live(t, sim, false, func(r *rig) {
			var left [5]int
			for uid := range uint32(5) {
				all, _ := r.Kept(viewer(uid))
				left[uid] = len(all)
			}
			if left[0] != 0 || left[1] < 100 || left[1]-left[2] > 1 || left[2]-left[1] > 1 || left[4] != 1 {
				t.Errorf("results left by owner: %v", left)
			}
		})
	})
}

// What was opened a moment before the end is known to the next meter, unless so much is opened that writing it down would
// cost.
func TestWindowOpenedJustBeforeTheEndIsTakenUp(t *testing.T) {
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		me := meter.Viewer{UID: 7, Exact: true}
		var id string
		live(t, sim, false, func(r *rig) {
			time.Sleep(10200 * time.Millisecond) // between two heartbeats
			id = r.open(meter.OpenRequest{Owner: 7, Exact: true, IdleWatts: map[string]float64{"gpu": 0, "cpu": 0}}).ID()
			time.Sleep(150 * time.Millisecond)
		})
		live(t, sim, false, func(r *rig) {
			w, err := r.Resume(id, me)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			res := r.close(w, meter.CloseRequest{Synced: true})
			has(t, res.Reasons, meter.ReasonRestarted)
			if res.Method != meter.Sampled || res.Coverage < 0.99 || res.Duration < 5*time.Second || res.Duration > 6*time.Second {
				t.Errorf("%s, coverage %g over %v, %v", res.Method, res.Coverage, res.Duration, res.Reasons)
			}
		})
	})
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		file := sim.Host().Run.File("quner-admin/windows.json")
		live(t, sim, false, func(r *rig) {
			time.Sleep(10200 * time.Millisecond)
			for range 200 {
				r.open(meter.OpenRequest{Owner: 7, Exact: true})
			}
			time.Sleep(200 * time.Millisecond)
			if _, err := os.Stat(file); err == nil {
				t.Error("a flood is written down at once")
			}
			time.Sleep(time.Second)
			if _, err := os.Stat(file); err != nil {
				t.Errorf("after a heartbeat: %v", err)
			}
		})
	})
}

// Whatever figures a caller brings about, the results of all others outlive the meter, and the caller's too.
func TestOddFiguresCostNoOtherResult(t *testing.T) {
	lives(t, "workstation", func(t *testing.T, sim *hostsim.Sim) {
		ctx, me, odd := context.Background(), meter.Viewer{UID: 7, Exact: true}, meter.Viewer{UID: 8, Exact: true}
		var id string
		live(t, sim, true, func(r *rig) {
			id = r.open(meter.OpenRequest{Owner: 7, Exact: true, Detached: true, Limit: time.Second}).ID()
			time.Sleep(2 * time.Second)
			for work, known := range map[float64]bool{1e-30: true, 1e-300: true, 5e-324: false, 1.7e308: true, 1e308: true} {
				w := r.open(meter.OpenRequest{Owner: 8, Exact: true, Unit: "token"})
				time.Sleep(time.Second)
				if res := r.close(w, meter.CloseRequest{Work: work}); res.HasPerUnit != known || math.IsInf(res.PerUnit, 0) {
					t.Errorf("work %g: %g J a unit, known: %t", work, res.PerUnit, res.HasPerUnit)
				}
			}
		})
		live(t, sim, false, func(r *rig) {
			if kept, _ := r.Kept(odd); len(kept) != 5 {
				t.Errorf("kept of the odd results: %d", len(kept))
			} else if sum := meter.SumOf([]meter.Result{kept[0].Result, kept[1].Result, kept[2].Result, kept[3].Result, kept[4].Result}); math.IsInf(sum.Work, 0) {
				t.Errorf("sum %+v", sum)
			}
			if _, err := r.CloseDetached(ctx, id, me, meter.CloseRequest{}); err != nil {
				t.Errorf("the other's: %v", err)
			}
		})
	})
}
