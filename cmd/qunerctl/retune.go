package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) retuneCmd() *cobra.Command {
	var r qunerv1.RetuneRequest
	cmd := &cobra.Command{
		Use:   "retune",
		Short: "Find the point at which the machine at rest draws least",
		Long: `Find the operating point at which this machine, at rest, draws least, and keep it for the
idle profile. quner's timer does this every half hour.

Nothing is explored while the machine works, on battery, or while an idle point younger than
30 days fits: that is told, remembered (qunerctl status shows it), and no error. A workload
that begins, and a person who wants the machine, end it: the host is put back at once.`,
		Example: "  sudo qunerctl retune\n  sudo qunerctl retune --dry-run",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.retune(cmd.Context(), &r) },
	}
	cmd.Flags().BoolVar(&r.Fresh, "fresh", false, "start from nothing, also where a point tuned before an update says where to begin")
	dryRunFlag(cmd, &r.DryRun)
	return cmd
}

func (a *app) retune(ctx context.Context, r *qunerv1.RetuneRequest) error {
	c, err := a.admin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	stream, err := qunerv1.NewAdminServiceClient(cleanConn{c.Conn()}).Retune(ctx, r)
	if err != nil {
		return err
	}
	e := &exploration{app: a, line: &progress{s: a.err}, began: time.Now()}
	last, err := e.follow(stream)
	e.line.clear()
	switch {
	case err != nil && ctx.Err() != nil:
		return interrupted("interrupted: qunerd puts the host back as it was before")
	case err != nil:
		return err
	case a.json:
		return writeJSON(a.out, last)
	}
	a.retunePage(last)
	return nil
}

// exploration follows one while it goes on.
type exploration struct {
	app   *app
	line  *progress
	began time.Time
}

// follow shows what happens and returns the last message.
func (e *exploration) follow(stream grpc.ServerStreamingClient[qunerv1.RetuneResponse]) (last *qunerv1.RetuneResponse, err error) {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) && last != nil {
			return last, nil
		}
		if errors.Is(err, io.EOF) {
			return nil, errors.New("qunerd ended the exploration without a word")
		}
		if err != nil {
			return nil, err
		}
		last = m
		if p := m.GetPlan().GetPrior(); p != nil {
			e.line.step("starts from %s", priorWords(p))
		}
		if p := m.GetProgress(); p != nil {
			e.window(p)
		}
	}
}

func (e *exploration) window(p *qunerv1.TuneProgress) {
	at := fmt.Sprintf("window %2d of at most %d  %-9s", p.GetWindow(), p.GetMaxWindows(), strings.Join(p.GetState(), ", "))
	switch {
	case p.GetVoided() != "":
		e.line.step("%s  does not count: %s", at, p.GetVoided())
	case p.Watts != nil:
		e.line.show("%s  %7.1f W  best so far %s  %s", at, p.GetWatts(), p.GetBest(), span(time.Since(e.began).Round(time.Second)))
	}
}

// retunePage tells how an exploration came out, or why there was none.
func (a *app) retunePage(m *qunerv1.RetuneResponse) {
	switch m := m.GetMessage().(type) {
	case *qunerv1.RetuneResponse_Skipped:
		a.out.para("", plain, "Not explored: "+m.Skipped+".")
	case *qunerv1.RetuneResponse_Plan:
		a.out.planPage(m.Plan)
		a.out.printf("Dry run: nothing was measured or written.\n")
	case *qunerv1.RetuneResponse_Report:
		a.restPage(m.Report)
	}
}

func (a *app) restPage(r *qunerv1.TuneReport) {
	a.restTable(r)
	a.uncounted(r)
	a.out.printf("\n")
	switch {
	case r.GetVerdict() == "flat":
		a.out.para("", plain, "At rest the levers make no difference here: the idle profile keeps its cautious default.")
	case r.GetCertified():
		a.out.para("", plain, "At rest "+strings.Join(r.GetChosenLabels(), ", ")+" draws least: "+
			strings.Replace(savingShort(r.Saving, r.SavingHalfWidth, nil, nil, "second"), "joules per second", "watts", 1)+", certified.")
	default:
		a.out.para("", plain, verdictWords(r))
	}
	a.startedFrom(r)
	kept := "Nothing is kept; the host was put back as found."
	if r.GetApplied() {
		kept = "That holds for the idle profile for 30 days."
	}
	a.out.para("", plain, kept)
	if cost := costWords(r, " and cost "); cost != "" {
		a.out.para("", plain, fmt.Sprintf("It took %s%s.", plural(int(r.GetWindows()), "window"), cost))
	}
}

// restTable are the states with what the machine draws in each: at rest there is no other work than time.
func (a *app) restTable(r *qunerv1.TuneReport) {
	var rows [][]cell
	found := foundStates(r)
	for _, s := range r.GetStates() {
		if s.GetWindows() == 0 {
			continue
		}
		row := []cell{text(axisOf(r, s)), text(strings.Join(s.GetState(), ", ")), measuredFigure(s.Watts, s.WattsHalfWidth, "W"),
			figure(strconv.Itoa(int(s.GetWindows()))), text(strings.Join(marks(r, s, found[s.GetAxis()], true), ", "))}
		if chosen(r, s) {
			row[1].look, row[4].look = bold, green
		}
		rows = append(rows, row)
	}
	a.out.table([]string{"LEVERS", "STATE", "HOST DRAWS", "WINDOWS", ""}, rows)
}

// restWords are what became of the explorations at rest, for the status; empty if there was none.
func restWords(r *qunerv1.RetuneState) string {
	words := ""
	if r.GetLastUnixNs() != 0 {
		words = verdictShort(r.GetVerdict()) + ", " + ago(r.GetLastUnixNs())
	}
	if r.GetSkipped() == "" {
		return words
	}
	skipped := "not explored " + ago(r.GetAtUnixNs()) + ": " + r.GetSkipped()
	if words == "" {
		return skipped
	}
	return words + "; " + skipped
}
