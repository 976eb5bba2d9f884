package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"seg6lab/lab"
)

func newDownCommand() *cobra.Command {
	var all, force bool
	cmd := &cobra.Command{
		Use:   "down LAB... | --all",
		Short: "Take labs down",
		Long: `Ends every process in the lab's namespaces, gives its ports back as they were and
removes the namespaces. With
--all, every lab of this machine goes, also what killed commands left; labs
that a running command still uses stay unless --force is given.`,
		Example: `  seg6lab down l2vpn
  seg6lab down --all`,
		ValidArgsFunction: completeLabs,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch {
			case all && len(args) > 0:
				return inputError{errors.New("give names or --all, not both")}
			case all:
				removed, err := lab.DownAll(force)
				for _, name := range removed {
					fmt.Fprintf(out, "lab %s is down\n", name)
				}
				if err != nil {
					return err
				}
				return reportInUse(cmd)
			case len(args) == 0:
				return inputError{errors.New("which lab? give its name (seg6lab list) or --all")}
			}
			var errs []error
			for _, name := range args {
				if err := lab.Down(name); err != nil {
					errs = append(errs, err)
					if !lab.PortTrouble(err) {
						continue
					}
				}
				fmt.Fprintf(out, "lab %s is down\n", name)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "take every lab down")
	cmd.Flags().BoolVar(&force, "force", false, "with --all: labs that a running command uses, too")
	return cmd
}

// reportInUse names the labs that stayed because a command uses them.
func reportInUse(cmd *cobra.Command) error {
	found, err := lab.Find()
	for _, f := range found {
		fmt.Fprintf(cmd.OutOrStdout(), "lab %s stays: process %d uses it (--force takes it down)\n", f.Name, f.Owner)
	}
	return err
}
