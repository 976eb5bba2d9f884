package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"seg6lab/topologies"
)

func newTopologyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "topology [NAME]",
		Short: "List the shipped topologies, or print one",
		Long: `Without a name, lists the shipped topologies. With one, prints its file: a start
for your own.`,
		Example: `  seg6lab topology
  seg6lab topology l2vpn > my.yaml`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				src, err := topologies.Source(args[0])
				if err != nil {
					return inputError{err}
				}
				_, err = cmd.OutOrStdout().Write(src)
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, t := range topologies.List() {
				fmt.Fprintf(w, "%s\t%s\n", t.Name, t.About)
			}
			return w.Flush()
		},
	}
}
