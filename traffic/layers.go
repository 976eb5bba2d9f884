package traffic

import "net/netip"

// The table of layers. Names, widths and defaults are those of Scapy 2.5, but:
//   - where Scapy asks the host the default is fixed: Ether src is
//     00:00:00:00:00:00, dst ff:ff:ff:ff:ff:ff, the source address of IP, IPv6 and ARP is
//     the unspecified one, an ICMP timestamp is 0;
//   - Ether behind IPv6, IP or an extension header sets the next header 143 (RFC 8986);
//   - the TLVs of an SRH are those of RFC 8754: a Pad1 is one byte, the length of an HMAC
//     TLV one byte and 38, a TLV's len is filled in. Their short names are TLV, TLVHMAC, ...;
//   - with an SRH the checksum's destination follows from segleft, filled in or not;
//   - ICMP's unused is unused32 where it has 32 bits;
//   - Raw(16) is the bytes 0 to 15.
var table = []layerType{
	{
		name:   "Ether",
		fields: []field{macField("dst", broadcastMAC), macField("src", zeroMAC), xnum("type", 16, 0x9000).named(etherTypes)},
	},
	{
		name:   "Dot3",
		fields: []field{macField("dst", broadcastMAC), macField("src", zeroMAC), auto("len", 16, payloadLen)},
		inner:  says("len", 0),
		next:   always("LLC"),
	},
	{
		name:   "LLC",
		fields: []field{xnum("dsap", 8, 0), xnum("ssap", 8, 0), num("ctrl", 8, 0)},
	},
	{
		name: "Dot1Q", like: []string{"Ether"},
		fields: tag,
		inner:  tagLength,
		next:   afterTag,
	},
	{
		name: "Dot1AD", like: []string{"Dot1Q", "Ether"},
		fields: tag,
		inner:  tagLength,
		next:   afterTag,
	},
	{
		name: "ARP",
		fields: []field{
			xnum("hwtype", 16, 1), xnum("ptype", 16, 0x0800).named(etherTypes), num("hwlen", 8, 6), num("plen", 8, 4),
			num("op", 16, 1).named(map[string]uint64{"who-has": 1, "is-at": 2}),
			macField("hwsrc", zeroMAC), ip4Field("psrc", 0), macField("hwdst", zeroMAC), ip4Field("pdst", 0),
		},
	},
	{
		name: "IP",
		fields: []field{
			num("version", 4, 4), auto("ihl", 4, func(c *scope) uint64 { return uint64(len(c.header) / 4) }),
			xnum("tos", 8, 0), auto("len", 16, func(c *scope) uint64 { return uint64(len(c.header) + len(c.payload)) }),
			num("id", 16, 1), flagField("flags", 3, 0, "MF", "DF", "evil"), num("frag", 13, 0),
			num("ttl", 8, 64), num("proto", 8, 0).named(protocols),
			checksumField("chksum", func(c *scope) uint64 { return checksum(c.header) }),
			ip4Field("src", 0), ip4Field("dst", 0x7f000001),
			bytesField("options", "", until("ihl", 4, 0)),
		},
		pad:   func(_ *filled, _ bool, b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) },
		inner: func(f *filled) int { return int(f.number("len")) - 4*int(f.number("ihl")) },
		next:  rawIf("frag"),
	},
	{
		name: "IPv6",
		fields: []field{
			num("version", 4, 6), num("tc", 8, 0), num("fl", 20, 0), auto("plen", 16, payloadLen),
			num("nh", 8, 59).named(protocols), num("hlim", 8, 64), ip6Field("src", unspecified6), ip6Field("dst", loopback6),
		},
		inner: func(f *filled) int {
			if f.number("plen") == 0 && f.number("nh") == 0 {
				return -1 // a jumbogram
			}
			return int(f.number("plen"))
		},
		next: afterIPv6,
	},
	{
		name: "IPv6ExtHdrHopByHop", like: []string{"IPv6"},
		fields: []field{num("nh", 8, 59).named(protocols), auto("len", 8, extLen), autopad, optionsField("options", options, 2)},
	},
	{
		name: "IPv6ExtHdrDestOpt", like: []string{"IPv6"},
		fields: []field{num("nh", 8, 59).named(protocols), auto("len", 8, extLen), autopad, optionsField("options", options, 2)},
	},
	{
		name: "IPv6ExtHdrRouting", like: []string{"IPv6"},
		fields: []field{
			num("nh", 8, 59).named(protocols), auto("len", 8, extLen), num("type", 8, 0),
			auto("segleft", 8, func(c *scope) uint64 { return uint64(len(c.layer().list("addresses"))) }), num("reserved", 32, 0),
			{name: "addresses", kind: ipv6s, def: []netip.Addr{}, size: until("len", 8, 8)},
		},
	},
	{
		name: "SRH", aliases: []string{"IPv6ExtHdrSegmentRouting"}, like: []string{"IPv6"},
		fields: []field{
			num("nh", 8, 59).named(protocols), auto("len", 8, extLen), num("type", 8, 4),
			auto("segleft", 8, lastAddress), auto("lastentry", 8, lastAddress),
			num("unused1", 1, 0), num("protected", 1, 0), num("oam", 1, 0), num("alert", 1, 0), num("hmac", 1, 0), num("unused2", 3, 0),
			num("tag", 16, 0),
			{name: "addresses", kind: ipv6s, def: []netip.Addr{loopback6}, size: srhAddresses},
			optionsField("tlv_objects", tlvs, 0),
		},
		groups: map[string][]string{"flags": {"unused1", "protected", "oam", "alert", "hmac", "unused2"}},
		pad:    padSRH,
	},
	{
		name: "IPv6ExtHdrFragment", like: []string{"IPv6"},
		fields: []field{
			num("nh", 8, 59).named(protocols), num("res1", 8, 0), num("offset", 13, 0), num("res2", 2, 0), num("m", 1, 0), num("id", 32, 0),
		},
		next: func(f *filled, b []byte) string {
			if f.number("offset") > 0 {
				return "Raw"
			}
			return afterIPv6(f, b)
		},
	},
	{
		name: "ICMP",
		fields: []field{
			num("type", 8, 8).named(map[string]uint64{"echo-reply": 0, "dest-unreach": 3, "redirect": 5, "echo-request": 8, "time-exceeded": 11, "parameter-problem": 12}),
			num("code", 8, 0), checksumField("chksum", headerSum),
			xnum("id", 16, 0).onlyIf(icmpType(0, 8, 13, 14, 15, 16, 17, 18, 37, 38)), xnum("seq", 16, 0).onlyIf(icmpType(0, 8, 13, 14, 15, 16, 17, 18, 37, 38)),
			num("ts_ori", 32, 0).onlyIf(icmpType(13, 14)), num("ts_rx", 32, 0).onlyIf(icmpType(13, 14)), num("ts_tx", 32, 0).onlyIf(icmpType(13, 14)),
			ip4Field("gw", 0).onlyIf(icmpType(5)), num("ptr", 8, 0).onlyIf(icmpType(12)), num("reserved", 8, 0).onlyIf(icmpType(3, 11)),
			num("length", 8, 0).onlyIf(icmpType(3, 11, 12)), ip4Field("addr_mask", 0).onlyIf(icmpType(17, 18)),
			num("nexthopmtu", 16, 0).onlyIf(icmpType(3)),
			num("unused", 16, 0).onlyIf(icmpType(11, 12)),
			num("unused32", 32, 0).onlyIf(func(f *filled) bool { return !icmpType(0, 3, 5, 8, 11, 12, 13, 14, 15, 16, 17, 18)(f) }),
		},
		next: func(f *filled, _ []byte) string {
			if icmpType(3, 4, 5, 11, 12)(f) {
				return "IP"
			}
			return "Raw"
		},
	},
	icmp6("DestUnreach", 1, "IPv6", num("length", 8, 0), xnum("unused", 24, 0)),
	icmp6("PacketTooBig", 2, "IPv6", num("mtu", 32, 1280)),
	icmp6("TimeExceeded", 3, "IPv6", num("length", 8, 0), xnum("unused", 24, 0)),
	icmp6("ParamProblem", 4, "IPv6", num("ptr", 32, 6)),
	icmp6("EchoRequest", 128, "", xnum("id", 16, 0), xnum("seq", 16, 0), bytesField("data", "", everything)),
	icmp6("EchoReply", 129, "", xnum("id", 16, 0), xnum("seq", 16, 0), bytesField("data", "", everything)),
	neighbour("RS", 133, "ff02::2", num("res", 32, 0)),
	neighbour("RA", 134, "ff02::1",
		num("chlim", 8, 0), num("M", 1, 0), num("O", 1, 0), num("H", 1, 0), num("prf", 2, 1), num("P", 1, 0), num("res", 2, 0),
		num("routerlifetime", 16, 1800), num("reachabletime", 32, 0), num("retranstimer", 32, 0)),
	neighbour("NS", 135, "ff02::1", num("res", 32, 0), ip6Field("tgt", unspecified6)),
	neighbour("NA", 136, "ff02::1", num("R", 1, 1), num("S", 1, 0), num("O", 1, 1), xnum("res", 29, 0), ip6Field("tgt", unspecified6)),
	neighbour("Redirect", 137, "ff02::1", xnum("res", 32, 0), ip6Field("tgt", unspecified6), ip6Field("dst", unspecified6)),
	{
		name:   "ICMPv6Unknown",
		fields: []field{num("type", 8, 1), num("code", 8, 0), icmp6Sum, bytesField("msgbody", "", everything)},
		lift:   map[string]value{"nh": uint64(58)},
	},
	neighbourOption("SrcLLAddr", 1, num("len", 8, 1), macField("lladdr", zeroMAC)),
	neighbourOption("DstLLAddr", 2, num("len", 8, 1), macField("lladdr", zeroMAC)),
	neighbourOption("PrefixInfo", 3, num("len", 8, 4), num("prefixlen", 8, 64), num("L", 1, 1), num("A", 1, 1), num("R", 1, 0), num("res1", 5, 0),
		xnum("validlifetime", 32, 0xffffffff), xnum("preferredlifetime", 32, 0xffffffff), xnum("res2", 32, 0), ip6Field("prefix", unspecified6)),
	neighbourOption("MTU", 5, num("len", 8, 1), xnum("res", 16, 0), num("mtu", 32, 1280)),
	{
		name: "UDP",
		fields: []field{
			num("sport", 16, 53), num("dport", 16, 53),
			auto("len", 16, func(c *scope) uint64 { return uint64(len(c.header) + len(c.payload)) }),
			checksumField("chksum", func(c *scope) uint64 { return c.transportSum(17, true) }),
		},
		inner: says("len", 8),
	},
	{
		name: "TCP",
		fields: []field{
			num("sport", 16, 20), num("dport", 16, 80), num("seq", 32, 0), num("ack", 32, 0),
			auto("dataofs", 4, func(c *scope) uint64 { return uint64(len(c.header) / 4) }), num("reserved", 3, 0),
			flagField("flags", 9, 2, "F", "S", "R", "P", "A", "U", "E", "C", "N"), num("window", 16, 8192),
			checksumField("chksum", func(c *scope) uint64 { return c.transportSum(6, false) }), num("urgptr", 16, 0),
			{name: "options", kind: tcpOptions, def: "", size: until("dataofs", 4, 0)},
		},
	},
	{
		name: "GRE",
		fields: []field{
			num("chksum_present", 1, 0), num("routing_present", 1, 0), num("key_present", 1, 0), num("seqnum_present", 1, 0),
			num("strict_route_source", 1, 0), num("recursion_control", 3, 0), num("flags", 5, 0), num("version", 3, 0),
			xnum("proto", 16, 0).named(etherTypes),
			checksumField("chksum", greSum).onlyIf(anySet("chksum_present", "routing_present")),
			xnum("offset", 16, 0).onlyIf(anySet("chksum_present", "routing_present")),
			xnum("key", 32, 0).onlyIf(anySet("key_present")), xnum("sequence_number", 32, 0).onlyIf(anySet("seqnum_present")),
		},
	},
	{
		name: "VXLAN",
		fields: []field{
			flagField("flags", 8, 8, "OAM", "", "NextProtocol", "Instance", "V1", "V2", "", "G"),
			num("reserved0", 16, 0).onlyIf(vxlanFlag(4, 4)), num("NextProtocol", 8, 0).onlyIf(vxlanFlag(4, 4)),
			num("reserved1", 24, 0).onlyIf(vxlanFlag(0x84, 0)),
			xnum("gpflags", 8, 0).onlyIf(vxlanFlag(0x80, 0x80)), num("gpid", 16, 0).onlyIf(vxlanFlag(0x80, 0x80)),
			xnum("vni", 24, 0), xnum("reserved2", 8, 0),
		},
		next: func(f *filled, _ []byte) string {
			return map[uint64]string{0: "Ether", 1: "IP", 2: "IPv6", 3: "Ether"}[f.number("NextProtocol")]
		},
	},
	{
		name: "Raw", positional: true,
		fields: []field{{name: "load", kind: payload, def: "", size: everything}},
	},
	{
		name: "Padding", positional: true, last: true,
		fields: []field{{name: "load", kind: payload, def: "", size: everything}},
	},

	// Options of hop-by-hop and destination options headers.
	{name: "Pad1", group: options, fields: []field{xnum("otype", 8, 0)}},
	{name: "PadN", group: options, fields: []field{xnum("otype", 8, 1), auto("optlen", 8, valueLen), bytesField("optdata", "", until("optlen", 1, 2))}},
	{name: "HBHOptUnknown", group: options, generic: true, fields: []field{xnum("otype", 8, 1), auto("optlen", 8, valueLen), bytesField("optdata", "", until("optlen", 1, 2))}},
	{name: "RouterAlert", group: options, align: [2]int{2, 0}, fields: []field{xnum("otype", 8, 5), num("optlen", 8, 2), num("value", 16, 0)}},
	{name: "Jumbo", group: options, align: [2]int{4, 2}, fields: []field{xnum("otype", 8, 0xc2), num("optlen", 8, 4), num("jumboplen", 32, 0)}},
	{name: "HAO", group: options, align: [2]int{8, 6}, fields: []field{xnum("otype", 8, 0xc9), num("optlen", 8, 16), ip6Field("hoa", unspecified6)}},

	// TLVs of an SRH.
	{name: "TLVPad1", aliases: []string{"IPv6ExtHdrSegmentRoutingTLVPad1"}, group: tlvs, fields: []field{num("type", 8, 0)}},
	{
		name: "TLV", aliases: []string{"IPv6ExtHdrSegmentRoutingTLV"}, group: tlvs, generic: true,
		fields: []field{num("type", 8, 0), auto("len", 8, valueLen), bytesField("value", "", until("len", 1, 2))},
	},
	{
		name: "TLVIngressNode", aliases: []string{"IPv6ExtHdrSegmentRoutingTLVIngressNode"}, group: tlvs,
		fields: []field{num("type", 8, 1), num("len", 8, 18), num("reserved", 8, 0), num("flags", 8, 0), ip6Field("ingress_node", loopback6)},
	},
	{
		name: "TLVEgressNode", aliases: []string{"IPv6ExtHdrSegmentRoutingTLVEgressNode"}, group: tlvs,
		fields: []field{num("type", 8, 2), num("len", 8, 18), num("reserved", 8, 0), num("flags", 8, 0), ip6Field("egress_node", loopback6)},
	},
	{
		name: "TLVPadN", aliases: []string{"IPv6ExtHdrSegmentRoutingTLVPadN"}, group: tlvs,
		fields: []field{num("type", 8, 4), auto("len", 8, valueLen), bytesField("padding", "\x00", until("len", 1, 2))},
	},
	{
		name: "TLVHMAC", aliases: []string{"IPv6ExtHdrSegmentRoutingTLVHMAC"}, group: tlvs,
		fields: []field{
			num("type", 8, 5), auto("len", 8, valueLen), num("D", 1, 0), num("reserved", 15, 0), num("hmackeyid", 32, 0),
			bytesField("hmac", string(make([]byte, 32)), until("len", 1, 2)),
		},
	},
}

