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

// meansFlags are those of commands that start forwarders.
type meansFlags struct {
	kinds []string
	cpus  []int
}

func (f *meansFlags) add(cmd *cobra.Command, kinds, cpus string, tried ...string) {
	known := []string{string(port.XDPNative), string(port.XDPGeneric), string(port.Packet)}
	cmd.Flags().StringSliceVar(&f.kinds, kinds, tried, "kinds of port to try in order: "+strings.Join(known, ", "))
	cmd.Flags().IntSliceVar(&f.cpus, cpus, nil, "CPUs for the threads of a forwarder, one for each queue of each device in turn")
}

func (f *meansFlags) means() (m dataplane.Means, err error) {
	for _, k := range f.kinds {
		m.Kinds = append(m.Kinds, port.Kind(k))
	}
	for _, cpu := range f.cpus {
		if cpu < 0 {
			return m, inputError{fmt.Errorf("there is no CPU %d", cpu)}
		}
	}
	m.CPUs = f.cpus
	return m, nil
}

func newForwardCommand() *cobra.Command {
	var node string
	var detach bool
	var means meansFlags
	var bound portFlags
	cmd := &cobra.Command{
		Use:   dataplane.ForwardCommand + " CONFIG",
		Short: "Forward in user space, until Ctrl-C",
		Long: `Forwards SRv6, IPv6 and IPv4 between devices of this network namespace, in place
of the kernel. CONFIG describes the router in the format of a node of a topology;
its devices are those that it names. The kernel must have no addresses on them.

At the other end of a veth pair segmentation must not be left to the device
(ethtool -K DEV tso off gso off), nor, with AF_XDP, which does not tell of them,
checksums (ethtool -K DEV tx off).

Without --port, hardware that the kernel has no address on is tried by AF_XDP first,
everything else is a packet socket. With xdp-native or xdp-generic, every receive
queue of a device has a socket and a thread of its own, and frames are not copied
where the driver can do without. It prints which it is. A case's captures, and tcpdump, do not see what AF_XDP takes.`,
		Example: `  seg6lab forward router.yaml
  seg6lab forward router.yaml --port xdp-native,xdp-generic,packet --cpus 2,3`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			with, err := means.means()
			if err != nil {
				return err
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
				return dataplane.RunNode(cmd.Context(), t, node, with, started)
			}
			n, err := dataplane.LoadNode(args[0])
			if err != nil {
				return inputError{err}
			}
			return dataplane.RunAlone(cmd.Context(), n, with, started)
		},
	}
	flags := cmd.Flags()
	means.add(cmd, "port", "cpus")
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
