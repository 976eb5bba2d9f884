package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"seg6lab/lab"
	"seg6lab/lab/topology"
)

// portFlags are those of commands that build labs on real ports.
type portFlags struct {
	bind      []string
	force     bool
	queues    int
	placeIRQs bool
	timeout   time.Duration
}

func (f *portFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.bind, "port", nil, "NODE:DEV=PORT: a real port in place of the end of a link; a name, a PCI or an Ethernet address (seg6lab port list)")
	flags.BoolVar(&f.force, "force", false, "take ports that are refused, too")
	flags.IntVar(&f.queues, "queues", 0, "how many queues every bound port uses (0: as many as it has)")
	flags.BoolVar(&f.placeIRQs, "place-irqs", false, "give the interrupt of each queue of a bound port a CPU of its own, until the port is released")
	flags.DurationVar(&f.timeout, "link-timeout", lab.LinkTimeout, "how long to wait for the link of a port")
}

// ports are the bindings by end.
func (f *portFlags) ports() (map[string]*topology.Port, error) {
	if f.queues < 0 {
		return nil, inputError{fmt.Errorf("--queues %d: expected at least 1", f.queues)}
	}
	ports := make(map[string]*topology.Port)
	for _, text := range f.bind {
		end, p, err := topology.ParseBinding(text)
		if err == nil && ports[end] != nil {
			err = fmt.Errorf("%s is bound twice", end)
		}
		if err != nil {
			return nil, inputError{fmt.Errorf("--port %s: %w", text, err)}
		}
		ports[end] = p
	}
	return ports, nil
}

// clearLeftovers removes what killed commands left, before anything else. A port that did
// not come back as it was is told of, and is no reason not to go on.
func clearLeftovers(cmd *cobra.Command) error {
	if os.Geteuid() != 0 {
		return nil
	}
	_, err := lab.Sweep()
	if err != nil && lab.PortTrouble(err) {
		fmt.Fprintf(cmd.ErrOrStderr(), "seg6lab: warning: %v\n", err)
		return nil
	}
	return err
}
