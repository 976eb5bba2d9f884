package main

import (
	"github.com/spf13/cobra"

	"seg6lab/lab/topology"
)

func newSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of topology files",
		Long: `Prints the JSON schema of topology files, with which an editor completes and
checks them: put "# yaml-language-server: $schema=PATH" into the first line.`,
		Example: "  seg6lab schema > topology.schema.json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(topology.Schema)
			return err
		},
	}
}
