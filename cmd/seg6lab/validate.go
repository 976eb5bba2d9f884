package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"seg6lab/specs"
)

func newValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check topology and case files",
		Long: `Checks files without touching the kernel. Every mistake is reported with file,
line and column. Exit code 2 where there is one.`,
		Example: "  seg6lab validate my.yaml cases/*.yaml",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, name := range args {
				if err := specs.Validate(name); err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", name)
			}
			if err := errors.Join(errs...); err != nil {
				return inputError{err}
			}
			return nil
		},
	}
}
