package server

import (
	"errors"
	"io"
	"testing"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// retuned is what a call to explore has told.
func retuned(t *testing.T, s *stand, r *qunerv1.RetuneRequest) (plan *qunerv1.TunePlan, steps []*qunerv1.TuneProgress, report *qunerv1.TuneReport, skipped string) {
	t.Helper()
	stream, err := qunerv1.NewAdminServiceClient(dial(t, s.admin())).Retune(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return plan, steps, report, skipped
		}
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.GetMessage().(type) {
		case *qunerv1.RetuneResponse_Plan:
			plan = m.Plan
		case *qunerv1.RetuneResponse_Progress:
			steps = append(steps, m.Progress)
		case *qunerv1.RetuneResponse_Report:
			report = m.Report
		case *qunerv1.RetuneResponse_Skipped:
			skipped = m.Skipped
		}
	}
}

func TestRetune(t *testing.T) {
	s := start(t, nil)
	plan, steps, report, skipped := retuned(t, s, &qunerv1.RetuneRequest{})
	if plan.GetMaxWindows() != 8 || len(steps) != 1 || steps[0].GetWatts() != 40 || steps[0].GetBest() != "300 W" ||
		report.GetWorkUnit() != "second" || !report.GetApplied() || skipped != "" {
		t.Errorf("plan %v, steps %v, report %v, skipped %q", plan, steps, report, skipped)
	}
	plan, steps, report, skipped = retuned(t, s, &qunerv1.RetuneRequest{DryRun: true})
	if plan == nil || steps != nil || report != nil || skipped != "" {
		t.Errorf("dry run: plan %v, steps %v, report %v, skipped %q", plan, steps, report, skipped)
	}
	if retuned(t, s, &qunerv1.RetuneRequest{DryRun: true, Fresh: true}); !s.rest.Fresh || !s.rest.DryRun {
		t.Errorf("asked for %+v", s.rest)
	}
	s.skipped = "the machine is on battery"
	plan, steps, report, skipped = retuned(t, s, &qunerv1.RetuneRequest{})
	if plan != nil || steps != nil || report != nil || skipped != s.skipped {
		t.Errorf("plan %v, steps %v, report %v, skipped %q", plan, steps, report, skipped)
	}
}
