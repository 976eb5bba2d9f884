package topology_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"seg6lab/lab/topology"
)

// withPorts is a topology a - r - b whose ports, on line 6, are given.
func withPorts(ports string) string {
	return "name: test\nnodes: {a: {addresses: {eth0: [10.0.0.1/24]}}, r: {addresses: {in: [10.0.0.2/24]}}, b: }\nlinks:\n  - [a:eth0, r:in]\n  - {ends: [r:out, b:eth0], macs: [\"02:00:00:00:00:aa\", \"02:00:00:00:00:bb\"]}\nports: " + ports + "\n"
}

func TestPorts(t *testing.T) {
	topo, err := topology.Decode("f", []byte(withPorts(`{r:in: enp3s0f0, r:out: {pci: "03:00.1"}, b:eth0: {mac: "52-54-00-00-00-01"}}`)))
	if err != nil {
		t.Fatal(err)
	}
	for end, want := range map[topology.End]string{
		{Node: "r", Dev: "in"}: "enp3s0f0", {Node: "r", Dev: "out"}: "0000:03:00.1", {Node: "b", Dev: "eth0"}: "52:54:00:00:00:01",
	} {
		if p := topo.Port(end); p == nil || p.String() != want {
			t.Errorf("%s is bound to %v, want %s", end, p, want)
		}
	}
	if p := topo.Port(topology.End{Node: "a", Dev: "eth0"}); p != nil {
		t.Errorf("a:eth0 is bound to %v", p)
	}
	if got := slices.Collect(maps.Keys(topo.Outside())); len(got) != 1 || got[0] != "a" {
		t.Errorf("outside: %v, want a", got)
	}
	// Nobody knows the Ethernet address of outside equipment.
	if n := topo.LinkNeighbours()["r"]; len(n) != 0 {
		t.Errorf("neighbours %v", n)
	}
}

// TestOutsideNeighbours: outside equipment whose addresses are known is a static neighbour,
// and a node that nothing is said about needs not be there.
func TestOutsideNeighbours(t *testing.T) {
	src := strings.Replace(withPorts(`{r:out: enp1s0, r:in: enp2s0}`), "b: }", "b: {addresses: {eth0: [10.1.0.1/24]}}}", 1)
	topo, err := topology.Decode("f", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	n := topo.LinkNeighbours()["r"]
	if len(n) != 1 || n[0].To.String() != "10.1.0.1" || n[0].LLAddr.String() != "02:00:00:00:00:bb" {
		t.Errorf("neighbours of r: %v", n)
	}
	if _, err := topology.Decode("f", []byte(strings.Replace(src, ", b: {addresses: {eth0: [10.1.0.1/24]}}", "", 1))); err != nil {
		t.Error(err)
	}
}

func TestPortErrors(t *testing.T) {
	for _, c := range []struct{ name, ports, want string }{
		{"no such end", `{r:inn: enp1s0}`, `f:6:9: ports.r:inn: no link has the end r:inn; did you mean "r:in"?`},
		{"nothing", `{r:in: }`, `f:6:15: ports.r:in: expected one of name, pci and mac, got none`},
		{"two", `{r:in: {name: x, pci: "0000:03:00.0"}}`, `f:6:15: ports.r:in: expected one of name, pci and mac, got name and pci`},
		{"unknown key", `{r:in: {nam: x}}`, `f:6:16: ports.r:in: unknown key "nam"; did you mean "name"?`},
		{"PCI", `{r:in: {pci: "3:0.0"}}`, `f:6:21: ports.r:in.pci: "3:0.0" is no PCI address: expected one such as 0000:03:00.0`},
		{"MAC", `{r:in: {mac: "52:54"}}`, `f:6:21: ports.r:in.mac: "52:54" is not an Ethernet address: expected six bytes such as 02:00:00:00:00:01`},
		{"PCI as name", `{r:in: "0000:03:00.0"}`, `f:6:15: ports.r:in.name: "0000:03:00.0" is no name of a device: expected {pci: "0000:03:00.0"}, {mac: "02:00:00:00:00:01"} or a name without a colon`},
		{"long name", `{r:in: abcdefghijklmnop}`, `f:6:15: ports.r:in.name: "abcdefghijklmnop" is no name of a device: it has 16 characters, the kernel takes at most 15`},
		{"port twice", `{r:in: x, a:eth0: x}`, `f:6:15: ports.r:in: x is bound to a:eth0 already`},
		// r is reached from b through a port, and has one of its own to a.
		{"outside with a port", `{r:in: x, b:eth0: y}`, `f:4:5: links[0]: r is outside equipment and has the port x: bind both ends of each link between two ports of this machine`},
		{"outside with a link", `{a:eth0: x}`, `f:5:5: links[1]: r is outside equipment, as a link to it is bound to a port at its other end: bind the end of b to a port too, and not that of r`},
	} {
		_, err := topology.Decode("f", []byte(withPorts(c.ports)))
		if err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), c.want) {
			t.Errorf("%s: got\n%v\nwant\n%s", c.name, err, c.want)
		}
	}
}

func TestParseBinding(t *testing.T) {
	for _, c := range []struct{ text, end, port, err string }{
		{"pe1:core=enp3s0f0", "pe1:core", "enp3s0f0", ""},
		{"pe1:core=03:00.0", "pe1:core", "0000:03:00.0", ""},
		{"pe1:core=10000:E1:00.0", "pe1:core", "10000:e1:00.0", ""},
		{"pe1:core=52:54:00:AB:00:01", "pe1:core", "52:54:00:ab:00:01", ""},
		{"pe1:core", "", "", `"pe1:core" binds nothing: expected NODE:DEV=PORT, such as pe1:core=enp3s0f0`},
		{"core=x", "", "", `"core" is not an end: expected node:dev`},
		{"pe1:core=", "", "", `no port is named: expected a name, a PCI address or an Ethernet address`},
		{"pe1:core=a b", "", "", `port "a b" is no name of a device: it contains ' '; expected letters, digits, dots, hyphens or underscores`},
		{"pe1:core=03:00", "", "", `port "03:00" is no PCI address: expected one such as 0000:03:00.0`},
	} {
		end, p, err := topology.ParseBinding(c.text)
		switch {
		case c.err != "":
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: got error %v, want %s", c.text, err, c.err)
			}
		case err != nil || end != c.end || p.String() != c.port:
			t.Errorf("%s: got %s, %v, %v", c.text, end, p, err)
		}
	}
}