// Groups of layers that stand in lists.
const (
	options = "option"
	tlvs    = "TLV"
)

var tag = []field{num("prio", 3, 0), num("id", 1, 0), num("vlan", 12, 1), xnum("type", 16, 0).named(etherTypes)}

// autopad is a field that is not on the wire: whether padding is put between
// and behind options.
var autopad = field{name: "autopad", kind: decimal, def: uint64(1)}

var icmp6Sum = checksumField("cksum", func(c *scope) uint64 { return c.transportSum(58, false) })

func icmp6(name string, typ uint64, payload string, fields ...field) layerType {
	return layerType{
		name:   "ICMPv6" + name,
		fields: append([]field{num("type", 8, typ), num("code", 8, 0), icmp6Sum}, fields...),
		lift:   map[string]value{"nh": uint64(58)},
		next:   always(payload),
	}
}

func neighbour(name string, typ uint64, dst string, fields ...field) layerType {
	t := icmp6("ND_"+name, typ, "", fields...)
	t.lift = map[string]value{"nh": uint64(58), "hlim": uint64(255), "dst": netip.MustParseAddr(dst)}
	t.next = neighbourOptionOf
	return t
}

func neighbourOption(name string, typ uint64, fields ...field) layerType {
	return layerType{name: "ICMPv6NDOpt" + name, fields: append([]field{num("type", 8, typ)}, fields...), next: neighbourOptionOf}
}

