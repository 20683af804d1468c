package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"runtime"
	"runtime/debug"
	"strconv"

	sddaemon "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/server"
)

func runCommand() *cobra.Command {
	var flags machineFlags
	var verbose, dryRun bool
	c := &cobra.Command{
		Use:   "run",
		Short: "the daemon",
		Long: `run is the daemon: it takes the lock, listens on /run/quner/quner.sock (anyone: status, doctor,
metering) and /run/quner-admin/admin.sock (root: everything), and puts the host back when it stops.

With --simulate HOST it runs, unprivileged, against a simulated machine in a directory of its own;
the sockets are then below that directory, which it prints. Nothing of the real machine is touched.

With --dry-run it detects, meters and publishes, moves no lever, and logs each write that it would make.

As a service it has two sockets that start it again at the next connection. To stop it for good:
systemctl disable --now qunerd.service qunerd.socket qunerd-admin.socket

Under a service manager SIGHUP makes it read quner.toml again; a bad file changes nothing, and the log
and "qunerctl status" say so. After three crashes within ten minutes it starts without moving a lever,
and says so, until it has been stopped in an orderly way.`,
		Example: `  sudo qunerd run
  sudo qunerd run --dry-run
  qunerd run --simulate workstation
  qunerd run --simulate ./myhost.txtar --dir /tmp/q`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			m, err := flags.open()
			if err != nil {
				return err
			}
			log := newLog(c.ErrOrStderr(), level, os.Getenv("JOURNAL_STREAM") != "")
			return errors.Join(serve(c.Context(), c.OutOrStdout(), m, dryRun, log), m.close())
		},
	}
	flags.add(c)
	c.Flags().BoolVar(&flags.still, "still", false,
		"with --simulate: do not keep counters and loads going for other processes, so that all that runs is the daemon")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "move no lever; log each write that would be made")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "log what is of interest to developers too")
	return c
}

// memoryLimit keeps a daemon at rest small: its live heap is a few MiB, and past this the collector works harder.
const memoryLimit = 64 << 20

// processors is how many threads run the daemon's code at once. Its work comes in pieces of microseconds, each of which
// hands on to the next: to wake a second thread for one costs more time and more energy than the piece itself. Calls into a
// driver, and those to the kernel that take long, are on threads of their own anyway.
const processors = 1

// limitProcess keeps the process small, unless who starts it says otherwise in the Go runtime's own variables.
func limitProcess() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors)
	}
}

// serve wires the rooms together and runs until ctx ends.
func serve(ctx context.Context, out io.Writer, m *machine, dryRun bool, log *slog.Logger) (err error) {
	limitProcess()
	release, err := lockDaemon(m.Host)
	if err != nil {
		return err
	}
	defer release()
	cfg, err := config.Load(m.Etc)
	if err != nil {
		return err
	}
	// The sockets come first, while no goroutine runs that the umask around each bind could surprise.
	sockets, err := server.Listen(m.Run)
	if err != nil {
		return permissionHint(err)
	}
	defer func() { err = errors.Join(err, sockets.Close()) }()
	starts := openStarts(m.Run, log)
	group, ctx := errgroup.WithContext(ctx)
	if m.sim != nil && !m.still {
		stop := runSimulation(m)
		defer stop()
	}
	options := daemonOptions(m, log)
	options.DryRun, options.Observe = dryRun, starts.observe(dryRun)
	d, err := daemon.New(ctx, m.Host, cfg, options, log)
	if err != nil {
		return err
	}
	patience(cfg.Tick, options.Notify)
	srv := server.New(d, d.Meter(), serverOptions(cfg), log)
	group.Go(func() error { return d.Run(ctx) })
	group.Go(func() error { return d.Meter().Run(ctx) })
	group.Go(func() error { return reloads(ctx, m, d, options.Notify, log) })
	group.Go(func() error { return srv.Serve(ctx, sockets) })
	group.Go(func() error {
		select {
		case <-d.Ready():
			greet(out, m)
		case <-ctx.Done():
		}
		return nil
	})
	err = errors.Join(group.Wait(), d.Close())
	starts.ended()
	return err
}

func daemonOptions(m *machine, log *slog.Logger) daemon.Options {
	o := daemon.Options{Version: version, Simulated: m.name, Notify: notify(log)}
	if m.sim == nil {
		o.GoingDown = goingDown
	}
	return o
}

// exactGroup is the group whose members may see exact CPU energy. It is made by the installation; without it nobody but
// root, on the admin socket, may.
const exactGroup = "quner"

func serverOptions(cfg config.Config) server.Options {
	o := server.Options{Limits: server.Limits(cfg.Serving)}
	if g, err := user.LookupGroup(exactGroup); err == nil {
		if gid, err := strconv.ParseUint(g.Gid, 10, 32); err == nil {
			id := uint32(gid)
			o.ExactGroup = &id
		}
	}
	return o
}

// runSimulation keeps the simulated machine going for other processes, until the daemon has put it back.
func runSimulation(m *machine) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.sim.Run(ctx)
	}()
	return func() { cancel(); <-ended }
}

func greet(out io.Writer, m *machine) {
	if m.sim == nil {
		return
	}
	fmt.Fprintf(out, "simulated host %q in %s\n  export QUNER_SOCKET=%s\n  qunerctl status\n", m.name, m.Run.Path(), m.Run.Path())
}

// notify tells systemd how the service is; without systemd it tells nobody.
func notify(log *slog.Logger) func(string) {
	return func(state string) {
		if _, err := sddaemon.SdNotify(false, state); err != nil {
			log.Debug("systemd does not listen", "state", state, "err", err)
		}
	}
}
