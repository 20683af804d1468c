package daemon

import (
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/profiles"
)

// Whatever is booked, the file stays small and its sums stay right.
func TestSavingsStayBounded(t *testing.T) {
	s, err := openSavings(host.NewDir(t.TempDir(), nil), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	day, n := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), 0
	for i := range 400 {
		for k := range 24 {
			r := Saving{Day: day.AddDate(0, 0, i).Format(time.DateOnly), Profile: profiles.Training, Seconds: 1}
			if k%4 > 0 {
				r.Profile, r.Workload, r.Certificate = profiles.Training, fmt.Sprint("w", k), fmt.Sprint(k, "@", i)
				r.Used, r.Saved, r.Half = 10, 2, 0.1
			}
			s.book(r)
			n++
		}
	}
	seconds, saved := 0.0, 0.0
	for _, r := range s.now.Rows {
		seconds, saved = seconds+r.Seconds, saved+r.Saved
	}
	if len(s.now.Rows) > savingsDays*savingsPerDay+savingsOlder || int(seconds) != n || math.Abs(saved-float64(n)*0.75*2) > 1e-6 {
		t.Errorf("%d rows, %v s of %d, %v J", len(s.now.Rows), seconds, n, saved)
	}
	if err := s.save(true); err != nil {
		t.Error(err)
	}
	again, err := openSavings(s.file.Dir, s.file.Log)
	if err != nil || len(again.now.Rows) != len(s.now.Rows) {
		t.Errorf("%d rows are read of %d, %v", len(again.now.Rows), len(s.now.Rows), err)
	}
}

func FuzzSavings(f *testing.F) {
	f.Add([]byte(`{"schema":1,"since":"2026-11-30T10:00:00Z","rows":[{"day":"2026-11-30","profile":"idle","certificate":"a@1","seconds":10,"used_j":5,"saved_j":1,"half_j":0.1}]}`))
	f.Add([]byte(`{"schema":1,"rows":[{"day":"earlier","seconds":1e309}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &savings{file: host.StateFile{Dir: host.NewDir(t.TempDir(), nil), Name: SavingsFile, Schema: 1, Log: slog.New(slog.DiscardHandler)}}
		read, err := s.decode(data)
		if err != nil {
			return
		}
		if _, half, _ := read.Total(); half < 0 {
			t.Errorf("half-width %v", half)
		}
	})
}
