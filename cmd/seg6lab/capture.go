package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"seg6lab/lab"
	"seg6lab/lab/topology"
	"seg6lab/traffic"
)

func newCaptureCommand() *cobra.Command {
	var labName, file string
	cmd := &cobra.Command{
		Use:   "capture [NODE:DEVICE...]",
		Short: "Capture frames as pcapng, until Ctrl-C",
		Long: `Captures at the named devices, or at every device of every node, into one pcapng
stream with an interface for each: to a file, or to standard output for
Wireshark.`,
		Example: `  seg6lab capture pe1:core -w core.pcapng
  seg6lab capture | wireshark -k -i -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLab(labName)
			if err != nil {
				return err
			}
			defer l.Close()
			out := cmd.OutOrStdout()
			if file == "" && term.IsTerminal(int(os.Stdout.Fd())) {
				return inputError{errors.New("pcapng does not belong on a terminal: write to a file with -w, or into a pipe")}
			}
			ends, err := captureEnds(l, args)
			if err != nil {
				return err
			}
			if file != "" {
				f, err := os.Create(file)
				if err != nil {
					return inputError{err}
				}
				defer f.Close()
				out = f
			}
			return capture(cmd.Context(), l, ends, out)
		},
	}
	cmd.Flags().StringVar(&labName, "lab", "", "name of the lab")
	cmd.Flags().StringVarP(&file, "write", "w", "", "file to write to (default: standard output)")
	return cmd
}

// captureEnds reads the arguments, or lists every end of the lab.
func captureEnds(l *lab.Lab, args []string) ([]topology.End, error) {
	var ends []topology.End
	for _, arg := range args {
		var e topology.End
		if err := e.UnmarshalText([]byte(arg)); err != nil {
			return nil, inputError{err}
		}
		if _, err := l.Node(e.Node); err != nil {
			return nil, err
		}
		ends = append(ends, e)
	}
	if len(args) > 0 {
		return ends, nil
	}
	for _, name := range slices.Sorted(maps.Keys(l.Nodes)) {
		s, err := l.Nodes[name].Status(false)
		if err != nil {
			return nil, err
		}
		for _, d := range s.Devices {
			if d.Name != "lo" {
				ends = append(ends, topology.End{Node: name, Dev: d.Name})
			}
		}
	}
	return ends, nil
}

func capture(ctx context.Context, l *lab.Lab, ends []topology.End, out io.Writer) error {
	c := traffic.NewCapture()
	for _, e := range ends {
		node, err := l.Node(e.Node)
		if err == nil {
			err = node.Do(func() error { return c.Add(e.String(), e.Dev, traffic.Both) })
		}
		if err != nil {
			return errors.Join(inputError{err}, c.Close())
		}
	}
	fmt.Fprintf(os.Stderr, "capturing at %d devices, Ctrl-C ends it\n", len(ends))
	return c.Stream(ctx, out)
}
