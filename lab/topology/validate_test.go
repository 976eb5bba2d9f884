package topology_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seg6lab/lab/topology"
)

// withNode is a topology whose node r, on line 4, is given.
func withNode(r string) string {
	return "name: test\nnodes:\n  h: {}\n  r: " + r + "\nlinks:\n  - [h:eth0, r:in]\n  - [h:eth1, r:out]\n"
}

func seg6(encap string) string {
	return `{routes: [{to: "fc00::1", dev: out, encap: {seg6: ` + encap + `}}]}`
}

func seg6local(encap string) string {
	return `{routes: [{to: "fc00::1", dev: out, encap: {seg6local: ` + encap + `}}]}`
}

func segments(n int) string {
	segs := make([]string, n)
	for i := range segs {
		segs[i] = fmt.Sprintf("'fc00::%x'", i+1)
	}
	return "[" + strings.Join(segs, ", ") + "]"
}

func TestNodeErrors(t *testing.T) {
	const route, local = "nodes.r.routes[0]", "nodes.r.routes[0].encap.seg6local"
	for _, c := range []struct{ name, node, want string }{
		{"address twice on a device", `{addresses: {in: ["::9/64", "::9/128"]}}`, `nodes.r.addresses.in[1]: the node has ::9 already, on in`},
		{"address twice in a node", `{addresses: {in: [10.0.0.1/8], out: [10.0.0.1/24]}}`, `nodes.r.addresses.out[0]: the node has 10.0.0.1 already, on in`},
		{"address without length", `{addresses: {in: ["fc00::1"]}}`, `nodes.r.addresses.in[0]: fc00::1 has no prefix length: did you mean fc00::1/128?`},
		{"multicast address", `{addresses: {in: ["ff02::1/64"]}}`, `nodes.r.addresses.in[0]: ff02::1 cannot be the address of a device`},
		{"address of no device", `{addresses: {inn: ["fc00::1/64"]}}`, `nodes.r.addresses.inn: nodes.r has no device "inn"; did you mean "in"?`},
		{"route without nexthop", `{routes: [{to: "fc00::/16"}]}`, route + `: a route leads somewhere: expected dev or via`},
		{"route to no device", `{routes: [{to: "fc00::/16", dev: otu}]}`, route + `.dev: nodes.r has no device "otu"; did you mean "out"?`},
		{"route of no VRF", `{vrfs: {blue: {table: 1}}, routes: [{to: "fc00::/16", dev: out, vrf: bleu}]}`, route + `.vrf: nodes.r has no VRF "bleu"; did you mean "blue"?`},
		{"route of VRF and table", `{vrfs: {blue: {table: 1}}, routes: [{to: "fc00::/16", dev: out, vrf: blue, table: 1}]}`, route + `.table: the VRF blue tells the table: expected vrf or table, not both`},
		{"route with host bits", `{routes: [{to: "fc00::1/16", dev: out}]}`, route + `.to: fc00::1/16 has bits set beyond its length: did you mean fc00::/16?`},
		{"route twice", `{routes: [{to: "fc00::/16", dev: out}, {to: "fc00::/16", dev: in}]}`, `nodes.r.routes[1]: there is a route to fc00::/16 in table main with this metric already, first on line 4`},
		{"IPv4 gateway of IPv6", `{routes: [{to: "fc00::/16", via: 10.0.0.1}]}`, route + `.via: 10.0.0.1 is an IPv4 gateway: an IPv6 route needs an IPv6 one`},
		{"source of another family", `{routes: [{to: 10.0.0.0/8, dev: out, src: "fc00::1"}]}`, route + `.src: fc00::1 is not of the route's family, inet`},
		{"blackhole with gateway", `{routes: [{to: 10.0.0.0/8, type: blackhole, via: 10.0.0.1}]}`, route + `.via: a blackhole route leads nowhere and takes none`},
		{"onlink without device", `{routes: [{to: 10.0.0.0/8, via: 10.0.0.1, onlink: true}]}`, route + `.onlink: needs via and dev: the gateway that is reached directly, and where`},
		{"rule without family", `{rules: [{iif: in, table: 5}]}`, `nodes.r.rules[0]: nothing tells the family: expected from, to or family`},
		{"rule of two families", `{rules: [{from: 10.0.0.0/8, to: "fc00::/16", table: 5}]}`, `nodes.r.rules[0]: from 10.0.0.0/8 and to fc00::/16 are of two families`},
		{"rule to table 0", `{rules: [{from: 10.0.0.0/8, table: 0}]}`, `nodes.r.rules[0].table: "0" is not a routing table: expected 1 to 4294967295, "main", "local" or "default"`},
		{"sysctl of the host", `{sysctls: {kernel.panic: 1}}`, `nodes.r.sysctls.kernel.panic: only names that begin with net. belong to a namespace; others would change the host`},
		{"sysctl with slashes", `{sysctls: {net/ipv4/ip_forward: 1}}`, `nodes.r.sysctls.net/ipv4/ip_forward: expected the name with dots: net.ipv4.ip_forward`},
		{"sysctl out of its tree", `{sysctls: {net.//.kernel.panic: 1}}`, `nodes.r.sysctls.net.//.kernel.panic: is no sysctl name: expected words of letters, digits, _ and -, joined by dots`},
		{"sysctl of no device", `{sysctls: {net.ipv6.conf.outt.forwarding: 1}}`, `nodes.r.sysctls.net.ipv6.conf.outt.forwarding: nodes.r has no device "outt"; did you mean "out"?`},
		{"sysctl without value", `{sysctls: {net.ipv4.ip_forward: }}`, `nodes.r.sysctls.net.ipv4.ip_forward: expected text, got nothing`},
		{"sysctl of a word", `{sysctls: {net.ipv4.ip_forward: true}}`, `nodes.r.sysctls.net.ipv4.ip_forward: the kernel reads no "true"; did you mean 1?`},
		{"VLAN on no device", `{vlans: {v: {link: inn, id: 5}}}`, `nodes.r.vlans.v.link: nodes.r has no device "inn"; did you mean "in"?`},
		{"VLAN id", `{vlans: {v: {link: in, id: 4095}}}`, `nodes.r.vlans.v.id: 4095 is out of range: expected a whole number from 0 to 4094`},
		{"VLAN twice", `{vlans: {v: {link: in, id: 5}, w: {link: in, id: 5, protocol: 802.1Q}}}`, `nodes.r.vlans.w.id: 802.1Q 5 of in is the device v already`},
		{"VLAN on itself", `{vlans: {v: {link: v, id: 5}}}`, `nodes.r.vlans.v.link: v stands, in the end, on itself`},
		{"two devices of a name", `{dummies: [in]}`, `nodes.r.dummies: nodes.r already has a device in, first on line 6`},
		{"device in VRF and bridge", `{vrfs: {blue: {table: 1, devices: [in]}}, bridges: {br0: {devices: [in]}}}`, `nodes.r.bridges.br0.devices[0]: in belongs to blue already`},
		{"lo in a VRF", `{vrfs: {blue: {table: 1, devices: [lo]}}}`, `nodes.r.vrfs.blue.devices[0]: lo cannot belong to blue`},
		{"VRF of table 0", `{vrfs: {blue: {table: 0}}}`, `nodes.r.vrfs.blue.table: 0 is out of range: expected a whole number from 1 to 4294967295`},
		{"device with a slash", `{dummies: [a/b]}`, `nodes.r.dummies: "a/b" is no name of a device: it contains '/'; expected letters, digits, dots, hyphens or underscores`},
		{"device with a space", `{dummies: ["a b"]}`, `nodes.r.dummies: "a b" is no name of a device: it contains ' '; expected letters, digits, dots, hyphens or underscores`},
		{"device of 16 characters", `{ifbs: [abcdefghijklmnop]}`, `nodes.r.ifbs: "abcdefghijklmnop" is no name of a device: it has 16 characters, the kernel takes at most 15`},
		{"device all", `{dummies: [all]}`, `nodes.r.dummies: "all" is no name of a device: the name is taken: every namespace has lo, and sysctls use all and default`},
		{"IPv4 tunsrc", `{seg6: {tunsrc: 10.0.0.1}}`, `nodes.r.seg6.tunsrc: 10.0.0.1 is an IPv4 address: the outer header is IPv6`},
		{"HMAC key 0", `{seg6: {hmac: [{id: 0, algorithm: sha1, secret: x}]}}`, `nodes.r.seg6.hmac[0].id: 0 is out of range: expected a whole number from 1 to 4294967295`},
		{"HMAC key twice", `{seg6: {hmac: [{id: 1, algorithm: sha1, secret: x}, {id: 1, algorithm: sha256, secret: y}]}}`, `nodes.r.seg6.hmac[1].id: the key 1 is given twice, first on line 4`},
		{"HMAC algorithm", `{seg6: {hmac: [{id: 1, algorithm: md5, secret: x}]}}`, `nodes.r.seg6.hmac[0].algorithm: "md5" is not known: expected sha1 or sha256`},
		{"HMAC secret", `{seg6: {hmac: [{id: 1, algorithm: sha1, secret: ` + strings.Repeat("x", 65) + `}]}}`, `nodes.r.seg6.hmac[0].secret: has 65 bytes: the kernel takes at most 64`},
		{"mtu of no device", `{mtu: {outt: 1400}}`, `nodes.r.mtu.outt: nodes.r has no device "outt"; did you mean "out"?`},
		{"mtu", `{mtu: {out: 67}}`, `nodes.r.mtu.out: 67 is out of range: expected a whole number from 68 to 65535`},
		{"netem jitter alone", `{netem: {out: {jitter: 1ms}}}`, `nodes.r.netem.out.jitter: needs a delay to vary`},
		{"netem loss", `{netem: {out: {loss: 101}}}`, `nodes.r.netem.out.loss: 101 is out of range: expected a number from 0 to 100`},
		{"netem delay", `{netem: {out: {delay: 10}}}`, `nodes.r.netem.out.delay: "10" is not a duration: expected a number with a unit, such as 10ms`},
		{"empty run line", `{run: [""]}`, `nodes.r.run[0]: is empty: expected a command line`},
		{"neighbour", `{neighbours: [{to: 10.0.0.1, dev: in, lladdr: "1:2"}]}`, `nodes.r.neighbours[0].lladdr: "1:2" is not an Ethernet address: expected six bytes such as 02:00:00:00:00:01`},

		{"no encapsulation", `{routes: [{to: "fc00::1", dev: out, encap: {}}]}`, route + `.encap: is empty: expected seg6 or seg6local`},
		{"unknown mode", seg6(`{mode: encapred, segs: ["fc00::2"]}`), route + `.encap.seg6.mode: "encapred" is not known: expected inline, encap, encap.red, l2encap or l2encap.red; did you mean "encap.red"?`},
		{"inline on IPv4", `{routes: [{to: 10.0.0.0/8, dev: out, encap: {seg6: {mode: inline, segs: ["fc00::2"]}}}]}`, route + `.encap.seg6.mode: inline puts an SRH into an IPv6 packet: an IPv4 route takes encap, encap.red, l2encap or l2encap.red`},
		{"seg6local on IPv4", `{routes: [{to: 10.0.0.0/8, dev: out, encap: {seg6local: {action: End}}}]}`, route + `.encap: a segment is an IPv6 address: an IPv4 route takes no seg6local`},
		{"IPv4 segment", seg6(`{mode: encap, segs: [10.0.0.1]}`), route + `.encap.seg6.segs[0]: 10.0.0.1 is an IPv4 address: a segment is an IPv6 address`},
		{"mapped segment", seg6(`{mode: encap, segs: ["::ffff:10.0.0.1"]}`), route + `.encap.seg6.segs[0]: ::ffff:10.0.0.1 is an IPv4 address: a segment is an IPv6 address`},
		{"0 segments", seg6(`{mode: encap, segs: []}`), route + `.encap.seg6.segs: has no segment: expected 1 to 127`},
		{"128 segments", seg6(`{mode: encap, segs: ` + segments(128) + `}`), route + `.encap.seg6.segs: 128 segments: at most 127 fit into this SRH, whose length field counts to 255 units of 8 bytes`},
		{"127 segments inline", seg6(`{mode: inline, segs: ` + segments(127) + `}`), route + `.encap.seg6.segs: 127 segments: at most 126 fit into this SRH, whose length field counts to 255 units of 8 bytes`},
		{"no such HMAC key", seg6(`{mode: encap, segs: ["fc00::2"], hmac: 5}`), route + `.encap.seg6.hmac: there is no HMAC key 5 in nodes.r.seg6.hmac; the node has none`},
		{"unknown action", seg6local(`{action: End.DX5}`), local + `.action: "End.DX5" is not known: expected End, End.X, End.T, End.DX2, End.DX4, End.DX6, End.DT4, End.DT6, End.DT46, End.B6 or End.B6.Encaps; did you mean "End.DX2"?`},
		{"End.X without nh6", seg6local(`{action: End.X}`), local + `: End.X needs nh6`},
		{"End.T without table", seg6local(`{action: End.T}`), local + `: End.T needs table`},
		{"End.DX2 without oif", seg6local(`{action: End.DX2}`), local + `: End.DX2 needs oif`},
		{"End.DX2 to no device", seg6local(`{action: End.DX2, oif: outt}`), local + `.oif: nodes.r has no device "outt"; did you mean "out"?`},
		{"End.DX4 without nh4", seg6local(`{action: End.DX4}`), local + `: End.DX4 needs nh4`},
		{"End.DX4 to IPv6", seg6local(`{action: End.DX4, nh4: "fc00::1"}`), local + `.nh4: fc00::1 is no IPv4 address`},
		{"End.DX6 to IPv4", seg6local(`{action: End.DX6, nh6: 10.0.0.1}`), local + `.nh6: 10.0.0.1 is no IPv6 address`},
		{"End.DT46 without vrftable", seg6local(`{action: End.DT46}`), local + `: End.DT46 needs vrftable`},
		{"End.DT4 with table", seg6local(`{action: End.DT4, vrftable: 5, table: 5}`), local + `.table: End.DT4 takes no table; it takes vrftable, count or iif`},
		{"End.DT6 without a table", seg6local(`{action: End.DT6}`), local + `: End.DT6 needs table or vrftable, and only one of them`},
		{"End.DT6 with two tables", seg6local(`{action: End.DT6, table: 1, vrftable: 1}`), local + `: End.DT6 needs table or vrftable, and only one of them`},
		{"End.B6 without srh", seg6local(`{action: End.B6}`), local + `: End.B6 needs srh`},
		{"End.B6 with 127 segments", seg6local(`{action: End.B6, srh: {segs: ` + segments(127) + `}}`), local + `.srh.segs: 127 segments: at most 126 fit into this SRH, whose length field counts to 255 units of 8 bytes`},
		{"End with nh6", seg6local(`{action: End, nh6: "fc00::2"}`), local + `.nh6: End takes no nh6; it takes flavors, count or iif`},
		{"usp in the kernel", seg6local(`{action: End, flavors: [usp]}`), local + `.flavors[0]: the kernel has no usp for End (EOPNOTSUPP): only a node with dataplane: forwarder takes it`},
		{"psp of End.X in the kernel", seg6local(`{action: End.X, nh6: "fc00::2", flavors: [psp]}`), local + `.flavors[0]: the kernel has no psp for End.X (EOPNOTSUPP): only a node with dataplane: forwarder takes it`},
		{"flavors of End.DX6", seg6local(`{action: End.DX6, nh6: "fc00::2", flavors: [psp]}`), local + `.flavors: End.DX6 takes no flavors; it takes nh6, count or iif`},
		{"flavor twice", seg6local(`{action: End, flavors: [psp, psp]}`), local + `.flavors[1]: psp is given twice`},
		{"lblen alone", seg6local(`{action: End, lblen: 32}`), local + `.lblen: belongs to the flavor next-csid, which is not there`},
		{"lblen not of bytes", seg6local(`{action: End, flavors: [next-csid], lblen: 33}`), local + `.lblen: 33 is no multiple of 8 bits`},
		{"lblen and nflen too long", seg6local(`{action: End, flavors: [next-csid], lblen: 120}`), local + `: lblen and nflen are 136 bits together: at most 128, the length of an address`},
		{"lblen 0", seg6local(`{action: End, flavors: [next-csid], lblen: 0}`), local + `.lblen: 0 is out of range: expected a whole number from 8 to 120`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := topology.Decode("f", []byte(withNode(c.node)))
			var errs topology.Errors
			if !errors.As(err, &errs) {
				t.Fatalf("got %v, want %s", err, c.want)
			}
			if len(errs) != 1 || errs[0].Msg != c.want {
				t.Errorf("got\n%v\nwant\n%s", err, c.want)
			}
			if errs[0].File != "f" || errs[0].Line != 4 || errs[0].Column < 6 {
				t.Errorf("at %s, want a place on line 4", errs[0].Pos)
			}
		})
	}
}

