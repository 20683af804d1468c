package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// tuneFlags are what tune is told beside the command.
type tuneFlags struct {
	start       qunerv1.TuneStart
	profile     string
	maxSlowdown float64
	runTimeout  durationValue
	budget      durationValue
	workFD      int
	unit        string
	as          string
	plot        string
	verbose     bool
	attach      string
	of          string // whose windows
}

func (a *app) tuneCmd() *cobra.Command {
	f := &tuneFlags{runTimeout: durationValue(time.Hour)}
	cmd := &cobra.Command{
		Use:     "tune [flags] {-- COMMAND [ARG…] | --attach NAME}",
		Short:   "Find the operating point that does COMMAND's work for the fewest joules",
		Long:    tuneLong(),
		Example: "  sudo qunerctl tune -- ./train --steps 20\n  sudo qunerctl tune --apply --max-slowdown 0.05 -- ./train --steps 20\n  sudo qunerctl tune --work-fd 3 --unit token -- sh -c './generate && echo 512 >&3'\n  sudo qunerctl tune --budget 10m -- ./train --steps 20\n  sudo qunerctl tune --apply --attach chat\n  sudo qunerctl tune --dry-run",
		Args:    func(cmd *cobra.Command, args []string) error { return f.checkAttach(cmd, args) },
		RunE:    func(cmd *cobra.Command, args []string) error { return a.tune(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&f.profile, "profile", "training", "profile to tune: training or idle")
	flags.StringVar(&f.start.Workload, "workload", "", "`NAME` under which the point is cached; default: any workload of the profile")
	flags.BoolVar(&f.start.Apply, "apply", false, "keep and cache the point found")
	flags.IntVar(&f.workFD, "work-fd", 0, "the work is the numbers that COMMAND writes, one a line, to descriptor `N`: 1, or 3 to 99")
	flags.StringVar(&f.unit, "unit", "", "what those numbers count, `WORD`, in the singular (default \"unit\")")
	flags.Var(&f.runTimeout, "run-timeout", "end a run of COMMAND that hangs")
	flags.StringVar(&f.as, "as", "", "run COMMAND as `root` although sudo was used")
	flags.StringVar(&f.plot, "plot", "", "draw the curve into `FILE`, .svg or .png; only such a curve is overwritten, with --force anything")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show COMMAND's output")
	f.searchFlags(cmd)
	f.attachFlags(cmd)
	dryRunFlag(cmd, &f.start.DryRun)
	oneOf(cmd, "profile", profiles()...)
	oneOf(cmd, "objective", objectives()...)
	oneOf(cmd, "as", "root")
	return cmd
}

// searchFlags are those that say what to look for, and how long.
func (f *tuneFlags) searchFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.start.Objective, "objective", "work-per-joule", "work-per-joule, work-per-second or edp")
	flags.Float64Var(&f.maxSlowdown, "max-slowdown", 0.10, "greatest loss of speed allowed, from 0 to less than 1")
	flags.BoolVar(&f.start.NoGpu, "no-gpu", false, "leave the GPU levers alone")
	flags.BoolVar(&f.start.NoCpu, "no-cpu", false, "leave the CPU levers alone")
	flags.Uint32Var(&f.start.MaxWindows, "max-windows", 0, "measure at most `N` times; 0: qunerd's budget")
	flags.Var(&f.budget, "budget", "measure for at most about this long; without it the windows alone bound the sweep")
	flags.BoolVar(&f.start.Force, "force", false, "also while others train")
	flags.BoolVar(&f.start.Fresh, "fresh", false, "start from nothing, also where a point tuned before an update says where to begin")
}

