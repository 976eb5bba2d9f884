package fuzz

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"

	"seg6lab/lab/topology"
)

// The router under test and the devices around it, whose kernels are silent:
//
//	src:eth0 --- in  r  out --- eth0:dst
//	2001:db8:1::1   ::2   2001:db8:2::1   ::2
//	10.0.1.1        .2    10.0.2.1        .2
//
// fc00::/16, 2001:db8:99::/48 and 10.99.0.0/16 are behind dst.
const (
	router = "r"
	inDev  = "in"
	outDev = "out"
)

// ends are the ports, by the number that the forwarder gives them.
var ends = [2]topology.End{{Node: "src", Dev: "eth0"}, {Node: "dst", Dev: "eth0"}}

// markerDst is where markers go; every configuration forwards it to dst.
var markerDst = netip.MustParseAddr("fc00::ff:ffff")

// needs are what a kernel must have for the rest of a configuration.
type needs struct{ vrf, vlan, csid, psp bool }

// draw is a source of random choices.
type draw struct{ *rand.Rand }

func newDraw(seed uint64) draw { return draw{rand.New(rand.NewPCG(seed, 0))} }

func (d draw) one(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d draw, list ...T) T { return list[d.IntN(len(list))] }

func (d draw) segments(most int) []netip.Addr {
	list := make([]netip.Addr, 1+d.IntN(most))
	for i := range list {
		list[i] = netip.MustParseAddr(pick(d, "fc00:f::1", "fc00:c::1", "fc00:d::1", "fc00:e:1:2::"))
	}
	return list
}

func to(s string) topology.Destination {
	return topology.Destination{Prefix: netip.MustParsePrefix(s)}
}

