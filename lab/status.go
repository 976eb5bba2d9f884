package lab

import (
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"seg6lab/lab/seg6"
	"seg6lab/lab/topology"
)

// Status is what the kernel has of a node, in iproute2's words.
type Status struct {
	Node    string
	Netns   string
	Devices []Device
	// TunSrc is the source address of outer headers, empty when none is set.
	TunSrc string `json:",omitempty"`
	// HMACKeys are the lines of `ip sr hmac show`.
	HMACKeys []string `json:",omitempty"`
	// Rules are policy routing rules beyond those that every namespace has.
	Rules []string `json:",omitempty"`
	// Routes are the lines of `ip route show table all`.
	Routes []string
}

// Device is a network device of a node.
type Device struct {
	Name, Kind, State, MAC string
	MTU                    int      // bytes
	Master                 string   `json:",omitempty"`
	Addresses              []string `json:",omitempty"`
}

// Status reads the state of the node from the kernel. Without all, routes are
// left out that the kernel adds on its own for addresses and multicast.
func (n *Node) Status(all bool) (*Status, error) {
	s := &Status{Node: n.Name, Netns: n.Netns}
	if err := n.Do(func() error { return s.readDevices() }); err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	conn, err := n.Seg6()
	if err != nil {
		return nil, err
	}
	if err := s.readSeg6(conn, all); err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	return s, nil
}

func (s *Status) readDevices() error {
	links, err := dumpLinks()
	if err != nil {
		return err
	}
	names := make(map[int]string)
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, l := range links {
		attrs := l.Attrs()
		d := Device{
			Name:   attrs.Name,
			Kind:   l.Type(),
			State:  attrs.OperState.String(),
			MAC:    attrs.HardwareAddr.String(),
			MTU:    attrs.MTU,
			Master: names[attrs.MasterIndex],
		}
		addrs, err := here.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return fmt.Errorf("device %s: addresses: %w", attrs.Name, err)
		}
		for _, a := range addrs {
			d.Addresses = append(d.Addresses, a.IPNet.String())
		}
		s.Devices = append(s.Devices, d)
	}
	rules, err := here.RuleList(netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	for _, r := range rules {
		if r.Protocol != unix.RTPROT_KERNEL {
			s.Rules = append(s.Rules, ruleText(r))
		}
	}
	return nil
}

// ruleText is the line of `ip rule show` for a rule that a topology can make.
func ruleText(r netlink.Rule) string {
	w := []string{fmt.Sprintf("rule %d: from", r.Priority), "all"}
	if r.Src != nil {
		w[1] = r.Src.String()
	}
	if r.Dst != nil {
		w = append(w, "to", r.Dst.String())
	}
	if r.Mark != 0 {
		w = append(w, fmt.Sprintf("fwmark %#x", r.Mark))
	}
	if r.IifName != "" {
		w = append(w, "iif", r.IifName)
	}
	if r.OifName != "" {
		w = append(w, "oif", r.OifName)
	}
	return strings.Join(append(w, "lookup", topology.Table(r.Table).String()), " ")
}

func (s *Status) readSeg6(conn *seg6.Conn, all bool) error {
	src, err := conn.TunSrc()
	if err != nil {
		return fmt.Errorf("tunsrc: %w", err)
	}
	if !src.IsUnspecified() {
		s.TunSrc = src.String()
	}
	keys, err := conn.HMACKeys()
	if err != nil {
		return fmt.Errorf("hmac keys: %w", err)
	}
	for _, k := range keys {
		s.HMACKeys = append(s.HMACKeys, k.String())
	}
	interfaces, err := conn.Interfaces()
	if err != nil {
		return fmt.Errorf("interfaces: %w", err)
	}
	routes, err := conn.Routes(unix.AF_UNSPEC)
	if err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	for _, r := range routes {
		if all || r.Protocol != unix.RTPROT_KERNEL {
			s.Routes = append(s.Routes, r.Text(interfaces.Name))
		}
	}
	return nil
}
