package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"seg6lab/lab/kernel"
	"seg6lab/lab/vm"
)

func newVMCommand() *cobra.Command {
	var spec string
	var cfg vm.Config
	var verbose bool
	var nics []string
	cmd := &cobra.Command{
		Use:   "vm [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command on another kernel",
		Long: `Runs a command in a guest with the kernel of your choice. The host's files are
the guest's root, read-only; what is written stays in the guest and goes with
it. Input, output and exit code are passed through, on a terminal too. Without a
command the shell is run. The guest's kernel loads modules as on the host.

A kernel is debian:VERSION, debian:VERSION:full, a bzImage, or a built tree. A
warning or worse of the guest's kernel fails the run with its log and exit code 1.`,
		Example: `  seg6lab vm -- uname -r
  seg6lab vm --kernel debian:6.1 -- bash some_kernel_selftest.sh
  seg6lab vm --kernel ~/linux
  seg6lab vm --kernel arch/x86/boot/bzImage --memory 1024 -- ./reproducer
  seg6lab vm --kernel debian:6.12:full --nic e1000e@a --nic e1000e@a -- ip link`,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, s := range nics {
				nic, err := vm.ParseNIC(s)
				if err != nil {
					return inputError{fmt.Errorf("--nic: %w", err)}
				}
				cfg.NICs = append(cfg.NICs, nic)
			}
			k, err := kernel.Resolve(cmd.Context(), spec)
			if err != nil {
				return guestError(err)
			}
			cfg.Kernel, cfg.HostFiles = k, true
			m, err := vm.Boot(cmd.Context(), cfg)
			if err != nil {
				return guestError(err)
			}
			defer m.Close()
			if verbose {
				fmt.Fprintln(os.Stderr, m)
			}
			if m.Shared() == "" {
				fmt.Fprintln(os.Stderr, "seg6lab: the guest cannot see the host's files: only the command and the files it names were copied (run as root, or with --kernel debian:6.12:full)")
			}
			if len(args) == 0 {
				args = []string{vm.Shell()}
			}
			exit, err := m.RunHere(cmd.Context(), args)
			if cerr := m.Close(); err == nil {
				err = cerr
			}
			if report := (*vm.Report)(nil); errors.As(err, &report) {
				fmt.Fprintf(os.Stderr, "seg6lab: %v\n", report)
				return errNotHeld
			}
			if err != nil {
				return err
			}
			if exit != 0 {
				return commandExit(exit)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&spec, "kernel", "debian:6.12", "kernel to boot")
	flags.IntVar(&cfg.MemoryMB, "memory", 0, "memory of the guest in MiB (default 384)")
	flags.IntVar(&cfg.CPUs, "cpus", 0, "processors of the guest (default 1)")
	flags.StringVar(&cfg.Append, "append", "", "more words for the kernel's command line")
	flags.StringArrayVar(&nics, "nic", nil, "network device of emulated hardware, "+strings.Join(vm.NICModels(), ", ")+"; those with the same word after @ are cabled together")
	flags.BoolVar(&cfg.NoSaved, "fresh", false, "boot the kernel instead of restoring a saved guest")
	flags.BoolVarP(&verbose, "verbose", "v", false, "say on stderr how the guest runs")
	flags.SetInterspersed(false)
	return cmd
}

// guestError sorts the errors of kernels and guests into exit codes.
func guestError(err error) error {
	switch {
	case errors.Is(err, kernel.ErrSpec):
		return inputError{err}
	case errors.Is(err, vm.ErrNoQEMU), errors.Is(err, vm.ErrNoNIC), errors.Is(err, kernel.ErrUnavailable):
		return machineError{err}
	default:
		return err
	}
}
