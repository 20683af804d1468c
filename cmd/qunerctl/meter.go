package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/api/client"
)

// Exit codes of meter's own failures before the command starts, those of env(1) and nohup(1).
const (
	exitMeterFailed   = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// meterTimeout bounds how long a daemon that hangs may keep a command from starting.
const meterTimeout = 5 * time.Second

// meterFlags are what meter is told beside the command.
type meterFlags struct {
	open   client.OpenOptions
	close  client.CloseOptions
	idle   string
	output string

	span     string // --for, as typed
	lasts    time.Duration
	waitEdge bool
	sampled  bool // nothing but a measurement will do
}

func (a *app) meterCmd() *cobra.Command {
	f := new(meterFlags)
	cmd := &cobra.Command{
		Use:   "meter [flags] -- COMMAND [ARG…] | --for DURATION",
		Short: "Joules of a command, or of the machine for a while",
		Long: `Run COMMAND and tell on standard error what it cost in joules, as "perf stat"
does. COMMAND keeps its standard streams and signals, and its exit status is
meter's. A daemon that cannot be reached costs the figure, never the command. A
result that cannot be written where it is to go is told on standard error, and
is 125 where COMMAND's own status is 0.
Failures before COMMAND starts, wrong flags too, are 125, 126 (not executable)
and 127 (not found).

For scripts: "meter open" prints the id of a window, which "meter mark" and
"meter close" take; "meter list" shows yours. A COMMAND of such a name goes
behind --.

With --for there is no COMMAND: the machine is metered for that long, 1s to 24h,
and the result goes to standard output. Ctrl-C ends it early, with the result.

A figure has its 95 % interval: what the counters' steps may hide at the two
ends, the idle floor's own ±, and the sensor's. Fewer than three steps of a
counter (100 ms each on a board, 1 ms on a package) are no measurement: the
result is then unknown, with what it was at most. Let it run for longer, or do
it many times over in one go (--work 20 --unit runs). With --wait-edge the
figure begins and ends at steps of the counters, which leaves next to nothing
hidden and costs up to 100 ms at either end; what the machine draws in those is
part of the figure.

Joules are above idle where the idle floor is given. gpu= and cpu= are the watts
of all boards or of all CPU devices together: they are divided among those in
proportion to what each drew. A device may be named by itself instead, or by the
beginning of its name; what it is given is not part of its kind's.`,
		Example: "  qunerctl meter -- make -j8\n" +
			"  qunerctl meter --for 60s\n" +
			"  qunerctl meter --idle-watts gpu=50±2,cpu=20 --work 10000 --unit tokens -- ./generate\n" +
			"  qunerctl meter --devices gpu --wait-edge -- ./infer",
		Args: f.either,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.meterFor(cmd, f)
			}
			return a.meter(cmd, f, args)
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if err = a.flagError(cmd, err); a.runsCommand() {
			err = meterFailure(err)
		}
		return err
	})
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		if err := a.checkSocket(); err != nil {
			return meterFailure(err)
		}
		return nil
	}
	f.add(cmd.Flags())
	cmd.AddCommand(a.meterOpenCmd(), a.meterMarkCmd(), a.meterCloseCmd(), a.meterListCmd())
	_ = cmd.RegisterFlagCompletionFunc("devices", a.deviceNames) // the flag is there
	oneOf(cmd, "unit", "tokens", "requests", "samples", "steps", "runs")
	return cmd
}

// either wants a command or a duration, and not both.
func (f *meterFlags) either(cmd *cobra.Command, args []string) error {
	switch long := cmd.Flags().Changed("for"); {
	case long && len(args) > 0:
		return meterFailure(usagef("qunerctl meter --for "+quote(f.span)+"; or: qunerctl meter -- "+words(args),
			"meter: --for meters the machine, not a command: got %s too", quote(args[0])))
	case !long && len(args) == 0:
		return meterFailure(usagef("qunerctl meter -- COMMAND; or: qunerctl meter --for 60s", "meter: which command?"))
	}
	return nil
}

