package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) pointsCmd() *cobra.Command {
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the cached tuned points",
		Example: "  qunerctl points list",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listPoints(cmd.Context()) },
	}
	cmd := &cobra.Command{
		Use:     "points",
		Short:   "The cached tuned points and their evidence",
		Example: "  qunerctl points\n  qunerctl points show a1b2\n  sudo qunerctl points forget a1b2",
		Args:    noArgs,
		RunE:    list.RunE,
	}
	cmd.AddCommand(list, a.pointsShowCmd(), a.pointsForgetCmd())
	return cmd
}

func (a *app) pointsShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Show a point: its settings and the evidence behind it",
		Long:              `Show a point: its settings and the evidence behind it. ID may be the beginning of one.`,
		Example:           "  qunerctl points show a1b2",
		ValidArgsFunction: a.pointIDs(1),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("qunerctl points list shows the ids", "points show: want one id, got %s", quoteOrNothing(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			points, err := a.points(cmd.Context())
			if err != nil {
				return err
			}
			p, err := pick(points.GetPoints(), args[0])
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, p)
			}
			a.pointPage(p)
			return nil
		},
	}
}

func (a *app) pointsForgetCmd() *cobra.Command {
	var all, dryRun bool
	cmd := &cobra.Command{
		Use:               "forget ID…",
		Short:             "Forget cached points; the next sweep finds them anew",
		Long:              `Forget cached points; the next sweep finds them anew. ID may be the beginning of one.`,
		Example:           "  sudo qunerctl points forget a1b2\n  sudo qunerctl points forget --all --dry-run",
		ValidArgsFunction: a.pointIDs(1000),
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 0) != all {
				return usagef("qunerctl points list shows the ids", "points forget: want ids, or --all; got %s", quoteOrNothing(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			ids, err := a.wholeIDs(cmd.Context(), ids)
			if err != nil {
				return err
			}
			r := &qunerv1.ForgetPointsRequest{Ids: ids, All: all, DryRun: dryRun}
			answer, err := ask(cmd.Context(), a, a.admin, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.ForgetPointsResponse, error) {
				return qunerv1.NewAdminServiceClient(conn).ForgetPoints(ctx, r)
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
			a.out.printf("%s %s%s\n", plural(len(answer.GetForgotten()), "point"), verb, listed(len(answer.GetForgotten())))
			a.pointTable(answer.GetForgotten())
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "forget every point")
	dryRunFlag(cmd, &dryRun)
	return cmd
}

// wholeIDs are the ids that these begin.
func (a *app) wholeIDs(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	points, err := a.points(ctx)
	if err != nil {
		return nil, err
	}
	whole := make([]string, len(ids))
	for i, id := range ids {
		p, err := pick(points.GetPoints(), id)
		if err != nil {
			return nil, err
		}
		whole[i] = p.GetId()
	}
	return whole, nil
}

func (a *app) points(ctx context.Context) (*qunerv1.ListPointsResponse, error) {
	return ask(ctx, a, a.reader, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.ListPointsResponse, error) {
		return qunerv1.NewStatusServiceClient(conn).ListPoints(ctx, &qunerv1.ListPointsRequest{})
	})
}

func (a *app) listPoints(ctx context.Context) error {
	points, err := a.points(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, points)
	}
	if len(points.GetPoints()) == 0 {
		return a.noPoints(ctx)
	}
	a.pointTable(points.GetPoints())
	return nil
}

// noPoints says how there could be one.
func (a *app) noPoints(ctx context.Context) error {
	s, err := a.status(ctx)
	if err != nil {
		return err
	}
	if len(s.GetLevers()) == 0 {
		a.out.printf("No point has been tuned: this machine has no lever. Why not:\n  %s\n", a.out.style(bold, "qunerctl doctor"))
		return nil
	}
	a.out.printf("No point has been tuned on this machine yet. Find one with your own workload:\n  %s\n",
		a.out.style(bold, a.asRoot("tune --apply -- COMMAND")))
	return nil
}

func (a *app) pointTable(points []*qunerv1.TunedPoint) {
	rows := make([][]cell, 0, len(points))
	for _, p := range points {
		rows = append(rows, []cell{
			text(p.GetId()), text(profileWord(p.GetProfile())), text(p.GetWorkload()), text(settingWords(p.GetSettings())),
			figure(savedWords(p)), text(ago(p.GetTunedAtUnixNs())), text(fitWords(p)),
		})
	}
	if len(rows) > 0 {
		a.out.table([]string{"ID", "PROFILE", "WORKLOAD", "SETTINGS", "SAVING", "TUNED", "USE"}, rows)
	}
}

func (a *app) pointPage(p *qunerv1.TunedPoint) {
	certified := "not certified"
	if p.GetCertified() {
		certified = "certified"
	}
	rows := [][]cell{
		{heading("point"), text(p.GetId())},
		{heading("profile"), text(profileWord(p.GetProfile()))},
		{heading("workload"), text(p.GetWorkload())},
		{heading("on"), text(p.GetPowerSource())},
		{heading("use"), text(fitWords(p))},
		{heading("verdict"), text(verdictShort(p.GetVerdict()) + ", " + certified + ", for " + p.GetObjective())},
		{heading("saving"), text(savingShort(p.Saving, p.SavingHalfWidth, p.Slowdown, p.SlowdownHalfWidth, orWord(p.GetWorkUnit(), "run")))},
		{heading("evidence"), text(evidenceWords(p))},
		{heading("tuned"), text(ago(p.GetTunedAtUnixNs()))},
		{heading("host"), text(p.GetFingerprint())},
		{heading("changed"), text(strings.Join(p.GetChanged(), "; "))},
	}
	for i, s := range p.GetSettings() {
		name := ""
		if i == 0 {
			name = "settings"
		}
		rows = append(rows, []cell{heading(name), text(short(s.GetLever()) + " = " + value(s.GetValue(), s.GetUnit()))})
	}
	kept := rows[:0]
	for _, r := range rows {
		if r[1].text != "" {
			kept = append(kept, r)
		}
	}
	a.out.table(nil, kept)
	if len(p.GetStates()) > 0 {
		a.out.printf("\n")
		a.stateTable(&qunerv1.TuneReport{Axes: p.GetAxes(), States: p.GetStates(), Verdict: p.GetVerdict(), Certified: p.GetCertified(),
			WorkUnit: p.GetWorkUnit(), MaxSlowdown: p.GetMaxSlowdown()}, true)
	}
}

// evidenceWords are what the point has cost, and what that was worth.
func evidenceWords(p *qunerv1.TunedPoint) string {
	words := plural(int(p.GetWindows()), "window")
	if n := p.GetVoided(); n > 0 {
		words += fmt.Sprintf(" (%d void)", n)
	}
	words += ", " + joules(p.GetSweepEnergyUj(), 0)
	if p.PaybackS != nil && p.GetPaybackS() < math.MaxInt64/float64(time.Second) {
		words += ", paid back after " + longSpan(time.Duration(p.GetPaybackS()*float64(time.Second))) + " of this work"
	}
	return words
}

// savedWords are a point's saving in a table.
func savedWords(p *qunerv1.TunedPoint) string {
	if p.Saving == nil {
		return "not known"
	}
	return percent(p.GetSaving())
}

func settingWords(settings []*qunerv1.Setting) string {
	var words []string
	for _, g := range grouped(settings, func(s *qunerv1.Setting) string {
		stem, _, _ := numbered(s.GetLever())
		return stem + "\x00" + s.GetValue()
	}) {
		levers := make([]string, len(g))
		for i, s := range g {
			levers[i] = s.GetLever()
		}
		words = append(words, family(levers)+" "+value(g[0].GetValue(), g[0].GetUnit()))
	}
	return strings.Join(words, ", ")
}

func fitWords(p *qunerv1.TunedPoint) string {
	switch {
	case !p.GetFits():
		return "no: other hardware"
	case p.GetRevalidate():
		return "yes, but tune again"
	default:
		return "yes"
	}
}

// pick finds the one point whose id begins with what was typed.
func pick(points []*qunerv1.TunedPoint, id string) (*qunerv1.TunedPoint, error) {
	var found []*qunerv1.TunedPoint
	for _, p := range points {
		if p.GetId() == id {
			return p, nil
		}
		if id != "" && strings.HasPrefix(p.GetId(), id) { // an empty variable of a script names none
			found = append(found, p)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, &failure{error: fmt.Errorf("point %s: there is none", quote(id)), code: exitError, hint: "qunerctl points list"}
	default:
		return nil, &failure{error: fmt.Errorf("point %s: %d begin so", quote(id), len(found)), code: exitError, hint: "qunerctl points list"}
	}
}
