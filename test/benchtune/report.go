package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Bar is something that must hold at σ = 2 %, and whether it does.
type Bar struct {
	Name  string  `json:"name"`
	Limit float64 `json:"limit"`
	Value float64 `json:"value"`
	Met   bool    `json:"met"`
}

// barSigma is the noise that the bars are for, in percent.
const barSigma = 2

// bars holds the search's score against its bars.
func bars(s Score) []Bar {
	least := func(name string, v, limit float64) Bar { return Bar{name, limit, v, v >= limit} }
	most := func(name string, v, limit float64) Bar { return Bar{name, limit, v, v <= limit} }
	return []Bar{
		least("in_band", s.InBand, 0.985), most("mean_windows", s.MeanWindows, 15),
		most("mean_regret", s.MeanRegret, 0.0015), most("p99_regret", s.P99Regret, 0.03),
		most("wrong_certified", s.WrongCertified, 0.05), least("flat_recall", s.FlatRecall, 0.98),
		most("slow_violations", s.SlowViolations, 0.05),
	}
}

// Model says in words what noise the figures are of.
func Model(rate float64) string {
	onRate := "none on work/s"
	if rate > 0 {
		onRate = fmt.Sprintf("%g σ on work/s", rate)
	}
	return fmt.Sprintf("independent normal errors a window: σ on joules per work, σ/2 on the device's watts, %s", onRate)
}

// Print writes the tables for people.
func (r Result) Print(out io.Writer, b Bench) {
	for _, rate := range b.Rates {
		fmt.Fprintf(out, "\nNoise: %s\n", Model(rate))
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "σ\tsearch\tin band\twindows\tregret\tp99\tcertified\twrong\tflat recall\ttoo slow\tsaving held\t± \tslowdown held\t")
		for _, sigma := range b.Sigmas {
			for _, name := range names() {
				s := r.Scores[Cell{name, sigma, rate}]
				fmt.Fprintf(w, "%g %%\t%s\t%.2f %%\t%.1f\t%.3f %%\t%.2f %%\t%.1f %%\t%.2f %%\t%.1f %%\t%.2f %%\t%s\t\n",
					sigma, name, 100*s.InBand, s.MeanWindows, 100*s.MeanRegret, 100*s.P99Regret,
					100*s.Certified, 100*s.WrongCertified, 100*s.FlatRecall, 100*s.SlowViolations, s.held())
			}
		}
		_ = w.Flush() // a terminal that is gone has nobody to tell
		if s, ok := r.Scores[Cell{nameCertified, barSigma, rate}]; ok {
			printBars(out, bars(s))
		}
	}
}

// held is what the intervals that a search tells are worth; the simple searches tell none.
func (s Score) held() string {
	if s.Told == 0 {
		return "\t\t"
	}
	return fmt.Sprintf("%.1f %%\t%.1f %%\t%.1f %%", 100*s.SavedHeld, 100*s.SavedHalf, 100*s.SlowdownHeld)
}

func printBars(out io.Writer, all []Bar) {
	fmt.Fprintf(out, "\nBars at σ = %d %%\n", barSigma)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, b := range all {
		verdict := "met"
		if !b.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "  %s\t%.4g\tlimit %.4g\t%s\n", b.Name, b.Value, b.Limit, verdict)
	}
	_ = w.Flush()
}

// JSON is the result for a program, in one line. sigma is the search under the noise of the bars; the same with noise on
// work/s too, by how much, is rate_noise; again is the search from what an earlier sweep has left, others are the simple
// searches.
func (r Result) JSON(b Bench, conditions map[string]any) ([]byte, error) {
	bySigma := func(name string, rate float64) map[string]Score {
		out := map[string]Score{}
		for _, sigma := range b.Sigmas {
			out[key(sigma)] = r.Scores[Cell{name, sigma, rate}]
		}
		return out
	}
	first := b.Rates[0]
	others, again, noisy := map[string]any{}, map[string]any{}, map[string]any{}
	for _, name := range rivals() {
		others[name] = map[string]any{"sigma": bySigma(name, first)}
	}
	for _, name := range starts() {
		again[strings.ReplaceAll(strings.TrimPrefix(name, "again, "), " ", "_")] = map[string]any{"sigma": bySigma(name, first)}
	}
	for _, rate := range b.Rates[1:] {
		noisy[key(rate)] = map[string]any{"sigma": bySigma(nameCertified, rate)}
	}
	object := map[string]any{
		"sigma": bySigma(nameCertified, first), "others": others, "again": again, "rate_noise": noisy,
		"in_band_by_windows": r.Scores[Cell{nameCertified, barSigma, first}].ByBudget, "conditions": conditions,
	}
	if s, ok := r.Scores[Cell{nameCertified, barSigma, first}]; ok {
		object["bars"] = bars(s)
	}
	return json.Marshal(object)
}

func key(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
