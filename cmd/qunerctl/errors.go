package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

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

// lineEnds tells what ends a line: errors that were joined are told in one.
func lineEnds(r rune) bool { return r == '\n' }

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
		return usagef(verbHint(cmd, args[0]), "%s: no such verb", quote(args[0]))
	}
	return usagef(cmd.CommandPath()+" --help", "%s takes no arguments, got %s", cmd.CommandPath(), quote(args[0]))
}

// verbHint is the verb that was meant: a daemon's, one spelt a little otherwise, or whatever --help lists.
func verbHint(cmd *cobra.Command, typed string) string {
	if !cmd.HasParent() {
		switch typed {
		case "run":
			return "the daemon is started with: sudo qunerd run"
		case "restore":
			return "sudo qunerctl apply --restore; with no daemon: sudo qunerd restore"
		}
	}
	if near := cmd.SuggestionsFor(typed); len(near) > 0 {
		return cmd.CommandPath() + " " + near[0]
	}
	return cmd.CommandPath() + " --help"
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
	_, _ = fmt.Fprintf(a.err, "%s %s\n", a.err.style(red, "qunerctl:"), clean(strings.Join(strings.FieldsFunc(f.Error(), lineEnds), "; ")))
	if f.hint != "" {
		_, _ = fmt.Fprintf(a.err, "%s %s\n", a.err.style(bold, "hint:"), clean(a.asCalled(f.hint)))
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
	case errors.Is(err, client.ErrRestarted):
		return &failure{error: client.ErrRestarted, code: exitError}
	case errors.Is(err, client.ErrPeer):
		return &failure{error: err, code: exitError,
			hint: "run qunerctl as the user who runs that daemon, or without --socket and " + client.EnvSocket}
	case errors.Is(err, client.ErrUnreachable) && errors.Is(err, fs.ErrPermission):
		if _, other := a.otherDaemon(); !other && strings.Contains(err.Error(), "admin.sock") {
			err = fmt.Errorf("the admin socket is for %s: %w", a.adminsWord(), err)
		}
		return &failure{error: err, code: exitDenied, hint: a.deniedHint()}
	case errors.Is(err, client.ErrUnreachable) && errors.Is(err, context.DeadlineExceeded):
		return &failure{error: err, code: exitUnreachable, hint: a.stuckHint()}
	case errors.Is(err, client.ErrUnreachable):
		return &failure{error: err, code: exitUnreachable, hint: a.startHint()}
	}
	var answered interface{ GRPCStatus() *status.Status } // the status itself: what wraps it would speak of codes
	if !errors.As(err, &answered) {
		return &failure{error: err, code: exitError}
	}
	return a.answered(cmd, answered.GRPCStatus())
}

// answered finds the exit status and the remedy of a daemon's answer.
func (a *app) answered(cmd *cobra.Command, s *status.Status) *failure {
	said := errors.New(s.Message())
	if odd := slices.IndexFunc(a.args, func(w string) bool { return !utf8.ValidString(w) }); odd >= 0 && s.Code() == codes.Internal {
		return &failure{error: fmt.Errorf("%s: allowed is UTF-8", quote(a.args[odd])), code: exitUsage, hint: cmd.CommandPath() + " --help"}
	}
	switch s.Code() {
	case codes.Canceled:
		return &failure{error: errors.New("interrupted"), code: exitInterrupted}
	case codes.Unavailable:
		return &failure{error: fmt.Errorf("qunerd has gone away: %w", said), code: exitUnreachable, hint: a.startHint()}
	case codes.PermissionDenied, codes.Unauthenticated:
		return &failure{error: said, code: exitDenied, hint: a.deniedHint()}
	case codes.FailedPrecondition:
		return &failure{error: said, code: exitRefused, hint: a.refusedHint(cmd, s.Message())}
	case codes.NotFound:
		return &failure{error: said, code: exitError, hint: foundHint(cmd)}
	case codes.Aborted:
		if strings.Contains(s.Message(), "holds the levers") {
			return &failure{error: said, code: exitRefused, hint: "wait for it to end, or: " + a.asRoot("pause")}
		}
		if strings.Contains(s.Message(), "do not count") {
			return &failure{error: said, code: exitError, hint: "end what spoils them, then tune again; qunerctl doctor names the power daemons that run"}
		}
		return &failure{error: said, code: exitError, hint: "qunerctl status shows what the machine does now"}
	case codes.InvalidArgument:
		return &failure{error: said, code: exitUsage, hint: cmd.CommandPath() + " --help"}
	case codes.Unimplemented:
		return &failure{error: said, code: exitError, hint: a.oldHint()}
	case codes.DeadlineExceeded:
		return &failure{error: errors.New("qunerd did not answer in time"), code: exitError, hint: "qunerctl doctor shows a device that hangs"}
	default:
		return &failure{error: said, code: exitError, hint: a.logHint()}
	}
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