// TestAccepted: what a case may need is let through, though a kernel may
// refuse it.
func TestAccepted(t *testing.T) {
	for name, node := range map[string]string{
		"two VRFs of one table":       `{vrfs: {blue: {table: 1}, red: {table: 1}}}`,
		"vrftable of no VRF":          seg6local(`{action: End.DT46, vrftable: 5}`),
		"one address in two VRFs":     `{vrfs: {blue: {table: 1, devices: [in]}, red: {table: 2, devices: [out]}}, addresses: {in: [10.0.0.1/8], out: [10.0.0.1/8]}}`,
		"link-local address twice":    `{addresses: {in: ["fe80::1/64"], out: ["fe80::1/64"]}}`,
		"one route in two tables":     `{routes: [{to: default, dev: out}, {to: default, dev: out, table: 5}, {to: default, dev: out, family: inet}]}`,
		"IPv4 by an IPv6 gateway":     `{routes: [{to: 10.0.0.0/8, via: "fc00::1", dev: out}]}`,
		"iif of any action":           seg6local(`{action: End, iif: in, count: true}`),
		"oif of End.X":                seg6local(`{action: End.X, nh6: "fc00::2", oif: out}`),
		"psp and next-csid":           seg6local(`{action: End, flavors: [psp, next-csid]}`),
		"next-csid of 128 bits":       seg6local(`{action: End, flavors: [next-csid], lblen: 112, nflen: 16}`),
		"next-csid of End.X":          seg6local(`{action: End.X, nh6: "fc00::2", flavors: [next-csid]}`),
		"End.DT6 with table":          seg6local(`{action: End.DT6, table: main}`),
		"unspecified next hop":        seg6local(`{action: End.DX6, nh6: "::"}`),
		"usd of the forwarder":        `{dataplane: forwarder, routes: [{to: "fc00::1", dev: out, encap: {seg6local: {action: End, flavors: [usd]}}}]}`,
		"127 segments":                seg6(`{mode: encap.red, segs: ` + segments(127) + `}`),
		"126 segments inline":         seg6(`{mode: inline, segs: ` + segments(126) + `}`),
		"sysctl of a VLAN with a dot": `{vlans: {in.5: {link: in, id: 5}}, sysctls: {net.ipv6.conf.in/5.forwarding: 1}}`,
		"VLAN 0":                      `{vlans: {v: {link: in, id: 0}}}`,
		"offload by on and off":       `{offloads: {in: {tx-checksum-ip-generic: off, gro: on}}}`,
	} {
		if _, err := topology.Decode("f", []byte(withNode(node))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLinkErrors(t *testing.T) {
	for _, c := range []struct{ name, link, want string }{
		{"three ends", "[a:x, b:x, c:x]", `f:4:5: links[0].ends: expected a list of 2, got one of 3`},
		{"no end", "[a:x, b]", `f:4:11: links[0].ends[1]: "b" is not an end: expected node:dev`},
		{"no node", "[a:x, bb:x]", `f:4:11: links[0]: end bb:x: there is no node bb; did you mean "b"?`},
		{"no ends", "{mtu: 1500}", `f:4:5: links[0]: the key "ends" is missing`},
		{"device twice", "[a:x, a:x]", `f:4:11: links[0]: nodes.a already has a device x, first on line 4`},
		{"mtu below", "{ends: [a:x, b:x], mtu: 67}", `f:4:29: links[0].mtu: 67 is out of range: expected a whole number from 68 to 65535`},
		{"mtu above", "{ends: [a:x, b:x], mtu: 65536}", `f:4:29: links[0].mtu: 65536 is out of range: expected a whole number from 68 to 65535`},
		{"one MAC", `{ends: [a:x, b:x], macs: ["02:00:00:00:00:01"]}`, `f:4:30: links[0].macs: expected an address for each of the two ends, got 1`},
		{"multicast MAC", `{ends: [a:x, b:x], macs: ["02:00:00:00:00:01", "03:00:00:00:00:01"]}`, `f:4:52: links[0].macs[1]: 03:00:00:00:00:01 cannot be the address of a device: expected a unicast address such as 02:00:00:00:00:01`},
		{"text", "a:x b:x", `f:4:5: links[0]: expected a list for "ends" or a mapping with the keys ends, mtu, macs, txqueuelen, got the text "a:x b:x"`},
	} {
		_, err := topology.Decode("f", []byte("name: x\nnodes: {a: , b: }\nlinks:\n  - "+c.link+"\n"))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got\n%v\nwant\n%s", c.name, err, c.want)
		}
	}
	_, err := topology.Decode("f", []byte("name: x\nnodes: {a: {addresses: {x: [10.0.0.1/8]}}, b: {addresses: {x: [10.0.0.1/8]}}}\nlinks:\n  - [a:x, b:x]\n"))
	if want := "f:2:64: nodes.b.addresses.x[0]: 10.0.0.1 is also the address of the other end of the link, a:x"; err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestGoTopology: a topology that Go code makes is held to the same rules.
func TestGoTopology(t *testing.T) {
	topo := &topology.Topology{
		Name: "made",
		Nodes: map[string]*topology.Node{
			"a": {
				Dataplane: "forwardr",
				VRFs:      map[string]*topology.VRF{"blue": {}},
				Routes: []*topology.Route{
					{Dev: "x"},
					{To: topology.Destination{Default: true}, Dev: "x", Encap: &topology.Encap{Seg6: &topology.Seg6Encap{Mode: "encaps", Segs: []netip.Addr{netip.IPv6Loopback()}}}},
				},
			},
			"b": nil,
		},
		Links: []*topology.Link{{Ends: [2]topology.End{{Node: "a", Dev: "x"}}, MTU: 67}},
	}
	want := `nodes.a.dataplane: "forwardr" is not known: expected kernel or forwarder; did you mean "forwarder"?
nodes.a.vrfs.blue.table: 0 is out of range: expected a whole number from 1 to 4294967295
nodes.a.routes[0].to: is missing: expected one word
nodes.a.routes[1].encap.seg6.mode: "encaps" is not known: expected inline, encap, encap.red, l2encap or l2encap.red; did you mean "encap"?
nodes.b: is missing: expected a mapping with the keys ` + "dataplane, quirks, sysctls, seg6, vrfs, vlans, bridges, dummies, ifbs, mtu, addresses, neighbours, rules, routes, offloads, netem, run" + `
links[0].ends[1]: is missing: expected one word
links[0].mtu: 67 is out of range: expected a whole number from 68 to 65535`
	if err := topo.Validate(); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestManyNodes(t *testing.T) {
	src := func(n int) []byte {
		var b strings.Builder
		b.WriteString("name: many\nnodes:\n")
		for i := range n {
			fmt.Fprintf(&b, "  n%d: {}\n", i)
		}
		return []byte(b.String())
	}
	if _, err := topology.Decode("f", src(1024)); err != nil {
		t.Error(err)
	}
	want := "f:2:1: nodes: 10000 nodes: a topology has at most 1024"
	if _, err := topology.Decode("f", src(10000)); err == nil || err.Error() != want {
		t.Errorf("got %.300v, want %s", err, want)
	}
}

func TestDecodeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.yaml")
	if err := os.WriteFile(path, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	if topo, err := topology.DecodeFile(path); err != nil || topo.Name != "small" {
		t.Errorf("%v, %v", topo, err)
	}
	if _, err := topology.DecodeFile(path + ".not"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
}

// TestMerge: an overlay adds to a node, and its mistakes are told at its place.
func TestMerge(t *testing.T) {
	load := func(name, src string) *topology.Topology {
		t.Helper()
		topo, err := topology.Decode(name, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		return topo
	}
	base := load("base", withNode(`{routes: [{to: "fc00::/16", dev: out}], sysctls: {net.ipv4.ip_forward: 0}}`))
	overlay := load("over", withNode(`{routes: [{to: "fc01::/16", dev: out}], sysctls: {net.ipv4.ip_forward: 1}}`)).Nodes
	delete(overlay, "h")
	if err := base.Merge(overlay); err != nil {
		t.Fatal(err)
	}
	if err := base.Validate(); err != nil {
		t.Error(err)
	}
	r := base.Nodes["r"]
	if len(r.Routes) != 2 || r.Routes[1].To.String() != "fc01::/16" || r.Sysctls["net.ipv4.ip_forward"] != "1" {
		t.Errorf("merged: %d routes, sysctls %v", len(r.Routes), r.Sysctls)
	}

	// The same route again.
	overlay["r"].Sysctls = map[string]string{"net.core.x": ""}
	if err := base.Merge(overlay); err != nil {
		t.Fatal(err)
	}
	want := "over:4:21: nodes.r.routes[2]: there is a route to fc01::/16 in table main with this metric already, first on line 4"
	if err := base.Validate(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}

	err := base.Merge(map[string]*topology.Node{"rr": overlay["r"]})
	if want := `over:4:6: topology test has no node rr; did you mean "r"?`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestMaxSegments recomputes RFC 8754 section 2: 8 bytes fixed, 16 for every
// entry, 40 for an HMAC TLV, in Hdr Ext Len units of 8 beyond the first.
func TestMaxSegments(t *testing.T) {
	for _, inserted := range []bool{false, true} {
		for _, hmac := range []bool{false, true} {
			length := func(segments int) int {
				bytes := 8 + 16*segments
				if inserted {
					bytes += 16
				}
				if hmac {
					bytes += 40
				}
				return bytes/8 - 1
			}
			n := topology.MaxSegments(inserted, hmac)
			if length(n) > 255 || length(n+1) <= 255 {
				t.Errorf("inserted %t, hmac %t: %d segments give Hdr Ext Len %d, %d give %d", inserted, hmac, n, length(n), n+1, length(n+1))
			}
		}
	}
}
