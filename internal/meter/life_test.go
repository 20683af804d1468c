package meter_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/meter"
)

func ids(all []meter.Running) []string {
	var list []string
	for _, w := range all {
		list = append(list, w.ID)
	}
	return list
}

func TestDetachedWindowEndsAtItsLimit(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		ctx, me := context.Background(), meter.Viewer{UID: 7, Exact: true}
		w := r.open(meter.OpenRequest{Owner: 7, Exact: true, Detached: true, Limit: 5 * time.Second, Unit: "step"})
		time.Sleep(2 * time.Second)
		list := r.Running(ctx, me, false)
		if len(list) != 1 || list[0].ID != w.ID() || list[0].Life != meter.Detached || !list[0].Known || list[0].Gross <= 0 {
			t.Fatalf("%+v", list)
		}
		if left := list[0].Left; left < 2*time.Second || left > 3*time.Second {
			t.Errorf("%v left", left)
		}
		time.Sleep(5 * time.Second)
		if n := r.OpenCount(); n != 0 {
			t.Fatalf("%d windows open after the limit", n)
		}
		results, _ := r.Kept(me)
		if len(results) != 1 || results[0].Duration != 5*time.Second {
			t.Fatalf("kept: %+v", results)
		}
		has(t, results[0].Reasons, meter.ReasonTimeLimit)
		res, err := r.CloseDetached(ctx, w.ID(), me, meter.CloseRequest{Work: 4})
		if err != nil || res.Method != meter.Sampled || !res.HasPerUnit || res.PerUnit != res.Energy.Joules()/4 {
			t.Errorf("%v, %+v", err, res)
		}
		if _, err := r.CloseDetached(ctx, w.ID(), me, meter.CloseRequest{}); !errors.Is(err, meter.ErrNoWindow) {
			t.Errorf("closed twice: %v", err)
		}
		time.Sleep(meter.KeepTime)
		r.Tick(ctx)
		if results, _ := r.Kept(me); len(results) != 0 {
			t.Errorf("kept for ever: %d", len(results))
		}
	})
}

// A list is no place for a window whose time is over, though the heartbeat that ends it has not come.
func TestEndedWindowIsNotListedAsOpen(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		ctx, me := context.Background(), meter.Viewer{UID: 7, Exact: true}
		time.Sleep(300 * time.Millisecond)
		mine := r.open(meter.OpenRequest{Owner: 7, Exact: true, Detached: true, Limit: meter.MinLife})
		other := r.open(meter.OpenRequest{Owner: 8, Detached: true, Limit: meter.MinLife})
		coarse := r.open(meter.OpenRequest{Owner: 9, Detached: true, Limit: meter.MinLife})
		time.Sleep(meter.MinLife)
		if list := r.Running(ctx, meter.Viewer{UID: 9}, false); len(list) != 0 {
			t.Errorf("listed as open: %v, of them %s", ids(list), coarse.ID())
		}
		if list := r.Running(ctx, me, false); len(list) != 0 {
			t.Errorf("listed as open: %v", ids(list))
		}
		results, _ := r.Kept(me)
		if len(results) != 1 || results[0].ID != mine.ID() || results[0].Duration != meter.MinLife {
			t.Fatalf("kept: %+v", results)
		}
		has(t, results[0].Reasons, meter.ReasonTimeLimit)
		if r.OpenCount() != 1 {
			t.Errorf("%d windows open: another's was ended by this list", r.OpenCount())
		}
		time.Sleep(time.Second)
		if results, _ := r.Kept(meter.Viewer{UID: 8, Exact: true}); len(results) != 1 || results[0].ID != other.ID() {
			t.Errorf("the heartbeat has not ended it: %+v", results)
		}
	})
}

func TestLimitsOfDetachedWindowsAreChecked(t *testing.T) {
	on(t, "vm", func(r *rig) {
		for _, limit := range []time.Duration{-1, 24*time.Hour + 1} {
			if _, err := r.Open(context.Background(), meter.OpenRequest{Name: "a", Detached: true, Limit: limit}); !errors.Is(err, meter.ErrBadRequest) {
				t.Errorf("%v: %v", limit, err)
			}
		}
	})
}

