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
		c.print(&b, r.has)
	}
	r.printLevers(&b)
	r.printCounters(&b)
	r.printPassports(&b)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\n%s\n", n)
	}
	if r.Usable() > 0 {
		b.WriteString("\nTo see each lever move and go back: sudo qunerd selftest\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c Conflict) print(b *strings.Builder, here func(levers.Kind) bool) {
	process := ""
	if c.PID > 0 {
		process = " (process " + strconv.Itoa(c.PID) + ")"
	}
	fmt.Fprintf(b, "\n! %s runs%s and %s.\n", c.Daemon, process, strings.TrimPrefix(c.Detail, c.Daemon+" "))
	var take []string
	for _, k := range c.Contests {
		if here(k) {
			take = append(take, "sudo qunerctl levers take "+string(k))
		}
	}
	if c.Certain() && len(take) > 0 {
		fmt.Fprintf(b, "    quner leaves that to it. To have quner move it all the same: %s\n", strings.Join(take, " && "))
	}
	fmt.Fprintf(b, "    To end it: %s\n", c.Remedy)
}

func (r Report) printLevers(b *strings.Builder) {
	heading := "can be moved: none"
	if n := r.Usable(); n > 0 {
		heading = "can be moved: " + strconv.Itoa(n)
	}
	fmt.Fprintf(b, "\nLevers that %s\n", heading)
	rows := [][]string{{"  LEVER", "WHAT", "NOW", "CAN BE", "STATE"}}
	var lacks []lack
	for _, g := range families(r.Levers) {
		l, name := g[0], familyName(g)
		if l.Present {
			rows = append(rows, []string{"  " + name, what(l), l.now(), l.Range, l.standing()})
		}
		if !l.Movable() && l.Why != "" && l.State != levers.Yielded {
			if l.Present {
				name += ": " + what(l)
			} else {
				name = what(l)
			}
			lacks = add(lacks, lack{[]string{name}, l.Why, string(l.Reason), l.Remedy})
		}
	}
	if len(rows) > 1 {
		table(b, rows)
	}
	printLacks(b, lacks)
}

// lack is something that does not work, and all that it holds for.
type lack struct {
	of                  []string
	why, reason, remedy string
}

// add puts what is lacking for the same reason together.
func add(all []lack, l lack) []lack {
	for i := range all {
		o := &all[i]
		if o.why == l.why && o.reason == l.reason && o.remedy == l.remedy {
			if !slices.Contains(o.of, l.of[0]) {
				o.of = append(o.of, l.of...)
			}
			return all
		}
	}
	return append(all, l)
}

func printLacks(b *strings.Builder, all []lack) {
	for _, l := range all {
		fmt.Fprintf(b, "  - %s: %s (%s)\n", strings.Join(l.of, ", "), l.why, l.reason)
		if l.remedy != "" {
			fmt.Fprintf(b, "      do: %s\n", l.remedy)
		}
	}
}

func (r Report) printCounters(b *strings.Builder) {
	n := "none"
	if c := r.Charged(); c > 0 {
		n = strconv.Itoa(c)
	}
	fmt.Fprintf(b, "\nEnergy counters that add up to what a window costs: %s\n", n)
	rows := [][]string{{"  COUNTER", "DEVICE", "SOURCE", "NOT ADDED"}}
	var lacks []lack
	for _, c := range r.Counters {
		if c.Counted || c.Remedy == "" && rank(c) < 2 {
			rows = append(rows, []string{"  " + c.Name, c.Label, string(c.Backend), c.Why})
			continue
		}
		name := c.Name
		if rank(c) == 2 {
			name = c.Label
		}
		lacks = add(lacks, lack{[]string{name}, c.Why, c.Reason, c.Remedy})
	}
	if len(rows) > 1 {
		table(b, rows)
	}
	printLacks(b, lacks)
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
	return "as found"
}

// has reports whether a kind of lever is on this host.
func (r Report) has(k levers.Kind) bool {
	return slices.ContainsFunc(r.Levers, func(l Lever) bool { return l.Kind == k && l.Present })
}

// what names a lever's kind for people.
func what(l Lever) string {
	switch k := l.Kind; k {
	case levers.Governor:
		return "CPU governor"
	case levers.EnergyPreference:
		return "CPU energy preference"
	case levers.PackageLimit:
		if strings.HasPrefix(l.Name, "rapl-mmio/") {
			return "CPU package cap, through MMIO"
		}
		return "CPU package cap"
	case levers.GPUCap:
		return "NVIDIA GPU cap"
	case levers.AMDCap:
		return "AMD GPU cap"
	}
	return string(l.Kind)
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
	var wide strings.Builder
	t := tabwriter.NewWriter(&wide, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush() //nolint:errcheck // a Builder takes everything
	for line := range strings.Lines(wide.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}
