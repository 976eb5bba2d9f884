package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"seg6lab/forwarder/port"
	"seg6lab/specs"
	"seg6lab/specs/dataplane"
)

func newForwardCommand() *cobra.Command {
	var node string
	var detach bool
	var kinds []string
	var bound portFlags
	cmd := &cobra.Command{
		Use:   dataplane.ForwardCommand + " CONFIG",
		Short: "Forward in user space, until Ctrl-C",
		Long: `Forwards SRv6, IPv6 and IPv4 between devices of this network namespace, in place
of the kernel. CONFIG describes the router in the format of a node of a topology;
its devices are those that it names. The kernel must have no addresses on them.

At the other end of a veth pair segmentation must not be left to the device
(ethtool -K DEV tso off gso off), nor, with AF_XDP, which does not tell of them,
checksums (ethtool -K DEV tx off).`,
		Example: `  seg6lab forward router.yaml
  seg6lab forward router.yaml --port xdp-native,xdp-generic,packet`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var try []port.Kind
			for _, k := range kinds {
				try = append(try, port.Kind(k))
			}
			started := func(ports []string) {
				fmt.Fprintf(cmd.OutOrStdout(), "forwarding on %s\n", strings.Join(ports, ", "))
				if detach {
					os.Stdout.Close()
				}
			}
			if node != "" {
				t, err := specs.LoadTopology(args[0])
				if err != nil {
					return inputError{err}
				}
				ports, err := bound.ports()
				if err != nil {
					return err
				}
				if t, err = t.Bind(ports); err != nil {
					return inputError{err}
				}
				return dataplane.RunNode(cmd.Context(), t, node, try, started)
			}
			n, err := dataplane.LoadNode(args[0])
			if err != nil {
				return inputError{err}
			}
			return dataplane.RunAlone(cmd.Context(), n, try, started)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&kinds, "port", []string{string(port.Packet)}, "kinds of port to try in order: xdp-native, xdp-generic, packet")
	// How up runs the forwarder of a node.
	flags.StringVar(&node, "node", "", "take this node of the topology CONFIG")
	flags.BoolVar(&detach, "detach", false, "close standard output once frames are taken")
	flags.StringArrayVar(&bound.bind, "bound", nil, "END=PORT that the lab has bound")
	for _, hidden := range []string{"node", "detach", "bound"} {
		if err := flags.MarkHidden(hidden); err != nil {
			panic(err) // the flag is right above
		}
	}
	return cmd
}
