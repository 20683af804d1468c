package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
)

// machine is the host a command works on: the real one, or a simulated one in a directory.
type machine struct {
	*host.Host
	sim    *hostsim.Sim // nil on the real one
	still  bool         // the simulation serves the daemon alone
	name   string       // of the simulated host
	remove string       // the directory to remove at the end; "" if it is the user's own
}

// machineFlags choose the host.
type machineFlags struct {
	simulate string
	dir      string
	seed     uint64
	still    bool

	command string      // for hints
	seeded  func() bool // whether the seed was given
}

func (f *machineFlags) add(c *cobra.Command) {
	f.command = "qunerd " + c.Name()
	f.seeded = func() bool { return c.Flags().Changed("seed") }
	c.Flags().StringVar(&f.simulate, "simulate", "",
		"work on a simulated `HOST` instead of this machine: "+fmt.Sprint(hostsim.Names())+" or a .txtar file")
	c.Flags().StringVar(&f.dir, "dir", "", "with --simulate: the `DIR`ectory to simulate in (default: a temporary one)")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "with --simulate: seed of the measurement noise")
	_ = c.RegisterFlagCompletionFunc("simulate", cobra.FixedCompletions(hostsim.Names(), cobra.ShellCompDirectiveDefault))
	_ = c.MarkFlagDirname("dir")
}

// open opens the machine the flags name.
func (f *machineFlags) open() (*machine, error) {
	if f.simulate == "" {
		if err := f.real(os.Getenv("QUNER_SOCKET")); err != nil {
			return nil, err
		}
		return &machine{Host: host.Real("/", host.NVML(""))}, nil
	}
	fixture, err := hostsim.Load(f.simulate)
	if err != nil {
		return nil, usageError{err, f.command}
	}
	m := &machine{name: fixture.Name(), still: f.still}
	dir := f.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "quner-sim-"); err != nil {
			return nil, err
		}
		m.remove = dir
	} else if dir, err = simulationDir(dir); err != nil {
		return nil, err
	}
	if m.sim, err = hostsim.New(dir, fixture, hostsim.Options{Seed: f.seed}); err != nil {
		return nil, errors.Join(err, m.close())
	}
	m.Host = m.sim.Host()
	return m, nil
}

// real refuses flags, and a place for sockets, that speak of a simulation where none was asked for: whoever gave them did
// not mean this machine.
func (f *machineFlags) real(socket string) error {
	switch {
	case f.dir != "":
		return usageError{errors.New("--dir goes with --simulate: it is the directory of a simulation"), f.command}
	case f.seeded():
		return usageError{errors.New("--seed goes with --simulate: it is the seed of a simulation's noise"), f.command}
	case f.still:
		return usageError{errors.New("--still goes with --simulate: it is for a simulation"), f.command}
	case socket != "":
		return hinted{fmt.Errorf("QUNER_SOCKET is %q, which speaks of another daemon, and no --simulate was given", socket),
			"unset QUNER_SOCKET to work on this machine, or give --simulate HOST --dir " + socket}
	}
	return nil
}

// simulationDir makes a directory to simulate in. One that holds a simulated machine is taken up as it stands; one that
// holds anything else is refused, since the simulation writes all over it.
func simulationDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) == 0 {
		return dir, err
	}
	if _, err := hostsim.Open(dir, hostsim.Options{}); err != nil {
		return "", hinted{fmt.Errorf("%s: not empty, and %w", dir, err), "name a directory that is empty or does not exist"}
	}
	return dir, nil
}

// close removes what open made.
func (m *machine) close() error {
	if m.remove == "" {
		return nil
	}
	return os.RemoveAll(m.remove)
}

// lockDaemon takes the lock that one daemon, or one restore, at a time may hold.
func lockDaemon(h *host.Host) (release func(), err error) {
	if err := h.Run.Mkdir("quner-admin", 0o700); err != nil {
		return nil, permissionHint(err)
	}
	release, err = h.Run.Lock("quner-admin/lock")
	if errors.Is(err, host.ErrLocked) {
		return nil, hinted{fmt.Errorf("another qunerd is running: %w", err),
			"sudo systemctl stop qunerd, or for the running one: qunerctl apply --restore"}
	}
	return release, permissionHint(err)
}

func permissionHint(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return hinted{err, "run it as root, or try it on a simulated machine: qunerd run --simulate workstation"}
	}
	return err
}

// openGPUs opens the boards for a one-shot command; a driver that does not answer is told, not fatal.
func openGPUs(ctx context.Context, h *host.Host) (closeGPUs func(), err error) {
	err = h.GPUs.Open(ctx)
	return func() { _ = h.GPUs.Close() }, err
}
