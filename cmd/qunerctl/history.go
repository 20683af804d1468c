package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) historyCmd() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use:   "history",
		Short: "The last admin calls and lever writes: when, who, old, new",
		Long: `The last admin calls and lever writes, oldest first: when, who, why, old, new. The
daemon keeps 200 of them over its restarts.`,
		Example: "  sudo qunerctl history\n  sudo qunerctl history -n 20 --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("qunerctl history -n 20", "history: -n %d: allowed is 1 or more", limit)
			}
			return noArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := ask(cmd.Context(), a, a.admin, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.HistoryResponse, error) {
				return qunerv1.NewAdminServiceClient(conn).History(ctx, &qunerv1.HistoryRequest{Limit: uint32(limit)}) //nolint:gosec // checked
			})
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, answer)
			}
			a.historyPage(answer.GetEntries())
			return nil
		},
	}
	cmd.Flags().IntVarP(&limit, "lines", "n", 0, "only the newest `N` events")
	return cmd
}

func (a *app) historyPage(entries []*qunerv1.HistoryEntry) {
	if len(entries) == 0 {
		a.out.printf("Nothing yet: no admin call was made and no lever was moved.\n")
		return
	}
	var rows [][]cell
	// Eight policies that move together at one call are one line.
	for _, g := range grouped(entries, func(e *qunerv1.HistoryEntry) string {
		stem, _, _ := numbered(e.GetLever())
		if stem == "" {
			return fmt.Sprint(e.GetTimeUnixNs(), e.GetCall())
		}
		return fmt.Sprint(e.GetTimeUnixNs()/int64(time.Second), e.GetUid(), e.GetCall(), stem, e.GetFrom(), e.GetTo(), e.GetNote(), e.GetError())
	}) {
		rows = append(rows, historyRow(g))
	}
	head := []string{"WHEN", "WHO", "WHY", "LEVER", "CHANGE"}
	a.out.table(head, rows)
}

// historyRow is one call, or the writes of one kind that it made.
func historyRow(g []*qunerv1.HistoryEntry) []cell {
	e := g[0]
	who := fmt.Sprintf("uid %d", e.GetUid())
	if e.GetByDaemon() {
		who = "qunerd"
	}
	row := []cell{text(moment(e.GetTimeUnixNs(), time.Now())), text(who), text(e.GetCall())}
	if e.GetLever() != "" {
		levers := make([]string, len(g))
		for i, w := range g {
			levers[i] = w.GetLever()
		}
		row = append(row, text(family(levers)), text(changeWords(e)))
	} else {
		row = append(row, text(""), text(""))
	}
	switch {
	case e.GetError() != "":
		row = append(row, cell{text: e.GetError(), look: yellow})
	case e.GetNote() != "" && e.GetNote() != "moved": // which the arrow says
		row = append(row, cell{text: e.GetNote(), look: dim})
	}
	return row
}

// changeWords are what a lever was moved from and to; one that was not moved has stayed where it was.
func changeWords(e *qunerv1.HistoryEntry) string {
	if e.GetTo() == "" {
		return value(e.GetFrom(), e.GetUnit())
	}
	return value(e.GetFrom(), e.GetUnit()) + " → " + value(e.GetTo(), e.GetUnit())
}

// moment prints a time of today as its hour, any other with its day.
func moment(unixNs int64, now time.Time) string {
	at := time.Unix(0, unixNs)
	switch {
	case at.Year() == now.Year() && at.YearDay() == now.YearDay():
		return at.Format(time.TimeOnly)
	case at.Year() == now.Year():
		return at.Format("Jan _2 15:04")
	default:
		return at.Format(time.DateOnly)
	}
}
