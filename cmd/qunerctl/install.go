package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/cmd/qunerctl/install"
)

// installFlags are what install and uninstall have in common.
type installFlags struct {
	dryRun, yes bool
	root        string
	wish        install.Wish
}

func (f *installFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print every file and command, and do nothing")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "ask nothing")
	c.Flags().StringVar(&f.root, "root", "/", "work on the tree in `DIR`; nothing is started there")
	_ = c.MarkFlagDirname("root")
}

func (a *app) installCmd() *cobra.Command {
	var f installFlags
	var group, retune string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Make quner a service of this machine",
		Long: `Make quner a service of this machine: copy qunerctl and qunerd from where they are to where root
finds programs, write the units and a configuration, make the group quner, start the daemon, wait
until it is ready, and show what doctor says.

Nothing is written over what this command has not written: a program of the same name or a changed
configuration stays. Doing it again does nothing; with a newer build it is an upgrade, and tuned
points, floors and the mode stay. If a step fails, what was done is taken back. Other services that
move the same levers are never stopped: quner leaves those levers to them.

A timer looks every half hour whether the machine, at rest, could draw less (qunerctl retune);
--retune-interval changes or ends that, for upgrades too.

"sudo qunerctl uninstall" puts the machine back and removes all of it.`,
		Example: "  qunerctl install --dry-run\n  sudo bin/qunerctl install\n  sudo qunerctl install --admin-group wheel\n  sudo qunerctl install --retune-interval off\n  qunerctl install --root ./image",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("admin-group") {
				f.wish.AdminGroup = &group
			}
			if c.Flags().Changed("retune-interval") {
				every, err := install.ParseRetune(retune, parseDuration)
				if err != nil {
					return wrongValue("--retune-interval 30m", "--retune-interval", retune, "off, or a duration from 5m to 30d")
				}
				f.wish.Retune = &every
			}
			var err error
			if f.wish.Sources, err = programsHere(); err != nil {
				return err
			}
			return a.change(c.Context(), &f, installing{})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&group, "admin-group", "", "let members of the `GROUP` use the admin socket (root takes it back)")
	cmd.Flags().StringVar(&retune, "retune-interval", "", "explore the machine at rest every `D`, or \"off\" (default 30m)")
	return cmd
}

func (a *app) uninstallCmd() *cobra.Command {
	var f installFlags
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Put the machine back and remove what install has put there",
		Long: `Stop the daemon, which puts the machine back as it was found, and remove exactly what install
has put there. What the machine has learned (tuned points, floors, mode, history) stays for
another time, unless --purge, and so does a configuration that you have changed. One that was there
before quner stays in any case. If the machine cannot be put back, nothing is removed.`,
		Example: "  sudo qunerctl uninstall --dry-run\n  sudo qunerctl uninstall --purge",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if here, err := programsHere(); err == nil {
				if _, err := os.Stat(here["qunerd"]); err == nil {
					f.wish.Restorer = here["qunerd"]
				}
			}
			return a.change(c.Context(), &f, uninstalling{})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.wish.Purge, "purge", false, "remove tuned points, floors, mode, history and configuration too")
	return cmd
}

// programsHere are this program and the daemon beside it.
func programsHere() (map[string]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return nil, err
	}
	return map[string]string{"qunerctl": self, "qunerd": filepath.Join(filepath.Dir(self), "qunerd")}, nil
}

// errand is what install and uninstall do differently.
type errand interface {
	plan(*install.Facts) (install.Plan, error)
	// ask says what a person should know first; question is empty if there is nothing to ask.
	ask(a *app, f *install.Facts, w install.Wish) (question string)
	// words speak of where the files go; place is empty for the machine itself.
	words(f *install.Facts, place string) (would, does, nothing string)
	after(ctx context.Context, a *app, place string, lines []install.Line)
}