// tuneLong is what the help of tune says first.
func tuneLong() string {
	return `Run COMMAND again and again while qunerd tries the machine's states, and tell which
state does its work for the fewest joules. COMMAND should be a short, typical piece
of your work (1 to 30 s) that can be repeated; its output is dropped unless it
fails. Under sudo it runs as you, not as root (--as root overrides).

A run of COMMAND is the unit of work. Where runs differ, COMMAND can say how much it
did: with --work-fd 3 each line that it writes to its descriptor 3 is a number, and
their sum is the run's work, counted in what --unit calls it.

A service that must not stop is tuned while it serves: --attach NAME measures the machine
and counts the work of the windows that your service opens with workload=NAME (qunerctl
meter open, api/client) and closes with their work meanwhile. Under sudo "your" means
whoever typed it; --of says whose else. All that the machine draws is taken for the
service's, so nothing else should be at work. A state is measured for two seconds and 20
windows at least. Speed is work a second: while requests are few it does not fall where
each takes longer, so tune a service that is as busy as it ever is.

What is measured while heat slows a device down, while somebody else is at work on the
machine (on a board: who is not COMMAND and was not there before), or under a lever that
somebody else has moved does not count. It is measured again; the report says how often
and why, and five times in a row end the sweep.

A sweep costs energy too: where its first look shows that it could not pay back within
payback_horizon (quner.toml), it stops and tells the sum. --force goes on.

--max-slowdown goes by the estimate: the speed that is told with the saving has an interval
of its own, and where that reaches beyond the limit the report says so.

Where a point for the same profile, workload, objective and limits was tuned before the
kernel, the microcode or the driver changed, the sweep starts from it: it measures that
state and those beside it, and goes on to others only where these are not to each other
what they were. That takes about a third fewer windows. --fresh searches all states.

Without --apply the host is put back as found; with it the best point is kept and
cached for its profile. Ctrl-C, and a command that fails, put the host back at once;
after Ctrl-C qunerctl waits until that is done (a second one does not), and only where
the sweep was over already is its point kept. COMMAND ends with qunerctl, even if that
is killed.

With --apply the exit status is 0 only if a point is in force, or if the levers make no
difference; a best state that is not certified, or that nothing measured, is 1.`
}

func objectives() []string { return []string{"work-per-joule", "work-per-second", "edp"} }
func profiles() []string   { return []string{"training", "idle"} }

// oneWord refuses a flag's value that is none of a few words.
func oneWord(cmd *cobra.Command, flag, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	hint := cmd.CommandPath() + " --help"
	if near, ok := nearest(value, words); ok {
		hint = "--" + flag + " " + near
	}
	return wrongValue(hint, "--"+flag, value, strings.Join(words, ", "))
}

// check fills the request in from the flags.
func (f *tuneFlags) check(cmd *cobra.Command) error {
	if err := oneWord(cmd, "profile", f.profile, profiles()...); err != nil {
		return err
	}
	f.start.Profile = qunerv1.Profile_PROFILE_TRAINING
	if f.profile == "idle" {
		f.start.Profile = qunerv1.Profile_PROFILE_IDLE
	}
	if err := oneWord(cmd, "objective", f.start.GetObjective(), objectives()...); err != nil {
		return err
	}
	if !(f.maxSlowdown >= 0 && f.maxSlowdown < 1) {
		return wrongValue("", "--max-slowdown", fmt.Sprint(f.maxSlowdown), "a fraction from 0 to less than 1 (0.10 is 10 %)")
	}
	if cmd.Flags().Changed("max-slowdown") {
		f.start.MaxSlowdown = &f.maxSlowdown
	}
	if f.start.GetNoGpu() && f.start.GetNoCpu() {
		return usagef("", "--no-gpu and --no-cpu leave nothing to tune")
	}
	if err := f.checkWork(cmd); err != nil {
		return err
	}
	if cmd.Flags().Changed("plot") && f.plot == "" {
		return wrongValue("--plot tune.svg", "--plot", f.plot, "a file that ends in .svg or .png")
	}
	if err := checkPlot(f.plot, f.start.GetForce()); err != nil {
		return err
	}
	f.start.BudgetNs = int64(f.budget)
	if f.as != "" {
		return oneWord(cmd, "as", f.as, "root")
	}
	return nil
}

