package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) rollbackCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Print shell lines that restore the host with no daemon",
		Long: `Print shell lines that restore the host with no daemon; nothing is moved. To put the
host back now: qunerctl apply --restore.`,
		Example: "  sudo qunerctl rollback --print > put-back.sh",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := ask(cmd.Context(), a, a.admin, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.RollbackResponse, error) {
				return qunerv1.NewAdminServiceClient(conn).Rollback(ctx, &qunerv1.RollbackRequest{})
			})
			if f := a.classify(cmd, err); err != nil && f.code == exitUnreachable && errors.Is(err, client.ErrUnreachable) {
				f.hint = a.sudo() + "qunerd rollback --print"
				return f
			}
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, answer)
			}
			script := strings.TrimRight(answer.GetScript(), "\n")
			if script == "" {
				a.err.printf("nothing is moved: the host is as it was found\n")
				return nil
			}
			a.out.printf("%s\n", script)
			return nil
		},
	}
	cmd.Flags().Bool("print", true, "print the lines, which is all that it does")
	return cmd
}
