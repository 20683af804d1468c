package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/internal/doctor"
)

func doctorCommand() *cobra.Command {
	var flags machineFlags
	var asJSON, salted bool
	var file, trace string
	var length time.Duration
	c := &cobra.Command{
		Use:   "doctor",
		Short: "what this machine exposes: each lever and counter, with reasons",
		Long: `doctor looks at the machine with no daemon and changes nothing: which levers can be moved and which
cannot and why, which energy counters there are, and which other services do what quner does, each
with the command that resolves it. Of each counter it measures how it moves, which takes up to a second
where a GPU is awake; a GPU that sleeps is not woken. What it cannot see without root it says. With a
daemon running, "qunerctl doctor" shows the daemon's own view.

--capture writes what it has looked at into FILE, a simulated machine that --simulate runs: a bug
report that others can try. UUIDs, serial numbers and MAC addresses are hashed. FILE is text: look at
it before you pass it on.

--record reads the energy counters and power sensors for a while (--for 10s) and writes what they said,
and when, into FILE: text, a line for each reading "NANOSECONDS SENSOR VALUE", after a line for each
sensor. Energies are in µJ, powers in µW; a reading that failed has ! and the reason. Where a counter
is polled fast only the readings around each of its steps are kept. Nothing in it tells whose machine
it is.`,
		Example: `  sudo qunerd doctor
  sudo qunerd doctor --capture mine.txtar
  qunerd doctor --simulate mine.txtar
  sudo qunerd doctor --record mine.trace --for 30s`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("capture") && !strings.HasSuffix(file, ".txtar") {
				return usageError{fmt.Errorf("--capture %q: a simulated machine is a file whose name ends in .txtar", file), "qunerd doctor"}
			}
			if err := recordable(trace, length, c.Flags()); err != nil {
				return err
			}
			salt, err := saltOf(c.InOrStdin(), salted)
			if err != nil {
				return err
			}
			m, err := flags.open()
			if err != nil {
				return err
			}
			look := func() error { return examine(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), m, asJSON) }
			switch {
			case trace != "":
				look = func() error { return recordTrace(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), m, trace, length) }
			case file != "":
				look = func() error { return capture(c.Context(), c.OutOrStdout(), m, file, salt) }
			}
			return errors.Join(look(), m.close())
		},
	}
	flags.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "for scripts")
	c.Flags().StringVar(&file, "capture", "", "write this machine into `FILE`.txtar, which --simulate runs")
	c.Flags().StringVar(&trace, "record", "", "write what the energy counters say, and when, into `FILE`")
	c.Flags().DurationVar(&length, "for", 10*time.Second, "with --record: how `LONG`")
	c.MarkFlagsMutuallyExclusive("json", "capture", "record")
	c.Flags().BoolVar(&salted, "salted", false, "with --capture: hash with the salt that standard input has, for a bug report in several files")
	_ = c.Flags().MarkHidden("salted") // there is a flag of that name
	return c
}

func examine(ctx context.Context, out, log io.Writer, m *machine, asJSON bool) error {
	// A driver that does not answer is in the report.
	closeGPUs, _ := openGPUs(ctx, m.Host)
	defer closeGPUs()
	logger := newLog(log, slog.LevelWarn, true)
	show, end := progress(log, "measuring the counters")
	report, err := doctor.Look(ctx, m.Host, leverOptions(m.Host, logger), logger, show)
	end()
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	return report.Print(out)
}

// shortestSalt is as many bytes as nobody can guess.
const shortestSalt = 16

// saltOf reads a salt, or draws one.
func saltOf(in io.Reader, given bool) ([]byte, error) {
	salt := make([]byte, shortestSalt)
	if !given {
		_, err := rand.Read(salt)
		return salt, err
	}
	salt, err := io.ReadAll(io.LimitReader(in, 4*shortestSalt))
	if err == nil && len(salt) < shortestSalt {
		err = usageError{fmt.Errorf("--salted: %d bytes on standard input, at least %d are needed", len(salt), shortestSalt), "qunerd doctor"}
	}
	return salt, err
}

// capture writes a machine into a file that was not there.
func capture(ctx context.Context, out io.Writer, m *machine, file string, salt []byte) error {
	closeGPUs, _ := openGPUs(ctx, m.Host)
	defer closeGPUs()
	data, err := doctor.Capture(ctx, m.Host, salt)
	if err != nil {
		return err
	}
	err = newFile(file, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: this machine, %d kB. Look through it before you pass it on. To run it: qunerd doctor --simulate %s\n",
		file, (len(data)+1023)/1024, file)
	return err
}

// newFile makes a private file that was not there; it is gone again where filling it fails.
func newFile(name string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return hinted{err, "name a file that is not there: nothing is overwritten"}
	}
	if errors.Is(err, fs.ErrNotExist) { // it is to be made: its directory is missing
		return hinted{err, "make its directory first: mkdir -p " + filepath.Dir(name)}
	}
	if err != nil {
		return err
	}
	if err = errors.Join(fill(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}
