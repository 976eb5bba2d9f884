package forwarder

import (
	"net/netip"
	"time"

	"seg6lab/forwarder/skb"
	"seg6lab/forwarder/srh"
)

// Config is a router. Its words are those of iproute2 and of topology files.
type Config struct {
	// Devices, in the order of port numbers: Input's port 0 is the first
	// device that is neither a VLAN device nor a dummy, and so on.
	Devices []Device
	// Addresses by device name. "lo" is known without being a device.
	Addresses  map[string][]netip.Prefix
	Neighbours []Neighbour
	VRFs       []VRF
	Rules      []Rule
	Routes     []Route
	// Host is the name of the device behind which are the sockets of the
	// router, if any: a TAP device whose kernel has the router's addresses.
	// The device's MAC is that of the kernel.
	Host string
	// TunSrc is the source address of outer headers (ip sr tunsrc set).
	TunSrc netip.Addr
	// HMAC keys (ip sr hmac set).
	HMAC []HMACKey
	// Sysctls by dotted name, those of the namespace. What the forwarder does
	// not know has no effect. Known are forwarding, seg6_enabled,
	// seg6_require_hmac, hop_limit and addr_gen_mode of net.ipv6.conf,
	// net.ipv6.seg6_flowlabel, net.ipv6.icmp.ratelimit, net.ipv4.ip_forward,
	// net.ipv4.ip_default_ttl, net.ipv4.icmp_ratelimit,
	// net.ipv4.icmp_ratemask, net.ipv4.icmp_msgs_per_sec and icmp_msgs_burst.
	Sysctls map[string]string
	// Quirks; nil for those of Linux.
	Quirks *Quirks
	// Model keeps the account of the sk_buffs, if not nil.
	Model *Model
	// CPUs that Run has its threads on, one after the other, and from the first
	// one again; anywhere when empty.
	CPUs []int
	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

// Device is a network device: a port, or a VLAN device on top of one.
type Device struct {
	Name string
	MAC  [6]byte
	// MTU in bytes, 1500 when 0.
	MTU int
	// Dummy has no port: what it is to send is lost.
	Dummy bool
	// Link is the device below a VLAN device; VLAN its identifier, and
	// Protocol its EtherType, 0x8100 when 0.
	Link     string
	VLAN     uint16
	Protocol uint16
	// KeepTag is reorder_hdr off: the tag stays in the frame, and an L2
	// encapsulation takes it along.
	KeepTag bool
}

// Neighbour is a permanent neighbour entry.
type Neighbour struct {
	To     netip.Addr
	Dev    string
	LLAddr [6]byte
}

// VRF is a routing domain of its own.
type VRF struct {
	Name    string
	Table   uint32
	Devices []string
}

// Rule is a policy routing rule. Family is "inet" or "inet6", not needed where
// From or To tell it.
type Rule struct {
	Family   string
	Priority uint32
	From, To netip.Prefix
	IIF      string
	Table    uint32
}

// Numbers of the tables that have names.
const (
	TableDefault uint32 = 253
	TableMain    uint32 = 254
	TableLocal   uint32 = 255
)

// Route is one route.
type Route struct {
	To netip.Prefix
	// Type is "unicast" (also ""), "local", "blackhole", "unreachable",
	// "prohibit" or "throw".
	Type string
	Via  netip.Addr
	Dev  string
	// Table, main when 0; VRF names the table of a VRF instead.
	Table uint32
	VRF   string
	// Metric: of routes to one prefix the lowest counts, then the first.
	Metric uint32
	// MTU in bytes, that of the device when 0.
	MTU int
	// Encap and Local: at most one of them.
	Encap *Encap
	Local *Local
}

// Encap is encap seg6: a headend behaviour (RFC 8986 section 5).
type Encap struct {
	// Mode is inline, encap, encap.red, l2encap or l2encap.red.
	Mode string
	// Segs in the order of travel.
	Segs []netip.Addr
	// HMAC is the id of the key that signs the SRH, 0 for none.
	HMAC uint32
}

// Local is encap seg6local: an endpoint behaviour (RFC 8986 section 4).
type Local struct {
	// Action in iproute2's words: End, End.X, ..., End.B6, End.B6.Encaps.
	Action   string
	NH4, NH6 netip.Addr
	OIF      string
	Table    uint32
	VRFTable uint32
	// SRH of End.B6 and End.B6.Encaps.
	SRH *Encap
	// Flavors: psp, usp, usd, next-csid.
	Flavors []string
	// LBLen and NFLen are the lengths of next-csid in bits, 32 and 16 when 0.
	LBLen, NFLen uint8
}

// HMACKey is a key of RFC 8754 section 2.1.2.
type HMACKey struct {
	ID        uint32
	Algorithm srh.Algorithm
	// Secret of at most 64 bytes.
	Secret string
}

// Model says how frames would lie in sk_buffs, and collects what package skb
// makes of it.
type Model struct {
	Profile     skb.Profile
	InitOnAlloc bool
	// Frame is how every frame reaches the router; its MacLen and Len are
	// taken from the packet.
	Frame skb.Frame
	// Observe is called for every packet that a headend takes.
	Observe func(skb.Result)
}
