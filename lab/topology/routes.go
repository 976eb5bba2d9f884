package topology

import (
	"net/netip"
	"slices"

	"seg6lab/lab/topology/strictyaml"
)

// The words for an address family.
const (
	Inet  = "inet"
	Inet6 = "inet6"
)

func familyOf(a netip.Addr) string {
	if a.Is4() {
		return Inet
	}
	return Inet6
}

// AddressFamily is the family of a route: that of its destination, or for a
// default route Family, or that of the gateway or the source, or inet6.
func (r *Route) AddressFamily() string {
	switch {
	case !r.To.Default:
		return familyOf(r.To.Prefix.Addr())
	case r.Family != "":
		return r.Family
	case r.Via.IsValid():
		return familyOf(r.Via)
	case r.Source.IsValid():
		return familyOf(r.Source)
	}
	return Inet6
}

// RouteTable is the table that a route of the node goes into: that of its VRF,
// else its Table, else main.
func (n *Node) RouteTable(r *Route) Table {
	if vrf := n.VRFs[r.VRF]; r.VRF != "" && vrf != nil {
		return Table(vrf.Table)
	}
	if r.Table != 0 {
		return r.Table
	}
	return TableMain
}

// AddressFamily is the family of a rule: that of its addresses, else Family;
// "" when nothing tells.
func (r *Rule) AddressFamily() string {
	switch {
	case r.From.IsValid():
		return familyOf(r.From.Addr())
	case r.To.IsValid():
		return familyOf(r.To.Addr())
	}
	return r.Family
}

func (n *node) rules() {
	for i, r := range n.Rules {
		path := n.path + "." + strictyaml.Item("rules", i)
		switch {
		case r.From.IsValid() && r.To.IsValid() && r.From.Addr().Is4() != r.To.Addr().Is4():
			n.fail(r.ValueAt("to"), path, "from %s and to %s are of two families", r.From, r.To)
		case r.AddressFamily() == "":
			n.fail(r.Pos(), path, "nothing tells the family: expected from, to or family")
		case r.Family != "" && r.Family != r.AddressFamily():
			n.fail(r.ValueAt("family"), path, "family %s does not fit the address", r.Family)
		}
		for key, p := range map[string]netip.Prefix{"from": r.From, "to": r.To} {
			if p.IsValid() && p != p.Masked() {
				n.fail(r.ValueAt(key), path+"."+key, "%s has bits set beyond its length: did you mean %s?", p, p.Masked())
			}
		}
		if r.IIF != "" {
			n.needs(r.ValueAt("iif"), path+".iif", r.IIF)
		}
		if r.OIF != "" {
			n.needs(r.ValueAt("oif"), path+".oif", r.OIF)
		}
	}
}

// noNexthop are the types of routes that lead nowhere.
var noNexthop = []string{"blackhole", "unreachable", "prohibit", "throw"}

func (n *node) routes() {
	type key struct {
		to     string
		family string
		table  Table
		metric uint32
	}
	seen := map[key]strictyaml.Pos{}
	for i, r := range n.Routes {
		path := n.path + "." + strictyaml.Item("routes", i)
		n.route(r, path)
		// The kernel refuses a second route of the same key (EEXIST).
		k := key{r.To.String(), r.AddressFamily(), n.RouteTable(r), r.Metric}
		if before, ok := seen[k]; ok {
			n.fail(r.ValueAt("to"), path, "there is a route to %s in table %s with this metric already%s", r.To, k.table, first(before, r.ValueAt("to")))
		} else {
			seen[k] = r.ValueAt("to")
		}
	}
}

func (n *node) route(r *Route, path string) {
	family := r.AddressFamily()
	if r.Family != "" && r.Family != family {
		n.fail(r.ValueAt("family"), path+".family", "%s is of family %s", r.To, family)
	}
	if r.VRF != "" {
		if _, ok := n.VRFs[r.VRF]; !ok {
			n.fail(r.ValueAt("vrf"), path+".vrf", "%s has no VRF %q%s", n.path, r.VRF, strictyaml.Suggest(r.VRF, sortedKeys(n.VRFs)))
		} else if r.Table != 0 {
			n.fail(r.ValueAt("table"), path+".table", "the VRF %s tells the table: expected vrf or table, not both", r.VRF)
		}
	}
	if r.Dev != "" {
		n.needs(r.ValueAt("dev"), path+".dev", r.Dev)
	}
	// An IPv4 route may have an IPv6 gateway (RFC 8950), not the other way round.
	if r.Via.IsValid() && family == Inet6 && r.Via.Is4() {
		n.fail(r.ValueAt("via"), path+".via", "%s is an IPv4 gateway: an IPv6 route needs an IPv6 one", r.Via)
	}
	if r.Source.IsValid() && familyOf(r.Source) != family {
		n.fail(r.ValueAt("src"), path+".src", "%s is not of the route's family, %s", r.Source, family)
	}
	if slices.Contains(noNexthop, r.Type) {
		for _, k := range []struct {
			name string
			set  bool
		}{{"via", r.Via.IsValid()}, {"encap", r.Encap != nil}} {
			if k.set {
				n.fail(r.KeyAt(k.name), path+"."+k.name, "a %s route leads nowhere and takes none", r.Type)
			}
		}
	} else if r.Dev == "" && !r.Via.IsValid() {
		n.fail(r.Pos(), path, "a route leads somewhere: expected dev or via")
	}
	if r.OnLink && (!r.Via.IsValid() || r.Dev == "") {
		n.fail(r.KeyAt("onlink"), path+".onlink", "needs via and dev: the gateway that is reached directly, and where")
	}
	if r.Encap != nil {
		n.encap(r.Encap, path+".encap", family)
	}
}