// change looks, plans, asks and does.
func (a *app) change(ctx context.Context, f *installFlags, e errand) error {
	f.root = realRoot(f.root)
	live := f.root == "/"
	if err := a.mayChange(f, live); err != nil {
		return err
	}
	f.wish.Version, f.wish.Path = version, os.Getenv("PATH")
	m, err := install.Open(f.root, live, nil)
	if err != nil {
		return noTree(f.root, err)
	}
	defer func() { _ = m.Close() }()
	if !f.dryRun {
		release, err := m.Lock()
		if err != nil {
			return a.installFailure(err)
		}
		defer release()
	}
	facts, err := install.Look(ctx, m, f.wish)
	if err != nil {
		return a.installFailure(err)
	}
	plan, err := e.plan(facts)
	if err != nil {
		return a.installFailure(err)
	}
	place := ""
	if !live {
		place = filepath.Clean(f.root)
	}
	would, does, nothing := e.words(facts, place)
	switch {
	case f.dryRun && a.json:
		return a.installJSON(plan.Lines(), false)
	case f.dryRun:
		e.ask(a, facts, f.wish)
		a.out.printf("%s\n", would)
		a.installTable(plan.Lines())
		a.out.printf("Nothing was changed.\n")
		return nil
	case !plan.Changes() && !a.json:
		a.out.printf("%s\n", nothing)
		return nil
	}
	if err := a.confirm(e.ask(a, facts, f.wish), f.yes); err != nil {
		return err
	}
	return a.carryOut(ctx, m, plan, e, does, place)
}

// realRoot is a root as it is opened: "/" if it is this machine's own under another name, for it cannot be staged.
func realRoot(dir string) string {
	this, err := os.Stat("/")
	named, err2 := os.Stat(dir)
	if err == nil && err2 == nil && os.SameFile(this, named) {
		return "/"
	}
	return filepath.Clean(dir)
}

// carryOut does a plan, tells each step, and shows what came of it. Who reads that may go away: the plan goes on to its end.
func (a *app) carryOut(ctx context.Context, m *install.Machine, plan install.Plan, e errand, does, place string) error {
	heedPipe()
	var lines []install.Line
	if !a.json {
		a.out.printf("%s\n", does)
	}
	err := plan.Do(ctx, m, func(l install.Line) {
		lines = append(lines, l)
		if !a.json {
			a.installLine(l)
		}
	})
	if err != nil {
		return a.installFailure(err)
	}
	if a.json {
		return a.installJSON(lines, true)
	}
	e.after(ctx, a, place, lines)
	return nil
}

// noTree is a --root that cannot be worked on.
func noTree(root string, err error) error {
	hint := "qunerctl install --help"
	if errors.Is(err, fs.ErrNotExist) {
		hint = "mkdir -p " + quote(root)
	}
	return usagef(hint, "--root: %v", err)
}

// mayChange refuses calls that cannot mean what they say.
func (a *app) mayChange(f *installFlags, live bool) error {
	if dir, ok := a.otherDaemon(); ok && live {
		return usagef("unset QUNER_SOCKET and leave --socket out, or stage files with --root DIR",
			"this installs on the machine itself, and %s speaks of another daemon", quote(dir))
	}
	if live && !f.dryRun && os.Geteuid() != 0 {
		return &failure{error: errors.New("only root can do this"), code: exitDenied, hint: a.sudoSelf()}
	}
	return nil
}

// sudoSelf is this very call as root, by a path under which sudo finds the program.
func (a *app) sudoSelf() string {
	words := []string{"sudo", "qunerctl"}
	if self, err := os.Executable(); err == nil {
		if found, err := exec.LookPath("qunerctl"); err != nil || found != self {
			words[1] = quote(self)
		}
	}
	for _, w := range a.args {
		words = append(words, quote(w))
	}
	return strings.Join(words, " ")
}

// installFailure gives an error its exit status and remedy.
func (a *app) installFailure(err error) error {
	var refused *install.Refusal
	switch {
	case errors.As(err, &refused):
		return &failure{error: err, code: exitRefused, hint: refused.Hint()}
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, install.ErrManifest):
		return &failure{error: err, code: exitRefused, hint: "look at it; to do without: sudo mv " + install.ManifestFile + " " + install.ManifestFile + ".bad"}
	case errors.Is(err, fs.ErrPermission):
		return &failure{error: err, code: exitDenied, hint: a.sudoSelf()}
	case strings.Contains(err.Error(), "qunerd.service"):
		return &failure{error: err, code: exitError, hint: "journalctl -u qunerd -n 50"}
	}
	return &failure{error: err, code: exitError}
}

func (a *app) installTable(lines []install.Line) {
	for _, l := range lines {
		a.installLine(l)
	}
}

func (a *app) installLine(l install.Line) {
	why := ""
	if l.Why != "" {
		why = "   " + a.out.style(dim, clean(l.Why))
	}
	a.out.printf("  %-7s %s%s\n", l.Do, clean(l.What), why)
}

