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
