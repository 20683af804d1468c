package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/levers"
)

func selftestCommand() *cobra.Command {
	var dryRun, asJSON bool
	c := &cobra.Command{
		Use:   "selftest",
		Short: "prove, with no daemon, that each lever moves here",
		Long: `selftest moves each lever a little for a moment, reads it back and puts it back: another governor, a
power limit one step below. It takes the daemon's lock and journals the values found first, so that
"qunerd restore" puts back what a crash in its midst leaves. With a daemon running: qunerctl selftest.`,
		Example: "  sudo qunerd selftest --dry-run\n  sudo qunerd selftest",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return selftest(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), dryRun, asJSON)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be tried, and move nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "for scripts")
	return c
}

func selftest(ctx context.Context, out, log io.Writer, dryRun, asJSON bool) error {
	h, err := stateHost()
	if err != nil {
		return err
	}
	return withBank(ctx, h, log, func(bank *levers.Bank) error {
		// No point is in force without a daemon: the way back is the host as found, also for what a dead one has left.
		if err := daemon.LeaveOthers(h, bank, newLog(log, slog.LevelWarn, true)); err != nil {
			return err
		}
		tests, err := bank.Selftest(ctx, nil, dryRun)
		if !dryRun {
			err = errors.Join(err, record(h, log, "qunerd selftest", movesOf(tests)))
		}
		if err := errors.Join(err, showTests(out, tests, asJSON)); err != nil {
			return err
		}
		failed := 0
		for _, t := range tests {
			if t.Failed() {
				failed++
			}
		}
		if failed > 0 {
			return hinted{fmt.Errorf("%d of %d levers do not move and return", failed, len(tests)), "qunerd doctor says what stands in the way"}
		}
		return nil
	})
}

// movesOf are the moves of a self-test, for the history.
func movesOf(tests []levers.Test) []levers.Write {
	var writes []levers.Write
	for _, t := range tests {
		if t.To != "" {
			writes = append(writes, levers.Write{Lever: t.Lever, From: t.From, To: t.To, Unit: t.Unit, Note: string(t.Verdict)})
		}
	}
	return writes
}

func showTests(out io.Writer, tests []levers.Test, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(tests)
	}
	if len(tests) == 0 {
		_, err := fmt.Fprintln(out, "There is no lever on this host to try; qunerd doctor says why.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, t := range tests {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s %s\t%s\n", t.Verdict, t.Lever, t.From, t.To, t.Unit, t.Detail)
	}
	return w.Flush()
}
