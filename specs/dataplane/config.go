// Package dataplane lets nodes of a lab forward with seg6lab's own forwarder
// instead of the kernel: it says in the forwarder's terms what a topology says
// of a node, and runs a forwarder on the devices of the node's namespace.
package dataplane

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"seg6lab/forwarder"
	"seg6lab/forwarder/srh"
	"seg6lab/lab/topology"
)

// Config is a node of a topology as a forwarder takes it. The error says what
// of the node only a kernel can do.
func Config(t *topology.Topology, name string) (forwarder.Config, error) {
	var devices []forwarder.Device
	for i, l := range t.Links {
		for end, e := range l.Ends {
			if e.Node == name {
				devices = append(devices, forwarder.Device{Name: e.Dev, MAC: l.MAC(i, end), MTU: l.MTU})
			}
		}
	}
	c, err := config(t.Nodes[name], devices, t.LinkNeighbours()[name])
	if err != nil {
		return c, fmt.Errorf("node %s: %w", name, err)
	}
	return c, nil
}

// config is a node on the given devices, which are its ports.
func config(n *topology.Node, devices []forwarder.Device, neighbours []topology.Neighbour) (forwarder.Config, error) {
	if err := kernelOnly(n); err != nil {
		return forwarder.Config{}, err
	}
	c := forwarder.Config{Devices: devices, Addresses: n.Addresses, Sysctls: make(map[string]string)}
	c.Quirks = quirks(n.Quirks)
	for name, value := range n.Sysctls {
		// sysctl(8) writes a dot in the name of a device as a slash.
		c.Sysctls[strings.ReplaceAll(name, "/", ".")] = value
	}
	for _, dev := range n.Dummies {
		c.Devices = append(c.Devices, forwarder.Device{Name: dev, Dummy: true})
	}
	for i, d := range c.Devices {
		if mtu := n.MTU[d.Name]; mtu != 0 {
			c.Devices[i].MTU = mtu
		}
	}
	vlans, err := vlanDevices(n, c.Devices)
	if err != nil {
		return c, err
	}
	c.Devices = append(c.Devices, vlans...)
	for _, x := range n.Neighbours {
		neighbours = append(neighbours, *x)
	}
	for _, x := range neighbours {
		c.Neighbours = append(c.Neighbours, forwarder.Neighbour{To: x.To, Dev: x.Dev, LLAddr: x.LLAddr})
	}
	for _, dev := range slices.Sorted(maps.Keys(n.VRFs)) {
		c.VRFs = append(c.VRFs, forwarder.VRF{Name: dev, Table: n.VRFs[dev].Table, Devices: n.VRFs[dev].Devices})
	}
	for _, r := range n.Rules {
		c.Rules = append(c.Rules, forwarder.Rule{Family: r.Family, Priority: r.Priority, From: r.From, To: r.To, IIF: r.IIF, Table: uint32(r.Table)})
	}
	for _, r := range n.Routes {
		c.Routes = append(c.Routes, route(r))
	}
	if n.Seg6 != nil {
		c.TunSrc = n.Seg6.TunSrc
		for _, k := range n.Seg6.HMAC {
			algorithm := srh.SHA1
			if k.Algorithm == "sha256" {
				algorithm = srh.SHA256
			}
			c.HMAC = append(c.HMAC, forwarder.HMACKey{ID: k.ID, Algorithm: algorithm, Secret: k.Secret})
		}
	}
	return c, nil
}

// quirks are those of Linux without the ones that are false.
func quirks(of map[string]bool) *forwarder.Quirks {
	var q forwarder.Quirks
	for _, name := range topology.QuirkNames {
		on, named := of[name]
		if all, given := of[topology.AllQuirks]; !named {
			on = all || !given
		}
		q.Set(name, on)
	}
	return &q
}

