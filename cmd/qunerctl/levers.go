package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) leversCmd() *cobra.Command {
	list := &cobra.Command{
		Use:     "list",
		Short:   "Each lever: what it is, and whose it is (with --json: the whole status)",
		Example: "  qunerctl levers list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.status(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, s)
			}
			if len(s.GetLevers()) == 0 {
				a.out.printf("This machine has no lever: qunerctl doctor says why.\n")
				return nil
			}
			a.leverTable(s.GetLevers())
			return nil
		},
	}
	cmd := &cobra.Command{
		Use:   "levers",
		Short: "Who owns each lever; take one for quner, or leave it to others",
		Long: `Who owns each lever. A lever that another power daemon contests, or that somebody has
moved by hand, is left to them; "take" makes it quner's, whoever else runs, and "yield" puts
back the value found and leaves the lever alone from then on. Both survive the daemon.

NAME is a lever (cpufreq/policy0), several as they are listed (cpufreq/policy0-7), the beginning of
a board's (nvml/GPU-6f1d2c44), or a kind for all of it (governor, epp, package, gpu).`,
		Example: "  qunerctl levers\n  sudo qunerctl levers yield governor\n  sudo qunerctl levers take cpufreq/policy0 --dry-run",
		Args:    noArgs,
		RunE:    list.RunE,
	}
	cmd.AddCommand(list,
		a.ownerCmd("take", "Make a lever quner's, whoever else runs", qunerv1.LeverOwner_LEVER_OWNER_QUNER),
		a.ownerCmd("yield", "Put a lever back as found and leave it to others", qunerv1.LeverOwner_LEVER_OWNER_OTHERS))
	return cmd
}

// leverError makes a wrong call of a name that is no lever's, where the host has any.
func leverError(err error) error {
	var answered interface{ GRPCStatus() *status.Status }
	if errors.As(err, &answered) {
		if s := answered.GRPCStatus(); s.Code() == codes.NotFound && !strings.Contains(s.Message(), "none at all") {
			return usagef("qunerctl levers list", "%s", s.Message())
		}
	}
	return err
}

func (a *app) ownerCmd(verb, what string, o qunerv1.LeverOwner) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:               verb + " NAME",
		Short:             what,
		ValidArgsFunction: a.leverNames,
		Example:           "  sudo qunerctl levers " + verb + " governor",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("qunerctl levers list shows the names", "levers %s: want one lever or kind, got %s", verb, quoteOrNothing(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r := &qunerv1.SetLeverOwnerRequest{Lever: args[0], Owner: o, DryRun: dryRun}
			answer, err := ask(cmd.Context(), a, a.admin, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.SetLeverOwnerResponse, error) {
				return qunerv1.NewAdminServiceClient(conn).SetLeverOwner(ctx, r)
			})
			if err != nil {
				return leverError(err)
			}
			if a.json {
				return writeJSON(a.out, answer)
			}
			whose := "quner's, whoever else runs"
			if o == qunerv1.LeverOwner_LEVER_OWNER_OTHERS {
				whose = "left to others"
			}
			is := "is"
			if dryRun {
				is = "would be"
			}
			a.out.printf("%s %s %s.\n", family(answer.GetLevers()), is, whose)
			a.written(answer.GetWrites(), dryRun)
			return nil
		},
	}
	dryRunFlag(cmd, &dryRun)
	return cmd
}
