package topologies

import (
	"fmt"
	"net/netip"

	"seg6lab/lab/topology"
)

// The sizes of a chain and of a mesh.
const (
	MinChain, MaxChain = 2, topology.MaxNodes
	MinMesh, MaxMesh   = 2, 32
)

// Chain is N nodes in a row. n1 and nN are hosts with one address each, those
// between them routers that know the way to both hosts and to no other
// network.
//
//	 n1           n2                n3            n4
//	+-----+     +----------+     +----------+     +----+
//	|right|-----|left right|-----|left right|-----|left|
//	+-----+     +----------+     +----------+     +----+
//	2001:db8:0:1::/64   2001:db8:0:2::/64   2001:db8:0:3::/64
//	::1           ::2     ::1          ::2     ::1       ::2
//
// The third group of a link's network is the link's number, in hexadecimal.
// The hosts send with hop limit 255, so that packets cross up to 254 routers;
// a longer chain can be built but not crossed.
func Chain(n int) *topology.Topology {
	t := &topology.Topology{
		Name:  fmt.Sprintf("chain-%d", n),
		About: fmt.Sprintf("%d nodes in a row, the first and the last a host", n),
		Nodes: make(map[string]*topology.Node, n),
	}
	net := func(link, host int) netip.Prefix {
		return netip.MustParsePrefix(fmt.Sprintf("2001:db8:0:%x::%d/64", link, host))
	}
	host := func(dev string, address, gateway netip.Prefix) *topology.Node {
		return &topology.Node{
			Sysctls:   map[string]string{"net.ipv6.conf." + dev + ".hop_limit": "255"},
			Addresses: map[string][]netip.Prefix{dev: {address}},
			Routes:    []*topology.Route{{To: topology.Destination{Default: true}, Via: gateway.Addr(), Dev: dev}},
		}
	}
	t.Nodes["n1"] = host("right", net(1, 1), net(1, 2))
	t.Nodes[nth(n)] = host("left", net(n-1, 2), net(n-1, 1))
	for i := 2; i < n; i++ {
		router := &topology.Node{
			Sysctls:   map[string]string{"net.ipv6.conf.all.forwarding": "1"},
			Addresses: map[string][]netip.Prefix{"left": {net(i-1, 2)}, "right": {net(i, 1)}},
		}
		if i > 2 {
			router.Routes = append(router.Routes, &topology.Route{To: to(net(1, 0)), Via: net(i-1, 1).Addr(), Dev: "left"})
		}
		if i < n-1 {
			router.Routes = append(router.Routes, &topology.Route{To: to(net(n-1, 0)), Via: net(i, 2).Addr(), Dev: "right"})
		}
		t.Nodes[nth(i)] = router
	}
	for i := 1; i < n; i++ {
		t.Links = append(t.Links, &topology.Link{Ends: [2]topology.End{{Node: nth(i), Dev: "right"}, {Node: nth(i + 1), Dev: "left"}}})
	}
	return t
}

// Mesh is N routers, each linked to every other. The device of ni towards nj
// is toj; of their network 2001:db8:i:j::/64, i < j, ni has ::1 and nj ::2.
// Router ni has the locator fc00:i::/32, its own address fc00:i::1 and the
// segment fc00:i::e (End). All numbers are hexadecimal in addresses.
//
//	      n1
//	   to2  to3
//	   /      \
//	to1        to1
//	n2          n3
//	to3 ------ to2
func Mesh(n int) *topology.Topology {
	t := &topology.Topology{
		Name:  fmt.Sprintf("mesh-%d", n),
		About: fmt.Sprintf("%d routers, each linked to every other", n),
		Nodes: make(map[string]*topology.Node, n),
	}
	locator := func(i int) string { return fmt.Sprintf("fc00:%x::", i) }
	for i := 1; i <= n; i++ {
		t.Nodes[nth(i)] = &topology.Node{
			Sysctls:   map[string]string{"net.ipv6.conf.all.forwarding": "1"},
			Addresses: map[string][]netip.Prefix{"lo": {netip.MustParsePrefix(locator(i) + "1/128")}},
		}
	}
	towards := func(j int) string { return fmt.Sprintf("to%d", j) }
	for i := 1; i <= n; i++ {
		for j := i + 1; j <= n; j++ {
			t.Links = append(t.Links, &topology.Link{Ends: [2]topology.End{{Node: nth(i), Dev: towards(j)}, {Node: nth(j), Dev: towards(i)}}})
			for _, end := range []struct{ own, other, host, gateway int }{{i, j, 1, 2}, {j, i, 2, 1}} {
				node, dev := t.Nodes[nth(end.own)], towards(end.other)
				net := fmt.Sprintf("2001:db8:%x:%x::", i, j)
				node.Addresses[dev] = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("%s%d/64", net, end.host))}
				node.Routes = append(node.Routes, &topology.Route{
					To:  to(netip.MustParsePrefix(locator(end.other) + "/32")),
					Via: netip.MustParseAddr(fmt.Sprintf("%s%d", net, end.gateway)), Dev: dev,
				})
			}
		}
	}
	for i := 1; i <= n; i++ {
		node := t.Nodes[nth(i)]
		node.Routes = append(node.Routes, &topology.Route{
			To:    to(netip.MustParsePrefix(locator(i) + "e/128")),
			Dev:   node.Routes[0].Dev,
			Encap: &topology.Encap{Seg6Local: &topology.Seg6Local{Action: "End"}},
		})
	}
	return t
}

func nth(i int) string { return fmt.Sprintf("n%d", i) }

func to(p netip.Prefix) topology.Destination { return topology.Destination{Prefix: p.Masked()} }
