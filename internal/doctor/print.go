package doctor

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
)

// Print writes the report for people: who contests what first, then what works, then what does not and why.
func (r Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Host)
	for _, c := range r.Conflicts {
		c.print(&b)
	}
	r.printLevers(&b)
	r.printCounters(&b)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\n%s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c Conflict) print(b *strings.Builder) {
	unit := ""
	if c.PID > 0 {
		unit = " (process " + strconv.Itoa(c.PID) + ")"
	}
	fmt.Fprintf(b, "\n! %s runs%s: %s.\n", c.Daemon, unit, strings.TrimPrefix(c.Detail, c.Daemon+" "))
	if c.Certain() && len(c.Contests) > 0 {
		fmt.Fprintf(b, "    quner leaves that to it. To move it all the same: sudo qunerctl levers take %s\n", c.Contests[0])
	}
	fmt.Fprintf(b, "    to end it: %s\n", c.Remedy)
}

func (r Report) printLevers(b *strings.Builder) {
	fmt.Fprintf(b, "\nLevers: %d of %d can be moved\n", r.Usable(), len(r.Levers))
	rows := [][]string{{"  LEVER", "WHAT", "NOW", "CAN BE", "STATE"}}
	var absent []string
	var troubles strings.Builder
	for _, g := range families(r.Levers) {
		l, name := g[0], familyName(g)
		switch {
		case l.Present:
			rows = append(rows, []string{"  " + name, What(l.Kind), l.now(), l.Range, l.standing()})
		case l.Reason == host.Absent && l.Remedy == "":
			absent = append(absent, What(l.Kind)+": "+l.Why)
			continue
		}
		if !l.Movable() && l.Why != "" && l.State != levers.Yielded {
			trouble(&troubles, name, What(l.Kind), l.Why, string(l.Reason), l.Remedy)
		}
	}
	table(b, rows)
	b.WriteString(troubles.String())
	if len(absent) > 0 {
		fmt.Fprintf(b, "  Not on this machine: %s.\n", strings.Join(absent, "; "))
	}
}

func trouble(b *strings.Builder, name, what, why, reason, remedy string) {
	fmt.Fprintf(b, "  - %s, %s: %s (%s)\n", name, what, why, reason)
	if remedy != "" {
		fmt.Fprintf(b, "      do: %s\n", remedy)
	}
}

func (r Report) printCounters(b *strings.Builder) {
	fmt.Fprintf(b, "\nEnergy counters: %d of %d are charged\n", r.Charged(), len(r.Counters))
	rows := [][]string{{"  COUNTER", "DEVICE", "SOURCE", "NOT CHARGED BECAUSE"}}
	var troubles strings.Builder
	for _, c := range r.Counters {
		if c.Counted || c.Remedy == "" {
			rows = append(rows, []string{"  " + c.Name, c.Label, string(c.Backend), c.Why})
			continue
		}
		trouble(&troubles, c.Name, c.Label, c.Why, c.Reason, c.Remedy)
	}
	table(b, rows)
	b.WriteString(troubles.String())
}

// now is the lever's value, and what binds if that is another.
func (l Lever) now() string {
	if l.Effective != "" {
		return l.Value + " (in force: " + l.Effective + ")"
	}
	return l.Value
}

// standing is what quner has to do with a lever that is there.
func (l Lever) standing() string {
	switch {
	case l.State == levers.Held:
		return "held by quner, found as " + l.Found
	case l.State == levers.Yielded && l.Owner != OwnerOthers && l.Owner != "":
		return "left to " + l.Owner
	case l.State == levers.Yielded:
		return "left to others: " + l.Why
	case l.Reason == host.NoPermission:
		return "needs root"
	case !l.Movable():
		return "cannot be moved"
	}
	return "free"
}

// What names a kind of lever for people.
func What(k levers.Kind) string {
	switch k {
	case levers.Governor:
		return "CPU governor"
	case levers.EnergyPreference:
		return "CPU energy preference"
	case levers.PackageLimit:
		return "CPU package power limit"
	case levers.GPUCap:
		return "NVIDIA GPU power cap"
	case levers.AMDCap:
		return "AMD GPU power cap"
	}
	return string(k)
}

// families puts levers of one kind that say the same together: eight policies with one governor are one row.
func families(all []Lever) [][]Lever {
	at := map[string]int{}
	var groups [][]Lever
	for _, l := range all {
		stem := strings.TrimRight(l.Name, "0123456789")
		if l.Kind != levers.Governor && l.Kind != levers.EnergyPreference {
			stem = l.Name
		}
		key := fmt.Sprintf("%q", []string{stem, l.now(), l.Range, l.standing(), string(l.Reason), l.Why, l.Remedy})
		if i, ok := at[key]; ok {
			groups[i] = append(groups[i], l)
			continue
		}
		at[key] = len(groups)
		groups = append(groups, []Lever{l})
	}
	return groups
}

// familyName is "cpufreq/policy0-7" where the numbers run on, else the first and how many more.
func familyName(g []Lever) string {
	first := g[0].Name
	if len(g) == 1 {
		return first
	}
	stem := strings.TrimRight(first, "0123456789")
	n, _ := strconv.Atoi(first[len(stem):])
	gap := slices.IndexFunc(g, func(l Lever) bool {
		on := l.Name == stem+strconv.Itoa(n)
		n++
		return !on
	})
	if gap >= 0 {
		return fmt.Sprintf("%s and %d more", first, len(g)-1)
	}
	return fmt.Sprintf("%s-%d", first, n-1)
}

func table(b *strings.Builder, rows [][]string) {
	if len(rows) == 1 {
		b.WriteString("  none\n")
		return
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t "))
	}
	t.Flush() //nolint:errcheck // a Builder takes everything
}
