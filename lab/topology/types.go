// Package topology is the declarative format of a lab: its types, the strict
// decoding of a YAML file with the place of every mistake, validation, and the
// JSON schema for editors. It is pure: it needs no root, touches no kernel and
// imports nothing of the project but its own decoder.
//
// An editor with a YAML language server completes and checks a topology file
// that begins with
//
//	# yaml-language-server: $schema=schema.json
//
// where schema.json is the path to the file of this package.
package topology

import (
	"net/netip"
	"time"

	"seg6lab/lab/topology/strictyaml"
)

// Topology is what a topology file describes: nodes, and the links between
// their devices.
type Topology struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Name of the topology; the default name of a lab built from it.
	Name string `yaml:"name" jsonschema:"minLength=1"`
	// About says in one sentence what the topology is for.
	About string `yaml:"about,omitempty"`
	// Neighbours is "static" (the default: both ends of every link know each
	// other's addresses as permanent neighbours, so that no address resolution
	// is on the wire) or "learned".
	Neighbours string `yaml:"neighbours,omitempty" jsonschema:"enum=static,enum=learned"`
	// Nodes by name. A node is one network namespace.
	Nodes map[string]*Node `yaml:"nodes"`
	// Links are veth pairs between two nodes, or within one.
	Links []*Link `yaml:"links,omitempty"`
	// Ports are the real ports that stand in for ends of links, by end
	// ("node:dev"). With both ends of a link bound, it is a cable between two
	// ports of this machine. With one, it leads to outside equipment: the node at
	// its other end is not built, and need not be among the nodes.
	Ports map[string]*Port `yaml:"ports,omitempty"`
}

// Node is one network namespace and everything configured in it. Devices are
// created first, then addresses, neighbours, rules, routes, and last the Run
// lines, each in the order of the file or, for maps, of the sorted keys.
type Node struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Dataplane is "kernel" (the default) or "forwarder".
	Dataplane string `yaml:"dataplane,omitempty" jsonschema:"enum=kernel,enum=forwarder"`
	// Quirks are the points in which Linux departs from the RFCs, each true (the
	// default: the node's forwarder does as Linux does) or false (as the RFC
	// says), by the names in QuirkNames. "all" stands for those not named.
	Quirks map[string]bool `yaml:"quirks,omitempty"`
	// Sysctls by dotted name, set in the namespace. A "net." name only.
	Sysctls map[string]string `yaml:"sysctls,omitempty"`
	// Seg6 holds the namespace-wide settings of seg6.
	Seg6 *Seg6 `yaml:"seg6,omitempty"`
	// VRFs by device name.
	VRFs map[string]*VRF `yaml:"vrfs,omitempty"`
	// VLANs by device name.
	VLANs map[string]*VLAN `yaml:"vlans,omitempty"`
	// Bridges by device name.
	Bridges map[string]*Bridge `yaml:"bridges,omitempty"`
	// Dummies are names of dummy devices.
	Dummies []string `yaml:"dummies,omitempty"`
	// IFBs are names of intermediate functional block devices.
	IFBs []string `yaml:"ifbs,omitempty"`
	// MTU by device name, in bytes: of this end alone, where that of a link is of both.
	MTU map[string]int `yaml:"mtu,omitempty" jsonschema:"minimum=68,maximum=65535"`
	// Addresses by device name, each with its prefix length. IPv6 addresses
	// are added without duplicate address detection. "lo" is a device too.
	Addresses map[string][]netip.Prefix `yaml:"addresses,omitempty"`
	// Neighbours are permanent neighbour entries, on top of those that
	// Topology.Neighbours makes.
	Neighbours []*Neighbour `yaml:"neighbours,omitempty"`
	// Rules are policy routing rules.
	Rules []*Rule `yaml:"rules,omitempty"`
	// Routes of any table.
	Routes []*Route `yaml:"routes,omitempty"`
	// Offloads by device name: feature names of ethtool -k, on or off.
	Offloads map[string]map[string]bool `yaml:"offloads,omitempty"`
	// Netem by device name: loss and delay on what the device sends.
	Netem map[string]*Netem `yaml:"netem,omitempty"`
	// Run lines are executed by a shell in the namespace, after all else, in
	// order. A line that exits with another status than 0 fails the lab.
	Run []string `yaml:"run,omitempty"`
}

// Seg6 is what `ip sr` sets: the source address of encapsulations, HMAC keys.
type Seg6 struct {
	strictyaml.At `yaml:"-" json:"-"`

	// TunSrc is the source address of outer headers (ip sr tunsrc set).
	TunSrc netip.Addr `yaml:"tunsrc,omitempty"`
	// HMAC keys (ip sr hmac set).
	HMAC []*HMACKey `yaml:"hmac,omitempty"`
}