var icmp6Types = map[byte]string{
	1: "ICMPv6DestUnreach", 2: "ICMPv6PacketTooBig", 3: "ICMPv6TimeExceeded", 4: "ICMPv6ParamProblem",
	128: "ICMPv6EchoRequest", 129: "ICMPv6EchoReply",
	133: "ICMPv6ND_RS", 134: "ICMPv6ND_RA", 135: "ICMPv6ND_NS", 136: "ICMPv6ND_NA", 137: "ICMPv6ND_Redirect",
}

var neighbourOptions = map[byte]string{
	1: "ICMPv6NDOptSrcLLAddr", 2: "ICMPv6NDOptDstLLAddr", 3: "ICMPv6NDOptPrefixInfo", 5: "ICMPv6NDOptMTU",
}

func neighbourOptionOf(_ *filled, b []byte) string { return neighbourOptions[b[0]] }

// bindings are tried in order; the first that fits is taken.
var bindings = []binding{
	{"Ether", "type", 0x8100, "Dot1Q", both},
	{"Ether", "type", 0x88a8, "Dot1AD", both},
	{"Ether", "type", 0x86dd, "IPv6", both},
	{"Ether", "type", 0x0800, "IP", both},
	{"Ether", "type", 0x0806, "ARP", both},

	{"IPv6", "nh", 0, "IPv6ExtHdrHopByHop", both},
	{"IPv6", "nh", 4, "IP", both},
	{"IPv6", "nh", 6, "TCP", both},
	{"IPv6", "nh", 17, "UDP", both},
	{"IPv6", "nh", 41, "IPv6", both},
	{"IPv6", "nh", 43, "IPv6ExtHdrRouting", both},
	{"IPv6", "nh", 43, "SRH", writing},
	{"IPv6", "nh", 44, "IPv6ExtHdrFragment", both},
	{"IPv6", "nh", 47, "GRE", both},
	{"IPv6", "nh", 60, "IPv6ExtHdrDestOpt", both},
	{"IPv6", "nh", 143, "Ether", both},

	{"IP", "proto", 1, "ICMP", both},
	{"IP", "proto", 4, "IP", both},
	{"IP", "proto", 6, "TCP", both},
	{"IP", "proto", 17, "UDP", both},
	{"IP", "proto", 41, "IPv6", both},
	{"IP", "proto", 47, "GRE", both},
	{"IP", "proto", 143, "Ether", both},

	{"GRE", "proto", 0x0800, "IP", both},
	{"GRE", "proto", 0x86dd, "IPv6", both},
	{"GRE", "proto", 0x6558, "Ether", both},
	{"GRE", "proto", 0x0806, "ARP", both},
	{"GRE", "proto", 0x8100, "Dot1Q", both},

	{"UDP", "dport", 4789, "VXLAN", both},
	{"UDP", "sport", 4789, "VXLAN", both},
	{"UDP", "dport", 8472, "VXLAN", reading},
	{"UDP", "sport", 8472, "VXLAN", reading},
	{"UDP", "dport", 4790, "VXLAN", reading},
	{"VXLAN", "flags", 12, "Ether", writing}, // Scapy writes VXLAN-GPE unless flags are given
	{"VXLAN", "flags", 12, "IP", writing},
	{"VXLAN", "flags", 12, "IPv6", writing},
	{"VXLAN", "NextProtocol", 3, "Ether", writing},
	{"VXLAN", "NextProtocol", 1, "IP", writing},
	{"VXLAN", "NextProtocol", 2, "IPv6", writing},
	{"UDP", "sport", 4790, "VXLAN", reading},
}

var (
	etherTypes = map[string]uint64{"IPv4": 0x0800, "ARP": 0x0806, "n_802_1Q": 0x8100, "IPv6": 0x86dd, "n_802_1AD": 0x88a8}
	protocols  = map[string]uint64{
		"Hop-by-Hop Option Header": 0, "ICMP": 1, "IP": 4, "TCP": 6, "UDP": 17, "IPv6": 41, "Routing Header": 43, "Fragment Header": 44,
		"GRE": 47, "ICMPv6": 58, "No Next Header": 59, "Destination Option Header": 60,
	}
)
