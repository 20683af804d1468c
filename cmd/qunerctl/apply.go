package main

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) applyCmd() *cobra.Command {
	var restore, force, dryRun bool
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Apply the current profile's point now, or put the host back",
		Long: `Apply the current profile's point now. With --restore put the host back as found
and pause; what someone else has changed since is left and named, unless --force.`,
		Example: "  sudo qunerctl apply\n  sudo qunerctl apply --restore --dry-run\n  sudo qunerctl apply --restore",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case restore:
				return a.restore(cmd.Context(), &qunerv1.RestoreRequest{Force: force, DryRun: dryRun})
			case force:
				return usagef("qunerctl apply --restore --force", "apply: --force is for --restore alone")
			default:
				return a.apply(cmd.Context(), &qunerv1.ApplyRequest{DryRun: dryRun})
			}
		},
	}
	cmd.Flags().BoolVar(&restore, "restore", false, "put the host back as found, and pause")
	cmd.Flags().BoolVar(&force, "force", false, "also put back what someone else has changed since")
	dryRunFlag(cmd, &dryRun)
	return cmd
}

func (a *app) apply(ctx context.Context, r *qunerv1.ApplyRequest) error {
	answer, err := ask(ctx, a, a.admin, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.ApplyResponse, error) {
		return qunerv1.NewAdminServiceClient(conn).Apply(ctx, r)
	})
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, answer)
	}
	a.out.printf("Point of the %s profile: %s.\n", profileWord(answer.GetProfile()), pointWords(answer.GetPointSource()))
	a.written(answer.GetWrites(), r.GetDryRun())
	return nil
}

func (a *app) restore(ctx context.Context, r *qunerv1.RestoreRequest) error {
	answer, err := ask(ctx, a, a.admin, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.RestoreResponse, error) {
		return qunerv1.NewAdminServiceClient(conn).Restore(ctx, r)
	})
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, answer)
	}
	if !r.GetDryRun() {
		a.out.printf("The host is as it was found, and stays so until qunerctl resume.\n")
	}
	a.written(answer.GetWrites(), r.GetDryRun())
	if left := answer.GetLeft(); len(left) > 0 {
		a.out.printf("%s left as somebody else has set it (--force puts it back too):\n", plural(len(left), "lever"))
		for _, l := range left {
			a.out.para("  ", plain, short(l))
		}
	}
	return nil
}
