package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "What this host exposes: each lever and counter, with reasons and remedies",
		Long: `What this host exposes: each lever and counter, with reasons and remedies.

The exit code is 0 even where there is no lever: that is a finding, not an error.
With no daemon, "sudo qunerd doctor" looks for itself.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := ask(cmd.Context(), a, a.reader, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.DoctorResponse, error) {
				return qunerv1.NewStatusServiceClient(conn).Doctor(ctx, &qunerv1.DoctorRequest{})
			})
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, r)
			}
			a.doctorPage(r)
			return nil
		},
	}
}

func (a *app) doctorPage(r *qunerv1.DoctorResponse) {
	simulated := ""
	if r.GetSimulated() {
		simulated = " (simulated)"
	}
	a.out.printf("%s%s, qunerd %s\n\n", a.out.style(bold, r.GetHost()), simulated, r.GetVersion())

	a.out.printf("%s\n", a.out.style(bold, "Levers: what quner can move"))
	usable := a.doctorLevers(r.GetLevers())
	a.out.printf("\n%s\n", a.out.style(bold, "Counters: what quner can measure"))
	charged := a.doctorCounters(r.GetCounters())

	a.out.printf("\n%d of %s usable, %d of %s charged.\n", usable, plural(len(r.GetLevers()), "lever"), charged, plural(len(r.GetCounters()), "counter"))
	switch {
	case usable == 0 && charged == 0:
		a.out.printf("Nothing can be moved or measured here: windows will say unknown, and nothing will break.\n")
	case usable == 0:
		a.out.printf("Nothing can be tuned here; metering works: qunerctl meter -- COMMAND\n")
	case charged == 0:
		a.out.printf("Without a counter no state can be told from another: tuning will report speeds alone.\n")
	}
}

// remarks prints what stands below a table.
func (a *app) remarks(list []string) {
	if len(list) > 0 {
		a.out.printf("\n")
	}
	for _, r := range list {
		a.out.printf("  %s\n", r)
	}
}

// remark is a problem with what to do about it.
func remark(name, detail, remedy string) []string {
	if detail == "" && remedy == "" {
		return nil
	}
	said := strings.TrimSuffix(detail, ".")
	if remedy == "" {
		return []string{fmt.Sprintf("%s: %s", name, said)}
	}
	if said == "" {
		return []string{fmt.Sprintf("%s: do: %s", name, remedy)}
	}
	return []string{fmt.Sprintf("%s: %s", name, said), strings.Repeat(" ", 2) + "do: " + remedy}
}

func (a *app) doctorLevers(levers []*qunerv1.LeverReport) (usable int) {
	var rows [][]cell
	var remarks []string
	for _, g := range grouped(levers, func(l *qunerv1.LeverReport) string {
		stem, _, _ := numbered(l.GetName())
		return strings.Join([]string{stem, l.GetValue(), l.GetRange(), l.GetReason(), l.GetDetail(), l.GetRemedy(),
			fmt.Sprint(l.GetPresent(), l.GetReadable(), l.GetWritable())}, "\x00")
	}) {
		l, name := g[0], familyInFull(names(g))
		mark := cell{text: "ok", look: green}
		switch {
		case l.GetReason() == "" && l.GetWritable():
			usable += len(g)
		case l.GetReadable():
			mark = cell{text: "read", look: yellow}
		default:
			mark = cell{text: "no", look: yellow}
		}
		rows = append(rows, []cell{mark, text(name), text(kindWord(l.GetKind())), text(l.GetValue()), text(l.GetRange()), text(l.GetReason())})
		if mark.text != "ok" {
			remarks = append(remarks, remark(name, l.GetDetail(), l.GetRemedy())...)
		}
	}
	if len(rows) == 0 {
		a.out.printf("  none\n")
		return 0
	}
	a.out.table([]string{"", "NAME", "KIND", "NOW", "CHOICES", "REASON"}, rows)
	a.remarks(remarks)
	return usable
}

func (a *app) doctorCounters(counters []*qunerv1.CounterReport) (charged int) {
	var rows [][]cell
	var remarks []string
	for _, c := range counters {
		mark, why := cell{text: "ok", look: green}, ""
		switch {
		case c.GetCounted():
			charged++
		case apart(c.GetReason()) != "":
			mark, why = cell{text: "-", look: dim}, apart(c.GetReason())
		default:
			mark, why = cell{text: "no", look: yellow}, c.GetReason()
			remarks = append(remarks, remark(c.GetName(), c.GetDetail(), c.GetRemedy())...)
		}
		rows = append(rows, []cell{mark, text(c.GetName()), text(c.GetLabel()), text(c.GetBackend()), text(why)})
	}
	if len(rows) == 0 {
		a.out.printf("  none\n")
		return 0
	}
	a.out.table([]string{"", "NAME", "", "SOURCE", "NOT CHARGED BECAUSE"}, rows)
	a.remarks(remarks)
	return charged
}

// apart says why a counter that works is not charged; empty if the reason is a lack.
func apart(reason string) string {
	switch reason {
	case "contained":
		return "part of another"
	case "twin":
		return "the same as another"
	case "platform":
		return "the whole machine, told apart"
	default:
		return ""
	}
}

// familyInFull is family with whole UUIDs, which one needs for --devices.
func familyInFull(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return family(list)
}
