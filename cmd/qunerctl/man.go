package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the man pages, from the commands themselves; packages ship them.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "write the man pages of qunerctl to a directory",
		Hidden:  true,
		Example: "  qunerctl man /usr/local/share/man/man1",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef(cmd.CommandPath()+" --help", "man: want one directory, got %s", quoteOrNothing(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return doc.GenManTree(c.Root(), &doc.GenManHeader{Section: "1", Source: "quner " + version, Manual: "quner"}, args[0])
		},
	}
}
