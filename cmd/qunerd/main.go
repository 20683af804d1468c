// Command qunerd is the root daemon that owns every power lever of a Linux machine and meters its energy.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

// Exit codes, the same as qunerctl's.
const (
	exitError   = 1
	exitUsage   = 2
	exitRefused = 5
)

func main() {
	// Every file and socket this process makes is private unless its maker says otherwise.
	syscall.Umask(0o077)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	defer stop()
	// A reader of the log that goes away must not take the daemon with it: a write then fails, and that is all.
	signal.Ignore(syscall.SIGPIPE)
	out := &wholeWriter{Writer: stdout}
	root := command(out, stderr)
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil && out.lost != nil && ran.Name() != "run" { // nobody need be there to hear what a daemon has to say
		err = fmt.Errorf("standard output is not whole: %w", out.lost)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "qunerd:", err)
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		fmt.Fprintln(stderr, "hint:", hinted.Hint())
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return exitError
}

// wholeWriter remembers whether all that was written has arrived. It is for one goroutine at a time.
type wholeWriter struct {
	io.Writer
	lost error // of the first write that failed
}

// Write writes on.
func (w *wholeWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil && w.lost == nil {
		w.lost = err
	}
	return n, err
}

// endings are the signals that mean an orderly end: the host is put back first. A terminal that goes away is one of them;
// under a supervisor, or with nohup, there is none that could go. Under a supervisor SIGHUP asks the daemon to read its
// configuration again, see reloads; until it listens, and in every other command, it means nothing.
func endings() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT}
	if os.Getenv("NOTIFY_SOCKET") == "" && !signal.Ignored(syscall.SIGHUP) {
		return append(all, syscall.SIGHUP)
	}
	signal.Ignore(syscall.SIGHUP)
	return all
}

func command(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "qunerd",
		Short: "keeps a Linux machine at its work-per-joule optimum, and meters its joules",
		Long: `qunerd owns every power lever of this machine: it detects what the machine is doing, applies
the operating point tuned for that, and measures energy for anyone who asks over a socket.
Whatever it changes it puts back when it stops; after a crash, "qunerd restore" does.`,
		Example: `  sudo qunerd run                      the daemon
  qunerd run --simulate workstation    the whole daemon on a simulated machine, unprivileged
  sudo qunerd restore                  put back what a daemon that died has left
  qunerd doctor                        what this machine exposes, with no daemon`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q", args[0]), c.CommandPath()}
			}
			return nil
		},
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		Version:           version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetVersionTemplate("qunerd {{.Version}}\n")
	root.Flags().BoolP("version", "V", false, "print the version")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w", err), c.CommandPath()}
	})
	root.AddCommand(runCommand(), restoreCommand(), rollbackCommand(), selftestCommand(), doctorCommand(), simulateWorkCommand(),
		checkConfigCommand(), versionCommand(), manCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), "qunerd", version)
			return err
		},
	}
}

// usageError is a mistake in how the command was called.
type usageError struct {
	error
	command string
}

// ExitCode tells the shell that the call was wrong, not the machine.
func (usageError) ExitCode() int { return exitUsage }

// Hint names where the right call is described.
func (e usageError) Hint() string { return fmt.Sprintf("see %q", e.command+" --help") }

// hinted is an error with its remedy.
type hinted struct {
	error
	hint string
}

// Hint is the exact remedy.
func (e hinted) Hint() string { return e.hint }

// Unwrap returns the error without its remedy.
func (e hinted) Unwrap() error { return e.error }

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s: unexpected argument %q", c.CommandPath(), args[0]), c.CommandPath()}
	}
	return nil
}

// newLog writes one line per event; timeless where the journal has the time already, or a person waits for the answer.
func newLog(w io.Writer, level slog.Level, timeless bool) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if timeless && len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}
