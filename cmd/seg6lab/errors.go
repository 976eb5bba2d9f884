package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"seg6lab/lab"
	"seg6lab/lab/feature"
	"seg6lab/lab/kernel"
	"seg6lab/lab/port"
	"seg6lab/lab/topology"
	"seg6lab/lab/topology/strictyaml"
	"seg6lab/lab/vm"
)

// Errors that end the program after the command has said everything itself.
var (
	errNotHeld     = errors.New("an expectation failed")
	errUnsupported = machineError{errors.New("this machine lacks what a case requires")}
	errBroken      = errors.New("the lab itself failed")
)

// said tells the errors that need no message.
func said(err error) bool {
	var command commandExit
	return errors.Is(err, errNotHeld) || errors.Is(err, errUnsupported) || errors.Is(err, errBroken) || errors.As(err, &command)
}

// inputError is what the user can put right by writing something else.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// machineError is what this machine lacks.
type machineError struct{ error }

func (e machineError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var (
		input    inputError
		machine  machineError
		file     topology.Errors
		notFound *lab.NotFoundError
		exists   *lab.ExistsError
		missing  *feature.Missing
		command  commandExit
		noPort   *port.NotFoundError
		refused  *port.RefusedError
		inUse    *port.InUseError
	)
	switch {
	case err == nil:
		return exitHeld
	case errors.As(err, &command):
		return int(command)
	case errors.Is(err, errNotHeld):
		return exitNotHeld
	case errors.As(err, &input), errors.As(err, &file), errors.As(err, &notFound), errors.As(err, &exists),
		errors.Is(err, kernel.ErrSpec):
		return exitInput
	case errors.As(err, &machine), errors.Is(err, lab.ErrNotRoot), errors.As(err, &missing),
		errors.As(err, &noPort), errors.As(err, &refused), errors.As(err, &inUse),
		errors.Is(err, vm.ErrNoQEMU):
		return exitMachine
	default:
		return exitInternal
	}
}

// flagError says what flag may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := strictyaml.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			err = fmt.Errorf("%w; did you mean --%s?", err, near)
		}
	}
	return inputError{fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())}
}

// args checks the number of arguments, as bad input.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return inputError{err}
		}
		return nil
	}
}
