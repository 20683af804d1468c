package meter

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

const testBoot = "0f0e0d0c-1111-2222-3333-444455556666"

// journalTree is a machine whose boot has an id and whose clock stands still.
func journalTree(t testing.TB) *tree {
	t.Helper()
	tr := powercapTree(t, nil, "intel-rapl:0 package-0", "intel-rapl:0:0 dram")
	tr.h.Clock = func() time.Duration { return 1000 * time.Second }
	dir := filepath.Join(tr.dir, "proc/sys/kernel/random")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "boot_id"), []byte(testBoot+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return tr
}

func journaled(t testing.TB, tr *tree) *Meter {
	t.Helper()
	m, err := New(context.Background(), tr.h, Options{Journal: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// FuzzJournal gives a meter any text for its predecessor's windows: it starts, and what it takes up it can end, with
// figures that add up.
func FuzzJournal(f *testing.F) {
	tr := journalTree(f)
	m := journaled(f, tr)
	for _, q := range []OpenRequest{
		{Name: "a", Exact: true, Unit: "token", IdleWatts: map[string]float64{"cpu": 9}},
		{Name: "b", Owner: 1, Detached: true, Limit: time.Hour}, {Name: "c", Owner: 4_000_000_000, Weight: 3},
	} {
		w, err := m.Open(context.Background(), q)
		if err != nil {
			f.Fatal(err)
		}
		if _, err := w.Mark(context.Background(), "s"); err != nil {
			f.Fatal(err)
		}
	}
	m.Tick(context.Background())
	m.writeJournal(context.Background())
	text, err := tr.h.Run.Read("quner-admin/windows.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(bytes.ReplaceAll(text, []byte(`"at":`), []byte(`"at":-`)))
	f.Add(bytes.ReplaceAll(text, []byte(`"weight":1`), []byte(`"weight":1e308`)))
	f.Add(bytes.ReplaceAll(text, []byte(`"d":0`), []byte(`"d":1`)))
	f.Add([]byte(`{"schema":1,"boot":"` + testBoot + `","clock_ns":5,"windows":[{"id":""}]}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		tr := journalTree(t)
		if err := tr.h.Run.Mkdir("quner-admin", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(tr.h.Run.File("quner-admin/windows.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		m := journaled(t, tr)
		n := m.OpenCount()
		if r := m.loadJournal(); (r != nil && len(r.Windows) != n) || (r == nil && n != 0) {
			t.Fatalf("%d windows of a journal of %+v", n, r)
		}
		m.writeJournal(context.Background()) // what was taken up can be written down again
		if m.JournalTrouble() != nil {
			t.Fatal(m.JournalTrouble())
		}
		if again := journaled(t, tr); again.OpenCount() != n {
			t.Fatalf("%d windows, then %d", n, again.OpenCount())
		}
		var all []*Window
		for _, w := range m.windows {
			all = append(all, w)
		}
		for _, w := range all {
			res, err := w.Close(context.Background(), CloseRequest{Work: 1})
			if err != nil {
				t.Fatal(err)
			}
			var sum unit.Energy
			for _, d := range res.Devices {
				sum += d.Energy
			}
			if res.Method == Sampled && sum != res.Energy {
				t.Errorf("devices make %v, the window %v", sum, res.Energy)
			}
		}
		if m.OpenCount() != 0 || len(m.owned) != 0 {
			t.Errorf("%d windows left, of %d owners", m.OpenCount(), len(m.owned))
		}
	})
}

// FuzzResults gives a meter any text for the results its predecessor kept: it starts, what it takes up it can tell and add
// up, and it can be written down again.
func FuzzResults(f *testing.F) {
	tr := journalTree(f)
	m := journaled(f, tr)
	for _, q := range []OpenRequest{
		{Name: "a", Exact: true, Unit: "token", IdleWatts: map[string]float64{"cpu": 9}, HintJoulesPerUnit: 2}, {Name: "b", Owner: 1},
	} {
		w, err := m.Open(context.Background(), q)
		if err != nil {
			f.Fatal(err)
		}
		if _, err := w.Mark(context.Background(), "s"); err != nil {
			f.Fatal(err)
		}
		m.Orphan(w)
	}
	m.writeJournal(context.Background())
	text, err := tr.h.Run.Read("quner-admin/results.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(bytes.ReplaceAll(text, []byte(`"ended_ns":`), []byte(`"ended_ns":-`)))
	f.Add(bytes.ReplaceAll(text, []byte(`"Coverage":1`), []byte(`"Coverage":1e308`)))
	f.Add(bytes.ReplaceAll(text, []byte(`"beyond":[`), []byte(`"beyond":[],"b":[`)))
	f.Add([]byte(`{"schema":1,"boot":"` + testBoot + `","clock_ns":5,"results":[{"uid":4}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		tr := journalTree(t)
		if err := tr.h.Run.Mkdir("quner-admin", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(tr.h.Run.File("quner-admin/results.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		m := journaled(t, tr)
		all, _ := m.kept.snapshot()
		m.Suspend(context.Background())
		if m.JournalTrouble() != nil {
			t.Fatal(m.JournalTrouble())
		}
		if again, _ := journaled(t, tr).kept.snapshot(); len(again) != len(all) {
			t.Fatalf("%d results, then %d", len(all), len(again))
		}
		for _, s := range all {
			SumOf([]Result{s.Result, s.Result})
			if _, err := m.CloseDetached(context.Background(), s.ID, Viewer{s.owner, s.exact}, CloseRequest{Work: 2}); (err == nil) != s.due {
				t.Errorf("%s, due %t: %v", s.ID, s.due, err)
			}
		}
	})
}

// A device that has been measured for half a year, under one condition, hands its windows over as any other does.
func TestJournalOfHalfAYearIsTakenUp(t *testing.T) {
	const halfYear = 180 * 24 * time.Hour
	tr := journalTree(t)
	tr.h.Clock = func() time.Duration { return 2 * halfYear }
	m := journaled(t, tr)
	if _, err := m.Open(context.Background(), OpenRequest{Name: "a", Exact: true}); err != nil {
		t.Fatal(err)
	}
	r, windows := m.record(context.Background())
	r.Windows = windows
	for i := range r.Devices {
		d := &r.Devices[i]
		d.Totals[5] = float64(halfYear)
		d.Epochs[0].At = int64(halfYear)
	}
	if err := r.check(testBoot, int64(m.host.Monotonic())); err != nil || len(r.Devices) == 0 {
		t.Errorf("%d devices: %v", len(r.Devices), err)
	}
}

// A window that ends just before the meter does is not written down as open, even where its result has no room.
func TestWindowThatEndsJustBeforeTheMeterStaysEnded(t *testing.T) {
	ctx := context.Background()
	tr := journalTree(t)
	m := journaled(t, tr)
	w, err := m.Open(ctx, OpenRequest{Name: "a", Exact: true, Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	m.writeJournal(ctx)
	if _, err := w.Close(ctx, CloseRequest{}); err != nil {
		t.Fatal(err)
	}
	m.Suspend(ctx)
	if tr.h.Run.Exists("quner-admin/windows.json") || !tr.h.Run.Exists("quner-admin/results.json") {
		t.Error("it is written down as open, or its result is not")
	}
}
