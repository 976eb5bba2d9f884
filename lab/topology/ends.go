package topology

import (
	"maps"
	"slices"
)

// MAC is the Ethernet address of an end of the link, which is at the given
// index of Topology.Links.
func (l *Link) MAC(index, end int) MAC {
	if len(l.MACs) > end {
		return l.MACs[end]
	}
	return LinkMAC(index, end)
}

// MACs are the Ethernet addresses of a device and of the one at the other end
// of the link that it, or the device below it, is an end of; nil where there is
// no such link.
func (t *Topology) MACs(e End) (own, peer *MAC) {
	if n := t.Nodes[e.Node]; n != nil && n.VLANs[e.Dev] != nil {
		return t.MACs(End{e.Node, n.VLANs[e.Dev].Link})
	}
	for i, l := range t.Links {
		for end := range l.Ends {
			if l.Ends[end] == e {
				mine, theirs := l.MAC(i, end), l.MAC(i, 1-end)
				return &mine, &theirs
			}
		}
	}
	return nil, nil
}

// LinkNeighbours are the permanent neighbour entries of each node that follow
// from the links: each end knows the addresses at the other, those of the device
// itself and of VLAN devices on it that both have. None where neighbours are
// learned, nor of outside equipment whose Ethernet address the link does not
// give.
func (t *Topology) LinkNeighbours() map[string][]Neighbour {
	entries := make(map[string][]Neighbour)
	if t.Neighbours == "learned" {
		return entries
	}
	outside := t.Outside()
	for i, l := range t.Links {
		for end, here := range l.Ends {
			there := l.Ends[1-end]
			if outside[here.Node] || outside[there.Node] && len(l.MACs) == 0 || t.Nodes[there.Node] == nil {
				continue
			}
			entries[here.Node] = append(entries[here.Node], t.endNeighbours(here, there, l.MAC(i, 1-end))...)
		}
	}
	return entries
}

func (t *Topology) endNeighbours(here, there End, mac MAC) []Neighbour {
	var entries []Neighbour
	for _, p := range t.Nodes[there.Node].Addresses[there.Dev] {
		entries = append(entries, Neighbour{To: p.Addr(), Dev: here.Dev, LLAddr: mac})
	}
	mine, theirs := t.Nodes[here.Node].VLANs, t.Nodes[there.Node].VLANs
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		for _, peer := range slices.Sorted(maps.Keys(theirs)) {
			a, b := mine[name], theirs[peer]
			if a.Link == here.Dev && b.Link == there.Dev && a.ID == b.ID && a.EtherType() == b.EtherType() {
				entries = append(entries, t.endNeighbours(End{here.Node, name}, End{there.Node, peer}, mac)...)
			}
		}
	}
	return entries
}

// EtherType of the VLAN tag.
func (v *VLAN) EtherType() uint16 {
	if v.Protocol == "802.1ad" {
		return 0x88a8
	}
	return 0x8100
}

// Forwards tells whether seg6lab's forwarder is the node's dataplane.
func (n *Node) Forwards() bool { return n.Dataplane == "forwarder" }

// Devices lists the devices that a node has by the topology, not those that
// its Run lines make.
func (t *Topology) Devices(node string) []string {
	devices := []string{"lo"}
	for _, l := range t.Links {
		for _, e := range l.Ends {
			if e.Node == node {
				devices = append(devices, e.Dev)
			}
		}
	}
	if n := t.Nodes[node]; n != nil {
		devices = slices.Concat(devices, n.Dummies, n.IFBs,
			slices.Collect(maps.Keys(n.VRFs)), slices.Collect(maps.Keys(n.VLANs)), slices.Collect(maps.Keys(n.Bridges)))
	}
	slices.Sort(devices)
	return devices
}
