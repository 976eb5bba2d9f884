package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"seg6lab/lab"
)

func newListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the labs that are up",
		Example: "  seg6lab list",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := lab.Find()
			if err != nil {
				return err
			}
			if asJSON {
				if found == nil {
					found = []lab.Found{} // a list for its readers, not null
				}
				return printJSON(cmd, found)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, f := range found {
				state := "up"
				switch {
				case f.Orphaned:
					state = fmt.Sprintf("left by process %d", f.Owner)
				case f.Owner != 0:
					state = fmt.Sprintf("used by process %d", f.Owner)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", f.Name, state, strings.Join(f.Nodes, " "))
			}
			return w.Flush()
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func completeLabs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	found, err := lab.Find()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
