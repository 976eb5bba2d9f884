package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"seg6lab/lab/topology"
	"seg6lab/specs"
)

func newSchemaCommand() *cobra.Command {
	schemas := map[string][]byte{"topology": topology.Schema, "case": specs.Schema}
	return &cobra.Command{
		Use:   "schema [topology|case]",
		Short: "Print the JSON schema of topology or case files",
		Long: `Prints the JSON schema of topology files, or of case files, with which an editor
completes and checks them: put "# yaml-language-server: $schema=PATH" into the
first line.`,
		Example: `  seg6lab schema > topology.schema.json
  seg6lab schema case > case.schema.json`,
		Args:      args(cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs)),
		ValidArgs: slices.Sorted(maps.Keys(schemas)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "topology"
			if len(args) > 0 {
				name = args[0]
			}
			_, err := cmd.OutOrStdout().Write(schemas[name])
			return err
		},
	}
}
