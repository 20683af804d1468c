package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qunerd/quner/api/client"
)

// Exit codes.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitDenied      = 4
	exitRefused     = 5
	exitInterrupted = 130
)

// failure is an error with what the shell and the person are to get.
type failure struct {
	error
	code  int
	hint  string // the exact remedy; empty if there is none to give
	quiet bool   // everything has been said already
}

func (f *failure) Unwrap() error { return f.error }

func usage(err error) error { return &failure{error: err, code: exitUsage} }

func usagef(hint, format string, args ...any) error {
	return &failure{error: fmt.Errorf(format, args...), code: exitUsage, hint: hint}
}

// noArgs and the validators below turn cobra's errors into usage errors.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		hint := cmd.CommandPath() + " --help"
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = cmd.CommandPath() + " " + near[0]
		}
		return usagef(hint, "%s: no such verb", quote(args[0]))
	}
	return usagef(cmd.CommandPath()+" --help", "%s takes no arguments, got %s", cmd.CommandPath(), quote(args[0]))
}

func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef(cmd.CommandPath()+" --help", "%s takes one argument, got %d", cmd.CommandPath(), len(args))
	}
	return nil
}

// report prints an error and its remedy, and returns the exit status.
func (a *app) report(cmd *cobra.Command, err error) int {
	f := a.classify(cmd, err)
	if f.quiet {
		return f.code
	}
	_, _ = fmt.Fprintf(a.err, "%s %s\n", a.err.style(red, "qunerctl:"), clean(f.Error()))
	if f.hint != "" {
		_, _ = fmt.Fprintf(a.err, "%s %s\n", a.err.style(bold, "hint:"), clean(f.hint))
	}
	return f.code
}

// classify finds the exit status and the remedy of an error.
func (a *app) classify(cmd *cobra.Command, err error) *failure {
	if f := new(failure); errors.As(err, &f) {
		if f.code == exitUsage && f.hint == "" {
			f.hint = cmd.CommandPath() + " --help"
		}
		return f
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &failure{error: errors.New("interrupted"), code: exitInterrupted}
	case errors.Is(err, client.ErrPeer):
		return &failure{error: err, code: exitError,
			hint: "run qunerctl as the user who runs that daemon, or without --socket and " + client.EnvSocket}
	case errors.Is(err, client.ErrUnreachable) && errors.Is(err, fs.ErrPermission):
		return &failure{error: err, code: exitDenied, hint: a.deniedHint()}
	case errors.Is(err, client.ErrUnreachable):
		return &failure{error: err, code: exitUnreachable, hint: a.startHint()}
	}
	var answered interface{ GRPCStatus() *status.Status } // the status itself: what wraps it would speak of codes
	if !errors.As(err, &answered) {
		return &failure{error: err, code: exitError}
	}
	s := answered.GRPCStatus()
	said := errors.New(s.Message())
	switch s.Code() {
	case codes.Canceled:
		return &failure{error: errors.New("interrupted"), code: exitInterrupted}
	case codes.Unavailable:
		return &failure{error: fmt.Errorf("qunerd has gone away: %w", said), code: exitUnreachable, hint: a.startHint()}
	case codes.PermissionDenied, codes.Unauthenticated:
		return &failure{error: said, code: exitDenied, hint: a.deniedHint()}
	case codes.FailedPrecondition:
		return &failure{error: said, code: exitRefused, hint: refusedHint(cmd, s.Message())}
	case codes.NotFound:
		return &failure{error: said, code: exitError, hint: foundHint(cmd)}
	case codes.Aborted:
		return &failure{error: said, code: exitError, hint: "qunerctl status shows what the machine does now"}
	case codes.InvalidArgument:
		return &failure{error: said, code: exitUsage, hint: cmd.CommandPath() + " --help"}
	case codes.Unimplemented:
		return &failure{error: said, code: exitError, hint: "the daemon is older than this qunerctl: sudo systemctl restart qunerd"}
	case codes.DeadlineExceeded:
		return &failure{error: errors.New("qunerd did not answer in time"), code: exitError, hint: "qunerctl doctor shows a device that hangs"}
	default:
		return &failure{error: said, code: exitError, hint: "journalctl -u qunerd -n 50"}
	}
}

// refusedHint is the remedy when the daemon could but will not.
func refusedHint(cmd *cobra.Command, said string) string {
	if f := cmd.Flags().Lookup("force"); f != nil && strings.Contains(said, "force") {
		return "wait, or repeat with --force: " + f.Usage
	}
	if strings.Contains(said, "no lever") {
		return "qunerctl doctor shows each lever with its reason"
	}
	return "qunerctl status shows what stands in the way"
}

// foundHint names the verb that lists what there is.
func foundHint(cmd *cobra.Command) string {
	if p := cmd.Parent(); p != nil && p.HasParent() { // points forget: points lists them
		return p.CommandPath() + " list"
	}
	return cmd.CommandPath() + " --help"
}

// otherDaemon tells whether the person addresses another daemon than the system's.
func (a *app) otherDaemon() (dir string, ok bool) {
	dir = strings.TrimSuffix(client.Options{Dir: a.dir}.SocketPath(), "/quner/quner.sock")
	return dir, dir != "/run"
}

func (a *app) startHint() string {
	if dir, ok := a.otherDaemon(); ok {
		return "qunerd run --simulate workstation --dir " + quote(dir)
	}
	return "sudo systemctl start qunerd"
}

// deniedHint repeats what was typed, by somebody who may.
func (a *app) deniedHint() string {
	if _, ok := a.otherDaemon(); ok {
		return "run it as the user who runs that daemon"
	}
	words := []string{"sudo qunerctl"}
	for _, w := range a.args {
		words = append(words, quote(w))
	}
	return strings.Join(words, " ")
}

// asRoot is a command line for a verb that moves the machine. A daemon of one's own is moved without sudo, which would
// not find it.
func (a *app) asRoot(verb string) string {
	if _, ok := a.otherDaemon(); ok {
		return strings.TrimSpace("qunerctl " + verb)
	}
	return strings.TrimSpace("sudo qunerctl " + verb)
}

// quote makes a word safe to paste into a shell; plain words stay as they are.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,@+%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
