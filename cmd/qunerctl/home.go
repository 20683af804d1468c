package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/unit"
)

// home is qunerctl alone: what the machine does now, and the one thing that is worth doing.
func (a *app) home(ctx context.Context) error {
	s, err := a.status(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, s)
	}
	if s.GetSimulated() {
		a.out.printf("This machine is simulated: %s.\n\n", s.GetHost())
	}
	a.out.table(nil, a.facts(s))
	if old := asOf(s); old != "" {
		a.out.printf("\nThis is the picture %s.\n", strings.TrimPrefix(old, ", "))
	}
	switch n := leftToOthers(s.GetLevers()); n {
	case 0:
	case 1:
		a.out.printf("\n1 lever is left to others: qunerctl levers\n")
	default:
		a.out.printf("\n%s are left to others: qunerctl levers\n", plural(n, "lever"))
	}
	a.out.printf("\n%s\n", a.next(s))
	return nil
}

func (a *app) status(ctx context.Context) (*qunerv1.Status, error) {
	answer, err := ask(ctx, a, a.reader, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.StatusResponse, error) {
		return qunerv1.NewStatusServiceClient(conn).Status(ctx, &qunerv1.StatusRequest{})
	})
	return answer.GetStatus(), err
}

// facts are the four lines that home and status begin with.
func (a *app) facts(s *qunerv1.Status) [][]cell {
	power, parts := now(s)
	rows := [][]cell{
		{heading("profile"), text(profileWord(s.GetProfile()) + ", " + modeWords(s.GetMode()))},
		{heading("point"), text(pointWords(s.GetPointSource()))},
		{heading("levers"), text(leversNow(s.GetLevers()))},
		{heading("power"), text(power)},
	}
	if parts != "" {
		rows[3][1].text += "   (" + parts + ")"
	}
	return rows
}

// leversNow is the operating point in one line.
func leversNow(levers []*qunerv1.LeverState) string {
	if len(levers) == 0 {
		return "none on this machine; metering works without"
	}
	var points []string
	for _, kind := range grouped(levers, (*qunerv1.LeverState).GetKind) {
		points = append(points, kindWord(kind[0].GetKind())+" "+valuesNow(kind))
	}
	return strings.Join(points, ", ")
}

// valuesNow are the values of the levers of a kind: "performance", or with how many have each "performance (2), schedutil (6)".
func valuesNow(levers []*qunerv1.LeverState) string {
	groups := grouped(levers, func(l *qunerv1.LeverState) string { return value(l.GetValue(), l.GetUnit()) })
	var words []string
	for _, g := range groups {
		word := orWord(value(g[0].GetValue(), g[0].GetUnit()), "not known")
		if len(groups) > 1 {
			word += fmt.Sprintf(" (%d)", len(g))
		}
		words = append(words, word)
	}
	if len(words) > 4 {
		words = append(words[:3], "…")
	}
	return strings.Join(words, ", ")
}

// leftToOthers are the levers that quner leaves alone.
func leftToOthers(levers []*qunerv1.LeverState) (n int) {
	for _, l := range levers {
		if l.GetState() == "yielded" {
			n++
		}
	}
	return n
}

func kindWord(kind string) string {
	switch kind {
	case "governor":
		return "CPU governor"
	case "epp":
		return "CPU energy preference"
	case "gpu":
		return "GPU cap"
	case "amdgpu":
		return "AMD GPU cap"
	case "package":
		return "CPU package cap"
	default:
		return kind
	}
}

// now sums what is charged by default and names the parts. A device that is not known is named, never counted as 0.
func now(s *qunerv1.Status) (total, parts string) {
	var sum unit.Power
	var known, unknown []string
	for _, d := range s.GetDevices() {
		if !charged(d.GetDevice()) {
			continue
		}
		if !d.GetKnown() {
			state := " not known"
			switch strings.ToLower(d.GetReason()) {
			case "sleeping", "suspended":
				state = " asleep"
			case firstTick:
				state = " at the next tick"
			}
			unknown = append(unknown, deviceWord(d.GetDevice(), d.GetLabel())+state)
			continue
		}
		sum += unit.Power(d.GetPowerUw())
		known = append(known, deviceWord(d.GetDevice(), d.GetLabel())+" "+watts(unit.Power(d.GetPowerUw())))
	}
	switch {
	case len(known) == 0 && len(unknown) == 0:
		return "not known: no energy counter", ""
	case len(known) == 0:
		return "not known", strings.Join(unknown, ", ")
	}
	return watts(sum), strings.Join(append(known, unknown...), ", ")
}

// firstTick is the reason a device gives for its power while there has been one reading only.
const firstTick = "short_window"

// charged tells whether a device is one of those that a window charges by default; the others are contained in them
// (core) or contain them (psys).
func charged(device string) bool {
	kind, rest, _ := strings.Cut(device, "/")
	_, domain, sub := strings.Cut(rest, "/")
	return kind == "gpu" || kind == "cpu" && strings.HasPrefix(rest, "package-") && (!sub || domain == "dram")
}

func deviceWord(device, label string) string {
	if label != "" {
		return label
	}
	return short(device)
}

// worthTuning tells whether there is something to tune now: a sweep at rest finds what rest is not about.
func worthTuning(s *qunerv1.Status) bool {
	return s.GetNeedsTune() && s.GetProfile() != qunerv1.Profile_PROFILE_IDLE && leftToOthers(s.GetLevers()) < len(s.GetLevers())
}

// next is the one thing to do.
func (a *app) next(s *qunerv1.Status) string {
	do := func(why, command string) string {
		return fmt.Sprintf("%s\n  %s", strings.Join(wrap(why, a.out.columns()), "\n"), a.out.style(bold, a.asCalled(command)))
	}
	switch {
	case s.GetTune().GetRunning():
		return fmt.Sprintf("A sweep is running, window %d; leave the machine alone until it ends.", s.GetTune().GetWindow())
	case len(s.GetDegraded()) > 0:
		return do("Not all is well: "+s.GetDegraded()[0], "qunerctl doctor")
	case s.GetMode().GetMode() == qunerv1.Mode_MODE_OFF && slices.ContainsFunc(s.GetLevers(), isHeld):
		return do("quner is paused, and a lever is not back yet, as its note says.", "qunerctl status")
	case s.GetMode().GetMode() == qunerv1.Mode_MODE_OFF:
		return do("quner is paused: the host is as it was found.", a.asRoot("resume"))
	case len(s.GetLevers()) == 0:
		return do("There is nothing to tune here; any command can be metered:", "qunerctl meter -- COMMAND")
	case worthTuning(s):
		return do("This machine has never been tuned for what it does now. Find its best point with your own workload:",
			a.asRoot("tune --apply -- COMMAND"))
	case s.GetRevalidate() && s.GetProfile() != qunerv1.Profile_PROFILE_IDLE:
		return do("The point in force was tuned before the kernel, the microcode or the driver changed. Tune again:",
			a.asRoot("tune --apply -- COMMAND"))
	default:
		return do("Nothing needs doing. What does a command cost?", "qunerctl meter -- COMMAND")
	}
}

func isHeld(l *qunerv1.LeverState) bool { return l.GetState() == "held" }
