package traffic

import (
	"fmt"
	"net/netip"
	"slices"
)

// layerType is one layer of the table below.
type layerType struct {
	name    string
	aliases []string
	group   string // "" for a layer of a packet; else the lists that it may stand in
	fields  []field

	like       []string            // layers that this one stands for when the layers around it are bound
	groups     map[string][]string // a name for several adjacent bits
	positional bool                // Raw(b"x"): the first field needs no name
	last       bool                // nothing may follow

	pad   func(f *filled, given bool, header []byte) []byte // appends what rounds the header up; given: its length field was given
	inner func(f *filled) int                               // bytes of payload that the header says; the rest is Padding
	next  func(f *filled, payload []byte) string            // the layer that follows, when the bindings do not say
	lift  map[string]value                                  // what this layer sets in an IPv6 layer below it

	index map[string]int
}

// binding says that the field of the layer under has the value when the layer
// over follows.
type binding struct {
	under, field string
	value        uint64
	over         string
	only         direction
}

type direction int

const (
	both    direction = iota
	reading           // used to dissect only
	writing           // used to build only
)

var (
	zeroMAC      = uint64(0)
	broadcastMAC = uint64(0xffffffffffff)
	loopback6    = netip.IPv6Loopback()
	unspecified6 = netip.IPv6Unspecified()
)

func num(name string, bits int, def uint64) field {
	return field{name: name, kind: decimal, bits: bits, def: def}
}

func xnum(name string, bits int, def uint64) field {
	return field{name: name, kind: hexdec, bits: bits, def: def}
}

func auto(name string, bits int, f func(*context) uint64) field {
	return field{name: name, kind: decimal, bits: bits, auto: f}
}

func checksumField(name string, f func(*context) uint64) field {
	return field{name: name, kind: hexdec, bits: 16, auto: f, sum: true}
}

func macField(name string, def uint64) field {
	return field{name: name, kind: mac, bits: 48, def: def}
}

func ip4Field(name string, def uint64) field {
	return field{name: name, kind: ipv4, bits: 32, def: def}
}

func ip6Field(name string, def netip.Addr) field {
	return field{name: name, kind: ipv6, def: def, size: fixed(16)}
}

func bytesField(name, def string, size func(*filled, int) int) field {
	return field{name: name, kind: octets, def: def, size: size}
}

func (f field) onlyIf(when func(*filled) bool) field { f.when = when; return f }

func (f field) named(names map[string]uint64) field { f.names = names; return f }

func fixed(n int) func(*filled, int) int { return func(*filled, int) int { return n } }

func everything(_ *filled, rest int) int { return rest }

// lengthField is the size of a field from the field that holds its length.
func lengthField(name string) func(*filled, int) int {
	return func(f *filled, _ int) int { return int(f.number(name)) }
}

// upTo is the size of the field that fills a header of the given length.
func upTo(before int, total func(*filled) int) func(*filled, int) int {
	return func(f *filled, _ int) int { return total(f) - before }
}

var etherTypes = map[string]uint64{"IPv4": 0x0800, "ARP": 0x0806, "n_802_1Q": 0x8100, "IPv6": 0x86dd, "802_1AD": 0x88a8}

