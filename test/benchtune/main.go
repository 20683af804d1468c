package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench-tune:", err)
		os.Exit(1) //nolint:gocritic // there is nothing to put back
	}
}

// settings are what the command line decides.
type settings struct {
	data, sigmas, rates, plot string
	kind                      string
	synthetic                 int
	seeds                     int
	json, check, missed       bool
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var s settings
	f := flag.NewFlagSet("bench-tune", flag.ContinueOnError)
	f.StringVar(&s.data, "data", "test/benchtune/testdata", "`directory` of measured curves")
	f.IntVar(&s.synthetic, "synthetic", 0, "replay so many made-up curves of each kind instead")
	f.StringVar(&s.kind, "kind", "", "only made-up curves whose kind begins with this `name`")
	f.IntVar(&s.seeds, "seeds", 100, "sweeps a curve")
	f.StringVar(&s.sigmas, "sigma", "0.5,1,2,3", "noise a window, in `percent`")
	f.StringVar(&s.rates, "rate-noise", "0,0.5", "noise on work/s beside it, in `σ`; the bars are for the first")
	f.StringVar(&s.plot, "plot", "", "also draw into this SVG `file`")
	f.BoolVar(&s.json, "json", false, "one JSON object as the last line")
	f.BoolVar(&s.check, "check", false, "fail if a bar is missed")
	f.BoolVar(&s.missed, "missed", false, "name the curves that were missed at σ = 2 %")
	if err := f.Parse(args); err != nil {
		return err
	}
	b, skipped, err := s.bench()
	if err != nil {
		return err
	}
	for _, name := range skipped {
		fmt.Fprintln(out, "skipped:", name)
	}
	began := time.Now()
	r, err := b.Run(ctx)
	if err != nil {
		return err
	}
	return s.tell(out, b, r, time.Since(began))
}

// bench is what the settings ask for.
func (s settings) bench() (b Bench, skipped []string, err error) {
	b.Seeds = s.seeds
	if s.seeds < 1 {
		return b, nil, fmt.Errorf("-seeds %d: not above zero", s.seeds)
	}
	if b.Sigmas, err = numbers(s.sigmas); err != nil {
		return b, nil, err
	}
	if b.Rates, err = numbers(s.rates); err != nil {
		return b, nil, err
	}
	if s.synthetic > 0 {
		for _, c := range Synthetic(s.synthetic) {
			if strings.HasPrefix(c.Name, s.kind) {
				b.Curves = append(b.Curves, c)
			}
		}
		if len(b.Curves) == 0 {
			err = fmt.Errorf("-kind %q: there is none", s.kind)
		}
		return b, nil, err
	}
	b.Curves, skipped, err = ReadDir(s.data)
	return b, skipped, err
}

func numbers(list string) ([]float64, error) {
	var all []float64
	for _, text := range strings.Split(list, ",") {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v <= 50) {
			return nil, fmt.Errorf("%q: not a number from 0 to 50", text)
		}
		all = append(all, v)
	}
	return all, nil
}

// tell prints everything.
func (s settings) tell(out io.Writer, b Bench, r Result, took time.Duration) error {
	flat, between := 0, 0
	for _, c := range b.Curves {
		switch spread := c.spread(); {
		case spread < flatBelow:
			flat++
		case spread <= flatAbove:
			between++
		}
	}
	n := len(b.Curves)
	fmt.Fprintf(out, "%d curves (%d flat, %d not, %d between), %d seeds each, slowdown limit %g %%, %v\n",
		n, flat, n-flat-between, between, b.Seeds, 100*maxSlowdown, took.Round(100*time.Millisecond))
	r.Print(out, b)
	drawable := slices.Contains(b.Sigmas, barSigma)
	if drawable {
		r.picture(b).Text(out)
	}
	if s.missed {
		printMissed(out, r, b)
	}
	if s.plot != "" && drawable {
		var svg bytes.Buffer
		if err := r.picture(b).SVG(&svg); err != nil {
			return err
		}
		if err := os.WriteFile(s.plot, svg.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if s.json {
		line, err := r.JSON(b, map[string]any{
			"data": s.data, "curves": n, "flat": flat, "between": between, "seeds": b.Seeds,
			"noise": Model(b.Rates[0]), "seconds": took.Seconds(),
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", line)
	}
	if s.check {
		for _, bar := range bars(r.Scores[Cell{nameCertified, barSigma, b.Rates[0]}]) {
			if !bar.Met {
				return fmt.Errorf("%s is %.4g, limit %.4g", bar.Name, bar.Value, bar.Limit)
			}
		}
	}
	return nil
}

// printMissed names the curves whose choice was out of band most often.
func printMissed(out io.Writer, r Result, b Bench) {
	for _, rate := range b.Rates {
		missed := r.Missed[Cell{nameCertified, barSigma, rate}]
		order := make([]string, 0, len(missed))
		for name := range missed {
			order = append(order, name)
		}
		slices.SortFunc(order, func(x, y string) int {
			if d := missed[y] - missed[x]; d != 0 {
				return d
			}
			return strings.Compare(x, y)
		})
		fmt.Fprintf(out, "\nout of band at σ = %d %%, %g σ on work/s, of %d:\n", barSigma, rate, b.Seeds)
		for _, name := range order {
			fmt.Fprintf(out, "  %4d  %s\n", missed[name], name)
		}
	}
}
