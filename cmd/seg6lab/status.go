package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seg6lab/lab"
)

func newStatusCommand() *cobra.Command {
	var asJSON, all bool
	var labName string
	cmd := &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Show what the kernel has: devices, seg6 settings, routes",
		Long: `Reads devices, tunnel source, HMAC keys, rules and routes of the lab's nodes
back from the kernel and prints them in iproute2's words.`,
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
			var nodes []*lab.Status
			for _, name := range args {
				node, err := l.Node(name)
				if err != nil {
					return err
				}
				s, err := node.Status(all)
				if err != nil {
					return err
				}
				nodes = append(nodes, s)
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

func printStatus(w io.Writer, s *lab.Status) {
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
}
