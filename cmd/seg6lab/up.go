package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seg6lab/forwarder/port"
	"seg6lab/lab"
	"seg6lab/specs"
	"seg6lab/specs/dataplane"
)

func newUpCommand() *cobra.Command {
	var name string
	var ports portFlags
	var means meansFlags
	cmd := &cobra.Command{
		Use:   "up TOPOLOGY",
		Short: "Build a lab and leave it up",
		Long: `Builds a lab from a shipped topology (seg6lab topology) or a file, and leaves
it up. Its namespaces are named s6.LAB.NODE, as "ip netns exec" takes them.

With --port, a real port stands in for the end of a link. With both ends of a link
bound, it is a cable between two ports of this machine; with one, it leads to
outside equipment, and the node at its other end is not built.`,
		Example: `  seg6lab up l2vpn
  seg6lab up ./my.yaml --name second
  seg6lab up l2vpn --port pe1:core=enp3s0f0 --port p:west=0000:03:00.1
  seg6lab up chain:16 && seg6lab exec n1 -- ping -c1 2001:db8:2::2`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := specs.LoadTopology(args[0])
			if err != nil {
				return inputError{err}
			}
			if name == "" {
				name = t.Name
			}
			if err := lab.CheckName(name); err != nil {
				return inputError{err}
			}
			bound, err := ports.ports()
			if err != nil {
				return err
			}
			with, err := means.means()
			if err != nil {
				return err
			}
			if t, err = t.Bind(bound); err != nil {
				return inputError{err}
			}
			if err := lab.Supported(lab.Requires(t)); err != nil {
				return err
			}
			if err := clearLeftovers(cmd); err != nil {
				return err
			}
			start := time.Now()
			l, err := lab.Up(cmd.Context(), t, lab.Options{
				Name: name, Force: ports.force, LinkTimeout: ports.timeout, Queues: ports.queues, PlaceInterrupts: ports.placeIRQs,
			})
			if err != nil {
				return err
			}
			said, err := dataplane.Spawn(l, t, args[0], with)
			if err != nil {
				return errors.Join(err, l.Down())
			}
			defer l.Close()
			for _, line := range said {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			for _, p := range l.Ports {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is port %s\n", p.End, p)
			}
			for _, node := range slices.Sorted(maps.Keys(t.Outside())) {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is outside equipment\n", node)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "lab %s is up: %s (%s)\n", l.Name,
				strings.Join(slices.Sorted(maps.Keys(l.Nodes)), " "), time.Since(start).Round(time.Millisecond))
			return nil
		},
	}
	ports.add(cmd)
	means.add(cmd, "forwarder-port", "forwarder-cpus", string(port.Packet))
	cmd.Flags().StringVar(&name, "name", "", "name of the lab (default: that of the topology)")
	return cmd
}
