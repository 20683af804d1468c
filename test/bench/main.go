// Command bench measures quner against its budgets, for whoever changes it: what a tick, a window and a daemon at rest
// cost. It prints one table for people and, with -json, one object as the last line, whose keys are those of the figures.
// `make bench` calls it; it listens, writes and starts processes in a directory of its own only.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// options are what the person who measures decides.
type options struct {
	bin    string        // the directory of qunerd and qunerctl
	rest   time.Duration // how long a daemon is watched at rest
	repeat int           // of each measurement; the median counts
	json   bool
}

// figure is one thing measured. Its key is stable, so that figures can be compared over time; the key ends in the unit.
type figure struct {
	key   string
	name  string
	value float64
	unit  string
	bar   float64 // the most it may be; 0 where it only explains another
}

// over reports whether the figure misses its bar.
func (f figure) over() bool { return f.bar > 0 && f.value > f.bar }

func main() { os.Exit(bench()) }

func bench() (status int) {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "the `directory` of qunerd and qunerctl")
	flag.DurationVar(&o.rest, "rest", 40*time.Second, "how long to watch a daemon at rest; 10m for a figure worth quoting")
	flag.IntVar(&o.repeat, "repeat", 5, "how often each thing is measured; the median counts")
	flag.BoolVar(&o.json, "json", false, "one JSON object as the last line")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, o options, out, progress io.Writer) error {
	if o.repeat < 1 || o.rest < time.Second {
		return fmt.Errorf("-repeat %d -rest %v: allowed are 1 or more, and 1s or more", o.repeat, o.rest)
	}
	dir, err := workDir()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	before := loadAverage()
	fmt.Fprintf(progress, "bench: building the tests …\n")
	programs, err := buildSuites(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "bench: starting daemons, then watching one at rest for %v beside the timed loops …\n", o.rest)
	all, err := measureStart(ctx, o, dir)
	if err != nil {
		return err
	}
	atRest := make(chan outcome, 1)
	go func() {
		f, err := measureRest(ctx, o, dir)
		atRest <- outcome{f, err}
	}()
	loops, loopsErr := measureLoops(ctx, o, dir, programs)
	rest := <-atRest
	for _, err := range []error{loopsErr, rest.err} {
		if err != nil {
			return err
		}
	}
	all = append(append(loops, rest.figures...), all...)
	conditions := figure{key: "load_1m", name: "load average before", value: before}
	return report(out, o, append(all, conditions))
}

type outcome struct {
	figures []figure
	err     error
}

// workDir makes a directory on a file system in memory, where there is one: /sys and /run, which the measured code reads
// and writes, are in memory too.
func workDir() (string, error) {
	if dir, err := os.MkdirTemp("/dev/shm", "quner-bench-"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "quner-bench-")
}

// report prints the table, and the object if it is asked for.
func report(out io.Writer, o options, all []figure) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tVALUE\tBAR\tUNIT\tVERDICT")
	for _, f := range all {
		bar, verdict := "", ""
		if f.bar > 0 {
			bar, verdict = number(f.bar), "ok"
		}
		if f.over() {
			verdict = "over"
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join([]string{f.name, number(f.value), bar, f.unit, verdict}, "\t"), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nMedians of %d; at rest for %v; %s, %d CPUs. What else this machine does moves the timed figures.\n"+
		"A wake-up is any thread of the daemon running, and what follows within 100 ms: an upper bound for timers that fire.\n",
		o.repeat, o.rest, runtime.Version(), runtime.NumCPU())
	if !o.json {
		return nil
	}
	line, err := json.Marshal(object(o, all))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", line)
	return err
}

// object is the report for a program: the figures by key, which bars were missed, and under what conditions.
func object(o options, all []figure) map[string]any {
	over := []string{}
	v := map[string]any{"go": runtime.Version(), "cpus": runtime.NumCPU(), "repeat": o.repeat, "rest_s": o.rest.Seconds()}
	for _, f := range all {
		v[f.key] = rounded(f.value)
		if f.over() {
			over = append(over, f.key)
		}
	}
	v["over"] = over
	return v
}

// rounded keeps four significant figures: more would be noise.
func rounded(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64) // what was just printed
	return r
}

// number prints three significant figures, and no exponent.
func number(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	s := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.Contains(s, "e") {
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
	return s
}

func loadAverage() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(data), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}

// size returns the figure of a program's size.
func size(o options, name string) (figure, error) {
	info, err := os.Stat(filepath.Join(o.bin, name))
	if err != nil {
		return figure{}, err
	}
	return figure{key: name + "_mib", name: name + ", size of the program", value: float64(info.Size()) / (1 << 20), unit: "MiB"}, nil
}