// topology draws a router with every behaviour that the kernel has, each with
// parameters of its own.
func (d draw) topology(kernel needs) *topology.Topology {
	silent := map[string]string{"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}
	r := &topology.Node{
		Sysctls: map[string]string{
			"net.ipv6.conf.all.forwarding": "1", "net.ipv4.ip_forward": "1",
			"net.ipv6.conf.default.addr_gen_mode": "1", "net.ipv6.auto_flowlabels": "0",
			"net.ipv4.conf.all.send_redirects": "0", "net.ipv4.conf.default.send_redirects": "0",
			"net.ipv6.icmp.ratelimit": "0", "net.ipv4.icmp_ratelimit": "0",
			"net.ipv4.icmp_msgs_per_sec": "1000000", "net.ipv4.icmp_msgs_burst": "1000000",
			"net.ipv6.seg6_flowlabel": pick(d, "0", "0", "-1"),
		},
		Addresses: map[string][]netip.Prefix{
			inDev:  {netip.MustParsePrefix("2001:db8:1::2/64"), netip.MustParsePrefix("10.0.1.2/24")},
			outDev: {netip.MustParsePrefix("2001:db8:2::1/64"), netip.MustParsePrefix("10.0.2.1/24")},
		},
		Seg6: &topology.Seg6{HMAC: []*topology.HMACKey{
			{ID: 7, Algorithm: "sha256", Secret: "seven"}, {ID: 8, Algorithm: "sha1", Secret: "eight"},
		}},
		Routes: []*topology.Route{
			{To: to("fc00::/16"), Via: netip.MustParseAddr("2001:db8:2::2"), Dev: outDev},
			{To: to("2001:db8:99::/48"), Via: netip.MustParseAddr("2001:db8:2::2"), Dev: outDev},
			{To: to("10.99.0.0/16"), Via: netip.MustParseAddr("10.0.2.2"), Dev: outDev},
		},
	}
	if !d.one(4) {
		r.Seg6.TunSrc = netip.MustParseAddr("fc00:a::1")
	}
	for i, dev := range []string{inDev, outDev} {
		for _, a := range []string{fmt.Sprintf("2001:db8:%d::%d", i+1, i+1), fmt.Sprintf("10.0.%d.%d", i+1, i+1)} {
			r.Neighbours = append(r.Neighbours, &topology.Neighbour{To: netip.MustParseAddr(a), Dev: dev, LLAddr: topology.LinkMAC(i, i)})
		}
	}
	if kernel.vlan {
		r.VLANs = map[string]*topology.VLAN{"v100": {Link: inDev, ID: 100}}
		r.Addresses["v100"] = []netip.Prefix{netip.MustParsePrefix("2001:db8:64::2/64")}
	}
	if kernel.vrf {
		r.Sysctls["net.vrf.strict_mode"] = "1"
		r.VRFs = map[string]*topology.VRF{"blue": {Table: 100}}
		r.Routes = append(r.Routes,
			&topology.Route{To: to("2001:db8:99::/48"), VRF: "blue", Via: netip.MustParseAddr("2001:db8:2::2"), Dev: outDev},
			&topology.Route{To: to("10.99.0.0/16"), VRF: "blue", Via: netip.MustParseAddr("10.0.2.2"), Dev: outDev})
	}
	r.Routes = append(r.Routes, d.headends()...)
	r.Routes = append(r.Routes, d.endpoints(kernel)...)
	return &topology.Topology{
		Name:       "fuzz",
		Neighbours: "learned", // those of the router are its own
		Nodes: map[string]*topology.Node{
			router: r, ends[0].Node: {Sysctls: silent}, ends[1].Node: {Sysctls: maps.Clone(silent)},
		},
		Links: []*topology.Link{
			{Ends: [2]topology.End{ends[0], {Node: router, Dev: inDev}}},
			{Ends: [2]topology.End{{Node: router, Dev: outDev}, ends[1]}},
		},
	}
}

var modes = []string{"encap", "encap.red", "l2encap", "l2encap.red", "inline"}

// headends are the routes to 2001:db8:99:1::/64 and so on, and an IPv4 one.
func (d draw) headends() (routes []*topology.Route) {
	for i := 1; i <= 7; i++ {
		mode := pick(d, modes...)
		routes = append(routes, d.headend(fmt.Sprintf("2001:db8:99:%d::/64", i), mode))
	}
	return append(routes, d.headend("10.99.1.0/24", pick(d, modes[:4]...)))
}

func (d draw) headend(dst, mode string) *topology.Route {
	e := &topology.Seg6Encap{Mode: mode, Segs: d.segments(4)}
	if d.one(4) {
		e.HMAC = pick[uint32](d, 7, 8)
	}
	return &topology.Route{To: to(dst), Dev: outDev, Encap: &topology.Encap{Seg6: e}}
}

// endpoints are the SIDs fc00:b::1 and so on, and locators of compressed ones.
func (d draw) endpoints(kernel needs) (routes []*topology.Route) {
	v6 := func(list ...string) netip.Addr { return netip.MustParseAddr(pick(d, list...)) }
	policy := func() *topology.SRH { return &topology.SRH{Segs: d.segments(3)} }
	locals := []topology.Seg6Local{
		{Action: "End"},
		{Action: "End"},
		{Action: "End.X", NH6: v6("2001:db8:2::2", "2001:db8:2::2", "2001:db8:1::1")},
		{Action: "End.T", Table: topology.TableMain},
		{Action: "End.DX2", OIF: outDev},
		{Action: "End.DX6", NH6: v6("::", "2001:db8:2::2")},
		{Action: "End.DX4", NH4: v6("0.0.0.0", "10.0.2.2")},
		{Action: "End.DT6", Table: topology.TableMain},
		{Action: "End.B6", SRH: policy()},
		{Action: "End.B6.Encaps", SRH: policy()},
	}
	if kernel.psp {
		locals[1].Flavors = []string{"psp"}
	}
	if kernel.vrf {
		locals = append(locals,
			topology.Seg6Local{Action: "End.DT4", VRFTable: 100},
			topology.Seg6Local{Action: "End.DT6", VRFTable: 100},
			topology.Seg6Local{Action: "End.DT46", VRFTable: 100})
	}
	add := func(dst string, l topology.Seg6Local) {
		dev := outDev
		if l.VRFTable != 0 {
			dev = "blue"
		}
		l.Count = true
		routes = append(routes, &topology.Route{To: to(dst), Dev: dev, Encap: &topology.Encap{Seg6Local: &l}})
	}
	for i, l := range locals {
		add(fmt.Sprintf("fc00:b::%x/128", i+1), l)
	}
	if kernel.csid {
		lengths := pick(d, [2]uint8{32, 16}, [2]uint8{40, 8}, [2]uint8{24, 24})
		flavors := pick(d, []string{"next-csid"}, []string{"next-csid", "psp"})
		add("fc00:b:1::/48", topology.Seg6Local{Action: "End", Flavors: flavors, LBLen: lengths[0], NFLen: lengths[1]})
		add("fc00:b:2::/48", topology.Seg6Local{Action: "End.X", NH6: v6("2001:db8:2::2"), Flavors: []string{"next-csid"}, LBLen: lengths[0], NFLen: lengths[1]})
	}
	return routes
}

// without is the topology less the routes i to j-1 of the router.
func without(t *topology.Topology, i, j int) *topology.Topology {
	own, r := *t, *t.Nodes[router]
	r.Routes = slices.Delete(slices.Clone(r.Routes), i, j)
	own.Nodes = maps.Clone(t.Nodes)
	own.Nodes[router] = &r
	return &own
}
