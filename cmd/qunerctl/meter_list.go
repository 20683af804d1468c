package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// listFlags are what meter list is told.
type listFlags struct {
	request qunerv1.ListRequest
	watch   bool
	every   durationValue
}

func (a *app) meterListCmd() *cobra.Command {
	f := &listFlags{every: durationValue(time.Second)}
	cmd := a.scriptVerb(&cobra.Command{
		Use:   "list",
		Short: "List your windows, and what they come to",
		Long: `List your windows that are open, those of programs too, with what each has come
to so far. With --closed also the results of those that have ended, which are
kept for an hour. Nobody sees another user's.

With --sum add those results up, with the interval of the sum: what the
counters' steps hide at the ends adds in quadrature, an idle floor's ± linearly,
since it is wrong in each window alike. Windows too small each to be told from
nothing are in the sum, which were biased without them.`,
		Example: "  qunerctl meter list --watch\n  qunerctl meter list --closed\n  qunerctl meter list --sum --name epoch",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.watch && (f.request.Closed || f.request.Sum || f.request.GetName()+f.request.GetWorkload() != ""):
				return usagef("qunerctl meter list --watch", "meter list: --watch is of all windows that are open, and goes with no other choice")
			case time.Duration(f.every) < 100*time.Millisecond || time.Duration(f.every) > time.Hour:
				return wrongValue(cmd.CommandPath()+" --watch --every 1s", "--every", f.every.String(), "a duration from 100ms to 1h")
			case cmd.Flags().Changed("every") && !f.watch:
				return usagef("qunerctl meter list --watch --every "+f.every.String(), "meter list: --every goes with --watch")
			case f.watch:
				return a.watchWindows(cmd.Context(), time.Duration(f.every))
			}
			answer, err := a.windows(cmd.Context(), &f.request)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, answer)
			}
			a.windowsPage(answer, &f.request)
			return nil
		},
	})
	flags := cmd.Flags()
	flags.BoolVar(&f.request.Closed, "closed", false, "also those that have ended, with their results")
	flags.BoolVar(&f.request.Sum, "sum", false, "what those that have ended come to together")
	flags.StringVar(&f.request.Name, "name", "", "only windows of this `NAME`")
	flags.StringVar(&f.request.Workload, "workload", "", "only windows of this `WORKLOAD`")
	flags.BoolVar(&f.watch, "watch", false, "go on showing those that are open; Ctrl-C ends it")
	flags.Var(&f.every, "every", "`DURATION` between two looks with --watch, 100ms to 1h")
	return cmd
}

// windowsPage tells what a person asked for: what is open, what has ended, what that comes to.
func (a *app) windowsPage(l *qunerv1.ListResponse, r *qunerv1.ListRequest) {
	if !r.GetSum() || r.GetClosed() {
		a.openTable(l.GetWindows())
	}
	if r.GetClosed() {
		a.closedTable(l)
	}
	if r.GetSum() {
		a.sumPage(l)
	}
	if n := l.GetLeftOut(); n > 0 {
		a.out.para("note: ", plain, plural(int(n), "window")+" more have no room on this page; they are in the sum")
	}
}

// openTable is a row a window that is open.
func (a *app) openTable(windows []*qunerv1.RunningWindow) {
	if len(windows) == 0 {
		a.out.printf("No window of yours is open.\n")
		return
	}
	rows := make([][]cell, 0, len(windows))
	for _, w := range windows {
		energy := cell{text: "not known yet", right: true, look: yellow}
		if w.EnergyUj != nil {
			energy = figure(joules(w.GetEnergyUj(), 0))
		}
		rows = append(rows, []cell{
			text(shortID(w.GetId())), text(w.GetName()), figure(span(time.Duration(w.GetDurationNs()))), energy,
			text(lifeWords(w)), {text: runningWords(w), look: dim},
		})
	}
	a.out.table([]string{"ID", "NAME", "OPEN FOR", "ENERGY", "UNTIL", ""}, rows)
}

// shortID is as much of an id as tells windows apart.
func shortID(id string) string { return id[:min(8, len(id))] }

// lifeWords say what ends the window.
func lifeWords(w *qunerv1.RunningWindow) string {
	left := shortDuration(time.Duration(w.GetLeftNs()).Round(time.Second))
	switch w.GetLife() {
	case qunerv1.WindowLife_WINDOW_LIFE_DETACHED:
		return "closed, or in " + left
	case qunerv1.WindowLife_WINDOW_LIFE_WAITING:
		return "taken up by its program, or in " + left
	default:
		return "its program closes it"
	}
}

// runningWords are what else there is to know of a window that is open.
func runningWords(w *qunerv1.RunningWindow) string {
	var said []string
	if w.EnergyUj != nil && w.GetAboveIdle() {
		said = append(said, "above idle")
	}
	if n := w.GetStages(); n > 0 {
		said = append(said, plural(int(n), "stage"))
	}
	for _, reason := range w.GetReasons() {
		said = append(said, reasonWords(reason))
	}
	return strings.Join(said, "; ")
}

