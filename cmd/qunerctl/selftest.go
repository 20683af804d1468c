package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) selftestCmd() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Prove that each lever moves here: a moment elsewhere, read back, put back",
		Long: `Move each lever a little for a moment, read it back and put it back: another governor, a
power limit one step below. The exit status is 0 if every lever that could be tried moved and
is back. Without a daemon, sudo qunerd selftest does the same.`,
		Example: "  sudo qunerctl selftest --dry-run\n  sudo qunerctl selftest",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := ask(cmd.Context(), a, a.admin, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.SelftestResponse, error) {
				return qunerv1.NewAdminServiceClient(conn).Selftest(ctx, &qunerv1.SelftestRequest{DryRun: dryRun})
			})
			if err != nil {
				return err
			}
			if a.json {
				if err := writeJSON(a.out, answer); err != nil {
					return err
				}
			} else {
				a.selftestPage(answer.GetTests(), dryRun)
			}
			return a.selftestVerdict(answer.GetTests())
		},
	}
	dryRunFlag(cmd, &dryRun)
	return cmd
}

func (a *app) selftestPage(tests []*qunerv1.LeverTest, dryRun bool) {
	if len(tests) == 0 {
		a.out.printf("There is no lever on this host to try; qunerctl doctor says why.\n")
		return
	}
	rows := make([][]cell, 0, len(tests))
	for _, g := range grouped(tests, func(t *qunerv1.LeverTest) string {
		stem, _, _ := numbered(t.GetLever())
		return strings.Join([]string{stem, t.GetFrom(), t.GetTo(), t.GetVerdict().String(), t.GetDetail()}, "\x00")
	}) {
		levers := make([]string, len(g))
		for i, t := range g {
			levers[i] = t.GetLever()
		}
		t := g[0]
		rows = append(rows, []cell{
			verdictCell(t.GetVerdict()), text(family(levers)), text(kindWord(t.GetKind())),
			text(value(t.GetFrom(), t.GetUnit())), text(value(t.GetTo(), t.GetUnit())), {text: t.GetDetail(), look: dim},
		})
	}
	a.out.table([]string{"VERDICT", "LEVER", "KIND", "FROM", "FOR A MOMENT", ""}, rows)
	if dryRun {
		a.out.printf("\nDry run: nothing was moved.\n")
	}
}

func verdictCell(v qunerv1.LeverVerdict) cell {
	switch v {
	case qunerv1.LeverVerdict_LEVER_VERDICT_MOVED:
		return cell{text: "moves", look: green}
	case qunerv1.LeverVerdict_LEVER_VERDICT_SKIPPED:
		return cell{text: "skipped", look: dim}
	case qunerv1.LeverVerdict_LEVER_VERDICT_PLANNED:
		return text("would try")
	case qunerv1.LeverVerdict_LEVER_VERDICT_REFUSED:
		return cell{text: "refused", look: yellow}
	}
	return cell{text: "NOT BACK", look: red}
}

// selftestVerdict is the exit status: a lever that is not back is worse than one that does not move.
func (a *app) selftestVerdict(tests []*qunerv1.LeverTest) error {
	refused, stuck := 0, 0
	for _, t := range tests {
		switch t.GetVerdict() {
		case qunerv1.LeverVerdict_LEVER_VERDICT_REFUSED:
			refused++
		case qunerv1.LeverVerdict_LEVER_VERDICT_STUCK:
			stuck++
		}
	}
	switch {
	case stuck > 0:
		return &failure{
			error: fmt.Errorf("%s not back as before", plural(stuck, "lever")), code: exitError,
			hint: a.asRoot("apply --restore") + "; if that does not do it: " + a.asRoot("rollback --print"),
		}
	case refused > 0:
		return &failure{
			error: fmt.Errorf("%s refused to move", plural(refused, "lever")), code: exitError,
			hint: "qunerctl doctor says what stands in the way",
		}
	}
	return nil
}
