package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/levers"
)

func restoreCommand() *cobra.Command {
	var force, dryRun bool
	c := &cobra.Command{
		Use:   "restore",
		Short: "put back what a daemon that died has left",
		Long: `restore puts every lever in the journal of original values back, with no daemon: after a crash, and
as the service's ExecStopPost. A lever that somebody else has changed since is left alone and said,
unless --force. Doing it twice does no harm; with nothing moved it does nothing.`,
		Example: "  sudo qunerd restore --dry-run\n  sudo qunerd restore",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return restore(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), force, dryRun)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "put back also what somebody else has changed since")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the exact writes and make none")
	return c
}

func restore(ctx context.Context, out, log io.Writer, force, dryRun bool) error {
	h, err := stateHost()
	if err != nil {
		return err
	}
	if !force && !dryRun && goingDown(ctx) {
		_, err := fmt.Fprintln(out, "the machine goes down: levers are left as they are (--force overrides)")
		return err
	}
	return withBank(ctx, h, log, func(bank *levers.Bank) error {
		act := bank.Restore
		if dryRun {
			act = bank.PlanRestore
		}
		done, err := act(ctx, force)
		if !dryRun {
			err = errors.Join(err, record(h, log, "qunerd restore", done.Writes))
		}
		for _, w := range done.Writes {
			fmt.Fprintf(out, "%s: %s -> %s %s\n", w.Lever, w.From, w.To, w.Unit)
		}
		for _, l := range done.Left {
			fmt.Fprintf(out, "%s: left as it is: %s\n", l.Lever, l.Why)
		}
		if err == nil && len(done.Writes)+len(done.Left) == 0 {
			fmt.Fprintln(out, "nothing to put back: no lever is held")
		}
		for _, l := range bank.Void() {
			fmt.Fprintf(out, "%s: the value found is forgotten: %s\n", l.Lever, l.Why)
		}
		return err
	})
}

// record books what a command without a daemon has written.
func record(h *host.Host, log io.Writer, call string, writes []levers.Write) error {
	return daemon.Record(h.Var, newLog(log, slog.LevelWarn, true), uint32(os.Getuid()), call, writes) //nolint:gosec // a uid
}

// withBank runs f on the levers of a machine that no daemon runs on: it takes the daemon's lock, and opens boards and
// journal. A board's driver that does not answer costs the board, not the levers that have nothing to do with it.
func withBank(ctx context.Context, h *host.Host, log io.Writer, f func(*levers.Bank) error) error {
	release, err := lockDaemon(h)
	if err != nil {
		return err
	}
	defer release()
	logger := newLog(log, slog.LevelWarn, true)
	closeGPUs, err := openGPUs(ctx, h)
	if err != nil {
		logger.Warn("GPU driver does not answer; its levers are left out", "err", err)
	}
	defer closeGPUs()
	bank, err := leverOptions(h, logger).OpenBank(ctx, h, logger)
	if err != nil {
		return err
	}
	return f(bank)
}

func rollbackCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "rollback --print",
		Short:   "print lines for a shell that restore the host with no daemon",
		Example: "  sudo qunerd rollback --print",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := stateHost()
			if err != nil {
				return err
			}
			script, err := levers.Script(h)
			if err != nil {
				return permissionHint(err)
			}
			_, err = io.WriteString(c.OutOrStdout(), script)
			return err
		},
	}
	c.Flags().Bool("print", true, "print the lines, which is all it does")
	return c
}

// leverOptions are what the owner allows of levers. A one-shot command, a restore above all, works with a configuration
// that is not good too: then nothing is allowed beyond the default.
func leverOptions(h *host.Host, log *slog.Logger) levers.Options {
	cfg, err := config.Load(h.Etc)
	if err != nil {
		log.Warn("the configuration is not good; the defaults hold", "err", err)
		cfg = config.Default()
	}
	return levers.Options{AllowRaise: cfg.AllowRaise}
}

// stateHost is the machine whose journal a one-shot command works on: this one, or with QUNER_SOCKET the simulated one
// whose daemon ran there.
func stateHost() (*host.Host, error) {
	dir := os.Getenv("QUNER_SOCKET")
	if dir == "" {
		return host.Real("/", host.NVML("")), nil
	}
	sim, err := hostsim.Open(dir, hostsim.Options{})
	if err != nil {
		return nil, hinted{fmt.Errorf("QUNER_SOCKET: %w", err), "unset QUNER_SOCKET to work on this machine"}
	}
	return sim.Host(), nil
}

func simulateWorkCommand() *cobra.Command {
	var units float64
	var device, dir string
	c := &cobra.Command{
		Use:   "simulate-work --units N",
		Short: "a workload for a simulated machine: does N units of work at the rate it is granted",
		Long: `simulate-work is a real process that loads a simulated device: it registers with the simulation that
runs in QUNER_SOCKET (or --dir) and ends when the rate granted there has added up to N units. A lower
power cap makes it run longer, as measured on real boards.`,
		Example: "  QUNER_SOCKET=/tmp/q qunerd simulate-work --units 40",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				dir = os.Getenv("QUNER_SOCKET")
			}
			if dir == "" {
				return usageError{errors.New("no simulation named: set QUNER_SOCKET or --dir"), "qunerd simulate-work"}
			}
			if !(units > 0 && units <= 1e12) {
				return usageError{fmt.Errorf("--units %g: allowed is more than 0, up to 1e12", units), "qunerd simulate-work"}
			}
			return hostsim.SimulateWork(c.Context(), dir, device, units, nil)
		},
	}
	c.Flags().Float64Var(&units, "units", 0, "`N` units of work to do")
	c.Flags().StringVar(&device, "device", "gpu0", "the simulated `DEVICE` to load: gpu0, gpu1, …, cpu")
	c.Flags().StringVar(&dir, "dir", "", "`DIR`ectory of the simulation (default: QUNER_SOCKET)")
	return c
}

func checkConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "check-config [DIR]",
		Short:   "say whether quner.toml in DIR (default /etc/quner) is good",
		Example: "  qunerd check-config\n  qunerd check-config ./etc",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return noArgs(c, args[1:])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			dir := "/etc/quner"
			if len(args) > 0 {
				dir = args[0]
			}
			if _, err := config.Load(host.NewDir(dir, nil)); err != nil {
				return err
			}
			file, verdict := filepath.Join(dir, config.FileName), "good"
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				verdict = "there is none, so the defaults hold"
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", file, verdict)
			return err
		},
	}
}
