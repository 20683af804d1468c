package doctor

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Print writes the report as tables for people.
func (r Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nLevers: %d of %d can be moved\n", r.Host, r.Usable(), len(r.Levers))
	rows := [][]string{{"  LEVER", "NOW", "CHOICES", "WHY NOT"}}
	var remedies []string
	for _, l := range r.Levers {
		rows = append(rows, []string{"  " + l.Name, l.Value, l.Range, why(string(l.Reason), l.Detail)})
		remedies = addRemedy(remedies, l.Name, l.Remedy)
	}
	table(&b, rows)
	fmt.Fprintf(&b, "\nEnergy counters\n")
	rows = [][]string{{"  COUNTER", "DEVICE", "SOURCE", "WHY NOT COUNTED"}}
	for _, c := range r.Counters {
		rows = append(rows, []string{"  " + c.Name, c.Label, string(c.Backend), why(c.Reason, c.Detail)})
		remedies = addRemedy(remedies, c.Name, c.Remedy)
	}
	table(&b, rows)
	if len(remedies) > 0 {
		fmt.Fprintf(&b, "\nWhat would help\n%s", strings.Join(remedies, ""))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func why(reason, detail string) string {
	if reason == "" || detail == "" {
		return reason
	}
	return reason + ": " + detail
}

// addRemedy adds one that was not yet said.
func addRemedy(all []string, name, remedy string) []string {
	if remedy == "" {
		return all
	}
	for _, said := range all {
		if strings.HasSuffix(said, ": "+remedy+"\n") {
			return all
		}
	}
	return append(all, fmt.Sprintf("  %s: %s\n", name, remedy))
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