// add defines the flags.
func (f *meterFlags) add(flags *pflag.FlagSet) {
	flags.SetInterspersed(false)
	flags.StringVar(&f.open.Name, "name", "", "`NAME` of the window; default: the command's")
	f.addMeasured(flags)
	flags.Float64Var(&f.close.Work, "work", 0, "amount of work that the command does, for joules per unit")
	flags.StringVar(&f.open.Unit, "unit", "", "what work is counted in: tokens, requests")
	flags.BoolVar(&f.close.Synced, "synced", true, "GPU work is complete when the command has ended")
	flags.StringVar(&f.span, "for", "", "`DURATION` to meter the machine for, without a COMMAND: 60s, 5m, 2h")
	flags.BoolVar(&f.waitEdge, "wait-edge", false, "begin and end at a counter's step: up to 0.1 s later, and next to nothing hidden")
	flags.BoolVar(&f.sampled, "require-sampled", false, "say so if the figure is not a measurement; with --for that is an error, too")
	flags.StringVarP(&f.output, "output", "o", "", "write the result to `FILE` instead of standard error")
}

// addMeasured defines the flags that say what is measured.
func (f *meterFlags) addMeasured(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.open.Devices, "devices", nil, "charge these `DEVICES` (qunerctl doctor names them); default: GPUs that are awake, CPU packages, dram")
	flags.StringVar(&f.idle, "idle-watts", "", "idle floor in watts per kind or device, `gpu=50,cpu=20` (± as in the example)")
	flags.StringVar(&f.open.Workload, "workload", "", "`NAME` of the workload")
	flags.BoolVar(&f.open.MayWake, "may-wake", false, "wake a board that sleeps; else it is left asleep, and reported so")
}

// meterFailure gives an error the exit code of a wrapper that could not start its command.
func meterFailure(err error) error {
	f := &failure{error: err, code: exitMeterFailed, hint: "qunerctl meter --help"}
	if inner := new(failure); errors.As(err, &inner) && inner.hint != "" {
		f.hint = inner.hint
	}
	return f
}

func (a *app) meter(cmd *cobra.Command, f *meterFlags, args []string) error {
	ctx := cmd.Context()
	if err := f.check(cmd.Flags()); err != nil {
		return meterFailure(err)
	}
	a.warnMisplaced(args)
	metered, err := a.command(args)
	if err != nil {
		return err
	}
	result, err := resultOutlet(ctx, f.output, a.err)
	if err != nil {
		return meterFailure(err)
	}
	defer func() { _ = result.close() }()
	heedPipe()

	if err := a.resolveDevices(ctx, f); err != nil {
		return meterFailure(err)
	}
	c, err := a.meterClient(ctx)
	if err != nil {
		return meterFailure(err)
	}
	defer func() { _ = c.Close() }()
	if f.open.Name == "" {
		f.open.Name = label(filepath.Base(args[0]))
	}
	w, err := a.openWindow(cmd, c, f)
	if err != nil {
		return meterFailure(err)
	}
	status, err := runForwarding(metered)
	measured, closeErr := w.Close(context.WithoutCancel(ctx), f.close)
	if err != nil {
		return meterFailure(err)
	}
	if closeErr != nil && measured.Cause == nil {
		measured.Cause = closeErr
	}
	lost := a.deliver(cmd, result, measured, metering{words: words(args), args: args})
	if why := f.notSampled(measured); why != nil {
		a.err.printf("qunerctl: %s; the exit status is the command's\n", why)
	}
	switch {
	case lost != nil && status == 0:
		return &failure{error: lost, code: exitMeterFailed}
	case lost != nil:
		a.err.printf("qunerctl: %s; the exit status is the command's\n", clean(lost.Error()))
	}
	if status != 0 {
		return &failure{error: fmt.Errorf("exit status %d", status), code: status, quiet: true}
	}
	return nil
}

