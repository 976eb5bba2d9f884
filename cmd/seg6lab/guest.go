package main

import (
	"os"

	"github.com/spf13/cobra"

	"seg6lab/specs"
)

// newGuestCommand is what runs in a guest: the runner, told by its host.
func newGuestCommand() *cobra.Command {
	return &cobra.Command{
		Use:    specs.GuestCommand,
		Short:  "Run the cases of a request on standard input, as guests do",
		Hidden: true,
		Args:   args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return specs.GuestMain(cmd.Context(), os.Stdin, cmd.OutOrStdout())
		},
	}
}
