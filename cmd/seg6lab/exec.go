package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"seg6lab/lab"
)

func newExecCommand() *cobra.Command {
	var labName string
	cmd := &cobra.Command{
		Use:   "exec NODE -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a node",
		Long: `Runs a command in a node's namespace, with its input, output and exit code
passed through. --lab is needed only where several labs are up.`,
		Example: `  seg6lab exec pe1 -- ip -6 route
  seg6lab exec --lab second pe1 -- bash`,
		Args: args(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			command := args[1:]
			if command[0] == "--" {
				command = command[1:]
			}
			if len(command) == 0 {
				return inputError{errors.New("which command? seg6lab exec NODE -- COMMAND")}
			}
			l, err := openLab(labName)
			if err != nil {
				return err
			}
			defer l.Close()
			node, err := l.Node(args[0])
			if err != nil {
				return err
			}
			c := node.Command(cmd.Context(), command[0], command[1:]...)
			c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
			err = node.Run(c)
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				return commandExit(exit.ExitCode())
			}
			if errors.Is(err, exec.ErrNotFound) {
				return inputError{err}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&labName, "lab", "", "name of the lab")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// commandExit is the exit code of a user's command, which becomes ours.
type commandExit int

func (e commandExit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// openLab opens the lab of the name, or the only one where name is empty.
func openLab(name string) (*lab.Lab, error) {
	if name == "" {
		found, err := lab.Find()
		if err != nil {
			return nil, err
		}
		switch len(found) {
		case 0:
			return nil, inputError{errors.New("no lab is up (seg6lab up TOPOLOGY)")}
		case 1:
			name = found[0].Name
		default:
			return nil, inputError{errors.New("several labs are up: name one with --lab (seg6lab list)")}
		}
	}
	return lab.Open(name)
}
