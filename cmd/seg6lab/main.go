// Command seg6lab builds SRv6 test labs from network namespaces, injects exact
// frames and asserts what the kernel makes of them.
//
// Each subcommand is in a file of its own and holds no logic: it reads flags,
// calls a package and prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"seg6lab/lab/vm"
	"seg6lab/specs"
)

// Exit codes.
const (
	exitHeld     = 0 // everything held
	exitNotHeld  = 1 // an expectation failed
	exitInput    = 2 // bad input
	exitMachine  = 3 // this machine cannot run it
	exitInternal = 4 // the lab itself failed
)

func main() {
	vm.Main()
	vm.Prepared = []string{specs.GuestCommand}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second signal ends the program at once; what it leaves behind goes with
	// the next command.
	context.AfterFunc(ctx, stop)
	err := newRootCommand().ExecuteContext(withProgress(ctx))
	if err != nil && !said(err) {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		fmt.Fprintf(os.Stderr, "seg6lab: %v\n", err)
	}
	os.Exit(exitCode(err))
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "seg6lab",
		Short: "A test lab and emulator for SRv6 on Linux",
		Long: `seg6lab builds a network from network namespaces, lets the kernel's seg6
forward in it, injects exact frames and asserts the bytes that come out.

Exit codes: 0 held, 1 an expectation failed, 2 bad input, 3 this machine cannot
run it, 4 the lab itself failed.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newDoctorCommand(),
		newValidateCommand(),
		newRunCommand(),
		newCompareCommand(),
		newReportCommand(),
		newUpCommand(),
		newDownCommand(),
		newListCommand(),
		newStatusCommand(),
		newExecCommand(),
		newCaptureCommand(),
		newPortCommand(),
		newTopologyCommand(),
		newSchemaCommand(),
		newForwardCommand(),
		newVMCommand(),
		newKernelCommand(),
		newBisectStepCommand(),
		newSweepCommand(),
		newFuzzCommand(),
		newHeadroomCommand(),
		newGuestCommand(),
		newSweepGuestCommand(),
		newFuzzGuestCommand(),
	)
	return group(root)
}
