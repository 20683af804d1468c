package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) savingsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "savings",
		Short: "Joules that the tuned points have saved, estimated, by day",
		Long: `Joules that the tuned points have saved since quner came, by day and profile.

They are estimated: the saving that a point's certificate states, with its 95 % interval, of the
energy that the machine has used while the point was in force. Only time at rest counts, under a
certified idle point, and time in which the workload that a certificate names was running, which
its windows tell. All other time is unmeasured, and has no joules.`,
		Example: "  qunerctl savings\n  qunerctl savings --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := ask(cmd.Context(), a, a.reader, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.SavingsResponse, error) {
				return qunerv1.NewStatusServiceClient(conn).Savings(ctx, &qunerv1.SavingsRequest{})
			})
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, answer)
			}
			a.savingsPage(answer)
			return nil
		},
	}
}

func (a *app) savingsPage(r *qunerv1.SavingsResponse) {
	var rows [][]cell
	for _, s := range r.GetRows() {
		what := profileWord(s.GetProfile())
		if s.GetWorkload() != "" {
			what += ", " + s.GetWorkload()
		}
		row := []cell{text(s.GetDay()), text(what), figure(span(time.Duration(s.GetSeconds() * float64(time.Second)))), figure(""), figure("unmeasured")}
		if s.SavedUj != nil {
			row[3], row[4] = figure(joules(s.GetUsedUj(), 0)), figure(joules(s.GetSavedUj(), s.GetHalfWidthUj()))
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		a.out.table([]string{"DAY", "PROFILE", "TIME", "USED", "SAVED, ESTIMATED"}, rows)
		a.out.printf("\n")
	}
	if words := savedSumWords(r.GetTotal()); words != "" {
		a.out.para("", plain, "Saved: "+words+".")
		return
	}
	a.out.para("", plain, "No time has counted yet: neither rest under a certified idle point, nor a workload that a certified point names and that was metered under that name.")
}

// savedSumWords is what was saved in all; empty while nothing is known.
func savedSumWords(s *qunerv1.SavingsSum) string {
	if s == nil || s.SavedUj == nil {
		return ""
	}
	return fmt.Sprintf("%s since %s, estimated", joules(s.GetSavedUj(), s.GetHalfWidthUj()), time.Unix(0, s.GetSinceUnixNs()).Format(time.DateOnly))
}
