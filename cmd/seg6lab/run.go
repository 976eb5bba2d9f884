package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"seg6lab/lab/vm"
	"seg6lab/specs"
)

// cpuUsage is what --cpu is for.
const cpuUsage = "model of the CPU whose instructions are counted, by QEMU's name (default what the case says, or " + vm.DefaultCPU + ")"

type runFlags struct {
	all, list, verbose, asJSON bool
	labels                     []string
	report, place, dataplane   string
	kernelArgs, cpu            string
	kernels                    []string
	guests                     int
	fresh                      bool
	claims                     map[string]string
	ports                      portFlags
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run CASE... | --all",
		Short: "Run cases: build, send, assert, take down",
		Long: `Runs cases and says which held. A case is named by a shipped case (seg6lab run
--list), by a file or by a directory. NAME stands for every case of its
matrix; NAME/ROW,ROW for one; * for anything between slashes.

A failed expectation is shown layer by layer beside what arrived, and the
captured frames are kept as pcapng. Exit code: 0 all held, 1 one failed, 2 bad
input, 3 this machine lacks what a case requires, 4 the lab itself failed.

A case whose requirements this machine's kernel does not meet runs in a guest
with another kernel, by the same program; --place host makes that an error.`,
		Example: `  seg6lab run --list
  seg6lab run headend-encap
  seg6lab run 'headend-encap/v6*' my/case.yaml --report out
  seg6lab run --all --label '!slow'
  seg6lab run end-dt46 --kernel debian:6.1
  seg6lab run flow-l2vpn --port pe1:core=enp3s0f0 --port p:west=enp3s0f1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cases, err := chooseCases(args, f)
			if err != nil {
				return inputError{err}
			}
			if f.all && !f.list {
				var left map[string]int
				cases, left = leaveApart(cases, f.labels)
				for _, label := range slices.Sorted(maps.Keys(left)) {
					fmt.Fprintf(cmd.ErrOrStderr(), "%d cases with the label %s are left out; --label %s chooses them\n", left[label], label, label)
				}
			}
			if cases, err = bindCases(cases, f); err != nil {
				return inputError{err}
			}
			if f.list {
				return listCases(cmd, cases, f.asJSON)
			}
			return runCases(cmd, cases, f)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "every shipped case")
	flags.BoolVar(&f.list, "list", false, "list the cases instead of running them")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show what was sent and what arrived")
	flags.StringSliceVar(&f.labels, "label", nil, "only cases with this label, or with !LABEL without it")
	flags.StringVar(&f.report, "report", "", "directory for junit.xml, results.json and a pcapng of each case")
	flags.StringVar(&f.place, "place", specs.PlaceAuto, "where to run: auto, host or vm")
	flags.StringSliceVar(&f.kernels, "kernel", nil, "host, or kernel of a guest: debian:6.12, a bzImage or a built tree (default "+specs.DefaultKernel+"); several run every case on each that can")
	flags.StringVar(&f.kernelArgs, "kernel-arg", "", "arguments for the command line of the guests' kernel, such as init_on_alloc=0")
	flags.StringVar(&f.cpu, "cpu", "", cpuUsage)
	flags.StringVar(&f.dataplane, "dataplane", "", `"forwarder": seg6lab's own in every node that routes, not the kernel`)
	flags.IntVarP(&f.guests, "parallel", "p", 1, "guests side by side")
	flags.BoolVar(&f.fresh, "fresh", false, "a guest of its own for every case")
	flags.StringToStringVar(&f.claims, "claim", nil, "FIX=fixed, FIX=partly or FIX=unfixed: fail cases of the fix where the kernel does otherwise")
	f.ports.add(cmd)
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

// checkCPU tells whether the value of --cpu is a CPU.
func checkCPU(cmd *cobra.Command, cpu string) error {
	if cpu == "" {
		return nil
	}
	err := vm.CheckCPU(cmd.Context(), cpu)
	if errors.Is(err, vm.ErrNoCPU) {
		return inputError{err}
	}
	return err
}

func chooseCases(args []string, f runFlags) ([]*specs.Case, error) {
	if len(args) == 0 && !f.all && !f.list {
		return nil, errors.New("which case? give a name, a file, a directory or --all (seg6lab run --list)")
	}
	if len(args) > 0 && f.all {
		return nil, errors.New("give cases or --all, not both")
	}
	cases, err := specs.Find(args)
	if err != nil {
		return nil, err
	}
	var labels []string
	for _, c := range cases {
		labels = append(labels, c.Labels()...)
	}
	slices.Sort(labels)
	labels = slices.Compact(labels)
	cases = slices.DeleteFunc(cases, func(c *specs.Case) bool {
		return slices.ContainsFunc(f.labels, func(label string) bool {
			name, not := strings.CutPrefix(label, "!")
			return slices.Contains(c.Labels(), name) == not
		})
	})
	if len(cases) == 0 {
		return nil, fmt.Errorf("none of these cases has the label %s; there are %s", strings.Join(f.labels, " and "), strings.Join(labels, ", "))
	}
	return cases, nil
}

// leaveApart takes those out of all cases that are run only when their label is
// asked for, and counts them by label.
func leaveApart(cases []*specs.Case, asked []string) ([]*specs.Case, map[string]int) {
	left := make(map[string]int)
	return slices.DeleteFunc(cases, func(c *specs.Case) bool {
		label := specs.Apart(c)
		if label == "" || slices.Contains(asked, label) {
			return false
		}
		left[label]++
		return true
	}), left
}

// bindCases puts the cases on real ports.
func bindCases(cases []*specs.Case, f runFlags) ([]*specs.Case, error) {
	ports, err := f.ports.ports()
	if err != nil {
		return nil, err
	}
	bound := make([]*specs.Case, len(cases))
	for i, c := range cases {
		if bound[i], err = c.Bind(ports); err != nil {
			return nil, err
		}
		elsewhere := f.place == specs.PlaceGuest || slices.ContainsFunc(f.kernels, func(k string) bool { return k != specs.PlaceHost })
		if elsewhere && len(bound[i].Topology.Ports) > 0 {
			return nil, fmt.Errorf("case %s has ports of this machine, which only its kernel has: give neither --kernel nor --place vm", c.Name)
		}
	}
	return bound, nil
}

func listCases(cmd *cobra.Command, cases []*specs.Case, asJSON bool) error {
	type entry struct {
		Name, About, Topology string
		Labels, Requires      []string
	}
	var entries []entry
	for _, c := range cases {
		entries = append(entries, entry{c.Name, c.File.About, c.Topology.Name, c.Labels(), c.Requirements()})
	}
	if asJSON {
		return printJSON(cmd, entries)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%s\n", e.Name, e.About)
	}
	return w.Flush()
}

func runCases(cmd *cobra.Command, cases []*specs.Case, f runFlags) error {
	for _, k := range f.kernels {
		if err := specs.CheckPlace(f.place, k); err != nil {
			return inputError{err}
		}
	}
	if err := specs.CheckPlace(f.place, ""); err != nil {
		return inputError{err}
	}
	if f.dataplane != specs.DataplaneAsWritten && f.dataplane != specs.DataplaneForwarder {
		return inputError{fmt.Errorf("dataplane %s: expected %s", f.dataplane, specs.DataplaneForwarder)}
	}
	opts := specs.RunOptions{Place: f.place, Guests: f.guests, Fresh: f.fresh}
	if f.kernelArgs != "" && (f.place == specs.PlaceHost || slices.Contains(f.kernels, specs.PlaceHost)) {
		return inputError{fmt.Errorf("kernel arguments (%s) are for guests: this machine's kernel has booted without", f.kernelArgs)}
	}
	if err := checkCPU(cmd, f.cpu); err != nil {
		return err
	}
	opts.KernelArgs, opts.CPU = f.kernelArgs, f.cpu
	opts.Dataplane = f.dataplane
	opts.Force, opts.LinkTimeout = f.ports.force, f.ports.timeout
	opts.Queues, opts.PlaceInterrupts = f.ports.queues, f.ports.placeIRQs
	var err error
	if opts.Claims, err = parseClaims(f.claims); err != nil {
		return err
	}
	if f.report != "" {
		if err := os.MkdirAll(f.report, 0o755); err != nil {
			return inputError{err}
		}
		opts.Frames, opts.KeepAll = f.report, true
	}
	if err := clearLeftovers(cmd); err != nil {
		return err
	}
	out := newPrinter(cmd.OutOrStdout(), f, len(cases)*max(len(f.kernels), 1))
	opts.Start, opts.Done, opts.Log = out.start, out.done, out.log
	results, err := specs.RunMatrix(cmd.Context(), cases, f.kernels, opts)
	if err != nil {
		return err
	}
	if f.report != "" {
		if err := specs.WriteReport(f.report, results); err != nil {
			return err
		}
	}
	if f.asJSON {
		if err := printJSON(cmd, results); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(cmd.OutOrStdout(), specs.Summarize(results))
	}
	return verdictError(specs.Summarize(results))
}

// parseClaims reads the values of --claim.
func parseClaims(flags map[string]string) (map[string]specs.FixState, error) {
	claims := make(map[string]specs.FixState)
	for fix, claim := range flags {
		if !slices.Contains(specs.FixStates(), specs.FixState(claim)) {
			return nil, inputError{fmt.Errorf("claim %s=%s: expected unfixed, partly or fixed", fix, claim)}
		}
		if err := specs.CheckFix(fix); err != nil {
			return nil, inputError{fmt.Errorf("claim %s=%s: %w", fix, claim, err)}
		}
		claims[fix] = specs.FixState(claim)
	}
	return claims, nil
}

// verdictError is the error whose exit code tells the worst of the verdicts.
func verdictError(s specs.Summary) error {
	switch {
	case s.Broken > 0:
		return errBroken
	case s.Failed > 0:
		return errNotHeld
	case s.Unsupported > 0:
		return errUnsupported
	}
	return nil
}

// printer says how a run goes: plain lines, and on a terminal the case that
// runs, too.
type printer struct {
	w        io.Writer
	flags    runFlags
	terminal bool
	n, total int
}

func newPrinter(w io.Writer, f runFlags, total int) *printer {
	file, ok := w.(*os.File)
	return &printer{w: w, flags: f, total: total, terminal: ok && term.IsTerminal(int(file.Fd())) && !f.asJSON}
}

// clearLine returns to the start of the line and erases it.
const clearLine = "\r\x1b[K"

func (p *printer) start(c *specs.Case) {
	p.n++
	if p.terminal {
		fmt.Fprintf(p.w, "%s[%d/%d] %s", clearLine, p.n, p.total, c.Name)
	}
}

func (p *printer) log(line string) {
	if p.terminal {
		fmt.Fprint(p.w, clearLine)
	}
	if !p.flags.asJSON {
		fmt.Fprintln(p.w, line)
	}
}

func (p *printer) done(r *specs.Result) {
	if p.terminal {
		fmt.Fprint(p.w, clearLine)
	}
	if p.flags.asJSON {
		return
	}
	fmt.Fprintf(p.w, "%-11s %s (%s, %.0f ms)\n", r.Verdict, r.Case, r.Place, 1000*r.Seconds)
	if p.flags.verbose {
		if r.Why != "" {
			fmt.Fprintf(p.w, "    place: %s, as %s\n", r.Place, r.Why)
		}
		for _, s := range r.Steps {
			if s.About != "" {
				fmt.Fprintf(p.w, "    # %s\n", s.About)
			}
			fmt.Fprintf(p.w, "    %s\n", s.Did)
			for _, a := range s.Arrived {
				fmt.Fprintf(p.w, "    -> %s\n", a)
			}
		}
	}
	if r.Cost != nil && len(r.Cost.Variants) > 0 {
		var table strings.Builder
		r.Cost.WriteText(&table) // a strings.Builder takes all
		fmt.Fprintf(p.w, "    %s\n", strings.ReplaceAll(strings.TrimRight(table.String(), "\n"), "\n", "\n    "))
	}
	if r.Failure != "" {
		fmt.Fprintf(p.w, "    %s\n", strings.ReplaceAll(r.Failure, "\n", "\n    "))
	}
	if r.Failure != "" && r.Pcapng != "" {
		fmt.Fprintf(p.w, "    frames: %s\n", r.Pcapng)
	}
}