// label makes a window's name of a command's.
func label(s string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, s)
	return safe[:min(64, len(safe))]
}

// meterClient connects to the better socket that the caller may use. It is not strict: no daemon, no figure.
func (a *app) meterClient(ctx context.Context) (*client.Client, error) {
	better, err := a.admin(ctx)
	if err == nil {
		err = better.Close()
	}
	return client.Dial(ctx, client.Options{Dir: a.dir, Admin: err == nil, Timeout: meterTimeout})
}

// command finds the command before anything is measured.
func (a *app) command(args []string) (*exec.Cmd, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		f := &failure{error: fmt.Errorf("%s: %w", quote(args[0]), rootCause(err)), code: exitNotFound,
			hint: "give the path of an executable file, or check PATH"}
		if errors.Is(err, fs.ErrPermission) {
			f.code = exitNotExecutable
			if isProgram(args[0]) {
				f.hint = "chmod +x " + quote(args[0])
			}
		}
		return nil, f
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.in, a.out.Writer, a.err.Writer
	return cmd, nil
}

// isProgram tells whether a file only lacks its permission to be run: a script, or a binary.
func isProgram(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // nothing was written
	begin := make([]byte, 4)
	n, _ := io.ReadFull(f, begin)
	return bytes.HasPrefix(begin[:n], []byte("#!")) || string(begin[:n]) == "\x7fELF"
}

// rootCause is the innermost error: what is around it repeats the name.
func rootCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// runForwarding runs cmd, hands the signals it gets on to it, and returns its status as a shell would: 128+n if signal
// n ended it. An error means that it did not start.
func runForwarding(cmd *exec.Cmd) (status int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, heeded(syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)...)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		code := exitNotFound
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOEXEC) {
			code = exitNotExecutable
		}
		return 0, &failure{error: fmt.Errorf("%s: %w", quote(cmd.Args[0]), rootCause(err)), code: code}
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(ended)
	}()
	for {
		select {
		case s := <-signals:
			// The terminal's Ctrl-C goes to every process in the foreground: the command has it already, and a second
			// one reads to many programs as "now at once".
			if (s == syscall.SIGINT || s == syscall.SIGQUIT) && inForeground() {
				continue
			}
			_ = cmd.Process.Signal(s)
		case <-ended:
			if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				return 128 + int(ws.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// inForeground tells whether this process is in the foreground of its terminal.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // no terminal
	}
	defer func() { _ = tty.Close() }()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// parseIdleWatts reads "gpu=50±2,cpu=20": watts per kind or device, each with its ± if that is known ("+-" will do).
func parseIdleWatts(s string) (watts, plus map[string]float64, err error) {
	if s == "" {
		return nil, nil, nil
	}
	watts, plus = make(map[string]float64), make(map[string]float64)
	number := func(entry, s string) (float64, error) {
		v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(s), "W"), 64)
		if err != nil || v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("--idle-watts: %s: %s is no amount of watts (gpu=50±2,cpu=20)", quote(entry), quote(s))
		}
		return v, nil
	}
	for entry := range strings.SplitSeq(s, ",") {
		device, amount, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok || device == "" {
			return nil, nil, fmt.Errorf("--idle-watts: %s: want DEVICE=WATTS (gpu=50±2,cpu=20)", quote(entry))
		}
		if _, twice := watts[device]; twice {
			return nil, nil, fmt.Errorf("--idle-watts: %s is given twice", quote(device))
		}
		amount, interval, has := strings.Cut(strings.Replace(amount, "+-", "±", 1), "±")
		if watts[device], err = number(entry, amount); err != nil {
			return nil, nil, err
		}
		if has {
			if plus[device], err = number(entry, interval); err != nil {
				return nil, nil, err
			}
		}
	}
	return watts, plus, nil
}
