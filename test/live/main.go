// Command live looks at the energy counters of a real machine with a GPU, at rest and under a load that somebody gives,
// and writes what it saw as traces and figures. It reads and does nothing else: no power cap and no setting is touched.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/qunerd/quner/internal/doctor"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
)

// options are what is looked at, and how long.
type options struct {
	out    string // directory of the traces; made if it is not there
	length time.Duration
	settle time.Duration // before a recording under load
	load   string        // a shell's command line that loads the GPU; empty: at rest only
	json   bool
}

func main() {
	var o options
	var lib string
	flag.StringVar(&o.out, "out", "live", "`DIR`ectory for rest.trace and load.trace")
	flag.DurationVar(&o.length, "for", 20*time.Second, "how `LONG` each recording is")
	flag.DurationVar(&o.settle, "settle", 5*time.Second, "how `LONG` the load runs before it is recorded")
	flag.StringVar(&o.load, "load", "", "`COMMAND` that loads the GPU until it is ended")
	flag.BoolVar(&o.json, "json", false, "the figures as one JSON object")
	flag.StringVar(&lib, "lib", "", "`FILE` of libnvidia-ml.so.1, where it is not the system's")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, host.Real("/", host.NVML(lib)), o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
}

// run looks at a machine and writes figures to out, traces into o.out.
func run(ctx context.Context, h *host.Host, o options, out io.Writer) error {
	if err := h.GPUs.Open(ctx); err != nil {
		return err
	}
	defer h.GPUs.Close()
	if len(h.GPUs.All()) == 0 {
		return fmt.Errorf("no GPU: %w", h.GPUs.Why())
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	if !o.json {
		report, err := doctor.Look(ctx, h, levers.Options{}, slog.New(slog.DiscardHandler), nil)
		if err == nil {
			err = report.Print(out)
		}
		if err != nil {
			return err
		}
	}
	found := map[string][]figures{}
	for _, state := range []string{"rest", "load"} {
		if state == "load" && o.load == "" {
			continue
		}
		f, err := look(ctx, h, o, state)
		if err != nil {
			return fmt.Errorf("%s: %w", state, err)
		}
		found[state] = f
		if !o.json {
			fmt.Fprintf(out, "\n%s\n", state)
			for _, one := range f {
				one.print(out)
			}
		}
	}
	if o.json {
		return json.NewEncoder(out).Encode(found)
	}
	return nil
}

// look records a state of the machine and says what is in the recording.
func look(ctx context.Context, h *host.Host, o options, state string) (_ []figures, err error) {
	if state == "load" {
		end, err := begin(o.load)
		if err != nil {
			return nil, err
		}
		defer end()
		select {
		case <-time.After(o.settle):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	var text bytes.Buffer
	if err := doctor.Record(ctx, h, &text, o.length, slog.New(slog.DiscardHandler), nil); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(o.out, state+".trace"), text.Bytes(), 0o644); err != nil {
		return nil, err
	}
	trace, err := meter.ParseTrace(&text)
	if err != nil {
		return nil, err
	}
	return analyse(trace), nil
}

// begin starts a load in a process group of its own, and returns what ends all of it.
func begin(command string) (end func(), err error) {
	c := exec.Command("sh", "-c", command)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		_ = c.Wait() // it is ended by a signal, or ended itself
		close(done)
	}()
	return func() {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			if err := syscall.Kill(-c.Process.Pid, sig); errors.Is(err, syscall.ESRCH) {
				return
			}
			select {
			case <-done:
				return
			case <-time.After(3 * time.Second):
			}
		}
	}, nil
}
