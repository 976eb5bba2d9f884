package topology_test

import (
	"net/netip"
	"strings"
	"testing"

	"seg6lab/lab/topology"
)

// small is a topology without a mistake, which the tests break.
const small = `name: small
nodes:
  a:
    addresses: {eth0: ["2001:db8::1/64", 192.0.2.1/30]}
    sysctls: {net.ipv6.conf.all.forwarding: 1, net.ipv6.seg6_flowlabel: -1, net.ipv4.ip_forward: "1"}
    routes:
      - {to: default, via: "2001:db8::2"}
  b: {addresses: {eth0: ["2001:db8::2/64"]}}
links:
  - [a:eth0, b:eth0]
`

func TestDecode(t *testing.T) {
	topo, err := topology.Decode("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	a := topo.Nodes["a"]
	if want := netip.MustParsePrefix("192.0.2.1/30"); a.Addresses["eth0"][1] != want {
		t.Errorf("address %s, want %s", a.Addresses["eth0"][1], want)
	}
	for name, want := range map[string]string{
		"net.ipv6.conf.all.forwarding": "1", "net.ipv6.seg6_flowlabel": "-1", "net.ipv4.ip_forward": "1",
	} {
		if got := a.Sysctls[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if r := a.Routes[0]; !r.To.Default || r.Via != netip.MustParseAddr("2001:db8::2") || r.AddressFamily() != topology.Inet6 {
		t.Errorf("route %+v", r)
	}
	if l := topo.Links[0]; l.Ends != [2]topology.End{{Node: "a", Dev: "eth0"}, {Node: "b", Dev: "eth0"}} {
		t.Errorf("ends %v", l.Ends)
	}
	if pos := a.Routes[0].ValueAt("via").String(); pos != "small.yaml:7:28" {
		t.Errorf("via at %s, want small.yaml:7:28", pos)
	}
}

// TestAllErrors: every mistake of a file is reported at once, at its place,
// and none that is only the consequence of another.
func TestAllErrors(t *testing.T) {
	src := `name: l2vpn
nodes:
  ce1: {addresses: {eth0: ["2001:db8:a::2/64"]}}
  pe1:
    vrfs: {blue: {table: 100, devices: [ce]}}
    routes:
      - {to: "2001:db8:b::/64", vrf: blu, dev: core, encap: {seg6: {mode: l2encap, segs: [1.2.3.4]}}}
      - {to: "fc00:1::46/128", dev: blue, encap: {seg6local: {action: End.DT46, vrftabel: 100}}}
  p: {dataplane: forwardr}
  ../x:
links:
  - [ce1:eth0, pe1:ce]
  - {ends: [pe1:core, p:west], mtu: 9000, mtu: 40}
  - [pe2:core, p:abcdefghijklmnop]
`
	want := []string{
		`l2vpn.yaml:7:38: nodes.pe1.routes[0].vrf: nodes.pe1 has no VRF "blu"; did you mean "blue"?`,
		`l2vpn.yaml:7:91: nodes.pe1.routes[0].encap.seg6.segs[0]: 1.2.3.4 is an IPv4 address: a segment is an IPv6 address`,
		`l2vpn.yaml:8:81: nodes.pe1.routes[1].encap.seg6local: unknown key "vrftabel"; did you mean "vrftable"?`,
		`l2vpn.yaml:9:18: nodes.p.dataplane: "forwardr" is not known: expected kernel or forwarder; did you mean "forwarder"?`,
		`l2vpn.yaml:10:3: nodes.../x: "../x" is no name of a node: expected 1 to 32 lower-case letters, digits and hyphens, no hyphen first`,
		`l2vpn.yaml:13:43: links[1]: the key "mtu" stands here twice, first on line 13`,
		`l2vpn.yaml:14:6: links[2]: end pe2:core: there is no node pe2; did you mean "pe1"?`,
		`l2vpn.yaml:14:16: links[2]: "abcdefghijklmnop" is no name of a device: it has 16 characters, the kernel takes at most 15`,
	}
	_, err := topology.Decode("l2vpn.yaml", []byte(src))
	if got := err.Error(); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
