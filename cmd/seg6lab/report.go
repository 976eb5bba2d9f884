package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"seg6lab/specs"
)

func newReportCommand() *cobra.Command {
	var (
		f            compareFlags
		from, script string
	)
	cmd := &cobra.Command{
		Use:   "report CASE... | --from compare.json",
		Short: "Write of cases what a mailing list can use: a text, or a shell script",
		Long: `Runs cases on one or several kernels, as seg6lab compare does, and prints plain
text of at most 75 columns: what was run, on what, what came of it, and how to
repeat it. With --from nothing is run, the results are those of a comparison
that seg6lab compare --report or --json has written.

With --script nothing is run either: of each case it makes a shell script, in the
manner of the kernel's selftests, that shows the same without seg6lab. It needs ip,
tc, sysctl and ping, sends the case's packets as they stand there in hexadecimal,
and ends with 0 (the case holds), 1 (it does not) or 4 (it cannot be told there).
What a case has that cannot be said with these tools is listed, and no script made.

Exit code: as for compare; with --script 2 where the case cannot be said so.`,
		Example: `  seg6lab report seg6-l2encap-realloc/l2encap --kernel debian:6.12:source --kernel debian:6.12+l2-cow
  seg6lab report --from out/compare.json
  seg6lab report demo --script demo.sh`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if from != "" {
				return reportFrom(cmd, args, from)
			}
			cases, err := chooseCases(args, runFlags{})
			if err != nil {
				return inputError{err}
			}
			if script != "" {
				return writeScripts(cmd, cases, f, script)
			}
			if len(f.kernels) == 0 {
				f.kernels = []string{specs.DefaultKernel}
			}
			c, err := f.compare(cmd, args, cases, "")
			if err != nil {
				return err
			}
			return errors.Join(c.WriteMail(cmd.OutOrStdout()), verdictError(specs.Summarize(c.Results())))
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&from, "from", "", "file with the JSON of a comparison: nothing is run again")
	cmd.Flags().StringVar(&script, "script", "", "file for a shell script that shows the case without seg6lab, - for standard output; of several cases a directory")
	return cmd
}

func reportFrom(cmd *cobra.Command, args []string, from string) error {
	if len(args) > 0 {
		return inputError{errors.New("--from names the comparison that is reported: give no cases")}
	}
	file, err := os.Open(from)
	if err != nil {
		return inputError{fmt.Errorf("there is no comparison to report, compare --report writes one: %w", err)}
	}
	defer file.Close()
	c, err := specs.ReadComparison(file)
	if err != nil {
		return inputError{fmt.Errorf("%s: %w", from, err)}
	}
	return errors.Join(c.WriteMail(cmd.OutOrStdout()), verdictError(specs.Summarize(c.Results())))
}

// writeScripts makes the script of a case, or a directory with those of several.
func writeScripts(cmd *cobra.Command, cases []*specs.Case, f compareFlags, path string) error {
	if len(f.kernels) > 0 || len(f.kernelArgs) > 0 {
		return inputError{errors.New("a script is run on the kernel that it is started on: give neither --kernel nor --kernel-arg")}
	}
	if len(cases) == 1 {
		return writeScript(cmd, cases[0], path)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return inputError{err}
	}
	var errs []error
	for _, c := range cases {
		errs = append(errs, writeScript(cmd, c, filepath.Join(path, strings.ReplaceAll(c.Name, "/", "_")+".sh")))
	}
	return errors.Join(errs...)
}

func writeScript(cmd *cobra.Command, c *specs.Case, path string) error {
	var b bytes.Buffer
	if err := specs.WriteScript(&b, c); err != nil {
		return inputError{err}
	}
	if path == "-" {
		_, err := b.WriteTo(cmd.OutOrStdout())
		return err
	}
	if err := os.WriteFile(path, b.Bytes(), 0o755); err != nil {
		return inputError{err}
	}
	return nil
}
