package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/deploy/systemd"
)

func (a *app) doctorCmd() *cobra.Command {
	var bundle string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "What this host exposes: each lever and counter, with reasons and remedies",
		Long: `What this host exposes: each lever and counter, with reasons and remedies.

The exit code is 0 even where there is no lever: that is a finding, not an error.
With no daemon, "sudo qunerd doctor" looks for itself.

--bundle writes a bug report: what doctor, status and history say, the configuration, versions, the
daemon's last journal lines, and this machine as "qunerd doctor --capture" writes it down, which
others can run. What is in it is listed before it is written; what could not be had is listed with
the reason. Names of the host and of people, home paths, UUIDs, MAC addresses and serial numbers are
hashed. As root there is more in it.`,
		Example: "  qunerctl doctor\n  qunerctl doctor --json\n  sudo qunerctl doctor --bundle quner.tar.gz",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case cmd.Flags().Changed("bundle"):
				return a.doctorBundle(cmd.Context(), bundle, dryRun)
			case dryRun:
				return usagef("qunerctl doctor --bundle quner.tar.gz --dry-run", "--dry-run is for --bundle: doctor changes nothing")
			}
			return a.doctor(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&bundle, "bundle", "", "write a bug report with nothing private in it to `FILE`.tar.gz")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "list what would be in the bundle, and write nothing")
	_ = cmd.MarkFlagFilename("bundle", "tar.gz")
	return cmd
}

func (a *app) doctor(ctx context.Context) error {
	r, err := ask(ctx, a, a.reader, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.DoctorResponse, error) {
		return qunerv1.NewStatusServiceClient(conn).Doctor(ctx, &qunerv1.DoctorRequest{})
	})
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, r)
	}
	s, err := a.status(ctx)
	if err != nil {
		return err
	}
	a.doctorPage(r, s.GetDegraded())
	return nil
}

// doctorPage tells what is wrong with the daemon and who contests what first, then what works, then what does not and why.
func (a *app) doctorPage(r *qunerv1.DoctorResponse, notWell []string) {
	simulated := ""
	if r.GetSimulated() {
		simulated = " (simulated)"
	}
	a.out.printf("%s%s, qunerd %s\n", a.out.style(bold, r.GetHost()), simulated, r.GetVersion())
	for _, d := range notWell {
		a.out.printf("\n")
		a.out.para("! not well: ", yellow, d)
	}
	for _, c := range r.GetConflicts() {
		a.conflict(c, r.GetLevers())
	}
	movable := a.doctorLevers(r.GetLevers())
	added := a.doctorCounters(r.GetCounters())
	a.doctorPassports(r.GetCounters())
	for _, n := range r.GetNotes() {
		a.out.printf("\n%s\n", n)
	}
	switch {
	case movable == 0 && added == 0:
		a.out.printf("\nNothing can be moved or measured here: windows will say unknown, and nothing will break.\n")
	case movable == 0:
		a.out.printf("\nNothing can be tuned here as it is; metering works: qunerctl meter -- COMMAND\n")
	case added == 0:
		a.out.printf("\nWithout a counter no state can be told from another: tuning will report speeds alone.\n")
	default:
		a.out.printf("\nTo see each lever move and go back: sudo qunerctl selftest\n")
	}
	if _, other := a.otherDaemon(); !other && a.hasUnit() {
		a.out.printf("\nTo stop quner for good, stop all three units, since its sockets would start it again:\n  %s\n", a.stopCommand())
	}
}

// stopCommand ends the service and what would start it again: the sockets first, or a connection that waits starts the
// service between the two.
func (a *app) stopCommand() string {
	return a.sudo() + strings.Join([]string{"systemctl disable --now", systemd.PublicSocket, systemd.AdminSocket, systemd.Service}, " ")
}

// conflict prints a service that does what quner does, and how to end that.
func (a *app) conflict(c *qunerv1.ConflictReport, levers []*qunerv1.LeverReport) {
	process := ""
	if c.GetPid() > 0 {
		process = fmt.Sprintf(" (process %d)", c.GetPid())
	}
	a.out.printf("\n%s %s runs%s and %s.\n", a.out.style(yellow, "!"), a.out.style(bold, c.GetDaemon()), process,
		strings.TrimPrefix(c.GetDetail(), c.GetDaemon()+" "))
	var take []string
	left := false
	for _, kind := range c.GetContests() {
		for _, l := range levers {
			if l.GetKind() == kind && l.GetPresent() && c.GetUnit() != "" {
				left = left || l.GetOwner() == c.GetDaemon()
				if cmd := "sudo qunerctl levers take " + kind; l.GetOwner() == c.GetDaemon() && !slices.Contains(take, cmd) {
					take = append(take, cmd)
				}
			}
		}
	}
	if left {
		a.out.printf("    quner leaves that to it. To have quner move it all the same: %s\n", strings.Join(take, " && "))
	}
	a.out.printf("    To end it: %s\n", c.GetRemedy())
}

// lack is something that does not work, and all that it holds for.
type lack struct {
	of                  []string
	why, reason, remedy string
}

