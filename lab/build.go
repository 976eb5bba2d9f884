package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"seg6lab/lab/topology"
)

// builder configures the namespaces of a lab.
type builder struct {
	topology *topology.Topology
	lab      *Lab
	options  Options
	mu       sync.Mutex // of lab.Ports
	// neighbours of each node that come from the links.
	neighbours map[string][]topology.Neighbour
}

// links creates the veth pairs and binds the ports. Sysctls that new devices inherit come first.
func (b *builder) links(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(b.lab.Nodes))
	err := each(ctx, len(names), func(i int) error {
		sysctls := b.topology.Nodes[names[i]].Sysctls
		if b.topology.Nodes[names[i]].Forwards() {
			// The kernel is to stay silent: the forwarder answers.
			sysctls = map[string]string{"net.ipv6.conf.default.disable_ipv6": "1"}
		}
		if len(sysctls) == 0 {
			return nil
		}
		err := b.lab.Nodes[names[i]].Do(func() error { return setSysctls(sysctls, false) })
		if err != nil {
			return fmt.Errorf("node %s: %w", names[i], err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = each(ctx, len(b.topology.Links), func(i int) error {
		l := b.topology.Links[i]
		connect := b.link
		if b.topology.Port(l.Ends[0]) != nil || b.topology.Port(l.Ends[1]) != nil {
			connect = b.bind
		}
		if err := connect(l, i); err != nil {
			return fmt.Errorf("link %s %s: %w", l.Ends[0], l.Ends[1], err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.linked(ctx); err != nil {
		return err
	}
	return b.cabled(ctx)
}

// firstIndex is above the indexes that the kernel gives out on its own in a
// namespace with few devices.
const firstIndex = 10_000

// link creates a veth pair in one request, its far end in the other namespace,
// and sets both ends up.
func (b *builder) link(l *topology.Link, index int) error {
	macs := [2]net.HardwareAddr{}
	for end := range macs {
		mac := l.MAC(index, end)
		macs[end] = mac[:]
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = l.Ends[0].Dev
	attrs.HardwareAddr = macs[0]
	attrs.MTU = l.MTU
	attrs.Flags = net.FlagUp
	// The kernel looks at a carrier change at once only where a device and the
	// one below it, which is the peer, have different indexes; else up to a
	// second later (linkwatch_urgent_event). The peer gets the lowest free one.
	attrs.Index = firstIndex + index
	v := netlink.NewVeth(attrs)
	if l.TxQueueLen != 0 {
		v.LinkAttrs.TxQLen = l.TxQueueLen
		v.PeerTxQLen = l.TxQueueLen
	}
	v.PeerName = l.Ends[1].Dev
	v.PeerHardwareAddr = macs[1]
	v.PeerMTU = uint32(l.MTU)
	far := b.lab.Nodes[l.Ends[1].Node]
	v.PeerNamespace = netlink.NsFd(far.handle)
	err := b.lab.Nodes[l.Ends[0].Node].Do(func() error { return here.LinkAdd(v) })
	if err != nil {
		return err
	}
	return far.Do(func() error {
		peer, err := here.LinkByName(v.PeerName)
		if err != nil {
			return err
		}
		return here.LinkSetUp(peer)
	})
}

// node configures everything of a node but its links.
func (b *builder) node(ctx context.Context, n *Node, t *topology.Node) error {
	c := &configurator{node: n, topology: t, index: map[string]int{"lo": 1}}
	timeout := readyTimeout
	if len(b.topology.Ports) > 0 {
		timeout = b.options.LinkTimeout // some changes take the link down for a while
	}
	ready := func() error { return c.ready(ctx, timeout) }
	steps := []func() error{
		c.devices,
		c.mtus,
		c.offloads,
		func() error { return setSysctls(t.Sysctls, true) },
		c.addresses,
		func() error { return c.addNeighbours(b.neighbours[n.Name]) },
		c.seg6,
		c.rules,
		ready,
		c.routes,
		c.netem,
	}
	if t.Forwards() {
		steps = []func() error{c.linkDevices, c.mtus, c.offloads, ready}
	}
	err := n.Do(func() error {
		for _, step := range steps {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || t.Forwards() {
		return err
	}
	for _, line := range t.Run {
		if _, err := n.Shell(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// configurator configures one node. Its methods run inside the namespace.
type configurator struct {
	node     *Node
	topology *topology.Node
	index    map[string]int // device indexes by name
}

// linkDevices learns the indexes of the devices that the links made.
func (c *configurator) linkDevices() error {
	links, err := dumpLinks()
	for _, l := range links {
		c.index[l.Attrs().Name] = l.Attrs().Index
	}
	return err
}

// devices adds the devices of the node itself.
func (c *configurator) devices() error {
	if err := c.linkDevices(); err != nil {
		return err
	}
	add := func(link netlink.Link) error {
		link.Attrs().Flags |= net.FlagUp
		if err := here.LinkAdd(link); err != nil {
			return fmt.Errorf("device %s: add %s: %w", link.Attrs().Name, link.Type(), err)
		}
		l, err := here.LinkByName(link.Attrs().Name)
		if err != nil {
			return fmt.Errorf("device %s: %w", link.Attrs().Name, err)
		}
		c.index[link.Attrs().Name] = l.Attrs().Index
		return nil
	}
	named := func(name string) netlink.LinkAttrs {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		return attrs
	}
	var errs []error
	for _, name := range c.topology.Dummies {
		errs = append(errs, add(&netlink.Dummy{LinkAttrs: named(name)}))
	}
	for _, name := range c.topology.IFBs {
		errs = append(errs, add(&netlink.Ifb{LinkAttrs: named(name)}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.topology.Bridges)) {
		br := c.topology.Bridges[name]
		link := &netlink.Bridge{LinkAttrs: named(name)}
		if br.VLANFiltering {
			// Only then: a kernel without the option refuses a false, too.
			link.VlanFiltering = &br.VLANFiltering
		}
		if err := add(link); err != nil {
			return err
		}
	}
	if err := c.vlans(add, named); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.topology.VRFs)) {
		if err := add(&netlink.Vrf{LinkAttrs: named(name), Table: c.topology.VRFs[name].Table}); err != nil {
			return err
		}
	}
	masters := make(map[string][]string)
	for name, br := range c.topology.Bridges {
		masters[name] = br.Devices
	}
	for name, vrf := range c.topology.VRFs {
		masters[name] = vrf.Devices
	}
	for _, master := range slices.Sorted(maps.Keys(masters)) {
		for _, dev := range masters[master] {
			port, err := c.dev(dev)
			if err == nil {
				err = here.LinkSetMasterByIndex(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: port}}, c.index[master])
			}
			if err != nil {
				return fmt.Errorf("device %s: set master %s: %w", dev, master, err)
			}
		}
	}
	return nil
}

// mtus sets those of single devices. Of a forwarder's own devices the kernel has none.
func (c *configurator) mtus() error {
	for _, dev := range slices.Sorted(maps.Keys(c.topology.MTU)) {
		i, err := c.dev(dev)
		if err != nil && c.topology.Forwards() {
			continue
		}
		if err == nil {
			err = here.LinkSetMTU(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: i}}, c.topology.MTU[dev])
		}
		if err != nil {
			return fmt.Errorf("device %s: set MTU %d: %w", dev, c.topology.MTU[dev], err)
		}
	}
	return nil
}

// vlans adds the VLAN devices, those below before those above.
func (c *configurator) vlans(add func(netlink.Link) error, named func(string) netlink.LinkAttrs) error {
	left := slices.Sorted(maps.Keys(c.topology.VLANs))
	for len(left) > 0 {
		var later []string
		for _, name := range left {
			v := c.topology.VLANs[name]
			if _, ok := c.index[v.Link]; !ok {
				later = append(later, name)
				continue
			}
			attrs := named(name)
			attrs.ParentIndex = c.index[v.Link]
			link := &netlink.Vlan{LinkAttrs: attrs, VlanId: int(v.ID), VlanProtocol: netlink.VlanProtocol(v.EtherType()), ReorderHdr: v.ReorderHdr}
			if err := add(link); err != nil {
				return err
			}
		}
		if len(later) == len(left) {
			return fmt.Errorf("device %s: there is no device %s below it", left[0], c.topology.VLANs[left[0]].Link)
		}
		left = later
	}
	return nil
}

// dev is the index of a device by name.
func (c *configurator) dev(name string) (int, error) {
	if i, ok := c.index[name]; ok {
		return i, nil
	}
	return 0, fmt.Errorf("there is no device %s", name)
}

// offloads turns transmit checksum offload off on every veth, so that frames
// that the kernel sends carry checksums on the wire, and then does what the
// topology asks for.
func (c *configurator) offloads() error {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("offloads: %w", err)
	}
	defer tool.Close()
	links, err := dumpLinks()
	if err != nil {
		return err
	}
	for _, l := range links {
		name := l.Attrs().Name
		want := map[string]bool{}
		if l.Type() == "veth" {
			want["tx-checksum-ip-generic"] = false
		}
		maps.Copy(want, c.topology.Offloads[name])
		if len(want) == 0 {
			continue
		}
		if err := tool.Change(name, want); err != nil {
			return fmt.Errorf("device %s: offloads: %w", name, err)
		}
	}
	return nil
}

func (c *configurator) addresses() error {
	for _, dev := range slices.Sorted(maps.Keys(c.topology.Addresses)) {
		for _, p := range c.topology.Addresses[dev] {
			index, err := c.dev(dev)
			if err == nil {
				addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
				if p.Addr().Is6() {
					addr.Flags = unix.IFA_F_NODAD
				}
				err = here.AddrAdd(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index, Name: dev}}, addr)
			}
			if err != nil {
				return fmt.Errorf("device %s: address %s: %w", dev, p, err)
			}
		}
	}
	return nil
}

func (c *configurator) addNeighbours(fromLinks []topology.Neighbour) error {
	all := slices.Clone(fromLinks)
	for _, n := range c.topology.Neighbours {
		all = append(all, *n)
	}
	for _, n := range all {
		index, err := c.dev(n.Dev)
		if err == nil {
			err = here.NeighSet(&netlink.Neigh{LinkIndex: index, IP: n.To.AsSlice(), HardwareAddr: n.LLAddr[:], State: netlink.NUD_PERMANENT})
		}
		if err != nil {
			return fmt.Errorf("neighbour %s dev %s: %w", n.To, n.Dev, err)
		}
	}
	return nil
}

func (c *configurator) netem() error {
	for _, dev := range slices.Sorted(maps.Keys(c.topology.Netem)) {
		t := c.topology.Netem[dev]
		index, err := c.dev(dev)
		if err == nil {
			const usec = 1000
			err = here.QdiscAdd(netlink.NewNetem(
				netlink.QdiscAttrs{LinkIndex: index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)},
				netlink.NetemQdiscAttrs{
					Latency: uint32(t.Delay / usec),
					Jitter:  uint32(t.Jitter / usec),
					Loss:    float32(t.Loss),
					Limit:   t.Limit,
				}))
		}
		if err != nil {
			return fmt.Errorf("device %s: netem: %w", dev, err)
		}
	}
	return nil
}
