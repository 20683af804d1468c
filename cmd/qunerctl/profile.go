package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) profileCmd() *cobra.Command {
	modes := map[string]qunerv1.Mode{
		"idle": qunerv1.Mode_MODE_IDLE, "training": qunerv1.Mode_MODE_TRAINING, "auto": qunerv1.Mode_MODE_AUTO,
	}
	var dryRun bool
	cmd := &cobra.Command{
		Use:       "profile idle|training|auto",
		Short:     "Hold a profile by hand, or go back to automatic",
		Example:   "  sudo qunerctl profile training\n  sudo qunerctl profile auto",
		ValidArgs: []string{"idle", "training", "auto"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || modes[args[0]] == 0 {
				meant := "auto"
				if len(args) == 1 {
					if near, ok := nearest(args[0], []string{"idle", "training", "auto"}); ok {
						meant = near
					}
				}
				return usagef("qunerctl profile "+meant, "profile: want one of idle, training, auto; got %s", quoteOrNothing(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setMode(cmd.Context(), &qunerv1.SetModeRequest{Mode: modes[args[0]], DryRun: dryRun})
		},
	}
	dryRunFlag(cmd, &dryRun)
	return cmd
}

func (a *app) pauseCmd() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "pause [DURATION]",
		Short: "Put the host back as found; metering goes on",
		Long: `Put the host back as found and leave it so, for DURATION (90s, 30m, 2h, 1d) or until
"qunerctl resume". Metering goes on.`,
		Example: "  sudo qunerctl pause\n  sudo qunerctl pause 2h",
		Args:    atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			var d time.Duration
			if len(args) == 1 {
				var err error
				if d, err = parseDuration(args[0]); err != nil {
					return wrongValue("qunerctl pause "+likeDuration(args[0]), "pause", args[0], durationForms)
				}
			}
			return a.setMode(cmd.Context(), &qunerv1.SetModeRequest{Mode: qunerv1.Mode_MODE_OFF, PauseNs: int64(d), DryRun: dryRun})
		},
	}
	dryRunFlag(cmd, &dryRun)
	return cmd
}

func (a *app) resumeCmd() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "resume",
		Short:   "End a pause: back to the mode before it",
		Example: "  sudo qunerctl resume",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := a.setMode(cmd.Context(), &qunerv1.SetModeRequest{Resume: true, DryRun: dryRun})
			if s := status.Convert(err); s.Code() != codes.FailedPrecondition || !strings.Contains(s.Message(), "nothing to resume") {
				return err
			}
			if a.json { // the mode as it is, in the message that resume answers with
				now, err := a.status(cmd.Context())
				if err != nil {
					return err
				}
				return writeJSON(a.out, &qunerv1.SetModeResponse{Mode: now.GetMode()})
			}
			a.out.printf("Not paused: nothing to do.\n")
			return nil
		},
	}
	dryRunFlag(cmd, &dryRun)
	return cmd
}

// dryRunFlag adds the flag that every verb that moves something has.
func dryRunFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "dry-run", false, "print what would be written, and write nothing")
}

func (a *app) setMode(ctx context.Context, r *qunerv1.SetModeRequest) error {
	answer, err := ask(ctx, a, a.admin, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.SetModeResponse, error) {
		return qunerv1.NewAdminServiceClient(conn).SetMode(ctx, r)
	})
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, answer)
	}
	m := answer.GetMode()
	switch mode := m.GetMode(); {
	case r.GetDryRun():
	case mode == qunerv1.Mode_MODE_OFF && m.GetUntilUnixNs() != 0:
		a.out.printf("Paused for %s: %s, metering goes on.\n", span(time.Duration(r.GetPauseNs())), hostNow(answer.GetWrites()))
	case mode == qunerv1.Mode_MODE_OFF:
		a.out.printf("Paused until qunerctl resume: %s, metering goes on.\n", hostNow(answer.GetWrites()))
	case mode == qunerv1.Mode_MODE_AUTO:
		a.out.printf("The profile is chosen automatically.\n")
	default:
		a.out.printf("The profile is held at %s until qunerctl profile auto.\n", enumWord(mode.Descriptor(), mode.Number()))
	}
	a.written(answer.GetWrites(), r.GetDryRun())
	return nil
}

// written tells what was moved, or what would be, and what was looked at and left.
func (a *app) written(writes []*qunerv1.Write, dryRun bool) {
	moved, left := split(writes)
	switch {
	case dryRun && len(moved) == 0:
		a.out.printf("Dry run: there is nothing to write.\n")
	case dryRun:
		a.out.printf("Dry run: %s, none was made.\n", plural(len(moved), "write"))
	case len(moved) == 0:
		a.out.printf("Nothing had to be moved.\n")
	default:
		a.out.printf("%s moved:\n", plural(len(moved), "lever"))
	}
	a.writes(moved)
	if len(left) > 0 {
		as := "it is"
		if len(left) > 1 {
			as = "they are"
		}
		a.out.printf("%s left as %s:\n", plural(len(left), "lever"), as)
		a.writes(left)
	}
}

// split tells writes that move a lever from remarks on one that was left.
func split(writes []*qunerv1.Write) (moved, left []*qunerv1.Write) {
	for _, w := range writes {
		if w.GetFrom() == w.GetTo() {
			left = append(left, w)
		} else {
			moved = append(moved, w)
		}
	}
	return moved, left
}

// hostNow says how the host is after a pause: a lever that was left, such as that of a device that sleeps, is not back.
func hostNow(writes []*qunerv1.Write) string {
	if _, left := split(writes); len(left) > 0 {
		return "the host is as it was found but for what is left below"
	}
	return "the host is as it was found"
}

func quoteOrNothing(args []string) string {
	if len(args) == 0 {
		return "nothing"
	}
	words := make([]string, len(args))
	for i, w := range args {
		words[i] = quote(w)
	}
	return strings.Join(words, " ")
}
