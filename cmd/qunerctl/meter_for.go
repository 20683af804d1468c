package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/api/client"
)

// shortest and longest are what --for may be: with less than a second nothing is told to those who may not know CPU energy
// exactly, and a day is the longest that a machine is metered in one go.
const (
	shortest = time.Second
	longest  = 24 * time.Hour
)

// forForms says what --for may be.
const forForms = "a duration of 1s to 24h, such as 90s, 30m or 2h"

// metering is what a page is about.
type metering struct {
	words string   // the command, for people
	args  []string // and as it was given; none with --for
	asked time.Duration

	script bool // a window that a script has closed
}

// runsCommand tells whether the words typed are to run a command: what goes wrong is then told as by a wrapper of it.
func (a *app) runsCommand() bool {
	long := func(word string) bool { return word == "--for" || strings.HasPrefix(word, "--for=") }
	return slices.Contains(a.args, "--") || !slices.ContainsFunc(a.args, long)
}

// openWindow opens the window. A daemon that is not there is told by the window, what it has against the flags by the error.
func (a *app) openWindow(cmd *cobra.Command, c *client.Client, f *meterFlags) (*client.Window, error) {
	f.open.WaitEdge, f.close.WaitEdge = f.waitEdge, f.waitEdge
	w, err := c.Open(cmd.Context(), f.open)
	if err != nil {
		said := a.classify(cmd, err)
		said.hint = "qunerctl doctor names the devices; qunerctl meter --help"
		return nil, said
	}
	return w, nil
}

// meterFor meters the machine for a while.
func (a *app) meterFor(cmd *cobra.Command, f *meterFlags) error {
	ctx := cmd.Context()
	err := f.check(cmd.Flags())
	if f.span == "" { // --for=
		err = wrongValue("qunerctl meter --for 60s", "--for", f.span, forForms)
	}
	if err != nil {
		said := &failure{error: err, code: exitUsage, hint: "qunerctl meter --help"}
		_ = errors.As(err, &said)
		return said
	}
	result, err := resultOutlet(ctx, f.output, a.out)
	if err != nil {
		return err
	}
	defer func() { _ = result.close() }()
	if err := a.resolveDevices(ctx, f); err != nil {
		return usagef("qunerctl doctor", "%w", err)
	}
	c, err := a.meterClient(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if f.open.Name == "" {
		f.open.Name = "machine"
	}
	w, err := a.openWindow(cmd, c, f)
	if err != nil {
		return err
	}
	if w.Measured() {
		a.await(ctx, f.lasts)
	}
	// An interrupt has ended the wait, not the measurement.
	measured, err := w.Close(context.WithoutCancel(ctx), f.close)
	if measured.Cause != nil || err != nil {
		return errors.Join(measured.Cause, err)
	}
	what := "this machine"
	if len(f.open.Devices) > 0 {
		what = short(strings.Join(f.open.Devices, ", "))
	}
	if err := a.deliver(cmd, result, measured, metering{words: what, asked: f.lasts}); err != nil {
		return err
	}
	if why := f.notSampled(measured); why != nil {
		return &failure{error: why, code: exitError}
	}
	return nil
}

// await waits until the time is over or somebody interrupts, and shows meanwhile how far it is.
func (a *app) await(ctx context.Context, lasts time.Duration) {
	p := &progress{s: a.err}
	defer p.clear()
	if !a.err.tty {
		p.step("metering for %s …", shortDuration(lasts))
	}
	over := time.NewTimer(lasts)
	defer over.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := time.Duration(0); ; n += time.Second {
		p.show("metering … %s of %s, %s left; Ctrl-C ends it early, with the result",
			shortDuration(n), shortDuration(lasts), shortDuration(max(0, lasts-n)))
		select {
		case <-tick.C:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// showResult prints what was measured; the screen remembers whether that worked.
func (a *app) showResult(cmd *cobra.Command, s *screen, measured client.Result, of metering) {
	cleanMessage(measured.Window.ProtoReflect())
	if !a.json {
		a.meterPage(cmd, s, measured, of)
		return
	}
	_ = writeJSON(s, measured.Window)
}

// notSampled is what is wrong with a figure where nothing but a measurement will do.
func (f *meterFlags) notSampled(r client.Result) error {
	if !f.sampled || r.Measured() {
		return nil
	}
	method := r.Window.GetMethod()
	return fmt.Errorf("the figure is %s, and --require-sampled wants a measurement", enumWord(method.Descriptor(), method.Number()))
}

// words are a command's as one types them.
func words(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = quote(arg)
	}
	return strings.Join(quoted, " ")
}
