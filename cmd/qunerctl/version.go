package main

import "github.com/spf13/cobra"

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of qunerctl",
		Example: "  qunerctl version",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				_, err := a.out.Write(append(appendString([]byte(`{"version":`), version), "}\n"...))
				return err
			}
			a.out.printf("qunerctl %s\n", version)
			return nil
		},
	}
}
