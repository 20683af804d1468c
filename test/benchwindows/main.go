// Command benchwindows measures what energy windows cost the daemon, over real sockets: windows a second and CPU a window
// for few and many clients beside bare gRPC calls of the same run, memory, what dying clients leave behind, and how often a
// stranger's windows have the CPU's counters read. `make bench-windows` calls it; it listens and writes in a directory of
// its own only.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// options are what the person who measures decides.
type options struct {
	each    time.Duration // of measuring, for each number of clients
	dropped int           // windows of clients that die
	json    bool
}

// figure is one thing measured. Its key is stable and ends in the unit.
type figure struct {
	key, name string
	value     float64
	unit      string
	least     float64 // what it is to be at least; 0: no such bar
	most      float64 // and at most; negative: no such bar
}

func (f figure) misses() bool {
	return f.least > 0 && f.value < f.least || f.most >= 0 && f.value > f.most
}

// plain is a figure that explains another one.
func plain(key, name string, value float64, unit string) figure {
	return figure{key: key, name: name, value: value, unit: unit, most: -1}
}

func main() { os.Exit(run()) }

func run() (status int) {
	var o options
	var serveIn string
	var counting bool
	flag.DurationVar(&o.each, "each", 3*time.Second, "how long to measure, for each number of clients")
	flag.IntVar(&o.dropped, "dropped", 100_000, "`windows` to open on clients that die")
	flag.BoolVar(&o.json, "json", false, "one JSON object as the last line")
	flag.StringVar(&serveIn, "serve", "", "be the daemon in this `directory`; for this program itself")
	flag.BoolVar(&counting, "counting", false, "with -serve: count what is read, which costs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := error(nil)
	if serveIn != "" {
		err = serve(ctx, serveIn, counting, os.Stdin, os.Stdout)
	} else {
		err = bench(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchwindows:", err)
		return 1
	}
	return 0
}

func bench(ctx context.Context, o options, out, progress io.Writer) error {
	dir, err := os.MkdirTemp(inMemory(), "quner-windows-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var all []figure
	for _, part := range []struct {
		what     string
		counting bool
		measure  func(context.Context, *daemon, options) ([]figure, error)
	}{
		{"windows a second", false, throughput},
		{"memory of open windows", false, memory},
		{"clients that die", false, dying},
		{"a stranger's windows", true, strangers},
	} {
		fmt.Fprintf(progress, "bench-windows: %s …\n", part.what)
		d, err := startDaemon(ctx, dir, part.counting)
		if err != nil {
			return err
		}
		figures, err := part.measure(ctx, d, o)
		if err := d.stop(); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part.what, err)
		}
		all = append(all, figures...)
	}
	return report(out, o, all)
}

// inMemory is a file system in memory where there is one: the counters that the daemon reads are in memory too.
func inMemory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func report(out io.Writer, o options, all []figure) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tVALUE\tBAR\tUNIT\tVERDICT")
	values, missed := map[string]any{"go": runtime.Version(), "cpus": runtime.NumCPU(), "each_s": o.each.Seconds()}, []string{}
	for _, f := range all {
		bar, verdict := "", ""
		switch {
		case f.least > 0:
			bar, verdict = fmt.Sprintf("≥ %g", f.least), "ok"
		case f.most >= 0:
			bar, verdict = fmt.Sprintf("≤ %g", f.most), "ok"
		}
		if f.misses() {
			verdict, missed = "misses", append(missed, f.key)
		}
		values[f.key] = f.value
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s\t%.4g\t%s\t%s\t%s", f.name, f.value, bar, f.unit, verdict), "\t"))
	}
	values["missed"] = missed
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s, %d CPUs, which clients and daemon share. Counters are a package and its memory, read exactly.\n", runtime.Version(), runtime.NumCPU())
	if !o.json {
		return nil
	}
	var line bytes.Buffer
	if err := json.NewEncoder(&line).Encode(values); err != nil {
		return err
	}
	_, err := out.Write(line.Bytes())
	return err
}
