package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// scriptVerb makes a verb of meter's that runs no command: its errors have the usual exit codes, not a wrapper's.
func (a *app) scriptVerb(cmd *cobra.Command) *cobra.Command {
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return a.checkSocket() }
	cmd.SetFlagErrorFunc(a.flagError)
	return cmd
}

// meters asks the meter on the better socket that the caller may use.
func meters[R any](ctx context.Context, a *app, call func(context.Context, qunerv1.MeterServiceClient) (R, error)) (R, error) {
	return ask(ctx, a, a.reader, func(ctx context.Context, conn grpc.ClientConnInterface) (R, error) {
		return call(ctx, qunerv1.NewMeterServiceClient(conn))
	})
}

func (a *app) meterOpenCmd() *cobra.Command {
	f, limit := new(meterFlags), durationValue(0)
	weight, hint := 1.0, 0.0
	cmd := a.scriptVerb(&cobra.Command{
		Use:   "open",
		Short: "Open a window for a script and print its id",
		Long: `Open a window and print its id alone, for a script. The window lives on without
this program, until "meter close", or until its time limit: its result is then
kept for an hour, and "meter close" still tells it. It survives a restart of the
daemon, and so does its result. Only the same user can mark, close or list it.`,
		Example: "  id=$(qunerctl meter open --name epoch --unit samples --idle-watts gpu=50)\n" +
			"  qunerctl meter open --devices gpu --limit 30m",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.completeFloors(cmd.Context(), f); err != nil {
				return usagef("qunerctl doctor names the devices", "%w", err)
			}
			r := &qunerv1.OpenRequest{LimitNs: int64(limit), Window: &qunerv1.OpenWindow{
				Name: orWord(f.open.Name, "script"), Devices: f.open.Devices, IdleWatts: f.open.IdleWatts, IdleWattsUncertainty: f.open.IdleWattsPlus,
				Workload: f.open.Workload, Unit: f.open.Unit, WaitEdge: f.waitEdge, MayWake: f.open.MayWake,
			}}
			if err := numbers(cmd, r.GetWindow(), weight, hint); err != nil {
				return err
			}
			if given := cmd.Flags().Changed("limit"); given && (time.Duration(limit) < shortest || time.Duration(limit) > longest) {
				return wrongValue(cmd.CommandPath()+" --limit "+likeSpan(limit.String()), "--limit", limit.String(), forForms)
			}
			answer, err := meters(cmd.Context(), a, func(ctx context.Context, c qunerv1.MeterServiceClient) (*qunerv1.OpenResponse, error) {
				return c.Open(ctx, r)
			})
			if err != nil {
				return err
			}
			if a.json {
				err = writeJSON(a.out, answer)
			} else {
				a.out.printf("%s\n", answer.GetOpened().GetId())
			}
			if lost := a.out.failed(); lost != nil {
				return &failure{error: errLost{fmt.Errorf("window %s is open, and its id is not written: %w", answer.GetOpened().GetId(), rootCause(lost))},
					code: exitError, hint: "qunerctl meter close " + answer.GetOpened().GetId()}
			}
			return err
		},
	})
	flags := cmd.Flags()
	flags.StringVar(&f.open.Name, "name", "", "`NAME` of the window; need not be unique; default: script")
	flags.Var(&limit, "limit", "`DURATION` after which the window ends by itself, 1s to 24h; 24h by default")
	f.addMeasured(flags)
	flags.StringVar(&f.open.Unit, "unit", "", "what work will be counted in: tokens, requests")
	flags.Float64Var(&weight, "weight", 1, "share of a device used together with others, 0.001 to 1000")
	flags.Float64Var(&hint, "hint", 0, "joules per unit of work, above 0, for an estimate when nothing can be measured")
	flags.BoolVar(&f.waitEdge, "wait-edge", false, "begin at a counter's step: up to 0.1 s later, and next to nothing hidden")
	_ = cmd.RegisterFlagCompletionFunc("devices", a.deviceNames) // the flag is there
	oneOf(cmd, "unit", "tokens", "requests", "samples", "steps", "runs")
	return cmd
}

// numbers puts the weight and the hint into a window where they were given.
func numbers(cmd *cobra.Command, w *qunerv1.OpenWindow, weight, hint float64) error {
	help := cmd.CommandPath() + " --help"
	if cmd.Flags().Changed("weight") {
		if !(weight >= 0.001 && weight <= 1000) {
			return wrongValue(help, "--weight", number(weight), "a number from 0.001 to 1000")
		}
		w.Weight = &weight
	}
	if cmd.Flags().Changed("hint") {
		if !(hint > 0) || !finite(hint) {
			return wrongValue(help, "--hint", number(hint), "a number of joules above 0")
		}
		w.HintJoulesPerUnit = &hint
	}
	return nil
}

// number is a flag's number as one types it.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// completeFloors reads the idle floors given, and completes the beginnings of device names.
func (a *app) completeFloors(ctx context.Context, f *meterFlags) (err error) {
	if f.open.IdleWatts, f.open.IdleWattsPlus, err = parseIdleWatts(f.idle); err != nil {
		return err
	}
	return a.resolveDevices(ctx, f)
}