// mostFD is the highest descriptor that a command may be given to write its work to.
const mostFD = 99

// checkWork fills in what the work is counted in.
func (f *tuneFlags) checkWork(cmd *cobra.Command) error {
	given := cmd.Flags().Changed("work-fd")
	switch {
	case given && f.workFD != 1 && (f.workFD < 3 || f.workFD > mostFD):
		return wrongValue("--work-fd 3", "--work-fd", strconv.Itoa(f.workFD), "1 (standard output) or 3 to 99")
	case f.unit != "" && !given:
		return usagef("--work-fd 3", "--unit says what the numbers of --work-fd count; without that the unit is a run")
	case f.unit != "" && !unitWord().MatchString(f.unit):
		return wrongValue("--unit token", "--unit", f.unit, "1 to 64 of A-Z a-z 0-9 . _ -")
	case given:
		f.start.WorkUnit = cmp.Or(f.unit, "unit")
	}
	return nil
}

func unitWord() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) }

func (a *app) tune(cmd *cobra.Command, f *tuneFlags, args []string) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	a.warnMisplaced(args)
	work, err := a.workOf(f, args)
	if err != nil {
		return err
	}
	defer work.end()
	ctx := cmd.Context()
	c, err := a.admin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	// The stream outlives Ctrl-C, for the daemon's answer to it.
	whole, drop := context.WithCancel(context.WithoutCancel(ctx))
	defer drop()
	hasty := context.AfterFunc(ctx, drop)
	stream, err := qunerv1.NewAdminServiceClient(cleanConn{c.Conn()}).Tune(whole)
	hasty()
	if err != nil {
		return err
	}
	sweep := &sweep{app: a, stream: stream, work: work, line: &progress{s: a.err}, began: time.Now(),
		dryRun: f.start.GetDryRun(), unit: f.unitNow(), serves: f.attach}
	err = sweep.run(ctx, &f.start)
	sweep.line.clear()
	if err != nil {
		return err
	}
	return a.tuned(sweep, f, args)
}

// workOf is the command to run again and again; with none, and for a service, it runs nothing.
func (a *app) workOf(f *tuneFlags, args []string) (*workload, error) {
	if len(args) == 0 {
		return new(workload), nil
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, &failure{error: fmt.Errorf("%s: %w", quote(args[0]), rootCause(err)), code: exitError,
			hint: "give the path of an executable file, or check PATH"}
	}
	who, err := runAs(f.as == "root")
	if err != nil {
		return nil, err
	}
	if who != nil {
		f.start.WorkloadUid = &who.credential.Uid
	}
	work := &workload{path: path, args: args, as: who, timeout: time.Duration(f.runTimeout), workFD: f.workFD}
	if f.verbose {
		work.show = a.err.Writer
	}
	return work, nil
}

// tuned prints what a sweep, or its plan, has come to.
func (a *app) tuned(sweep *sweep, f *tuneFlags, args []string) error {
	r := sweep.report
	var lost error
	switch {
	case r != nil && a.json:
		lost = a.dear(func(on *app) error { return writeJSON(on.out, r) })
	case r != nil:
		a.err.printf("\n") // between the progress and the page, which is for standard output
		lost = a.dear(func(on *app) error { on.tunePage(r, f, args); return nil })
	case a.json:
		return writeJSON(a.out, sweep.plan)
	default:
		a.out.planPage(sweep.plan)
		a.out.printf("Dry run: nothing was run or written.\n")
	}
	if r != nil && f.plot != "" {
		if err := plotOf(r).save(f.plot, f.start.GetForce()); err != nil {
			return errors.Join(lost, err)
		}
		a.err.printf("The curve is in %s.\n", quote(f.plot))
	}
	if lost != nil {
		return lost
	}
	if r != nil && f.start.GetApply() {
		return notKept(r)
	}
	return nil
}

// tuneStream is the client's end of a sweep.
type tuneStream = grpc.BidiStreamingClient[qunerv1.TuneRequest, qunerv1.TuneResponse]