// HMACKey is a key of RFC 8754 section 2.1.2.
type HMACKey struct {
	strictyaml.At `yaml:"-" json:"-"`

	// ID is the HMAC key id, not 0.
	ID uint32 `yaml:"id" jsonschema:"minimum=1"`
	// Algorithm is "sha1" or "sha256".
	Algorithm string `yaml:"algorithm" jsonschema:"enum=sha1,enum=sha256"`
	// Secret of at most 64 bytes, as text.
	Secret string `yaml:"secret" jsonschema:"minLength=1,maxLength=64"`
}

// VRF is a virtual routing and forwarding device.
type VRF struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Table is the routing table of the VRF.
	Table uint32 `yaml:"table" jsonschema:"minimum=1"`
	// Devices that are enslaved to the VRF.
	Devices []string `yaml:"devices,omitempty"`
}

// VLAN is a VLAN device on top of another device.
type VLAN struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Link is the device below.
	Link string `yaml:"link"`
	// ID is the VLAN identifier, 0 to 4094.
	ID uint16 `yaml:"id" jsonschema:"minimum=0,maximum=4094"`
	// Protocol is "802.1Q" (the default) or "802.1ad".
	Protocol string `yaml:"protocol,omitempty" jsonschema:"enum=802.1Q,enum=802.1ad"`
	// ReorderHdr is the reorder_hdr flag, on when left out. When off, the
	// device leaves the tag in the frame.
	ReorderHdr *bool `yaml:"reorder_hdr,omitempty"`
}

// Bridge is an Ethernet bridge.
type Bridge struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Devices that are ports of the bridge.
	Devices []string `yaml:"devices,omitempty"`
	// VLANFiltering turns on VLAN filtering.
	VLANFiltering bool `yaml:"vlan_filtering,omitempty"`
}

// Neighbour is a permanent neighbour entry.
type Neighbour struct {
	strictyaml.At `yaml:"-" json:"-"`

	To     netip.Addr `yaml:"to"`
	Dev    string     `yaml:"dev"`
	LLAddr MAC        `yaml:"lladdr"`
}

// Rule is a policy routing rule (ip rule).
type Rule struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Family is "inet" or "inet6"; derived from From or To when left out.
	Family string `yaml:"family,omitempty" jsonschema:"enum=inet,enum=inet6"`
	// Priority, also called preference; the kernel chooses when 0.
	Priority uint32       `yaml:"priority,omitempty"`
	From     netip.Prefix `yaml:"from,omitempty"`
	To       netip.Prefix `yaml:"to,omitempty"`
	IIF      string       `yaml:"iif,omitempty"`
	OIF      string       `yaml:"oif,omitempty"`
	FWMark   uint32       `yaml:"fwmark,omitempty"`
	Table    Table        `yaml:"table"`
}

// Route is one route of any table (ip route add).
type Route struct {
	strictyaml.At `yaml:"-" json:"-"`

	// To is the destination, or "default", whose family is that of Via or,
	// without one, IPv6 unless Family says otherwise.
	To Destination `yaml:"to"`
	// Family is "inet" or "inet6", needed only for a default route that
	// nothing else tells.
	Family string `yaml:"family,omitempty" jsonschema:"enum=inet,enum=inet6"`
	// Type is "unicast" (the default), "local", "blackhole", "unreachable",
	// "prohibit" or "throw".
	Type string `yaml:"type,omitempty" jsonschema:"enum=unicast,enum=local,enum=blackhole,enum=unreachable,enum=prohibit,enum=throw"`
	// Via is the gateway.
	Via netip.Addr `yaml:"via,omitempty"`
	// Dev is the outgoing device.
	Dev string `yaml:"dev,omitempty"`
	// Table is the routing table, main when left out.
	Table Table `yaml:"table,omitempty"`
	// VRF puts the route into the table of this VRF of the node.
	VRF string `yaml:"vrf,omitempty"`
	// Metric is the priority of the route, the kernel's default when 0.
	Metric uint32 `yaml:"metric,omitempty"`
	// Source is the preferred source address (ip route ... src).
	Source netip.Addr `yaml:"src,omitempty"`
	// MTU of the route in bytes.
	MTU uint32 `yaml:"mtu,omitempty" jsonschema:"minimum=68,maximum=65535"`
	// OnLink takes the gateway as directly reachable.
	OnLink bool `yaml:"onlink,omitempty"`
	// Encap is the lightweight tunnel of the route.
	Encap *Encap `yaml:"encap,omitempty"`
}

// Encap is a lightweight tunnel: exactly one of its fields is set.
type Encap struct {
	strictyaml.At `yaml:"-" json:"-"`

	Seg6      *Seg6Encap `yaml:"seg6,omitempty"`
	Seg6Local *Seg6Local `yaml:"seg6local,omitempty"`
}

