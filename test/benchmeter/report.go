package benchmeter

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// Report is what was measured of all cells. Figures may be added by many at once.
type Report struct {
	mu          sync.Mutex
	figures     map[Cell][][]Figure // by batch
	summaries   map[Cell]Summary
	differences map[Cell]Summary // of a plain difference of two readings, instead of the meter
}

// Add takes in the figures of a cell's batch i. What is added in which order makes no difference.
func (r *Report) Add(c Cell, i int, figures []Figure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.figures == nil {
		r.figures = map[Cell][][]Figure{}
	}
	batches := r.figures[c]
	for len(batches) <= i {
		batches = append(batches, nil)
	}
	batches[i] = figures
	r.figures[c] = batches
}

// Summarise makes the summaries of what was added. It must be called before what follows.
func (r *Report) Summarise() {
	r.summaries, r.differences = map[Cell]Summary{}, map[Cell]Summary{}
	for c, batches := range r.figures {
		all := slices.Concat(batches...)
		r.summaries[c] = Summarise(all)
		if c.Mode == Plain { // its windows are asked for at no special moment
			r.differences[c] = Summarise(Differences(c, all))
		}
	}
}

// cells returns what was measured, in the order of the table.
func (r *Report) cells() []Cell {
	var all []Cell
	for c := range r.summaries {
		all = append(all, c)
	}
	slices.SortFunc(all, compare)
	return all
}

func compare(a, b Cell) int {
	for _, d := range []int{
		strings.Compare(a.Load, b.Load), int(a.Step - b.Step), int(a.Window - b.Window), strings.Compare(a.Mode, b.Mode),
	} {
		if d != 0 {
			return d
		}
	}
	return 0
}

// modes are the columns of the table.
func modes() []string { return []string{Aligned, WaitEdge, Plain} }

// Print writes the table, the comparison and the bars for people.
func (r *Report) Print(out io.Writer) {
	var load string
	var step, window time.Duration
	for _, c := range r.cells() {
		if c.Load != load || c.Step != step {
			load, step, window = c.Load, c.Step, 0
			fmt.Fprintf(out, "\n%s, the counter steps every %v; %%\n%9s", load, step, "")
			for _, m := range modes() {
				fmt.Fprintf(out, " │ %-34s", m)
			}
			fmt.Fprintf(out, "\n%9s", "window")
			for range modes() {
				fmt.Fprintf(out, " │ %6s %6s %6s %6s %6s", "error", "sd", "±", "inside", "unkn.")
			}
			fmt.Fprintln(out)
		}
		if c.Window == window {
			continue
		}
		window = c.Window
		fmt.Fprintf(out, "%9v", window)
		for _, m := range modes() {
			c.Mode = m
			s, ok := r.summaries[c]
			fmt.Fprintf(out, " │ %s", columns(s, ok))
		}
		fmt.Fprintln(out)
	}
	r.printDifferences(out)
	r.printBars(out)
}

// columns are a summary's figures in the table.
func columns(s Summary, ok bool) string {
	if !ok {
		return strings.Repeat(" ", 34)
	}
	return fmt.Sprintf("%6.2f %6.2f %s %s %s",
		100*s.MeanError, 100*s.SD, percent(s.HalfWidth, 2), percent(s.Coverage, 1), percent(&s.Unknown, 1))
}

// percent is a share with so many decimals, or nothing where there is none.
func percent(v *float64, decimals int) string {
	if v == nil {
		return "     –"
	}
	return fmt.Sprintf("%6.*f", decimals, 100**v)
}

func (r *Report) printDifferences(out io.Writer) {
	first := true
	for _, c := range r.cells() {
		s, ok := r.differences[c]
		if !ok || c.Window != time.Second || c.Step != 100*time.Millisecond {
			continue
		}
		if first {
			fmt.Fprintf(out, "\nFor comparison: two readings of the counter, subtracted; 1 s at 100 ms, an edge anywhere in the step\n")
		}
		first = false
		fmt.Fprintf(out, "  %-10s %+.1f %% ± %.1f %% (sd); an interval of ± %s %% holds the truth in %s %%\n",
			c.Load, 100*s.MeanError, 100*s.SD, strings.TrimSpace(percent(s.HalfWidth, 1)), strings.TrimSpace(percent(s.Coverage, 1)))
	}
}

func (r *Report) printBars(out io.Writer) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "BAR\tWORST\tLIMIT\tVERDICT\tWHERE")
	for _, b := range r.Bars() {
		verdict := "met"
		if !b.Met {
			verdict = "missed"
		}
		fmt.Fprintf(w, "%s\t%.2f %%\t%s\t%s\t%s\n", b.Name, 100*b.Value, b.Limit, verdict, b.Where)
	}
	_ = w.Flush() // a terminal that is gone has nobody to tell
}

// byMode and those above it are the object's levels.
type (
	byMode   map[string]Summary
	byWindow struct {
		Window map[string]byMode `json:"window_ms"`
	}
	byStep struct {
		Step map[string]byWindow `json:"step_ms"`
	}
)

// JSON is the report for a program, in one line, beside the conditions it was made under: shares, not percents.
func (r *Report) JSON(conditions map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{
		"load": r.nest(r.summaries), "difference": r.nest(r.differences), "bars": r.Bars(), "conditions": conditions,
	})
}

// nest orders summaries by load, step, window and mode.
func (r *Report) nest(summaries map[Cell]Summary) map[string]byStep {
	loads := map[string]byStep{}
	for _, c := range r.cells() {
		s, ok := summaries[c]
		if !ok {
			continue
		}
		steps, ok := loads[c.Load]
		if !ok {
			steps.Step = map[string]byWindow{}
			loads[c.Load] = steps
		}
		windows, ok := steps.Step[ms(c.Step)]
		if !ok {
			windows.Window = map[string]byMode{}
			steps.Step[ms(c.Step)] = windows
		}
		if windows.Window[ms(c.Window)] == nil {
			windows.Window[ms(c.Window)] = byMode{}
		}
		windows.Window[ms(c.Window)][c.Mode] = s
	}
	return loads
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
