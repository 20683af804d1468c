package server

import (
	"testing"
	"time"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/profiles"
)

func TestSavingsAreEstimatedOrUnmeasured(t *testing.T) {
	s := start(t, nil)
	s.saved = daemon.Savings{Since: time.Unix(100, 0), Rows: []daemon.Saving{
		{Day: "2026-11-29", Profile: profiles.Idle, Certificate: "a@1", Seconds: 60, Used: 600, Saved: 60, Half: 3},
		{Day: "2026-11-30", Profile: profiles.Idle, Certificate: "a@1", Seconds: 60, Used: 600, Saved: 60, Half: 3},
		{Day: "2026-11-30", Profile: profiles.Training, Workload: "bert", Certificate: "b@2", Seconds: 60, Used: 600, Saved: 60, Half: 8},
		{Day: "2026-11-30", Profile: profiles.Training, Seconds: 60},
	}}
	r, err := qunerv1.NewStatusServiceClient(dial(t, s.public())).Savings(t.Context(), &qunerv1.SavingsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if sum := r.GetTotal(); sum.GetSavedUj() != 180_000_000 || sum.GetHalfWidthUj() != 10_000_000 || sum.GetMethod() != "estimated" || sum.GetSinceUnixNs() != 100e9 {
		t.Errorf("in all: %v; one certificate's errors add up, and others' in square", sum)
	}
	rows := r.GetRows()
	if len(rows) != 4 || rows[2].GetMethod() != "estimated" || rows[2].GetSavedUj() != 60_000_000 || rows[2].GetWorkload() != "bert" ||
		rows[3].GetMethod() != "unmeasured" || rows[3].SavedUj != nil || rows[3].UsedUj != nil || rows[3].GetSeconds() != 60 {
		t.Errorf("rows: %v", rows)
	}
}