// Seg6Encap is a headend behaviour of RFC 8986 section 5 (ip route ... encap
// seg6 mode MODE segs SEGS [hmac KEYID]).
type Seg6Encap struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Mode is "inline", "encap", "encap.red", "l2encap" or "l2encap.red".
	Mode string `yaml:"mode" jsonschema:"enum=inline,enum=encap,enum=encap.red,enum=l2encap,enum=l2encap.red"`
	// Segs are the segments in the order of travel.
	Segs []netip.Addr `yaml:"segs"`
	// HMAC is the id of the key that signs the SRH; 0 for none.
	HMAC uint32 `yaml:"hmac,omitempty"`
}

// Seg6Local is an endpoint behaviour of RFC 8986 section 4 (ip route ... encap
// seg6local action ACTION ...), with iproute2's words.
type Seg6Local struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Action is "End", "End.X", "End.T", "End.DX2", "End.DX4", "End.DX6",
	// "End.DT4", "End.DT6", "End.DT46", "End.B6" or "End.B6.Encaps".
	Action string     `yaml:"action" jsonschema:"enum=End,enum=End.X,enum=End.T,enum=End.DX2,enum=End.DX4,enum=End.DX6,enum=End.DT4,enum=End.DT6,enum=End.DT46,enum=End.B6,enum=End.B6.Encaps"`
	NH4    netip.Addr `yaml:"nh4,omitempty"`
	NH6    netip.Addr `yaml:"nh6,omitempty"`
	IIF    string     `yaml:"iif,omitempty"`
	OIF    string     `yaml:"oif,omitempty"`
	// Table to look up in (End.T, End.DT6).
	Table Table `yaml:"table,omitempty"`
	// VRFTable is the table of the VRF to decapsulate into (End.DT4, End.DT6,
	// End.DT46).
	VRFTable Table `yaml:"vrftable,omitempty"`
	// SRH is the segment list to insert or push (End.B6, End.B6.Encaps).
	SRH *SRH `yaml:"srh,omitempty"`
	// Flavors are "psp", "usp", "usd" and "next-csid".
	Flavors []string `yaml:"flavors,omitempty" jsonschema:"enum=psp,enum=usp,enum=usd,enum=next-csid"`
	// LBLen is the Locator-Block length in bits (next-csid); the kernel's
	// default of 32 when 0.
	LBLen uint8 `yaml:"lblen,omitempty" jsonschema:"minimum=8,maximum=120"`
	// NFLen is the Locator-Node Function length in bits (next-csid); the
	// kernel's default of 16 when 0.
	NFLen uint8 `yaml:"nflen,omitempty" jsonschema:"minimum=8,maximum=120"`
	// Count keeps counters of packets, bytes and errors.
	Count bool `yaml:"count,omitempty"`
}

// SRH is the segment list of End.B6 and End.B6.Encaps.
type SRH struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Segs are the segments in the order of travel.
	Segs []netip.Addr `yaml:"segs"`
	// HMAC is the id of the key that signs the SRH; 0 for none.
	HMAC uint32 `yaml:"hmac,omitempty"`
}

// Netem impairs what a device sends.
type Netem struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Delay of every packet.
	Delay Duration `yaml:"delay,omitempty"`
	// Jitter around Delay.
	Jitter Duration `yaml:"jitter,omitempty"`
	// Loss in percent, 0 to 100.
	Loss float64 `yaml:"loss,omitempty" jsonschema:"minimum=0,maximum=100"`
	// Limit of the queue in packets, 1000 when 0.
	Limit uint32 `yaml:"limit,omitempty"`
}

// Link is a veth pair. In a file it is either a list of two ends or a mapping
// with the key "ends".
type Link struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Ends are the two devices that the link connects.
	Ends [2]End `yaml:"ends" short:"list"`
	// MTU of both ends in bytes, the kernel's default of 1500 when 0.
	MTU int `yaml:"mtu,omitempty" jsonschema:"minimum=68,maximum=65535"`
	// MACs of the ends, in the order of Ends; derived from the place of the
	// link in the file when left out (see LinkMAC).
	MACs []MAC `yaml:"macs,omitempty"`
	// TxQueueLen of both ends in packets, the kernel's default when 0.
	TxQueueLen int `yaml:"txqueuelen,omitempty" jsonschema:"minimum=1,maximum=1000000"`
}

// Port names a port of this machine. Exactly one of its fields is set; in a file
// its name may stand for it.
type Port struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Name is the name, or an alternative name, of the device.
	Name string `yaml:"name,omitempty" short:"scalar"`
	// PCI is the address of the function, such as "0000:03:00.0".
	PCI string `yaml:"pci,omitempty"`
	// MAC is the permanent Ethernet address of the port or, where no port has it,
	// the address that it has now.
	MAC *MAC `yaml:"mac,omitempty"`
}

// Duration is a time.Duration written as "10ms".
type Duration time.Duration
