package meter_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/meter"
)

// A tap hears of what one uid's workload closes, and of nothing else.
func TestATapHearsOfTheWindowsOfOneOwnerAndWorkload(t *testing.T) {
	on(t, "workstation", func(r *rig) {
		tap := r.Tap(7, "chat")
		defer tap.Close()
		chat := meter.OpenRequest{Owner: 7, Workload: "chat", Unit: "token"}
		first := r.open(chat)
		detached := chat
		detached.Detached = true
		second := r.open(detached)
		orphan, abandoned := r.open(chat), r.open(chat)
		others := []*meter.Window{
			r.open(meter.OpenRequest{Owner: 8, Workload: "chat"}),
			r.open(meter.OpenRequest{Owner: 7, Workload: "mail"}),
			r.open(meter.OpenRequest{Owner: 7}),
			r.open(meter.OpenRequest{Owner: 7, Workload: "chat", Observe: true}),
		}
		opened := time.Now()
		time.Sleep(3 * time.Second)
		if n := tap.OpenSince(time.Now()); n != 4 {
			t.Errorf("%d windows open, want 4", n)
		}
		if n := tap.OpenSince(opened); n != 0 {
			t.Errorf("%d windows opened before the first", n)
		}
		r.close(first, meter.CloseRequest{Work: 11})
		for _, w := range others {
			r.close(w, meter.CloseRequest{Work: 1000})
		}
		r.Orphan(orphan)
		abandoned.Abandon()
		time.Sleep(time.Second)
		if _, err := r.CloseDetached(context.Background(), second.ID(), meter.Viewer{UID: 7}, meter.CloseRequest{Work: 22}); err != nil {
			t.Fatal(err)
		}
		closed, lost := tap.Take()
		if len(closed) != 2 || lost != 0 {
			t.Fatalf("heard of %+v, %d lost", closed, lost)
		}
		for i, want := range []meter.ClosedWindow{
			{Opened: opened, Closed: opened.Add(3 * time.Second), Work: 11, Unit: "token"},
			{Opened: opened, Closed: opened.Add(4 * time.Second), Work: 22, Unit: "token"},
		} {
			if closed[i] != want {
				t.Errorf("%+v, want %+v", closed[i], want)
			}
		}
		if again, _ := tap.Take(); len(again) != 0 || tap.OpenSince(time.Now()) != 0 {
			t.Errorf("taken again: %+v, and %d open", again, tap.OpenSince(time.Now()))
		}
		tap.Close()
		r.close(r.open(chat), meter.CloseRequest{Work: 1})
		if late, _ := tap.Take(); len(late) != 0 {
			t.Errorf("heard after its end: %+v", late)
		}
	})
}

// What a tap cannot hold is counted.
func TestATapThatIsFullSaysHowMuchIsLost(t *testing.T) {
	on(t, "vm", func(r *rig) {
		tap := r.Tap(7, "chat")
		defer tap.Close()
		const most, more = 1 << 16, 3
		for range most + more {
			r.close(r.open(meter.OpenRequest{Owner: 7, Workload: "chat"}), meter.CloseRequest{Work: 1})
		}
		if closed, lost := tap.Take(); len(closed) != most || lost != more {
			t.Errorf("%d heard of, %d lost", len(closed), lost)
		}
	})
}

func TestShareOfAWindow(t *testing.T) {
	zero := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return zero.Add(time.Duration(s * float64(time.Second))) }
	for _, c := range []struct{ opened, closed, from, to, want float64 }{
		{0, 10, 0, 10, 1},
		{0, 10, 4, 6, 0.2},
		{0, 10, -5, 2.5, 0.25},
		{0, 10, 7.5, 20, 0.25},
		{0, 10, -5, 20, 1},
		{0, 10, 10, 20, 0},
		{0, 10, -5, 0, 0},
		{0, 10, 12, 20, 0},
		{5, 5, 4, 6, 1}, // all at once: it is counted once
		{5, 5, 5, 6, 1},
		{5, 5, 4, 5, 0},
		{5, 5, 6, 7, 0},
	} {
		w := meter.ClosedWindow{Opened: at(c.opened), Closed: at(c.closed)}
		if got := w.Share(at(c.from), at(c.to)); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %g", c, got)
		}
	}
}