func TestOrphanKeepsItsEnergy(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		r.sim.SetLoad("gpu0", 1)
		time.Sleep(3 * time.Second)
		before := r.sim.Truth("gpu0")
		a := r.open(meter.OpenRequest{Owner: 7, Exact: true, Devices: []string{"gpu"}})
		time.Sleep(10 * time.Second)
		after := r.sim.Truth("gpu0")
		r.Orphan(a)
		time.Sleep(time.Minute)
		results, _ := r.Kept(meter.Viewer{UID: 7, Exact: true})
		if len(results) != 1 {
			t.Fatalf("%d results", len(results))
		}
		res := results[0].Result
		has(t, res.Reasons, meter.ReasonOrphaned, meter.ReasonUnsynced)
		within(t, "an orphan", res.Energy, after-before, res.HalfWidth)
		if _, err := a.Close(context.Background(), meter.CloseRequest{}); !errors.Is(err, meter.ErrNoWindow) {
			t.Errorf("closed after its end: %v", err)
		}
	})
}

func TestNobodySeesAnothersWindows(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		ctx := context.Background()
		private := r.open(meter.OpenRequest{Owner: 0, Exact: true, Detached: true})
		public := r.open(meter.OpenRequest{Owner: 0, Detached: true})
		own := r.open(meter.OpenRequest{Owner: 0, Observe: true, Exact: true})
		other := r.open(meter.OpenRequest{Owner: 7, Detached: true})
		for name, c := range map[string]struct {
			who  meter.Viewer
			want []string
		}{
			"root on the admin socket":       {meter.Viewer{UID: 0, Exact: true}, []string{private.ID(), public.ID()}},
			"uid 0 of a container":           {meter.Viewer{UID: 0}, []string{public.ID()}},
			"a user":                         {meter.Viewer{UID: 7}, []string{other.ID()}},
			"a stranger":                     {meter.Viewer{UID: 8, Exact: true}, nil},
			"a stranger with a large number": {meter.Viewer{UID: 4_000_000_000}, nil},
		} {
			got := ids(r.Running(ctx, c.who, true))
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s sees %d windows: %v, want %v", name, len(got), got, c.want)
			}
			for _, w := range []*meter.Window{private, public, own, other} {
				_, err := r.Detached(w.ID(), c.who)
				if seen := slices.Contains(c.want, w.ID()); (err == nil) != seen || err != nil && !errors.Is(err, meter.ErrNoWindow) {
					t.Errorf("%s: %v", name, err)
				}
				if _, err := r.Resume(w.ID(), c.who); !errors.Is(err, meter.ErrNoWindow) {
					t.Errorf("%s takes up what does not wait: %v", name, err)
				}
			}
		}
		time.Sleep(2 * time.Second)
		r.Orphan(private, public, other)
		for who, want := range map[meter.Viewer]int{{UID: 0, Exact: true}: 2, {UID: 0}: 1, {UID: 7}: 1, {UID: 8}: 0} {
			if results, _ := r.Kept(who); len(results) != want {
				t.Errorf("%+v sees %d results, want %d", who, len(results), want)
			}
		}
		if _, err := r.CloseDetached(ctx, private.ID(), meter.Viewer{UID: 0}, meter.CloseRequest{}); !errors.Is(err, meter.ErrNoWindow) {
			t.Errorf("uid 0 of a container closes root's window: %v", err)
		}
		own.Abandon()
	})
}

func TestResultsAreKeptInBounds(t *testing.T) {
	on(t, "vm", func(r *rig) {
		me := meter.Viewer{UID: 7}
		other := r.open(meter.OpenRequest{Owner: 8})
		r.Orphan(other)
		var last string
		for range 1100 {
			w := r.open(meter.OpenRequest{Owner: 7})
			last = w.ID()
			r.close(w, meter.CloseRequest{})
		}
		results, most := r.Kept(me)
		if len(results) != most || most != 1024 || results[most-1].ID != last {
			t.Errorf("%d results kept, at most %d", len(results), most)
		}
		if results, _ := r.Kept(meter.Viewer{UID: 8}); len(results) != 1 {
			t.Errorf("%d results of another user are left", len(results))
		}
	})
}

// The energy of a window that runs is what its close will say, but for what is not read yet.
func TestRunningJoulesGrow(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		ctx, me := context.Background(), meter.Viewer{UID: 7, Exact: true}
		r.sim.SetLoad("gpu0", 1)
		time.Sleep(3 * time.Second)
		w := r.open(meter.OpenRequest{Owner: 7, Exact: true, IdleWatts: map[string]float64{"gpu": 30, "cpu": 10}})
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			r.Running(ctx, me, true)
		}
		time.Sleep(2050 * time.Millisecond)
		now := r.Running(ctx, me, true)[0]
		res := r.close(w, meter.CloseRequest{Synced: true})
		if !now.AboveIdle || now.Stages != 0 || len(now.Devices) != 3 {
			t.Errorf("%+v", now)
		}
		within(t, "gross", now.Gross, res.Gross, res.Gross/200)
		within(t, "energy", now.Energy, res.Energy, res.Gross/200)
	})
}
