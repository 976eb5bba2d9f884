package topologies_test

import (
	"fmt"
	"strings"
	"testing"

	"seg6lab/topologies"
)

func TestShipped(t *testing.T) {
	entries := topologies.List()
	if len(entries) < 12 {
		t.Errorf("%d topologies, want at least 12", len(entries))
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, ":N") {
			continue
		}
		topo, err := topologies.Load(e.Name)
		if err != nil {
			t.Errorf("%s:\n%v", e.Name, err)
			continue
		}
		if topo.Name != e.Name || e.About == "" {
			t.Errorf("%s: name %q, about %q", e.Name, topo.Name, e.About)
		}
		src, err := topologies.Source(e.Name)
		if err != nil {
			t.Error(err)
		}
		for name := range topo.Nodes {
			drawing, _, _ := strings.Cut(string(src), "\nname:")
			if !strings.Contains(drawing, name) {
				t.Errorf("%s: the drawing lacks the node %s", e.Name, name)
			}
		}
	}
}

func TestGenerated(t *testing.T) {
	for _, c := range []struct {
		name         string
		nodes, links int
	}{
		{"chain:2", 2, 1}, {"chain:3", 3, 2}, {"chain:16", 16, 15}, {"chain:1024", 1024, 1023},
		{"mesh:2", 2, 1}, {"mesh:4", 4, 6}, {"mesh:32", 32, 496},
	} {
		topo, err := topologies.Load(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(topo.Nodes) != c.nodes || len(topo.Links) != c.links {
			t.Errorf("%s: %d nodes, %d links, want %d, %d", c.name, len(topo.Nodes), len(topo.Links), c.nodes, c.links)
		}
	}
}

func TestChainRoutes(t *testing.T) {
	topo := topologies.Chain(4)
	for node, want := range map[string]string{
		"n1": "default via 2001:db8:0:1::2",
		"n2": "2001:db8:0:3::/64 via 2001:db8:0:2::2",
		"n3": "2001:db8:0:1::/64 via 2001:db8:0:2::1",
		"n4": "default via 2001:db8:0:3::1",
	} {
		var got []string
		for _, r := range topo.Nodes[node].Routes {
			got = append(got, fmt.Sprintf("%s via %s", r.To, r.Via))
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s: %s, want %s", node, s, want)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	for name, want := range map[string]string{
		"l3vnp":      `there is no topology "l3vnp"; did you mean "l3vpn"?`,
		"chain:1":    "topology chain:1: expected a number of nodes from 2 to 1024 after chain:",
		"chain:1025": "topology chain:1025: expected a number of nodes from 2 to 1024 after chain:",
		"mesh:x":     "topology mesh:x: expected a number of nodes from 2 to 32 after mesh:",
		"ring:4":     `there is no topology "ring:4": expected chain:N or mesh:N before the colon`,
		"../x":       `there is no topology "../x"`,
	} {
		if _, err := topologies.Load(name); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
