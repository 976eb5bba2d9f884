package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seg6lab/lab"
	"seg6lab/specs/dataplane"
)

func newStatusCommand() *cobra.Command {
	var asJSON, all bool
	var labName string
	cmd := &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Show what the kernel has: devices, seg6 settings, routes",
		Long: `Reads devices, tunnel source, HMAC keys, rules and routes of the lab's nodes
back from the kernel and prints them in iproute2's words. The forwarder of a node
says by what ports it forwards, what it dropped and what came to its segments.`,
		Example: `  seg6lab status
  seg6lab status --lab l2vpn pe1 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLab(labName)
			if err != nil {
				return err
			}
			defer l.Close()
			if len(args) == 0 {
				args = slices.Sorted(maps.Keys(l.Nodes))
			}
			var nodes []nodeStatus
			for _, name := range args {
				node, err := l.Node(name)
				if err != nil {
					return err
				}
				s, err := node.Status(all)
				if err != nil {
					return err
				}
				f, err := dataplane.ReadStatus(node)
				if err != nil {
					return err
				}
				nodes = append(nodes, nodeStatus{s, f})
			}
			if asJSON {
				return printJSON(cmd, nodes)
			}
			for _, s := range nodes {
				printStatus(cmd.OutOrStdout(), s)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&labName, "lab", "", "name of the lab")
	cmd.Flags().BoolVar(&all, "all", false, "routes that the kernel adds on its own, too")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// nodeStatus is what the kernel says of a node, and its forwarder if it has one.
type nodeStatus struct {
	*lab.Status
	Forwarder *dataplane.Status `json:",omitempty"`
}

func printStatus(w io.Writer, s nodeStatus) {
	fmt.Fprintf(w, "%s (netns %s)\n", s.Node, s.Netns)
	for _, d := range s.Devices {
		fmt.Fprintf(w, "  %s %s %s mtu %d", d.Name, d.Kind, d.State, d.MTU)
		if d.MAC != "" {
			fmt.Fprintf(w, " lladdr %s", d.MAC)
		}
		if d.Master != "" {
			fmt.Fprintf(w, " master %s", d.Master)
		}
		fmt.Fprintln(w, strings.Join(append([]string{""}, d.Addresses...), " "))
	}
	if s.TunSrc != "" {
		fmt.Fprintf(w, "  tunsrc addr %s\n", s.TunSrc)
	}
	for _, group := range [][]string{s.HMACKeys, s.Rules, s.Routes} {
		for _, line := range group {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	f := s.Forwarder
	if f == nil {
		return
	}
	fmt.Fprintf(w, "  forwarding on %s\n", strings.Join(f.Ports, ", "))
	for _, sid := range f.SIDs {
		fmt.Fprintf(w, "  %s %s packets %d bytes %d errors %d\n", sid.To, sid.Action, sid.Packets, sid.Bytes, sid.Errors)
	}
	for _, reason := range slices.Sorted(maps.Keys(f.Drops)) {
		fmt.Fprintf(w, "  dropped %d: %s\n", f.Drops[reason], reason)
	}
}
