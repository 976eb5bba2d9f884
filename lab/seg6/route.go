package seg6

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Route is a route as the kernel has it.
type Route struct {
	// Dst is the destination; its length is 0 for default.
	Dst netip.Prefix
	// Type, Protocol and Scope are numbers of RTN_*, RTPROT_* and RT_SCOPE_*.
	Type, Protocol, Scope uint8
	Table                 uint32
	Metric                uint32
	PrefSrc               netip.Addr // invalid for none
	MTU                   uint32     // in bytes, 0 for the device's
	// Error is the negative errno that a packet to an unreachable or
	// prohibited destination gets, 0 for none.
	Error int32
	// Preference of an IPv6 route (RFC 4191), nil for IPv4.
	Preference *uint8
	// Flags are RTNH_F_*.
	Flags uint32
	// NextHop of a route with one.
	NextHop
	// Paths of a multipath route.
	Paths []NextHop
}

// NextHop is where a route leads to.
type NextHop struct {
	Via netip.Addr // invalid for none
	OIF uint32     // interface index, 0 for none
	// Weight of a path of a multipath route.
	Weight int
	// Encap is *Encap, *Local, *OtherEncap or nil.
	Encap netlink.Encap
}

// OtherEncap is an encapsulation that is neither seg6 nor seg6local.
type OtherEncap struct {
	// Kind is the number of LWTUNNEL_ENCAP_*.
	Kind uint16
	// Data is the payload of RTA_ENCAP.
	Data []byte
}

// encapNames are iproute2's words for enum lwtunnel_encap_types.
var encapNames = []string{1: "mpls", "ip", "ila", "ip6", "seg6", "bpf", "seg6local", "rpl", "ioam6", "xfrm"}

// Type is the number of LWTUNNEL_ENCAP_*.
func (e *OtherEncap) Type() int { return int(e.Kind) }

// Decode keeps the bytes as they are.
func (e *OtherEncap) Decode(b []byte) error { e.Data = append([]byte(nil), b...); return nil }

// Encode returns the bytes as they are.
func (e *OtherEncap) Encode() ([]byte, error) { return e.Data, nil }

// String is iproute2's name of the type, or its number.
func (e *OtherEncap) String() string {
	if int(e.Kind) < len(encapNames) && e.Kind > 0 {
		return encapNames[e.Kind]
	}
	return strconv.Itoa(int(e.Kind))
}

// Equal compares type and bytes.
func (e *OtherEncap) Equal(x netlink.Encap) bool {
	o, ok := x.(*OtherEncap)
	return ok && e.Kind == o.Kind && string(e.Data) == string(o.Data)
}

// Interfaces names the interfaces of a namespace by their index.
type Interfaces map[uint32]string

// Name is the name of the interface, or if3 for an unknown index 3.
func (n Interfaces) Name(index uint32) string {
	if name, ok := n[index]; ok {
		return name
	}
	return unknownIf(index)
}

