package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/unit"
)

func (a *app) statusCmd() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Profile, mode, operating point read back from the hardware, power, last sweep",
		Long: `Profile, mode, operating point read back from the hardware, power, last sweep.

With --watch the page fills the terminal and follows the daemon until Ctrl-C; what
the window has no room for is cut. Where the output is no terminal, a line is printed
at each change, and with --json one object a line.`,
		Example: "  qunerctl status\n  qunerctl status --watch",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch {
				return a.watch(cmd.Context())
			}
			s, err := a.status(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, s)
			}
			a.statusPage(s)
			return nil
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on showing until Ctrl-C")
	return cmd
}

func (a *app) statusPage(s *qunerv1.Status) {
	where := ""
	if s.GetSimulated() {
		where = ", simulated host " + s.GetHost()
	}
	up := time.Since(time.Unix(0, s.GetStartedUnixNs()))
	a.out.printf("%s%s, up %s%s\n\n", a.out.style(bold, "qunerd "+s.GetVersion()), where, span(max(0, up)), asOf(s))

	facts := a.facts(s)
	facts[2] = []cell{heading("signal"), text(signalWords(s))}
	power, _ := now(s)
	facts[3][1].text = power
	facts = append(facts, []cell{heading("sweep"), text(sweepWords(s.GetTune()))})
	if words := savedSumWords(s.GetSavings()); words != "" {
		facts = append(facts, []cell{heading("saved"), text(words)})
	}
	if words := restWords(s.GetRetune()); words != "" {
		facts = append(facts, []cell{heading("at rest"), text(words)})
	}
	if n := int(s.GetOpenWindows()); n > 0 {
		facts = append(facts, []cell{heading("windows"), text(plural(n, "window") + " being metered")})
	}
	a.out.table(nil, facts)
	for _, d := range s.GetDegraded() {
		a.out.para("  not well: ", yellow, d)
	}
	if len(s.GetLevers()) > 0 {
		a.out.printf("\n")
		a.leverTable(s.GetLevers())
	}
	a.powerTable(s.GetDevices())
	if n := len(s.GetMissing()); n > 0 {
		a.out.printf("\n%s\n", a.out.style(dim, plural(n, "control")+" this host does not offer: qunerctl doctor says why"))
	}
	a.out.printf("\n%s\n", a.next(s))
}

// freshFor is how old a picture may be that passes for the present.
const freshFor = 2 * time.Second

// asOf says how old the picture is, if it is.
func asOf(s *qunerv1.Status) string {
	age := time.Since(time.Unix(0, s.GetTimeUnixNs()))
	if age <= freshFor {
		return ""
	}
	return ", as of " + span(age.Round(time.Second)) + " ago"
}

// signalWords say what the detector sees and where it leans.
func signalWords(s *qunerv1.Status) string {
	g := s.GetSignal()
	gpu := "no GPU"
	if g.GpuUtilisation != nil {
		gpu = fmt.Sprintf("GPU %.0f %%", 100*g.GetGpuUtilisation())
	}
	seen := fmt.Sprintf("%s, load %.2f on %s", gpu, g.GetLoad1(), plural(int(g.GetCpus()), "CPU"))
	if p := g.GetProposes(); p != qunerv1.Profile_PROFILE_UNSPECIFIED && p != s.GetProfile() && s.GetMode().GetMode() == qunerv1.Mode_MODE_AUTO {
		seen += fmt.Sprintf("; looks like %s (%d of %d samples)", profileWord(g.GetProposes()), g.GetAgreeing(), g.GetNeeded())
	}
	return seen
}

func sweepWords(t *qunerv1.TuneState) string {
	of := ""
	if t.GetWorkload() != "" {
		of = ", workload " + t.GetWorkload()
	}
	switch {
	case t.GetRunning():
		return fmt.Sprintf("running%s, window %d", of, t.GetWindow())
	case t.GetLastUnixNs() == 0:
		return "none yet"
	default:
		return fmt.Sprintf("%s%s, %s", verdictShort(t.GetLastVerdict()), of, ago(t.GetLastUnixNs()))
	}
}

func (a *app) leverTable(levers []*qunerv1.LeverState) {
	rows := make([][]cell, 0, len(levers))
	for _, g := range grouped(levers, func(l *qunerv1.LeverState) string {
		stem, _, _ := numbered(l.GetName())
		return stem + "\x00" + l.GetValue() + "\x00" + l.GetFound() + "\x00" + l.GetWanted() + "\x00" + l.GetState() + "\x00" + l.GetNote()
	}) {
		l := g[0]
		found := value(l.GetFound(), l.GetUnit())
		state, look := "free", plain
		switch l.GetState() {
		case "held":
			state = "held by quner"
		case "yielded":
			state, look = "left to others", yellow
		case "lost":
			state, look = "lost", yellow
		}
		note := strings.TrimPrefix(l.GetNote(), "yielded: ")
		rows = append(rows, []cell{
			text(family(names(g))), text(kindWord(l.GetKind())), text(value(l.GetValue(), l.GetUnit())), text(found),
			{text: state, look: look}, {text: note, look: dim},
		})
	}
	a.out.table([]string{"LEVER", "KIND", "NOW", "FOUND AS", "STATE", "NOTE"}, rows)
}

func (a *app) powerTable(devices []*qunerv1.DevicePower) {
	rows := make([][]cell, 0, len(devices))
	for _, d := range devices {
		p := cell{text: watts(unit.Power(d.GetPowerUw())), right: true}
		if !d.GetKnown() {
			p = cell{text: "not known", right: true, look: yellow}
		}
		why := ""
		switch d.GetReason() {
		case "":
		case firstTick:
			why = "at the next tick: a mean needs two readings"
		default:
			why = reasonWords(d.GetReason())
		}
		rows = append(rows, []cell{text(short(d.GetDevice())), text(d.GetLabel()), p, text(d.GetBackend()), text(why)})
	}
	if len(rows) > 0 {
		a.out.printf("\n")
		a.out.table([]string{"DEVICE", "", "POWER", "SOURCE", "NOTE"}, rows)
	}
}