// The table of layers. Field names, widths and defaults are Scapy's. Where
// Scapy would ask the host (source addresses, MAC addresses, the time) the
// default is fixed here: Ether src 00:00:00:00:00:00, dst ff:ff:ff:ff:ff:ff,
// IP and IPv6 src the unspecified address, ICMP timestamps 0.
var table = []layerType{
	{
		name: "Ether",
		fields: []field{
			macField("dst", broadcastMAC), macField("src", zeroMAC), xnum("type", 16, 0x9000).named(etherTypes),
		},
	},
	{
		name: "Dot1Q", like: []string{"Ether"},
		fields: []field{num("prio", 3, 0), num("id", 1, 0), num("vlan", 12, 1), xnum("type", 16, 0).named(etherTypes)},
	},
	{
		name: "Dot1AD", like: []string{"Dot1Q", "Ether"},
		fields: []field{num("prio", 3, 0), num("id", 1, 0), num("vlan", 12, 1), xnum("type", 16, 0).named(etherTypes)},
	},
	{
		name: "IPv6",
		fields: []field{
			num("version", 4, 6), num("tc", 8, 0), num("fl", 20, 0),
			auto("plen", 16, func(c *context) uint64 { return uint64(len(c.payload)) }),
			num("nh", 8, 59), num("hlim", 8, 64),
			ip6Field("src", unspecified6), ip6Field("dst", loopback6),
		},
		inner: func(f *filled) int { return int(f.number("plen")) },
		next:  afterIPv6,
	},
	{
		name: "SRH", aliases: []string{"IPv6ExtHdrSegmentRouting"}, like: []string{"IPv6"},
		fields: []field{
			num("nh", 8, 59), auto("len", 8, extLen), num("type", 8, 4),
			auto("segleft", 8, lastAddress), auto("lastentry", 8, lastAddress),
			num("unused1", 1, 0), num("protected", 1, 0), num("oam", 1, 0), num("alert", 1, 0), num("hmac", 1, 0), num("unused2", 3, 0),
			num("tag", 16, 0),
			{name: "addresses", kind: ipv6s, def: []netip.Addr{loopback6}, size: srhAddresses},
		},
		groups: map[string][]string{"flags": {"unused1", "protected", "oam", "alert", "hmac", "unused2"}},
	},
	{
		name: "UDP",
		fields: []field{
			num("sport", 16, 53), num("dport", 16, 53),
			auto("len", 16, func(c *context) uint64 { return uint64(8 + len(c.payload)) }),
			checksumField("chksum", func(c *context) uint64 { return c.transportSum(17, true) }),
		},
		inner: func(f *filled) int { return int(f.number("len")) - 8 },
	},
	{
		name: "Raw", positional: true,
		fields: []field{{name: "load", kind: payload, def: "", size: everything}},
	},
	{
		name: "Padding", positional: true, last: true,
		fields: []field{{name: "load", kind: payload, def: "", size: everything}},
	},
}

var bindings = []binding{
	{"Ether", "type", 0x8100, "Dot1Q", both},
	{"Ether", "type", 0x88a8, "Dot1AD", both},
	{"Ether", "type", 0x86dd, "IPv6", both},
	{"IPv6", "nh", 43, "SRH", writing},
	{"IPv6", "nh", 41, "IPv6", both},
	{"IPv6", "nh", 17, "UDP", both},
	{"IPv6", "nh", 143, "Ether", both}, // RFC 8986 section 10.1; Scapy has no such binding
}

// extLen is Hdr Ext Len: the header in units of 8 bytes, less the first.
func extLen(c *context) uint64 { return uint64(len(c.header)-8) / 8 & 0xff }

// lastAddress is the index of the last address of the list.
func lastAddress(c *context) uint64 {
	n := len(c.layer().list("addresses"))
	return uint64(max(n-1, 0)) & 0xff
}

// afterIPv6 tells routing headers apart by their type.
func afterIPv6(f *filled, payload []byte) string {
	if f.number("nh") == 43 && len(payload) > 2 && payload[2] == 4 {
		return "SRH"
	}
	return ""
}

// srhAddresses is the size of the segment list: as Last Entry says, as far as the header has room.
func srhAddresses(f *filled, _ int) int {
	return 16 * min(int(f.number("lastentry"))+1, int(f.number("len"))/2)
}

// layersByName and layerNames are filled from the table.
var (
	layersByName = map[string]*layerType{}
	layerNames   []string
)

func init() {
	for i := range table {
		t := &table[i]
		t.index = map[string]int{}
		for j, f := range t.fields {
			t.index[f.name] = j
		}
		if slices.Contains(t.like, "IPv6") && t.next == nil {
			t.next = afterIPv6
		}
		for _, name := range append([]string{t.name}, t.aliases...) {
			layersByName[name] = t
			layerNames = append(layerNames, name)
		}
	}
}

// find returns the index of a field, or an error with the nearest right word.
func (t *layerType) find(name string) (int, error) {
	if i, ok := t.index[name]; ok {
		return i, nil
	}
	words := make([]string, 0, len(t.fields))
	for _, f := range t.fields {
		words = append(words, f.name)
	}
	for g := range t.groups {
		words = append(words, g)
	}
	return 0, fmt.Errorf("%s has no field %.40q%s", t.name, name, didYouMean(name, words))
}

// namesOf lists the layers of a group.
func namesOf(group string) []string {
	return slices.DeleteFunc(slices.Clone(layerNames), func(name string) bool { return layersByName[name].group != group })
}

func keys(m map[string]uint64) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