// Interfaces reads the names of the interfaces, for Route.Text and Local.Text.
func (c *Conn) Interfaces() (Interfaces, error) {
	// struct ifinfomsg, all zeros.
	const header, index = unix.SizeofIfInfomsg, 4
	msgs, err := c.request(unix.NETLINK_ROUTE, unix.RTM_GETLINK, unix.NLM_F_DUMP, make([]byte, header), nil, unix.RTM_NEWLINK)
	if err != nil {
		return nil, fmt.Errorf("get interfaces: %w", err)
	}
	names := make(Interfaces)
	for _, m := range msgs {
		if len(m) < header {
			return nil, fmt.Errorf("get interfaces: message of %d bytes", len(m))
		}
		err := eachAttr(m[header:], func(a attr) error {
			if a.kind == unix.IFLA_IFNAME {
				names[binary.NativeEndian.Uint32(m[index:])] = unix.ByteSliceToString(a.data)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("get interfaces: %w", err)
		}
	}
	return names, nil
}

// Routes reads the routes of all tables. The family is unix.AF_INET,
// unix.AF_INET6, or unix.AF_UNSPEC for both, IPv4 first.
func (c *Conn) Routes(family int) ([]Route, error) {
	if family == unix.AF_UNSPEC {
		v4, err := c.Routes(unix.AF_INET)
		if err != nil {
			return nil, err
		}
		v6, err := c.Routes(unix.AF_INET6)
		return append(v4, v6...), err
	}
	header := make([]byte, unix.SizeofRtMsg)
	header[0] = byte(family)
	msgs, err := c.request(unix.NETLINK_ROUTE, unix.RTM_GETROUTE, unix.NLM_F_DUMP, header, nil, unix.RTM_NEWROUTE)
	if err != nil {
		return nil, fmt.Errorf("get routes: %w", err)
	}
	var routes []Route
	for _, m := range msgs {
		r, ok, err := parseRoute(m, family)
		if err != nil {
			return nil, fmt.Errorf("get routes: %w", err)
		}
		if ok {
			routes = append(routes, r)
		}
	}
	return routes, nil
}

// parseRoute reads struct rtmsg and its attributes. ok is false for an entry of
// the cache and for one of another family.
func parseRoute(m []byte, family int) (r Route, ok bool, err error) {
	if len(m) < unix.SizeofRtMsg {
		return r, false, fmt.Errorf("message of %d bytes", len(m))
	}
	flags := binary.NativeEndian.Uint32(m[8:])
	if int(m[0]) != family || flags&unix.RTM_F_CLONED != 0 {
		return r, false, nil
	}
	dst := netip.IPv4Unspecified()
	if family == unix.AF_INET6 {
		dst = netip.IPv6Unspecified()
	}
	bits := int(m[1])
	r = Route{Table: uint32(m[4]), Protocol: m[5], Scope: m[6], Type: m[7], Flags: flags}
	attrs, err := parseAttrs(m[unix.SizeofRtMsg:])
	if err != nil {
		return r, false, err
	}
	for _, a := range attrs {
		switch a.kind {
		case unix.RTA_DST:
			dst, err = getAddr(a.data)
		case unix.RTA_TABLE:
			r.Table, err = getU32(a.data)
		case unix.RTA_PRIORITY:
			r.Metric, err = getU32(a.data)
		case unix.RTA_PREFSRC:
			r.PrefSrc, err = getAddr(a.data)
		case unix.RTA_PREF:
			var b []byte
			if b, err = need(a.data, 1); err == nil {
				r.Preference = &b[0]
			}
		case unix.RTA_CACHEINFO:
			// rta_error of struct rta_cacheinfo.
			if len(a.data) >= 16 {
				r.Error = int32(binary.NativeEndian.Uint32(a.data[12:]))
			}
		case unix.RTA_METRICS:
			err = eachAttr(a.data, func(a attr) (err error) {
				if a.kind == unix.RTAX_MTU {
					r.MTU, err = getU32(a.data)
				}
				return err
			})
		case unix.RTA_MULTIPATH:
			r.Paths, err = parsePaths(a.data)
		}
		if err != nil {
			return r, false, fmt.Errorf("route attribute %d: %w", a.kind, err)
		}
	}
	r.Dst = netip.PrefixFrom(dst, bits)
	if r.NextHop, err = parseNextHop(attrs); err != nil {
		return r, false, fmt.Errorf("route %s: %w", r.Dst, err)
	}
	return r, true, nil
}

// parseNextHop reads what a route and a path of a multipath route have in
// common.
func parseNextHop(attrs []attr) (n NextHop, err error) {
	var kind uint16
	var encap []byte
	for _, a := range attrs {
		switch a.kind {
		case unix.RTA_GATEWAY:
			n.Via, err = getAddr(a.data)
		case unix.RTA_VIA:
			// struct rtvia: the family, then the address.
			if len(a.data) < 2 {
				return n, fmt.Errorf("gateway of %d bytes", len(a.data))
			}
			n.Via, err = getAddr(a.data[2:])
		case unix.RTA_OIF:
			n.OIF, err = getU32(a.data)
		case unix.RTA_ENCAP_TYPE:
			var b []byte
			if b, err = need(a.data, 2); err == nil {
				kind = binary.NativeEndian.Uint16(b)
			}
		case unix.RTA_ENCAP:
			encap = a.data
		}
		if err != nil {
			return n, fmt.Errorf("attribute %d: %w", a.kind, err)
		}
	}
	switch kind {
	case 0:
		return n, nil
	case nl.LWTUNNEL_ENCAP_SEG6:
		n.Encap = new(Encap)
	case nl.LWTUNNEL_ENCAP_SEG6_LOCAL:
		n.Encap = new(Local)
	default:
		n.Encap = &OtherEncap{Kind: kind}
	}
	return n, n.Encap.Decode(encap)
}

// parsePaths reads the struct rtnexthop of RTA_MULTIPATH, each with its
// attributes.
func parsePaths(b []byte) ([]NextHop, error) {
	var out []NextHop
	for len(b) >= unix.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			return nil, fmt.Errorf("next hop of %d bytes where %d are left", size, len(b))
		}
		attrs, err := parseAttrs(b[unix.SizeofRtNexthop:size])
		if err != nil {
			return nil, err
		}
		n, err := parseNextHop(attrs)
		if err != nil {
			return nil, err
		}
		n.Weight = int(b[3]) + 1 // rtnh_hops
		n.OIF = binary.NativeEndian.Uint32(b[4:])
		out = append(out, n)
		b = b[min(aligned(size), len(b)):]
	}
	return out, nil
}

func getAddr(b []byte) (netip.Addr, error) {
	addr, ok := netip.AddrFromSlice(b)
	if !ok {
		return addr, fmt.Errorf("address of %d bytes", len(b))
	}
	return addr, nil
}

