package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// group makes a command of which only the subcommands do something refuse any
// other word as bad input; cobra alone would show help and succeed.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return inputError{fmt.Errorf("unknown command %q of %s%s (see %s --help)", args[0], cmd.CommandPath(), hint, cmd.CommandPath())}
	}
	cmd.SuggestionsMinimumDistance = 2
	return cmd
}
