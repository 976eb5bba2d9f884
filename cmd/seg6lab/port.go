package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"seg6lab/lab"
	"seg6lab/lab/port"
	"seg6lab/lab/topology"
)

func newPortCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "port",
		Short: "Real ports: list, bind, release, check cables",
		Long: `A real port can stand in for the end of a link: with "ports:" in the topology,
or with --port of up and run. It moves to the node's namespace and comes back as
it was, with its names, addresses, routes and settings: when the lab goes down,
and after a crash with the next command.`,
	}
	cmd.AddCommand(newPortListCommand(), newPortBindCommand(), newPortReleaseCommand(), newPortCheckCommand())
	return group(cmd)
}

func newPortListCommand() *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the ports of this machine and what they are used for",
		Long: `Lists the ports of this network namespace and those that labs have, with what
keeps each from being bound unless --force is given. LINK is what the kernel says:
"down" too for a port that is not up, whatever cable is in it. ZERO-COPY is whether
AF_XDP does without copies, as the driver says, "unknown" where it does not. Where the interrupts of a
port's queues are not each on a CPU of its own, near to the port, that is advised:
--place-irqs of up and run does so.`,
		Example: "  seg6lab port list\n  seg6lab port list --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return lab.ErrNotRoot
			}
			ports, err := port.List(all)
			if asJSON {
				if ports == nil {
					ports = []*port.Facts{}
				}
				return errors.Join(printJSON(cmd, ports), err)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			if len(ports) > 0 {
				fmt.Fprintln(w, "PORT\tDRIVER\tPCI\tSPEED\tLINK\tNUMA\tQUEUES\tZERO-COPY\tUSE")
			}
			for _, p := range ports {
				fmt.Fprintln(w, strings.Join([]string{
					p.Name, dash(p.Driver), dash(p.PCI), speed(p.SpeedMbps), linkText(p), dashNegative(p.NUMANode),
					fmt.Sprintf("%d/%d", p.RxQueues, p.TxQueues), yesNo(p.ZeroCopy), use(p),
				}, "\t"))
			}
			err = errors.Join(w.Flush(), err)
			for _, p := range ports {
				if advice := interruptAdvice(p); advice != "" {
					fmt.Fprintln(cmd.OutOrStdout(), advice)
				}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "virtual devices, too")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// interruptAdvice says which interrupts of a port should be elsewhere, and is empty
// where none should.
func interruptAdvice(p *port.Facts) string {
	var moves []string
	for _, i := range p.Interrupts {
		if want := strconv.Itoa(i.Advised); i.CPUs != want {
			moves = append(moves, fmt.Sprintf("queue %d (interrupt %d) from CPU %s to %s", i.Queue, i.IRQ, i.CPUs, want))
		}
	}
	if len(moves) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: advised (--place-irqs): %s", p.Name, strings.Join(moves, ", "))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func dashNegative(n int) string {
	if n < 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// speed in Mb/s as ethtool writes it, or in Gb/s.
func speed(mbps int) string {
	switch {
	case mbps == 0:
		return "-"
	case mbps%1000 == 0:
		return fmt.Sprintf("%d Gb/s", mbps/1000)
	}
	return fmt.Sprintf("%d Mb/s", mbps)
}

func linkText(p *port.Facts) string {
	switch {
	case p.Carrier:
		return "up"
	case p.Up:
		return "no carrier"
	}
	return "down"
}

func yesNo(b *bool) string {
	switch {
	case b == nil:
		return "unknown"
	case *b:
		return "yes"
	}
	return "no"
}

// use says where a port is bound, or why it is not to be.
func use(p *port.Facts) string {
	of := fmt.Sprintf("%s of lab %s", p.End, p.Lab)
	switch p.State {
	case port.Bound:
		return of
	case port.Lost:
		return "lost: was " + of + " (seg6lab port release " + p.Name + ")"
	case port.Home:
		return "back from " + of + ", not all as it was (seg6lab port release " + p.Name + ")"
	case port.Missing:
		return "missing: was " + of
	}
	if len(p.Refused) > 0 {
		return "refused: " + strings.Join(p.Refused, ", ")
	}
	return "free"
}

func newPortBindCommand() *cobra.Command {
	var labName string
	var force bool
	cmd := &cobra.Command{
		Use:   "bind NODE:DEV=PORT",
		Short: "Bind a port to a new device of a node that is up",
		Long: `Moves a port to a node of a lab that is up, as a device that the topology does
not have; nothing is configured on it. To have a port in place of the end of a
link, use --port of up and run.`,
		Example: "  seg6lab port bind r:ext=enp3s0f0\n  seg6lab port bind --lab net r:ext=0000:03:00.0",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			end, p, err := topology.ParseBinding(args[0])
			if err != nil {
				return inputError{err}
			}
			var at topology.End
			if err := at.UnmarshalText([]byte(end)); err != nil {
				return inputError{err}
			}
			if err := clearLeftovers(cmd); err != nil {
				return err
			}
			l, err := openLab(labName)
			if err != nil {
				return err
			}
			defer l.Close()
			f, err := l.BindPort(at, p, force)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is port %s\n", at, f)
			return nil
		},
	}
	cmd.Flags().StringVar(&labName, "lab", "", "name of the lab")
	cmd.Flags().BoolVar(&force, "force", false, "take the port even if it is refused")
	return cmd
}

func newPortReleaseCommand() *cobra.Command {
	var all, force, forget bool
	cmd := &cobra.Command{
		Use:   "release PORT... | --all",
		Short: "Give bound ports back as they were",
		Long: `Moves ports out of their labs, and restores what is not as it was before: also
where the lab or its namespaces are gone, and again after something could not be
restored. A port that is missing keeps its record until it is there again.`,
		Example: "  seg6lab port release enp3s0f0\n  seg6lab port release --all",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			records, _ := port.Records()
			var names []string
			for _, r := range records {
				names = append(names, r.Settings.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return inputError{errors.New("give ports or --all, not both")}
			case !all && len(args) == 0:
				return inputError{errors.New("which port? give its name (seg6lab port list) or --all")}
			}
			if os.Geteuid() != 0 {
				return lab.ErrNotRoot
			}
			records, err := port.Records()
			errs := []error{err}
			if !all {
				if records, err = namedRecords(records, args); err != nil {
					return err
				}
			}
			for _, r := range records {
				if pid := lab.OwnerOf(r.Lab); pid != 0 && !force {
					errs = append(errs, inputError{fmt.Errorf("port %s stays: process %d uses lab %s (--force takes it all the same)", r.Port(), pid, r.Lab)})
					continue
				}
				if forget {
					gone, err := r.Forget()
					if gone != nil {
						// That is what was asked for.
						fmt.Fprintf(cmd.ErrOrStderr(), "seg6lab: forgotten: %v\n", gone)
					}
					errs = append(errs, err)
					if gone != nil || err != nil {
						continue
					}
				} else if err := r.Release(); err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "port %s is back from %s of lab %s\n", r.Port(), r.End(), r.Lab)
			}
			return errors.Join(errs...)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&all, "all", false, "every port that is bound")
	flags.BoolVar(&force, "force", false, "ports of labs that a running command uses, too")
	flags.BoolVar(&forget, "forget", false, "remove the record even if something cannot be restored")
	return cmd
}

// namedRecords are the records of the ports that are named.
func namedRecords(all []*port.Record, names []string) ([]*port.Record, error) {
	var named []*port.Record
	for _, name := range names {
		p, err := topology.ParsePort(name)
		if err != nil {
			return nil, inputError{err}
		}
		before := len(named)
		for _, r := range all {
			if r.Answers(p) {
				named = append(named, r)
			}
		}
		if len(named) == before {
			return nil, inputError{fmt.Errorf("port %s is not bound (seg6lab port list)", name)}
		}
	}
	return named, nil
}

func newPortCheckCommand() *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "check [LAB]",
		Short: "Check the cables of a lab with marked frames",
		Long: `Sends marked frames out of every bound end of a lab and says where they arrive.
Exit code 1 where a cable is swapped or missing. up and run do the same where both
ends of a link are ports of this machine. A forwarder on AF_XDP takes the frames:
check before it runs.`,
		Example:           "  seg6lab port check net",
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeLabs,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			l, err := openLab(name)
			if err != nil {
				return err
			}
			defer l.Close()
			cables, err := l.CheckCables(cmd.Context(), timeout)
			if err != nil {
				return err
			}
			if len(cables) == 0 {
				return inputError{fmt.Errorf("lab %s has no port", l.Name)}
			}
			wrong := false
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, c := range cables {
				state := "ok"
				if c.Wrong() != "" {
					state, wrong = "wrong: "+c.Wrong(), true
				}
				to := "outside"
				switch {
				case c.To != nil:
					to = c.To.String()
				case len(c.Arrived) > 0:
					to += ", back at " + strings.Join(c.Arrived, " and ")
				}
				fmt.Fprintf(w, "%s\t%s\t-> %s\t%s\n", c.End, c.Port, to, state)
			}
			if asJSON {
				err = printJSON(cmd, cables)
			} else {
				err = w.Flush()
			}
			if err == nil && wrong {
				err = errNotHeld
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the frames")
	addJSONFlag(cmd, &asJSON)
	return cmd
}
