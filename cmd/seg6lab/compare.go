package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"seg6lab/specs"
)

// compareFlags are of the commands that run cases on several kernels.
type compareFlags struct {
	kernels, kernelArgs []string
	cpu                 string
	guests              int
}

func (f *compareFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.kernels, "kernel", nil, "host, or kernel of a guest, several times: the first is what the others are measured against")
	flags.StringArrayVar(&f.kernelArgs, "kernel-arg", nil, "arguments for the kernel's command line, several times: all is run with each")
	flags.StringVar(&f.cpu, "cpu", "", cpuUsage)
	flags.IntVarP(&f.guests, "parallel", "p", 1, "guests side by side")
}

// compare runs the cases with what the flags say, keeping frames in a directory
// unless that is empty. How it goes is told on stderr.
func (f *compareFlags) compare(cmd *cobra.Command, named []string, cases []*specs.Case, frames string) (*specs.Comparison, error) {
	opts := specs.CompareOptions{Named: named, Kernels: f.kernels, Args: f.kernelArgs}
	if err := opts.Check(); err != nil {
		return nil, inputError{err}
	}
	if err := checkCPU(cmd, f.cpu); err != nil {
		return nil, err
	}
	opts.Place, opts.Guests, opts.CPU = specs.PlaceAuto, f.guests, f.cpu
	opts.Frames, opts.KeepAll = frames, frames != ""
	if err := clearLeftovers(cmd); err != nil {
		return nil, err
	}
	out := newPrinter(cmd.ErrOrStderr(), runFlags{}, len(cases)*len(f.kernels)*max(len(f.kernelArgs), 1))
	opts.Start, opts.Log = out.start, out.log
	opts.Done = func(r *specs.Result) {
		// What was not met comes after the table.
		brief := *r
		brief.Failure = ""
		out.done(&brief)
	}
	return specs.Compare(cmd.Context(), cases, opts)
}

func newCompareCommand() *cobra.Command {
	var (
		f      compareFlags
		report string
		diffs  bool
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "compare CASE... --kernel A --kernel B",
		Short: "Run cases on several kernels and show side by side what became of them",
		Long: `Runs every case on every kernel, and prints for each what its frames met there:
the verdict, how often the head of a packet was reallocated and on whose behalf,
the bytes that this copied and zeroed, what a packet costs where the case says
how to count, each with its ratio to the first kernel's, and the frames that are
not the same. The table has at most 75 columns, for a mail.

That kernels differ is no error. Exit code: 0 every case ran everywhere and did
what the case says of a kernel like that; 1 an expectation failed, 2 bad input,
3 a kernel or this machine lacks what a case requires, 4 the lab itself failed.`,
		Example: `  seg6lab compare seg6-l2encap-realloc/l2encap --kernel debian:6.12:source --kernel debian:6.12+l2-cow
  seg6lab compare end-dt46 --kernel debian:6.1 --kernel debian:6.12 --report out
  seg6lab compare mine.yaml --kernel debian:6.12 --kernel-arg init_on_alloc=0 --kernel-arg init_on_alloc=1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cases, err := chooseCases(args, runFlags{})
			if err != nil {
				return inputError{err}
			}
			if len(f.kernels) == 0 || len(f.kernels) == 1 && len(f.kernelArgs) < 2 {
				return inputError{errors.New("what is to be compared? give --kernel twice or more, or --kernel-arg")}
			}
			if report != "" {
				if err := os.MkdirAll(report, 0o755); err != nil {
					return inputError{err}
				}
			}
			c, err := f.compare(cmd, args, cases, report)
			if err != nil {
				return err
			}
			if report != "" {
				err = errors.Join(specs.WriteReport(report, c.Results()),
					writeTo(filepath.Join(report, "compare.txt"), func(w io.Writer) error { return c.WriteTable(w, true) }),
					writeTo(filepath.Join(report, "compare.json"), c.WriteJSON))
				if err != nil {
					return err
				}
			}
			if asJSON {
				err = c.WriteJSON(cmd.OutOrStdout())
			} else {
				err = c.WriteTable(cmd.OutOrStdout(), diffs)
				fmt.Fprintln(cmd.ErrOrStderr(), specs.Summarize(c.Results()))
			}
			return errors.Join(err, verdictError(specs.Summarize(c.Results())))
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&report, "report", "", "directory for compare.txt, compare.json, junit.xml, results.json and a pcapng of each run")
	cmd.Flags().BoolVar(&diffs, "diff", false, "show every difference of frames, not the first few")
	addJSONFlag(cmd, &asJSON)
	return cmd
}