func (a *app) meterMarkCmd() *cobra.Command {
	return a.scriptVerb(&cobra.Command{
		Use:   "mark ID STAGE",
		Short: "End a stage of a script's window and begin the next",
		Long: `End the current stage of a window under the name STAGE, and begin the next. ID
may be the beginning of one.`,
		Example:           "  qunerctl meter mark $id load",
		Args:              wants(2, "an id and the name of the stage that ends"),
		ValidArgsFunction: a.windowIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.wholeWindow(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			answer, err := meters(cmd.Context(), a, func(ctx context.Context, c qunerv1.MeterServiceClient) (*qunerv1.MarkResponse, error) {
				return c.Mark(ctx, &qunerv1.MarkRequest{Mark: &qunerv1.MarkWindow{Id: id, Name: args[1]}})
			})
			if err != nil {
				return windowError(args[0], err)
			}
			if a.json {
				return writeJSON(a.out, answer)
			}
			return nil
		},
	})
}

func (a *app) meterCloseCmd() *cobra.Command {
	f := new(meterFlags)
	cmd := a.scriptVerb(&cobra.Command{
		Use:   "close ID",
		Short: "Close a script's window and tell what it cost",
		Long: `Close a window that "meter open" has opened, and tell what it cost. ID may be the
beginning of one. Of a window that has ended at its time limit the result is
told as well, once, for an hour after its end.`,
		Example:           "  qunerctl meter close $id --work 10000\n  qunerctl meter close $id --json",
		Args:              wants(1, "an id"),
		ValidArgsFunction: a.windowIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("work") && !(f.close.Work > 0) || !finite(f.close.Work) {
				return usagef(cmd.CommandPath()+" --help", "--work %g: allowed is a number above 0", f.close.Work)
			}
			id, err := a.wholeWindow(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			r := &qunerv1.CloseRequest{Close: &qunerv1.CloseWindow{
				Id: id, Work: f.close.Work, Synced: f.close.Synced, WaitEdge: f.waitEdge,
			}}
			answer, err := meters(cmd.Context(), a, func(ctx context.Context, c qunerv1.MeterServiceClient) (*qunerv1.CloseResponse, error) {
				return c.Close(ctx, r)
			})
			if err != nil {
				return windowError(args[0], err)
			}
			result := client.Result{Window: answer.GetResult()}
			if err := a.deliver(cmd, &outlet{screen: a.out}, result, metering{words: result.Window.GetName(), script: true}); err != nil {
				return err
			}
			if why := f.notSampled(result); why != nil {
				return &failure{error: why, code: exitError}
			}
			return nil
		},
	})
	flags := cmd.Flags()
	flags.Float64Var(&f.close.Work, "work", 0, "amount of work done, for joules per unit")
	flags.BoolVar(&f.close.Synced, "synced", true, "GPU work was complete before this")
	flags.BoolVar(&f.waitEdge, "wait-edge", false, "end at a counter's step: up to 0.1 s later, and next to nothing hidden")
	flags.BoolVar(&f.sampled, "require-sampled", false, "a figure that is not a measurement is an error; it is printed all the same")
	return cmd
}

// wants is a verb's arguments: so many, and what they are.
func wants(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		verb := strings.TrimPrefix(cmd.CommandPath(), "qunerctl ")
		return usagef("qunerctl meter list shows the ids", "%s: want %s, got %s", verb, what, quoteOrNothing(args))
	}
}

// idLength is that of a window's id.
const idLength = 32

// wholeWindow is the id of the one open window that begins so. A whole id is left to the daemon.
func (a *app) wholeWindow(ctx context.Context, typed string) (string, error) {
	if len(typed) >= idLength {
		return typed, nil
	}
	answer, err := a.windows(ctx, &qunerv1.ListRequest{Closed: true})
	if err != nil {
		return "", err
	}
	var found []string
	for _, id := range idsOf(answer) {
		if strings.HasPrefix(id, typed) && typed != "" {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", &failure{error: fmt.Errorf("%s: no window of yours begins so", quote(typed)), code: exitError, hint: "qunerctl meter list"}
	default:
		return "", usagef("qunerctl meter list", "%s: %s begin so", quote(typed), plural(len(found), "window"))
	}
}

// idsOf are the ids of the windows that can be closed: those of sessions cannot.
func idsOf(l *qunerv1.ListResponse) []string {
	var all []string
	for _, w := range l.GetWindows() {
		if w.GetLife() == qunerv1.WindowLife_WINDOW_LIFE_DETACHED {
			all = append(all, w.GetId())
		}
	}
	for _, c := range l.GetClosed() {
		all = append(all, c.GetResult().GetId())
	}
	return all
}

// windows asks for the caller's windows.
func (a *app) windows(ctx context.Context, r *qunerv1.ListRequest) (*qunerv1.ListResponse, error) {
	return meters(ctx, a, func(ctx context.Context, c qunerv1.MeterServiceClient) (*qunerv1.ListResponse, error) {
		return c.List(ctx, r)
	})
}

// windowError gives what the daemon has against an id its remedy.
func windowError(id string, err error) error {
	var answered interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &answered) {
		return err
	}
	f := &failure{error: errors.New(answered.GRPCStatus().Message()), code: exitError, hint: "qunerctl meter list --closed"}
	switch answered.GRPCStatus().Code() {
	case codes.NotFound:
		f.error = fmt.Errorf("%s: %w", quote(id), f.error)
		return f
	case codes.FailedPrecondition:
		f.code, f.hint = exitRefused, "close it where it was opened, or end that program: qunerctl meter list --closed then has what it cost"
		return f
	}
	return err
}

// windowIDs completes the ids of windows that scripts have opened.
func (a *app) windowIDs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	answer, err := a.windows(ctx, &qunerv1.ListRequest{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []string
	for _, w := range answer.GetWindows() {
		if w.GetLife() == qunerv1.WindowLife_WINDOW_LIFE_DETACHED {
			list = append(list, cobra.CompletionWithDesc(w.GetId(), w.GetName()+", open for "+span(time.Duration(w.GetDurationNs()))))
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}
