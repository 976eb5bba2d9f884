package topology_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"seg6lab/lab/topology"
	"seg6lab/lab/topology/schema"
	"seg6lab/topologies"
)

var update = flag.Bool("update", false, "write schema.json anew")

func TestSchemaIsCurrent(t *testing.T) {
	got, err := schema.Generate(&topology.Topology{}, schema.Options{
		Title: "seg6lab topology", Base: "seg6lab/lab/topology", Dirs: []string{"."},
	})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, topology.Schema) {
		t.Error("schema.json is not that of the types: run go generate ./lab/topology")
	}
}

// checker checks the text of a file against the schema.
func checker(t *testing.T) func(src []byte) error {
	t.Helper()
	check, err := schema.Checker(topology.Schema)
	if err != nil {
		t.Fatal(err)
	}
	return check
}

// TestSchemaTakesShipped: an editor finds no fault with a shipped topology.
func TestSchemaTakesShipped(t *testing.T) {
	check := checker(t)
	for _, name := range topologies.Names() {
		if strings.HasSuffix(name, ":N") {
			continue
		}
		src, err := topologies.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(src); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, src := range []string{small, withPorts(`{r:in: enp3s0f0, r:out: {pci: "03:00.1"}, b:eth0: {mac: "52:54:00:00:00:01"}}`), withNode(""), withNode("{offloads: {in: {gro: off, tso: true}}}"), withNode("{rules: [{from: 10.0.0.0/8, table: 5}, {from: 10.0.0.0/8, table: main}]}")} {
		if err := check([]byte(src)); err != nil {
			t.Errorf("%s%v", src, err)
		}
	}
}

// TestSchemaRefuses: what both can see, the schema and the decoder refuse.
func TestSchemaRefuses(t *testing.T) {
	check := checker(t)
	for name, src := range map[string]string{
		"unknown key":        "name: x\nnodes: {a: }\nlnks: []\n",
		"missing nodes":      "name: x\n",
		"missing name":       "nodes: {a: }\n",
		"unknown node key":   withNode("{adresses: {}}"),
		"one address":        withNode(`{addresses: {in: "fc00::1/64"}}`),
		"address for prefix": withNode(`{addresses: {in: ["fc00::1"]}}`),
		"dataplane":          withNode("{dataplane: forwardr}"),
		"text for number":    withNode("{vlans: {v: {link: in, id: five}}}"),
		"VLAN id":            withNode("{vlans: {v: {link: in, id: 4095}}}"),
		"VRF without table":  withNode("{vrfs: {v: {}}}"),
		"table 0":            withNode("{rules: [{from: 10.0.0.0/8, table: 0}]}"),
		"table name":         withNode("{rules: [{from: 10.0.0.0/8, table: mian}]}"),
		"sysctl list":        withNode("{sysctls: {net.ipv4.ip_forward: [1]}}"),
		"mode":               withNode(seg6(`{mode: encaps, segs: ["fc00::2"]}`)),
		"no mode":            withNode(seg6(`{segs: ["fc00::2"]}`)),
		"action":             withNode(seg6local(`{action: End.DT5}`)),
		"flavor":             withNode(seg6local(`{action: End, flavors: [pps]}`)),
		"lblen":              withNode(seg6local(`{action: End, flavors: [next-csid], lblen: 121}`)),
		"flag":               withNode(seg6local(`{action: End, count: maybe}`)),
		"delay":              withNode("{netem: {in: {delay: 10}}}"),
		"loss":               withNode("{netem: {in: {loss: -1}}}"),
		"MAC":                withNode(`{neighbours: [{to: 10.0.0.1, dev: in, lladdr: "02:00"}]}`),
		"three ends":         "name: x\nnodes: {a: }\nlinks: [[a:x, a:y, a:z]]\n",
		"end":                "name: x\nnodes: {a: }\nlinks: [[a:x, a]]\n",
		"mtu":                "name: x\nnodes: {a: }\nlinks: [{ends: [a:x, a:y], mtu: 40}]\n",
		"mtu of an end":      withNode("{mtu: {in: 40}}"),
		"port by number":     withPorts("{r:in: {index: 2}}"),
		"port's MAC":         withPorts(`{r:in: {mac: "52:54"}}`),
		"ports as list":      withPorts("[r:in]"),
		"link without ends":  "name: x\nnodes: {a: }\nlinks: [{mtu: 1500}]\n",
	} {
		if err := check([]byte(src)); err == nil {
			t.Errorf("%s: the schema takes it", name)
		}
		if _, err := topology.Decode("f", []byte(src)); err == nil {
			t.Errorf("%s: the decoder takes it", name)
		}
	}
}