func (a *app) installJSON(lines []install.Line, done bool) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Done  bool           `json:"done"`
		Steps []install.Line `json:"steps"`
	}{done, append([]install.Line{}, lines...)})
}

// confirm asks, if there is a question; nobody there to answer is a no.
func (a *app) confirm(question string, yes bool) error {
	if question == "" || yes {
		return nil
	}
	a.err.printf("%s [y/N] ", question)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil {
		a.err.printf("\n")
	}
	if word := strings.ToLower(strings.TrimSpace(answer)); word == "y" || word == "yes" {
		return nil
	}
	return &failure{error: errors.New("not confirmed; nothing was changed"), code: exitRefused, hint: a.sudoSelf() + " --yes"}
}

// installing is the errand of install.
type installing struct{}

func (installing) plan(f *install.Facts) (install.Plan, error) { return install.Install(f) }

func (installing) words(f *install.Facts, place string) (would, does, nothing string) {
	nothing = "quner " + version + " is installed and runs; there is nothing to do."
	what := "quner " + version
	if old := f.Installed(); old != "" && old != version {
		what += " in place of " + old
	}
	if place != "" {
		nothing = "quner " + version + " is in " + place + "; there is nothing to do."
		what += " in the tree " + place
	}
	return "To install " + what + ":", "Installing " + what + ":", nothing
}

// ask shows who else moves levers here, and that they are left to them.
func (installing) ask(a *app, f *install.Facts, _ install.Wish) string {
	if err := f.Unseen(); err != nil && !a.json {
		a.err.printf("%s whether other power daemons run is not known: %v\n", a.err.style(yellow, "!"), err)
	}
	others := 0
	for _, r := range f.Rivals() {
		if len(r.Contests) == 0 {
			continue // doctor tells of it
		}
		others++
		if a.json {
			continue
		}
		var take, kinds []string
		for _, k := range r.Contests {
			kinds = append(kinds, kindWord(k))
			take = append(take, "sudo qunerctl levers take "+k)
		}
		a.out.printf("%s %s runs and %s.\n    quner leaves that to it (%s), and goes on with the rest. You choose:\n      %-13s %s\n      %-13s %s\n",
			a.out.style(yellow, "!"), a.out.style(bold, clean(r.Daemon)), clean(strings.TrimPrefix(r.Detail, r.Daemon+" ")),
			strings.Join(slices.Compact(kinds), ", "), "end it:", clean(r.Remedy), "overrule it:", strings.Join(take, " && "))
	}
	if others == 0 {
		return ""
	}
	return "Install beside it?"
}

// after shows what the daemon found.
func (installing) after(ctx context.Context, a *app, place string, _ []install.Line) {
	if place != "" {
		a.out.printf("quner is in %s, and starts when that system boots.\n", clean(place))
		return
	}
	a.out.printf("The daemon is ready.\n\n")
	if err := a.doctor(ctx); err != nil {
		a.err.printf("%s %v\n", a.err.style(yellow, "!"), fmt.Errorf("doctor: %w", err))
	}
	a.out.printf("\nTo remove it:\n  %s\n", a.asRoot("uninstall"))
}

// uninstalling is the errand of uninstall.
type uninstalling struct{}

func (uninstalling) plan(f *install.Facts) (install.Plan, error) { return install.Uninstall(f) }

func (uninstalling) words(f *install.Facts, place string) (would, does, nothing string) {
	what := strings.TrimSpace("quner " + f.Installed())
	if place != "" {
		what += " from the tree " + place
	}
	return "To remove " + what + ":", "Removing " + what + ":", "quner is not installed; there is nothing to do."
}

func (uninstalling) ask(_ *app, _ *install.Facts, w install.Wish) string {
	if w.Purge {
		return "Remove tuned points, floors, mode, history and configuration too?"
	}
	return ""
}

func (uninstalling) after(_ context.Context, a *app, place string, lines []install.Line) {
	if place != "" {
		a.out.printf("quner is removed from %s.\n", clean(place))
		return
	}
	if slices.ContainsFunc(lines, install.Line.LeavesLever) {
		a.out.printf("quner is removed, and the machine is as it was found but for what is said above.\n")
		return
	}
	a.out.printf("quner is removed, and the machine is as it was found.\n")
}
