package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"seg6lab/lab/kernel"
)

func newKernelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kernel",
		Short: "Fetch, build, list and remove the kernels of guests",
		Long: `Debian's kernels are fetched by apt into a cache: $SEG6LAB_CACHE, or seg6lab
below the user's cache directory. A kernel by path is used where it lies. A recipe
is built from Debian's source or from a tree of yours.`,
	}
	cmd.AddCommand(newKernelListCommand(), newKernelGetCommand(), newKernelBuildCommand(), newKernelRmCommand(), newKernelCleanCommand())
	return group(cmd)
}

func newKernelListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the kernels in the cache",
		Long: `Lists the kernels in the cache: the name, what uname -r says there, what it is from,
when it was fetched or built, and what it takes on disk with its saved guests. Of
several of one name the newest is first, and taken.`,
		Example: "  seg6lab kernel list",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			entries, err := kernel.List()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, entries)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, e := range entries {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Spec, e.Release, e.Version+e.Source, e.Fetched.Local().Format("2006-01-02 15:04"), humanize.Bytes(uint64(e.Bytes)))
			}
			if err := w.Flush(); err != nil {
				return err
			}
			bytes, err := kernel.Leftovers()
			if err == nil && bytes > 0 {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "besides, sources and objects of builds: %s (seg6lab kernel clean)\n", humanize.Bytes(uint64(bytes)))
			}
			return err
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func newKernelGetCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "get KERNEL...",
		Short: "Fetch Debian's newest kernel of a series",
		Long: `Fetches a kernel that apt offers, checks it by the hash in apt's index and
keeps it. debian:6.12 is the kernel for clouds, debian:6.12:full the one with
every driver.`,
		Example: "  seg6lab kernel get debian:6.12 debian:6.1",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var got []*kernel.Kernel
			for _, spec := range args {
				k, err := kernel.Get(cmd.Context(), spec)
				if err != nil {
					return guestError(err)
				}
				if got = append(got, k); !asJSON {
					fmt.Fprintln(cmd.OutOrStdout(), k)
				}
			}
			if asJSON {
				return printJSON(cmd, got)
			}
			return nil
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func newKernelBuildCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "build RECIPE...",
		Short: "Build a kernel from source, with patches",
		Long: `Builds kernels, each once. A recipe is a source with what is added to it:

  debian:6.12:source    Debian's linux-source-6.12 as it is
  debian:6.12+X+Y       the same with X and Y, patches in this order
  TREE:source, TREE+X   a source tree of yours, which is only read

X is an option (` + strings.Join(kernel.Options(), ", ") + `), a shipped patch (` + strings.Join(kernel.ShippedPatches(), ", ") + `),
or the path of a patch as it came from git or a mailing list: a mail, a mailbox
with a series, or a plain diff. The configuration is a small one of seg6lab's, all
built in. Every command that takes a kernel takes a recipe, and builds it if need
be.

The first build takes ten minutes on two processors and 5 GB; one after a patch
changed or came in addition, less than one. Exit code 2: a patch does not apply or
the source does not compile.`,
		Example: `  seg6lab kernel build debian:6.12:source
  seg6lab kernel build debian:6.12+kasan+fix.patch
  seg6lab kernel build ~/linux+series.mbox`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var built []*kernel.Kernel
			for _, spec := range args {
				k, err := kernel.Build(cmd.Context(), spec)
				if err != nil {
					return guestError(err)
				}
				if built = append(built, k); !asJSON {
					fmt.Fprintln(cmd.OutOrStdout(), k)
				}
			}
			if asJSON {
				return printJSON(cmd, built)
			}
			return nil
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func newKernelCleanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove the sources and objects of builds, keep the kernels",
		Long: `Removes what building left besides the kernels: copies of sources and objects,
some 5 GB. The next build of a kernel that is not there takes as long as the first.`,
		Example: "  seg6lab kernel clean",
		Args:    args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return kernel.Clean(cmd.Context()) },
	}
}

func newKernelRmCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm KERNEL...",
		Short:   "Remove kernels and their saved guests from the cache",
		Example: "  seg6lab kernel rm debian:6.1",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, spec := range args {
				if err := kernel.Remove(spec); err != nil {
					return guestError(err)
				}
			}
			return nil
		},
	}
}