// closedTable is a row a window that has ended.
func (a *app) closedTable(l *qunerv1.ListResponse) {
	if len(l.GetClosed()) == 0 {
		a.out.printf("No window of yours has ended within %s.\n", span(time.Duration(l.GetKeptNs())))
		return
	}
	rows := make([][]cell, 0, len(l.GetClosed()))
	for _, c := range l.GetClosed() {
		w := c.GetResult()
		energy, per := energyWords(client.Result{Window: w}), ""
		if j, half, ok := (client.Result{Window: w}).JoulesPerUnit(); ok {
			per = quantity(j, half, "J") + " per " + singular(w.GetUnit())
		}
		rows = append(rows, []cell{
			text(shortID(w.GetId())), text(w.GetName()), figure(ago(c.GetEndedUnixNs())), figure(brief(time.Duration(w.GetDurationNs()))),
			text(energy), text(per), {text: partingWords(w), look: dim},
		})
	}
	a.out.printf("\n")
	a.out.table([]string{"ID", "NAME", "ENDED", "LASTED", "ENERGY", "", ""}, rows)
}

// partingWords say how a window ended that nobody closed.
func partingWords(w *qunerv1.WindowResult) string {
	for _, reason := range w.GetReasons() {
		if reason == "orphaned" || reason == "time_limit" {
			return reasonWords(reason)
		}
	}
	return ""
}

// sumPage tells what windows come to together.
func (a *app) sumPage(l *qunerv1.ListResponse) {
	s := l.GetSum()
	if s.GetWindows() == 0 {
		a.out.printf("No window of yours has ended within %s: there is nothing to add up.\n", span(time.Duration(l.GetKeptNs())))
		return
	}
	a.out.printf("\n")
	a.out.para("", bold, "Energy of "+plural(int(s.GetWindows()), "window"))
	energy := "unknown"
	if s.EnergyUj != nil {
		energy = joules(s.GetEnergyUj(), s.GetHalfWidthUj())
		if s.GetAboveIdle() {
			energy += " above idle"
		}
	}
	rows := [][]cell{{heading("energy"), {text: energy, look: green}},
		{heading("time"), text(brief(time.Duration(s.GetDurationNs())) + " in all windows together")}}
	if s.JoulesPerUnit != nil {
		rows = append(rows, []cell{heading("per " + singular(s.GetUnit())),
			text(quantity(s.GetJoulesPerUnit(), s.GetJoulesPerUnitHalfWidth(), "J") +
				"   (" + amount(s.GetWork()) + " " + orWord(s.GetUnit(), "units") + ")")})
	}
	if t := s.GetTerms(); t != nil {
		rows = append(rows, []cell{heading("±"), text(termsWords(t))})
	}
	a.out.table(nil, rows)
	if n := int(s.GetSmall()); n > 0 {
		a.out.para("  note: ", plain, plural(n, "window")+" of these cannot be told from nothing each by itself; the sum holds what they showed")
	}
	if n := int(s.GetUnmeasured()); n > 0 {
		said := fmt.Sprintf("of %s a device was not measured, and is not in the sum", plural(n, "window"))
		if s.UpperBoundUj != nil {
			said += fmt.Sprintf(": at most %s in all", joules(s.GetUpperBoundUj(), 0))
		}
		a.out.para("  note: ", plain, said)
	}
	if !s.GetAboveIdle() && s.EnergyUj != nil {
		a.out.para("  note: ", plain, "not every device had an idle floor: the sum holds what the machine burns at rest too")
	}
	if s.GetWindows() >= l.GetKeptResults() {
		a.out.para("  note: ", plain, fmt.Sprintf("%d results are kept at most: older ones are not in the sum", l.GetKeptResults()))
	}
}

// termsWords are the parts of an interval that are not nothing.
func termsWords(t *qunerv1.Terms) string {
	var said []string
	for _, part := range []struct {
		what string
		uj   int64
	}{{"ends", t.GetEdgesUj()}, {"idle floor", t.GetFloorUj()}, {"sensors", t.GetGainUj()}, {"clock", t.GetClockUj()}} {
		if part.uj > 0 {
			said = append(said, part.what+" "+joules(part.uj, 0))
		}
	}
	return strings.Join(said, ", ")
}

// watchWindows shows the windows that are open again and again.
func (a *app) watchWindows(ctx context.Context, every time.Duration) error {
	c, err := a.reader(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	pictures, err := qunerv1.NewMeterServiceClient(cleanConn{c.Conn()}).Watch(ctx, &qunerv1.WatchRequest{IntervalNs: int64(every)})
	if err != nil {
		return err
	}
	next := func() (*qunerv1.WatchResponse, error) {
		picture, err := pictures.Recv()
		if errors.Is(err, io.EOF) {
			err = &failure{error: errors.New("qunerd has ended"), code: exitUnreachable, hint: a.startHint()}
		}
		return picture, err
	}
	if file, ok := a.out.Writer.(*os.File); ok && a.out.tty && !a.json {
		err = watchPage(ctx, file, next, func(l *qunerv1.WatchResponse) {
			a.draw(file, "every "+shortDuration(every)+", Ctrl-C to leave", func(on *app) { on.openTable(l.GetWindows()) })
		})
	} else {
		err = a.watchWindowLines(next)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watchWindowLines prints a line for each window of each picture.
func (a *app) watchWindowLines(next func() (*qunerv1.WatchResponse, error)) error {
	for {
		l, err := next()
		if err != nil {
			return err
		}
		if a.json {
			if err := writeJSONLine(a.out, l); err != nil {
				return err
			}
			continue
		}
		at := time.Now().Format(time.TimeOnly)
		for _, w := range l.GetWindows() {
			energy := "not known yet"
			if w.EnergyUj != nil {
				energy = joules(w.GetEnergyUj(), 0)
			}
			a.out.printf("%s  %s  %s  %s  %s\n", at, shortID(w.GetId()), w.GetName(), span(time.Duration(w.GetDurationNs())), energy)
		}
		if err := a.out.failed(); err != nil { // there is nobody to show it to
			return err
		}
	}
}
