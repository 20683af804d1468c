package main

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"
)

func (f *tuneFlags) attachFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.attach, "attach", "", "tune a service that goes on: its work is told by its windows of workload `NAME`")
	flags.StringVar(&f.of, "of", "", "with --attach: the windows of `USER`, a name or a uid (default: yours)")
	_ = cmd.RegisterFlagCompletionFunc("attach", cobra.NoFileCompletions) // the flag is there
}

// commandFlags are the flags of tune that speak of a command.
func commandFlags() []string {
	return []string{"workload", "work-fd", "unit", "run-timeout", "as", "verbose"}
}

// checkAttach makes sure that there is one thing to tune, a command or a service, and fills in what the request says of a
// service.
func (f *tuneFlags) checkAttach(cmd *cobra.Command, args []string) error {
	attached := cmd.Flags().Changed("attach")
	switch {
	case !attached && cmd.Flags().Changed("of"):
		return usagef("--attach NAME", "--of says whose windows --attach means")
	case !attached && len(args) == 0 && !f.start.GetDryRun():
		return usagef("qunerctl tune -- COMMAND", "tune: which command?")
	case !attached:
		return nil
	case len(args) > 0:
		return usagef("qunerctl tune --attach NAME", "--attach tunes a service that runs already; a command has no place beside it")
	case !unitWord().MatchString(f.attach):
		return wrongValue("--attach chat", "--attach", f.attach, "1 to 64 of A-Z a-z 0-9 . _ -")
	}
	for _, name := range commandFlags() {
		if cmd.Flags().Changed(name) {
			return usagef("qunerctl tune --attach NAME", "--%s is for a command; --attach runs none", name)
		}
	}
	f.start.Attach, f.start.Workload = true, f.attach
	uid, err := windowsOf(f.of)
	f.start.WorkloadUid = uid
	return err
}

// windowsOf is whose windows are meant: those of the user named; with none, under sudo those of who typed it. Nil: the
// caller's.
func windowsOf(name string) (*uint32, error) {
	typed := os.Getenv("SUDO_UID")
	if name == "" && (os.Geteuid() != 0 || typed == "") {
		return nil, nil //nolint:nilnil // nobody else is an answer, not a lack of one
	}
	text := cmp.Or(name, typed)
	uid, err := strconv.ParseUint(text, 10, 32)
	if err == nil {
		return new(uint32(uid)), nil
	}
	if name == "" {
		return nil, &failure{error: fmt.Errorf("SUDO_UID %s: no uid", quote(typed)), code: exitError, hint: "say whose windows: --of USER"}
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, &failure{error: fmt.Errorf("--of %s: no such user", quote(name)), code: exitError, hint: "give a uid: --of 1000"}
	}
	if uid, err = strconv.ParseUint(u.Uid, 10, 32); err != nil {
		return nil, fmt.Errorf("uid of %s: %w", quote(name), err)
	}
	return new(uint32(uid)), nil
}

// unitNow is what the work is counted in, as far as it is known before the report: the windows of a service say it themselves.
func (f *tuneFlags) unitNow() string {
	if f.start.GetAttach() {
		return "unit"
	}
	return cmp.Or(f.start.GetWorkUnit(), "run")
}
