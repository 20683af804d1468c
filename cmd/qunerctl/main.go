package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/qunerd/quner/api/client"
	"github.com/spf13/cobra"
)

// version is set by the linker: -ldflags '-X main.version=…'.
var version = "dev"

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// app is what the verbs share: where to read and write, and the global flags.
type app struct {
	in       io.Reader
	out, err *screen
	args     []string // as typed, for hints that repeat them
	self     string   // how this program was called, if by a path
	json     bool
	dir      string // --socket

	superuser bool     // the caller is root
	units     []string // directories of systemd's unit files
}

// run is the whole command; it returns the exit status.
func run(args []string, in io.Reader, out, errOut *os.File) int {
	if slices.Equal(args, []string{guardVerb}) { // no verb: nobody types it, and no page lists it
		return keepGuard(in)
	}
	a := &app{in: in, out: newScreen(out), err: newScreen(errOut), args: args, self: calledAs(os.Args[0]), superuser: os.Geteuid() == 0, units: unitDirs()}
	ctx, stop := signal.NotifyContext(context.Background(), heeded(syscall.SIGINT, syscall.SIGTERM)...)
	defer stop()
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	status := exitOK
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		status = a.report(cmd, err)
	}
	return a.whole(status, err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "qunerctl",
		Short: "Tune this machine for work per joule, and meter what work costs",
		Long: `qunerctl talks to qunerd, which keeps this machine at its work-per-joule optimum
and measures joules. Alone it shows one screen: what the machine does now.

With --json each verb prints the API's message: field names as in
api/quner/v1/*.proto; energies, powers and times (…_uj, …_uw, …_ns) as whole
numbers; enumerations as short lower-case words ("training", "sampled"). A
figure that is not known is null, never 0; a text that there is none of is
empty. Errors stay text on standard error.

Exit codes: 0 ok, 1 error, 2 usage, 3 daemon unreachable, 4 denied,
5 refused by policy or by a sweep that runs, 130 interrupted. "meter -- CMD"
exits with CMD's; what keeps it from starting CMD is 125, 126 or 127. An
output that does not take all of the page is 1 (of "meter -- CMD": 125,
where CMD's own is 0).`,
		Example:                    "  qunerctl\n  qunerctl meter -- make -j8\n  sudo qunerctl tune --apply -- ./train --steps 20",
		Args:                       noArgs,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return a.home(cmd.Context()) },
		Version:                    version,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true, SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.checkSocket() },
	}
	root.SetVersionTemplate("qunerctl {{.Version}}\n")
	root.Flags().BoolP("version", "V", false, "print the version")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print the API's message as JSON")
	root.PersistentFlags().StringVar(&a.dir, "socket", "", "`DIR` in the place of /run, to address another daemon (also "+client.EnvSocket+")")
	root.SetFlagErrorFunc(a.flagError)
	root.AddGroup(&cobra.Group{ID: "look", Title: "Look:"}, &cobra.Group{ID: "move", Title: "Move the machine:"},
		&cobra.Group{ID: "machine", Title: "Come and go:"})
	for _, c := range []*cobra.Command{a.doctorCmd(), a.statusCmd(), a.meterCmd(), a.floorCmd(), a.pointsCmd(), a.savingsCmd(), a.historyCmd(), a.rollbackCmd()} {
		c.GroupID = "look"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{a.tuneCmd(), a.retuneCmd(), a.profileCmd(), a.pauseCmd(), a.resumeCmd(), a.applyCmd(), a.leversCmd(), a.selftestCmd(), a.primeCmd()} {
		c.GroupID = "move"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{a.installCmd(), a.uninstallCmd()} {
		c.GroupID = "machine"
		root.AddCommand(c)
	}
	root.AddCommand(a.versionCmd(), manCommand())
	if a.out != nil {
		root.SetOut(a.out)
		root.SetErr(a.err)
	}
	root.SetHelpCommand(helpCmd())
	completions(root)
	return root
}

// heeded adds SIGHUP to signals unless this process was started to ignore it (nohup). SIGINT, which scripts' background
// jobs ignore, is heeded all the same: whoever sends it wants the host put back.
func heeded(signals ...os.Signal) []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return signals
	}
	return append(signals, syscall.SIGHUP)
}
