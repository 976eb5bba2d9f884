package port

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"seg6lab/lab/topology"
)

// Facts are what is known of a port.
type Facts struct {
	// Name of the device; of a bound port that which it has outside of the lab.
	Name     string
	AltNames []string `json:",omitempty"`
	// Kind is "device", or the kind of a virtual device such as "veth".
	Kind string
	// Driver of the device.
	Driver string `json:",omitempty"`
	// PCI is the address of the function, empty for another bus.
	PCI string `json:",omitempty"`
	// MAC is the Ethernet address now, PermMAC the permanent one.
	MAC, PermMAC string
	// SpeedMbps is the speed in 10^6 bits per second, 0 when unknown.
	SpeedMbps int
	// Up says that the device is set up, Carrier that it has a link too.
	Up, Carrier bool
	// NUMANode that the port is attached to, -1 when the machine does not say.
	NUMANode int
	// RxQueues and TxQueues are in use now.
	RxQueues, TxQueues int
	// ZeroCopy says whether the driver has AF_XDP zero-copy, nil when the kernel
	// cannot tell (before Linux 6.3).
	ZeroCopy *bool
	// Interrupts of its queues, as far as the driver has one for each.
	Interrupts []Interrupt `json:",omitempty"`
	// Lab and End are where the port is bound.
	Lab string `json:",omitempty"`
	End string `json:",omitempty"`
	// State is "free", or one of the states of a bound port.
	State State
	// Refused says why the port is not bound unless forced.
	Refused []string `json:",omitempty"`

	index int
	link  netlink.Link
}

// State of a port.
type State string

// States of a port.
const (
	Free    State = "free"
	Bound   State = "bound"   // in a namespace of a lab
	Home    State = "home"    // back, but not everything is as it was
	Lost    State = "lost"    // in some other namespace: the lab is gone
	Missing State = "missing" // nowhere to be found
)

// String names the port in messages.
func (f *Facts) String() string {
	var of []string
	for _, s := range []string{f.Driver, f.PCI} {
		if s != "" {
			of = append(of, s)
		}
	}
	if len(of) == 0 {
		return f.Name
	}
	return f.Name + " (" + strings.Join(of, " ") + ")"
}

// real says whether there is hardware, or what a guest takes for it.
func (f *Facts) real() bool {
	return f.link.Attrs().ParentDev != "" && f.link.Attrs().EncapType == "ether"
}

var pciBus = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// survey reads the facts of every device of the namespace of the calling thread
// but its loopback.
func survey() ([]*Facts, error) {
	all, err := links()
	if err != nil {
		return nil, err
	}
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return nil, fmt.Errorf("ethtool socket: %w", err)
	}
	defer tool.Close()
	has := zeroCopy()
	var found []*Facts
	for _, l := range all {
		if l.Attrs().Flags&net.FlagLoopback == 0 {
			found = append(found, facts(l, tool, has))
		}
	}
	return found, nil
}

func facts(l netlink.Link, tool *ethtool.Ethtool, has func(index int) *bool) *Facts {
	a := l.Attrs()
	f := &Facts{
		Name: a.Name, AltNames: a.AltNames, Kind: l.Type(),
		MAC: a.HardwareAddr.String(), PermMAC: a.PermHWAddr.String(),
		Up: a.RawFlags&unix.IFF_UP != 0, Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0,
		NUMANode: -1, RxQueues: a.NumRxQueues, TxQueues: a.NumTxQueues,
		State: Free, index: a.Index, link: l,
	}
	// What a driver does not tell is left out.
	if info, err := tool.DriverInfo(a.Name); err == nil {
		f.Driver = info.Driver
		// That of the parent is virtio3 where the function is a virtio device.
		f.PCI = info.BusInfo
	}
	if a.ParentDevBus == "pci" {
		f.PCI = a.ParentDev
	}
	if !pciBus.MatchString(f.PCI) {
		f.PCI = ""
	}
	if f.PCI != "" {
		text, err := os.ReadFile(filepath.Join("/sys/bus/pci/devices", f.PCI, "numa_node"))
		if node, e := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && e == nil {
			f.NUMANode = node
		}
	}
	if f.Carrier {
		const unknown = ^uint32(0)
		var cmd ethtool.EthtoolCmd
		if speed, err := tool.CmdGet(&cmd, a.Name); err == nil && speed != unknown {
			f.SpeedMbps = int(speed)
		}
	}
	if c, err := tool.GetChannels(a.Name); err == nil {
		f.RxQueues, f.TxQueues = int(c.CombinedCount+c.RxCount), int(c.CombinedCount+c.TxCount)
	}
	if has != nil {
		f.ZeroCopy = has(a.Index)
	}
	return f
}

// answers says whether a port is the one that is asked for.
func (f *Facts) answers(p *topology.Port) bool {
	switch {
	case p.PCI != "":
		return f.PCI == p.PCI
	case p.MAC != nil:
		return f.PermMAC == p.MAC.String()
	}
	return f.Name == p.Name || slices.Contains(f.AltNames, p.Name)
}

// NotFoundError says that the machine has no such port.
type NotFoundError struct {
	Port *topology.Port
	Have []string // names of the ports that there are
}

func (e *NotFoundError) Error() string {
	what := "is named " + e.Port.String()
	switch {
	case e.Port.PCI != "":
		what = "is at PCI address " + e.Port.PCI
	case e.Port.MAC != nil:
		what = "has the address " + e.Port.MAC.String()
	}
	have := "it has no port at all"
	if len(e.Have) > 0 {
		have = "it has " + strings.Join(e.Have, ", ")
	}
	return fmt.Sprintf("no port of this machine %s: %s (seg6lab port list)", what, have)
}

// choose finds the port that is asked for.
func choose(all []*Facts, p *topology.Port) (*Facts, error) {
	matching := func(match func(*Facts) bool) []*Facts {
		return slices.Collect(func(yield func(*Facts) bool) {
			for _, f := range all {
				if match(f) && !yield(f) {
					return
				}
			}
		})
	}
	found := matching(func(f *Facts) bool { return f.answers(p) })
	if len(found) == 0 && p.MAC != nil {
		// Devices on top of others have the address of those.
		onTop := []string{"vlan", "macvlan", "macvtap", "ipvlan", "bridge", "bond", "team"}
		found = matching(func(f *Facts) bool { return f.MAC == p.MAC.String() && !slices.Contains(onTop, f.Kind) })
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		e := &NotFoundError{Port: p}
		for _, f := range all {
			if f.real() {
				e.Have = append(e.Have, f.String())
			}
		}
		return nil, e
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Name)
	}
	return nil, fmt.Errorf("%d ports are %s: %s; choose one by name", len(found), p, strings.Join(names, ", "))
}
