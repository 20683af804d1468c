package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeTimeout is how long a shell waits for names that only the daemon knows.
const completeTimeout = time.Second

// helpCmd is cobra's, but a topic that there is none of is a wrong call.
func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "help [VERB]",
		Short:   "Help about any verb",
		Example: "  qunerctl help tune",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef(verbHint(cmd.Root(), args[0]), "help: %s: no such verb", quoteOrNothing(args))
			}
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var verbs []string
			for _, c := range about.Commands() {
				if c.IsAvailableCommand() {
					verbs = append(verbs, c.Name())
				}
			}
			return verbs, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// completions makes the verb "completion": cobra's scripts, with our usage errors and what a shell needs for them.
func completions(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil || cmd == root {
		return
	}
	cmd.Args, cmd.Example = noArgs, "  source <(qunerctl completion bash)"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, shell := range cmd.Commands() {
		shell.Args = noArgs
		shell.Example = map[string]string{
			"bash":       "  qunerctl completion bash | sudo tee /etc/bash_completion.d/qunerctl  # needs the package bash-completion",
			"zsh":        `  qunerctl completion zsh > "${fpath[1]}/_qunerctl"`,
			"fish":       "  qunerctl completion fish > ~/.config/fish/completions/qunerctl.fish",
			"powershell": "  qunerctl completion powershell | Out-String | Invoke-Expression",
		}[shell.Name()]
	}
}

// oneOf completes a flag with fixed words.
func oneOf(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// pointIDs completes the ids of points that have not been named yet.
func (a *app) pointIDs(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		answer, err := a.points(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, p := range answer.GetPoints() {
			if !slices.Contains(args, p.GetId()) {
				ids = append(ids, cobra.CompletionWithDesc(p.GetId(), strings.TrimSpace(profileWord(p.GetProfile())+" "+p.GetWorkload())))
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// leverNames completes the levers of this host and their kinds.
func (a *app) leverNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	s, err := a.status(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	for _, l := range s.GetLevers() {
		words = append(words, l.GetName())
		if !slices.Contains(words, l.GetKind()) {
			words = append(words, l.GetKind())
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// deviceNames completes the last of a list of metered devices.
func (a *app) deviceNames(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	s, err := a.status(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	before := typed[:strings.LastIndex(typed, ",")+1]
	var words []string
	for _, name := range append([]string{"cpu", "gpu"}, metered(s)...) {
		words = append(words, before+name)
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
