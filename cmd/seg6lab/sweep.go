package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seg6lab/forwarder/skb"
	"seg6lab/lab/headroom"
	"seg6lab/lab/kernel"
	"seg6lab/specs"
	"seg6lab/specs/sweep"
)

type sweepFlags struct {
	kernel, profile    string
	csv, svg, report   string
	headroom, segments string
	modes, clones      []string
	macLens            []int
	asJSON             bool
}

func newSweepCommand() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Compare the sk_buff model with a kernel, point by point",
		Long: `Measures what every encap seg6 mode does to sk_buffs over headroom, mac_len,
segments and clone state, with warm dst caches, and lists every point at which
the kernel and the sk_buff model of the forwarder differ. The model takes the
fixes that the kernel turns out to have; --profile says otherwise.

With mac_len 18 and 22 an unfixed kernel moves MAC headers to outside of the
buffer. Such points are measured last, and in a guest only; where the guest dies
of it, the point is measured again in a new one. Exit code: 0 every point agrees,
1 one does not, 2 bad input, 3 this machine cannot run it, 4 the lab failed.`,
		Example: `  seg6lab sweep --report out
  seg6lab sweep --kernel host --csv points.csv
  seg6lab sweep --mode l2encap --segments 1..1 --mac-len 14 --clone none --profile l2-cow`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runSweep(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kernel, "kernel", specs.DefaultKernel, "host, or kernel of a guest: debian:6.12, a bzImage or a built tree")
	flags.StringVar(&f.profile, "profile", "", "fixes of the model, separated by commas, or none (default: found out)")
	flags.StringVar(&f.csv, "csv", "", "file for a row per point")
	flags.StringVar(&f.svg, "svg", "", "file for a heat map")
	flags.StringVar(&f.report, "report", "", "directory for sweep.csv, sweep.svg and sweep.txt")
	full := sweep.FullGrid()
	flags.StringVar(&f.headroom, "headroom", full.Headroom.String(), "headrooms in bytes, FIRST..LAST")
	flags.StringVar(&f.segments, "segments", full.Segments.String(), "numbers of segments, FIRST..LAST")
	flags.IntSliceVar(&f.macLens, "mac-len", full.MacLens, "lengths of the MAC header in bytes")
	flags.StringSliceVar(&f.modes, "mode", nil, "modes (default all)")
	flags.StringSliceVar(&f.clones, "clone", nil, "clone states: none, data, header (default all)")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

func (f sweepFlags) options() (o sweep.Options, err error) {
	o.Grid = sweep.FullGrid()
	o.Grid.MacLens = f.macLens
	if o.Grid.Headroom, err = parseRange("headroom", f.headroom); err != nil {
		return o, err
	}
	if o.Grid.Segments, err = parseRange("segments", f.segments); err != nil {
		return o, err
	}
	if len(f.modes) > 0 {
		o.Grid.Modes = nil
		for _, m := range f.modes {
			o.Grid.Modes = append(o.Grid.Modes, skb.Mode(m))
		}
	}
	if len(f.clones) > 0 {
		o.Grid.Clones = nil
		for _, c := range f.clones {
			o.Grid.Clones = append(o.Grid.Clones, headroom.Clone(c))
		}
	}
	if f.profile != "" {
		o.Profile = &skb.Profile{}
		if f.profile != "none" {
			if *o.Profile, err = skb.ParseProfile(f.profile); err != nil {
				return o, err
			}
		}
	}
	return o, o.Grid.Check()
}

// parseRange reads FIRST..LAST, or one number.
func parseRange(what, s string) (r sweep.Range, err error) {
	first, last, ok := strings.Cut(s, "..")
	if !ok {
		last = first
	}
	r.First, err = strconv.Atoi(first)
	if err == nil {
		r.Last, err = strconv.Atoi(last)
	}
	if err != nil {
		return r, fmt.Errorf("%s %q: expected FIRST..LAST", what, s)
	}
	return r, nil
}

func runSweep(cmd *cobra.Command, f sweepFlags) error {
	o, err := f.options()
	if err != nil {
		return inputError{err}
	}
	if f.report != "" {
		if err := os.MkdirAll(f.report, 0o755); err != nil {
			return inputError{err}
		}
	}
	start := time.Now()
	r := &sweep.Report{Grid: o.Grid}
	told := func(i sweep.Info) error { r.Info = i; return nil }
	results := func(rs []sweep.Result) error { r.Results = append(r.Results, rs...); return nil }
	log := func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) }
	if f.kernel == specs.PlaceHost {
		if err = clearLeftovers(cmd); err == nil {
			err = sweep.Run(cmd.Context(), o, told, results)
		}
	} else {
		var k *kernel.Kernel
		if k, err = kernel.Resolve(cmd.Context(), f.kernel); err == nil {
			err = sweep.RunInGuest(cmd.Context(), k, o, told, results, log)
		}
	}
	r.Took = time.Since(start)
	if err != nil {
		if errors.Is(err, sweep.ErrUnsupported) {
			return machineError{err}
		}
		err = guestError(err)
		if len(r.Results) == 0 {
			return err
		}
	}
	// What was measured before an error is worth keeping.
	if werr := writeSweep(cmd, f, r); err == nil {
		err = werr
	}
	return err
}

func writeSweep(cmd *cobra.Command, f sweepFlags, r *sweep.Report) error {
	in := func(name string) string {
		if f.report == "" {
			return ""
		}
		return filepath.Join(f.report, name)
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{f.csv, r.WriteCSV}, {in("sweep.csv"), r.WriteCSV},
		{f.svg, r.WriteSVG}, {in("sweep.svg"), r.WriteSVG},
		{in("sweep.txt"), r.WriteSummary},
	} {
		if file.name == "" {
			continue
		}
		if err := writeTo(file.name, file.write); err != nil {
			return err
		}
	}
	if f.asJSON {
		counts := map[sweep.Verdict]int{}
		for _, v := range []sweep.Verdict{sweep.Agrees, sweep.Differs, sweep.Died, sweep.Unreached, sweep.Unsupported} {
			counts[v] = r.Count(v)
		}
		err := printJSON(cmd, struct {
			sweep.Info
			Seconds  float64
			Points   map[sweep.Verdict]int
			OffModel []sweep.Result
		}{r.Info, r.Took.Seconds(), counts, r.OffModel()})
		if err != nil {
			return err
		}
	} else if err := r.WriteSummary(cmd.OutOrStdout()); err != nil {
		return err
	}
	switch {
	case r.Count(sweep.Unreached) > 0:
		return errBroken
	case len(r.OffModel()) > 0:
		return errNotHeld
	case r.Count(sweep.Agrees) == 0:
		return errUnsupported
	}
	return nil
}

func writeTo(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return inputError{err}
	}
	return errors.Join(write(file), file.Close())
}

// newSweepGuestCommand is what a guest executes for its host's sweep.
func newSweepGuestCommand() *cobra.Command {
	return &cobra.Command{
		Use:    sweep.GuestCommand,
		Short:  "Measure the points of a request on standard input, as guests do",
		Hidden: true,
		Args:   args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sweep.GuestMain(cmd.Context(), os.Stdin, cmd.OutOrStdout())
		},
	}
}