// vlanDevices are the VLAN devices of a node, those below before those above.
func vlanDevices(n *topology.Node, have []forwarder.Device) (vlans []forwarder.Device, err error) {
	left := slices.Sorted(maps.Keys(n.VLANs))
	for len(left) > 0 {
		before := len(left)
		left = slices.DeleteFunc(left, func(name string) bool {
			v, all := n.VLANs[name], slices.Concat(have, vlans)
			i := slices.IndexFunc(all, func(d forwarder.Device) bool { return d.Name == v.Link })
			if i < 0 {
				return false
			}
			mtu := all[i].MTU
			if own := n.MTU[name]; own != 0 {
				mtu = own
			}
			vlans = append(vlans, forwarder.Device{
				Name: name, MAC: all[i].MAC, MTU: mtu, Link: v.Link, VLAN: v.ID, Protocol: v.EtherType(),
				KeepTag: v.ReorderHdr != nil && !*v.ReorderHdr,
			})
			return true
		})
		if len(left) == before {
			return nil, fmt.Errorf("VLAN device %s: there is no device %s below it", left[0], n.VLANs[left[0]].Link)
		}
	}
	return vlans, nil
}

// kernelOnly names what of a node the forwarder has not.
func kernelOnly(n *topology.Node) error {
	var has []string
	for _, f := range []struct {
		used bool
		what string
	}{
		{len(n.Run) > 0, "run lines"},
		{len(n.Bridges) > 0, "bridges"},
		{len(n.IFBs) > 0, "ifb devices"},
		{len(n.Netem) > 0, "netem"},
		{len(n.Offloads) > 0, "offloads"},
		{slices.ContainsFunc(n.Rules, func(r *topology.Rule) bool { return r.OIF != "" || r.FWMark != 0 }), "rules by oif or fwmark"},
	} {
		if f.used {
			has = append(has, f.what)
		}
	}
	if len(has) > 0 {
		return errors.New("the forwarder has no " + strings.Join(has, ", "))
	}
	return nil
}

func route(r *topology.Route) forwarder.Route {
	out := forwarder.Route{
		To:     r.To.Prefix,
		Type:   r.Type,
		Via:    r.Via,
		Dev:    r.Dev,
		Table:  uint32(r.Table),
		VRF:    r.VRF,
		Metric: r.Metric,
		MTU:    int(r.MTU),
	}
	if r.To.Default {
		out.To = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		if r.Family == "inet" || r.Family == "" && r.Via.Is4() {
			out.To = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		}
	}
	if r.Encap == nil {
		return out
	}
	if e := r.Encap.Seg6; e != nil {
		out.Encap = &forwarder.Encap{Mode: e.Mode, Segs: e.Segs, HMAC: e.HMAC}
	}
	if l := r.Encap.Seg6Local; l != nil {
		out.Local = &forwarder.Local{
			Action:   l.Action,
			NH4:      l.NH4,
			NH6:      l.NH6,
			OIF:      l.OIF,
			Table:    uint32(l.Table),
			VRFTable: uint32(l.VRFTable),
			Flavors:  l.Flavors,
			LBLen:    l.LBLen,
			NFLen:    l.NFLen,
		}
		if l.SRH != nil {
			out.Local.SRH = &forwarder.Encap{Segs: l.SRH.Segs, HMAC: l.SRH.HMAC}
		}
	}
	return out
}

// Replace makes forwarders of the nodes that route or have VRF or VLAN devices,
// so that the topology runs without the kernel's. Plain hosts stay with the
// kernel.
func Replace(t *topology.Topology) {
	for _, n := range t.Nodes {
		if routes(n) || len(n.VRFs) > 0 || len(n.VLANs) > 0 {
			n.Dataplane = "forwarder"
		}
	}
}

func routes(n *topology.Node) bool {
	for name, value := range n.Sysctls {
		if value == "1" && (name == "net.ipv4.ip_forward" || strings.HasSuffix(name, ".forwarding")) {
			return true
		}
	}
	return slices.ContainsFunc(n.Routes, func(r *topology.Route) bool { return r.Encap != nil })
}