var (
	typeNames = []string{
		unix.RTN_LOCAL: "local", unix.RTN_BROADCAST: "broadcast", unix.RTN_ANYCAST: "anycast",
		unix.RTN_MULTICAST: "multicast", unix.RTN_BLACKHOLE: "blackhole", unix.RTN_UNREACHABLE: "unreachable",
		unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw",
	}
	protocolNames = map[uint8]string{
		unix.RTPROT_UNSPEC: "unspec", unix.RTPROT_REDIRECT: "redirect", unix.RTPROT_KERNEL: "kernel",
		unix.RTPROT_STATIC: "static", unix.RTPROT_GATED: "gated", unix.RTPROT_RA: "ra", unix.RTPROT_MRT: "mrt",
		unix.RTPROT_ZEBRA: "zebra", unix.RTPROT_BIRD: "bird", unix.RTPROT_DNROUTED: "dnrouted",
		unix.RTPROT_XORP: "xorp", unix.RTPROT_NTK: "ntk", unix.RTPROT_DHCP: "dhcp",
		unix.RTPROT_KEEPALIVED: "keepalived", unix.RTPROT_BABEL: "babel", unix.RTPROT_OPENR: "openr",
		unix.RTPROT_BGP: "bgp", unix.RTPROT_ISIS: "isis", unix.RTPROT_OSPF: "ospf", unix.RTPROT_RIP: "rip",
		unix.RTPROT_EIGRP: "eigrp",
	}
	scopeNames = map[uint8]string{
		unix.RT_SCOPE_LINK: "link", unix.RT_SCOPE_HOST: "host", unix.RT_SCOPE_NOWHERE: "nowhere", unix.RT_SCOPE_SITE: "site",
	}
	flagNames = []struct {
		flag uint32
		name string
	}{
		{unix.RTNH_F_DEAD, "dead"}, {unix.RTNH_F_ONLINK, "onlink"}, {unix.RTNH_F_PERVASIVE, "pervasive"},
		{unix.RTNH_F_LINKDOWN, "linkdown"},
	}
	preferenceNames = []string{"medium", "high", "2", "low"}
)

// named is the name of a number, or the number.
func named(names map[uint8]string, n uint8) string {
	if s, ok := names[n]; ok {
		return s
	}
	return strconv.Itoa(int(n))
}

// String is Text with interfaces by their number.
func (r Route) String() string { return r.Text(nil) }

// Text is the line of `ip -s route show table all` for the route, but for
// multiple spaces, for the 0x of an HMAC key id (see Encap.String), and for
// attributes that Route does not hold. ifname names an interface by its index
// and may be nil.
func (r Route) Text(ifname func(index uint32) string) string {
	if ifname == nil {
		ifname = unknownIf
	}
	var w []string
	add := func(words ...string) { w = append(w, words...) }
	if int(r.Type) < len(typeNames) && typeNames[r.Type] != "" {
		add(typeNames[r.Type])
	}
	switch {
	case r.Dst.Bits() == 0:
		add("default")
	case r.Dst.IsSingleIP():
		add(r.Dst.Addr().String())
	default:
		add(r.Dst.String())
	}
	w = r.NextHop.words(w, r.Dst.Addr(), ifname)
	if r.Table != unix.RT_TABLE_MAIN {
		add("table", tableName(r.Table))
	}
	if r.Protocol != unix.RTPROT_BOOT {
		add("proto", named(protocolNames, r.Protocol))
	}
	if r.Scope != unix.RT_SCOPE_UNIVERSE {
		add("scope", named(scopeNames, r.Scope))
	}
	if r.PrefSrc.IsValid() {
		add("src", r.PrefSrc.String())
	}
	// Every IPv6 route has a metric, also 0.
	if r.Metric != 0 || r.Dst.Addr().Is6() {
		add("metric", strconv.FormatUint(uint64(r.Metric), 10))
	}
	for _, f := range flagNames {
		if r.Flags&f.flag != 0 {
			add(f.name)
		}
	}
	if r.Error != 0 {
		add("error", strconv.Itoa(int(r.Error)))
	}
	if r.MTU != 0 {
		add("mtu", strconv.FormatUint(uint64(r.MTU), 10))
	}
	if r.Preference != nil {
		add("pref", preferenceNames[*r.Preference&3])
	}
	for _, p := range r.Paths {
		add("nexthop")
		w = p.words(w, r.Dst.Addr(), ifname)
		add("weight", strconv.Itoa(p.Weight))
	}
	return strings.Join(w, " ")
}

// words appends encapsulation, gateway and device.
func (n NextHop) words(w []string, dst netip.Addr, ifname func(uint32) string) []string {
	switch e := n.Encap.(type) {
	case nil:
	case *Local:
		w = append(w, "encap", e.Text(ifname))
	default:
		w = append(w, "encap", e.String())
	}
	if n.Via.IsValid() {
		w = append(w, "via")
		if n.Via.Is6() && dst.Is4() {
			w = append(w, "inet6")
		}
		w = append(w, n.Via.String())
	}
	if n.OIF != 0 {
		w = append(w, "dev", ifname(n.OIF))
	}
	return w
}
