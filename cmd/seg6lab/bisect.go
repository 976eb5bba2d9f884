package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"seg6lab/lab/kernel"
	"seg6lab/lab/vm"
	"seg6lab/specs"
)

// Exit codes that git bisect run gives a meaning (git-bisect(1)).
const (
	bisectBad  = 1
	bisectSkip = 125
	bisectStop = 128 // and above: the search ends
)

func newBisectStepCommand() *cobra.Command {
	var tree string
	var with []string
	var claims map[string]string
	cmd := &cobra.Command{
		Use:   "bisect-step CASE...",
		Short: "Say for git bisect run whether the tree's kernel is good",
		Long: `Builds the kernel of a source tree as it stands, runs cases on it and answers
git bisect run. Exit code 0: good, all held. 1: bad, one failed, or it crashed the
kernel. 125: this commit tells nothing, as it does not compile, does not boot or
lacks what a case requires. 128 and more end the search: 130 bad input, 131 this
machine cannot, 132 something else.

The tree is only read. What changed since the last step is compiled, and a commit
that was built before is not built again. --with adds options and patches that
every commit needs, such as a fix of another bug. A case of a report holds on
kernels with and without the fix: --claim says which of them is good.`,
		Example: `  git bisect start v6.13 v6.12
  git bisect run seg6lab bisect-step end-dt46
  git bisect run seg6lab bisect-step my.yaml --tree ~/linux --with kasan --with fix.patch`,
		Args: func(cmd *cobra.Command, args []string) error {
			return bisectUsage(cmd, cobra.MinimumNArgs(1)(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			recipe := strings.Join(append([]string{tree + ":source"}, with...), "+")
			code, err := bisectStep(cmd, args, recipe, claims)
			if err != nil {
				fmt.Fprintf(os.Stderr, "seg6lab: %v\n", err)
			}
			if code == 0 {
				return nil
			}
			return commandExit(code)
		},
	}
	cmd.SetFlagErrorFunc(bisectUsage)
	flags := cmd.Flags()
	flags.StringVar(&tree, "tree", ".", "kernel source tree")
	flags.StringArrayVar(&with, "with", nil, "option or patch to build each commit with; several are in this order")
	flags.StringToStringVar(&claims, "claim", nil, "FIX=fixed, FIX=partly or FIX=unfixed: what a good kernel does")
	return cmd
}

// bisectUsage makes a mistake on the command line end the search: git would take
// the usual exit code for a bad commit.
func bisectUsage(_ *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	fmt.Fprintf(os.Stderr, "seg6lab: %v (see seg6lab bisect-step --help)\n", err)
	return commandExit(bisectStop + exitInput)
}

// bisectStep returns the exit code of one step, and what to say besides.
func bisectStep(cmd *cobra.Command, names []string, recipe string, claims map[string]string) (int, error) {
	stop := func(err error) (int, error) { return bisectStop + exitCode(guestError(err)), err }
	cases, err := specs.Find(names)
	if err != nil {
		return bisectStop + exitInput, err
	}
	if _, _, err := vm.KnownAccel(); err != nil {
		return stop(err) // else every commit would be skipped
	}
	k, err := kernel.Build(cmd.Context(), recipe)
	if errors.Is(err, kernel.ErrBuild) {
		return bisectSkip, err
	}
	if err != nil {
		return stop(err)
	}
	// Each commit has a kernel of its own: what is saved of its guests is no use
	// for the next, and large.
	defer kernel.RemoveGuests(k)
	opts := specs.RunOptions{Place: specs.PlaceGuest}
	if opts.Claims, err = parseClaims(claims); err != nil {
		return stop(err)
	}
	out := newPrinter(cmd.OutOrStdout(), runFlags{}, len(cases))
	opts.Start, opts.Done, opts.Log = out.start, out.done, out.log
	results, err := specs.RunMatrix(cmd.Context(), cases, []string{k.Spec}, opts)
	if err != nil {
		return stop(err)
	}
	switch s := specs.Summarize(results); {
	case s.Failed > 0:
		return bisectBad, nil
	case s.Held < len(cases):
		return bisectSkip, nil
	}
	return exitHeld, nil
}
