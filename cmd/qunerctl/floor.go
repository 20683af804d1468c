package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) floorCmd() *cobra.Command {
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the idle floors measured on this machine",
		Example: "  qunerctl floor list",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listFloors(cmd.Context()) },
	}
	cmd := &cobra.Command{
		Use:   "floor",
		Short: "What each device draws at rest, which metered work is not charged for",
		Long: `What each device draws at rest: its idle floor. A window of "meter", or of a service, is charged
above it, so that work pays for the power it caused and not for the machine being on. A floor
belongs to a device, to an operating point (moving a lever moves the floor) and, of a GPU, to a
state: "bare", or "context" while a compute context is open and does nothing. It does not hold
with another kernel or GPU driver. --idle-watts of "meter" goes before any floor.`,
		Example: "  qunerctl floor\n  sudo qunerctl floor measure\n  sudo qunerctl floor measure --all-points",
		Args:    noArgs,
		RunE:    list.RunE,
	}
	cmd.AddCommand(list, a.floorMeasureCmd(), a.floorForgetCmd())
	return cmd
}

func (a *app) floorForgetCmd() *cobra.Command {
	var all, dryRun bool
	cmd := &cobra.Command{
		Use:               "forget ID…",
		Short:             "Forget idle floors; windows opened from then on have none",
		Long:              `Forget idle floors; windows opened from then on have none. ID may be the beginning of one.`,
		Example:           "  sudo qunerctl floor forget a1b2\n  sudo qunerctl floor forget --all --dry-run",
		ValidArgsFunction: a.floorIDs,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 0) != all {
				return usagef("qunerctl floor list shows the ids", "floor forget: want ids, or --all; got %s", quoteOrNothing(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			ids, err := a.wholeFloorIDs(cmd.Context(), ids)
			if err != nil {
				return err
			}
			r := &qunerv1.ForgetFloorsRequest{Ids: ids, All: all, DryRun: dryRun}
			answer, err := ask(cmd.Context(), a, a.admin, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.ForgetFloorsResponse, error) {
				return qunerv1.NewAdminServiceClient(conn).ForgetFloors(ctx, r)
			})
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, answer)
			}
			verb := "forgotten"
			if dryRun {
				verb = "would be forgotten"
			}
			a.out.printf("%s %s%s\n", plural(len(answer.GetForgotten()), "floor"), verb, listed(len(answer.GetForgotten())))
			a.floorTable(answer.GetForgotten())
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "forget every floor")
	dryRunFlag(cmd, &dryRun)
	return cmd
}

func (a *app) floors(ctx context.Context) (*qunerv1.ListFloorsResponse, error) {
	return ask(ctx, a, a.reader, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.ListFloorsResponse, error) {
		return qunerv1.NewMeterServiceClient(conn).ListFloors(ctx, &qunerv1.ListFloorsRequest{})
	})
}

// wholeFloorIDs are the ids that these begin.
func (a *app) wholeFloorIDs(ctx context.Context, typed []string) ([]string, error) {
	if len(typed) == 0 {
		return nil, nil
	}
	floors, err := a.floors(ctx)
	if err != nil {
		return nil, err
	}
	whole := make([]string, len(typed))
	for i, id := range typed {
		found := slices.DeleteFunc(slices.Clone(floors.GetFloors()), func(f *qunerv1.Floor) bool { return !strings.HasPrefix(f.GetId(), id) })
		if len(found) != 1 || id == "" {
			what := "there is none"
			if len(found) > 1 {
				what = fmt.Sprintf("%d begin so", len(found))
			}
			return nil, &failure{error: fmt.Errorf("floor %s: %s", quote(id), what), code: exitError, hint: "qunerctl floor list"}
		}
		whole[i] = found[0].GetId()
	}
	return whole, nil
}

// floorIDs completes the ids of floors that have not been named yet.
func (a *app) floorIDs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	answer, err := a.floors(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for _, f := range answer.GetFloors() {
		if !slices.Contains(args, f.GetId()) {
			ids = append(ids, cobra.CompletionWithDesc(f.GetId(), short(f.GetDevice())+" "+floorWatts(f)))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) listFloors(ctx context.Context) error {
	floors, err := a.floors(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, floors)
	}
	if len(floors.GetFloors()) == 0 {
		a.out.printf("No idle floor has been measured on this machine. When it is at rest:\n  %s\n", a.out.style(bold, a.asRoot("floor measure")))
		return nil
	}
	a.floorTable(floors.GetFloors())
	return nil
}

func (a *app) floorTable(floors []*qunerv1.Floor) {
	rows := make([][]cell, 0, len(floors))
	for _, f := range floors {
		use := text(floorUse(f))
		if f.GetVoidReason() != "" || f.GetSuspect() {
			use.look = yellow
		}
		rows = append(rows, []cell{
			text(f.GetId()), text(short(f.GetDevice())), text(floorState(f)), figure(floorWatts(f)),
			text(ago(f.GetToUnixNs())), text(floorPoint(f)), use,
		})
	}
	if len(rows) > 0 {
		a.out.table([]string{"ID", "DEVICE", "STATE", "FLOOR", "MEASURED", "POINT", "USE"}, rows)
	}
}

func floorWatts(f *qunerv1.Floor) string {
	return quantity(micro(f.GetMeanUw()), micro(f.GetHalfWidthUw()), "W")
}

// floorState is a GPU's level at rest; others have one only.
func floorState(f *qunerv1.Floor) string {
	switch {
	case f.GetState() == qunerv1.FloorState_FLOOR_STATE_CONTEXT:
		return "context"
	case strings.HasPrefix(f.GetDevice(), "gpu/"):
		return "bare"
	}
	return "-"
}

func floorPoint(f *qunerv1.Floor) string {
	if len(f.GetSettings()) == 0 {
		return "as found"
	}
	return settingWords(f.GetSettings())
}

func floorUse(f *qunerv1.Floor) string {
	switch {
	case f.GetVoidReason() != "":
		return "no: " + f.GetVoidReason()
	case f.GetSuspect():
		return "suspect: three windows were below it; measure it again"
	case f.GetInForce():
		return "yes, now"
	}
	return "yes, at that point"
}

// The shortest and longest measurement that qunerd takes.
const (
	shortestFloor = 30 * time.Second
	longestFloor  = time.Hour
)