// addLack puts what is lacking for the same reason together.
func addLack(all []lack, of, why, reason, remedy string) []lack {
	for i := range all {
		o := &all[i]
		if o.why == why && o.reason == reason && o.remedy == remedy {
			if !slices.Contains(o.of, of) {
				o.of = append(o.of, of)
			}
			return all
		}
	}
	return append(all, lack{[]string{of}, why, reason, remedy})
}

func (a *app) lacks(all []lack) {
	for _, l := range all {
		a.out.printf("  %s %s: %s (%s)\n", a.out.style(yellow, "-"), strings.Join(l.of, ", "), strings.TrimSuffix(l.why, "."), l.reason)
		if l.remedy != "" {
			a.out.printf("      do: %s\n", l.remedy)
		}
	}
}

// movable reports whether quner can move a lever and may.
func movable(l *qunerv1.LeverReport) bool {
	return l.GetWritable() && l.GetReason() == "" && l.GetState() != "yielded" && l.GetState() != "lost"
}

func (a *app) doctorLevers(levers []*qunerv1.LeverReport) (usable int) {
	var rows [][]cell
	var lacks []lack
	for _, g := range grouped(levers, func(l *qunerv1.LeverReport) string {
		stem, _, _ := numbered(l.GetName())
		return strings.Join([]string{stem, l.GetValue(), l.GetEffective(), l.GetRange(), l.GetReason(), l.GetWhy(), l.GetRemedy(),
			l.GetOwner(), l.GetState(), l.GetFound(), fmt.Sprint(l.GetPresent(), l.GetReadable(), l.GetWritable())}, "\x00")
	}) {
		l, name := g[0], familyInFull(names(g))
		if movable(l) {
			usable += len(g)
		}
		if l.GetPresent() {
			now := l.GetValue()
			if l.GetEffective() != "" {
				now += " (in force: " + l.GetEffective() + ")"
			}
			rows = append(rows, []cell{text(name), text(leverWord(l)), text(now), text(l.GetRange()), standing(l)})
		}
		if why := cmp.Or(l.GetWhy(), l.GetDetail()); !movable(l) && l.GetState() != "yielded" && why != "" {
			of := leverWord(l)
			if l.GetPresent() {
				of = name + ": " + of
			}
			lacks = addLack(lacks, of, why, l.GetReason(), l.GetRemedy())
		}
	}
	a.out.printf("\n%s %s\n", a.out.style(bold, "Levers that can be moved:"), numberOrNone(usable))
	if len(rows) > 0 {
		a.out.table([]string{"LEVER", "WHAT", "NOW", "CAN BE", "STATE"}, rows)
	}
	a.lacks(lacks)
	return usable
}

// leverWord names a lever's kind in full.
func leverWord(l *qunerv1.LeverReport) string {
	switch {
	case strings.HasPrefix(l.GetName(), "rapl-mmio/"):
		return kindWord(l.GetKind()) + ", through MMIO"
	case l.GetKind() == "gpu":
		return "NVIDIA " + kindWord(l.GetKind())
	}
	return kindWord(l.GetKind())
}

// standing is what quner has to do with a lever.
func standing(l *qunerv1.LeverReport) cell {
	switch {
	case l.GetState() == "held":
		return text("held by quner, found as " + l.GetFound())
	case l.GetState() == "yielded" && l.GetOwner() != "others" && l.GetOwner() != "":
		return cell{text: "left to " + l.GetOwner(), look: yellow}
	case l.GetState() == "yielded":
		return cell{text: "left to others: " + l.GetWhy(), look: yellow}
	case !movable(l):
		return cell{text: "cannot be moved", look: yellow}
	}
	return cell{text: "as found", look: green}
}

func (a *app) doctorCounters(counters []*qunerv1.CounterReport) (charged int) {
	var rows [][]cell
	var lacks []lack
	for _, c := range counters {
		switch {
		case c.GetCounted():
			charged++
			fallthrough
		case apart(c.GetReason()):
			rows = append(rows, []cell{text(c.GetName()), text(c.GetLabel()), text(c.GetBackend()), {text: c.GetWhy(), look: dim}})
		case c.GetBackend() == "none":
			lacks = addLack(lacks, c.GetLabel(), cmp.Or(c.GetWhy(), c.GetDetail()), c.GetReason(), c.GetRemedy())
		default:
			lacks = addLack(lacks, c.GetName(), cmp.Or(c.GetWhy(), c.GetDetail()), c.GetReason(), c.GetRemedy())
		}
	}
	a.out.printf("\n%s %s\n", a.out.style(bold, "Energy counters that add up to what a window costs:"), numberOrNone(charged))
	if len(rows) > 0 {
		a.out.table([]string{"COUNTER", "DEVICE", "SOURCE", "NOT ADDED"}, rows)
	}
	a.lacks(lacks)
	return charged
}

// apart tells whether a counter that is not added up works: its reason is no lack.
func apart(reason string) bool {
	return reason == "contained" || reason == "twin" || reason == "platform"
}

func numberOrNone(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

// familyInFull is family with whole UUIDs, which one needs for --devices.
func familyInFull(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return family(list)
}
