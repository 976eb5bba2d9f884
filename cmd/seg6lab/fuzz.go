package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"seg6lab/lab/kernel"
	"seg6lab/specs"
	"seg6lab/specs/fuzz"
)

type fuzzFlags struct {
	count         int
	seed          uint64
	kernel, write string
	quirks        string
	asJSON        bool
}

func newFuzzCommand() *cobra.Command {
	var f fuzzFlags
	cmd := &cobra.Command{
		Use:   "fuzz",
		Short: "Compare the forwarder with a kernel, byte for byte, on drawn packets",
		Long: fmt.Sprintf(`Draws configurations of a router and packets for it, valid, odd and malformed,
and compares what a kernel and the forwarder send: every byte, every ICMP error,
every silence, and the counters of the SIDs. Each configuration meets %d
packets. A difference is made as small as it gets and shown with the seed that
replays it; --write keeps it as a case, which fails on the kernel and holds with
--dataplane forwarder.

Exit code: 0 no difference, 1 one, 2 bad input, 3 this machine cannot run it, 4
the lab failed.`, fuzz.RoundFrames),
		Example: `  seg6lab fuzz --count 50000
  seg6lab fuzz --kernel debian:6.12 --count 1000000
  seg6lab fuzz --seed 7 --count 1234 --write found`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				f.seed = rand.Uint64() >> 32
			}
			return runFuzz(cmd, f)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.count, "count", 50000, "how many packets")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the first configuration (default: drawn)")
	flags.StringVar(&f.kernel, "kernel", specs.PlaceHost, "host, or kernel of a guest: debian:6.12, a bzImage or a built tree")
	flags.StringVar(&f.write, "write", "", "directory for a case of each difference")
	flags.StringVar(&f.quirks, "quirks", "linux", "what the forwarder follows where they depart: linux or rfc")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

func (f fuzzFlags) options() (fuzz.Options, error) {
	switch {
	case f.count <= 0:
		return fuzz.Options{}, fmt.Errorf("count %d: expected at least one packet", f.count)
	case f.seed > fuzz.MaxSeed:
		return fuzz.Options{}, fmt.Errorf("seed %d: expected at most %d", f.seed, uint64(fuzz.MaxSeed))
	case f.quirks != "linux" && f.quirks != "rfc":
		return fuzz.Options{}, fmt.Errorf("quirks %s: expected linux or rfc", f.quirks)
	}
	return fuzz.Options{Count: f.count, Seed: f.seed, RFC: f.quirks == "rfc"}, nil
}

func runFuzz(cmd *cobra.Command, f fuzzFlags) error {
	o, err := f.options()
	if err != nil {
		return inputError{err}
	}
	start := time.Now()
	log := func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) }
	var differences []*fuzz.Difference
	found := func(d *fuzz.Difference) error {
		differences = append(differences, d)
		if !f.asJSON {
			fmt.Fprintln(cmd.OutOrStdout(), d)
		}
		if f.write == "" || d.Case == "" {
			return nil
		}
		name, err := fuzz.WriteCase(f.write, d)
		if err != nil {
			return inputError{err}
		}
		if !f.asJSON {
			fmt.Fprintf(cmd.OutOrStdout(), "case: %s\n", name)
		}
		return nil
	}
	said := start
	progress := func(r fuzz.Report) {
		if time.Since(said) >= 10*time.Second {
			said = time.Now()
			log(fmt.Sprintf("%d packets", r.Frames))
		}
	}
	var r *fuzz.Report
	if f.kernel == specs.PlaceHost {
		if err = clearLeftovers(cmd); err == nil {
			r, err = fuzz.Run(cmd.Context(), o, found, progress)
		}
	} else {
		var k *kernel.Kernel
		if k, err = kernel.Resolve(cmd.Context(), f.kernel); err == nil {
			r, err = fuzz.RunInGuest(cmd.Context(), k, o, found, progress, log)
		}
	}
	if err != nil {
		return guestError(err)
	}
	if f.asJSON {
		err = printJSON(cmd, struct {
			Seed    uint64
			Seconds float64
			*fuzz.Report
			Differences []*fuzz.Difference
		}{f.seed, time.Since(start).Seconds(), r, differences})
	} else {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d packets, %d configurations from --seed %d: %d differences; the kernel sent %d frames, %d of them back (%s)\n",
			r.Frames, r.Rounds, f.seed, len(differences), r.Sent, r.Answers, time.Since(start).Round(time.Millisecond))
		for _, name := range r.Lacks {
			fmt.Fprintf(cmd.OutOrStdout(), "not compared, since this kernel lacks it: %s\n", name)
		}
	}
	if err == nil && len(differences) > 0 {
		err = errNotHeld
	}
	return err
}

// newFuzzGuestCommand is what a guest executes for its host's comparison.
func newFuzzGuestCommand() *cobra.Command {
	return &cobra.Command{
		Use:    fuzz.GuestCommand,
		Short:  "Compare as a request on standard input says, as guests do",
		Hidden: true,
		Args:   args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fuzz.GuestMain(cmd.Context(), os.Stdin, cmd.OutOrStdout())
		},
	}
}
