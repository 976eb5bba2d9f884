package specs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"seg6lab/lab/topology"
)

// topology writes the commands that build the case's topology, in the order in
// which a lab is built.
func (s *scripter) topology() {
	t := s.c.Topology
	if len(t.Ports) > 0 {
		s.refuse(t.KeyAt("ports"), "real ports")
	}
	names := sortedKeys(t.Nodes)
	for _, name := range names {
		n := t.Nodes[name]
		if n.Forwards() {
			s.refuse(n.KeyAt("dataplane"), "node %s: seg6lab's forwarder", name)
		}
		s.f("node %s", name)
		s.sysctls(name, n, false)
	}
	for i, l := range t.Links {
		s.link(l, i)
	}
	neighbours := t.LinkNeighbours()
	for _, name := range names {
		s.node(name, t.Nodes[name], neighbours[name])
	}
	for _, st := range s.c.steps {
		if st.Send == nil || st.Send.TAP != nil || s.injectors[st.Send.From.Node] != 0 {
			continue
		}
		name := st.Send.From.Node
		s.injectors[name] = len(s.injectors) + 1
		s.f("injector %d %s", s.injectors[name], name)
	}
}

// firstIndex is above the indexes that the kernel gives out: ends with different
// indexes come up at once (linkwatch_urgent_event).
const firstIndex = 10_000

func (s *scripter) link(l *topology.Link, i int) {
	var ends [2]string
	for end, e := range l.Ends {
		text := fmt.Sprintf("%s netns \"$id-%s\" address %s", e.Dev, e.Node, l.MAC(i, end))
		if l.MTU > 0 {
			text += fmt.Sprintf(" mtu %d", l.MTU)
		}
		if l.TxQueueLen > 0 {
			text += fmt.Sprintf(" txqueuelen %d", l.TxQueueLen)
		}
		ends[end] = text
	}
	s.f("ip link add name %s index %d type veth \\\n\tpeer name %s", ends[0], firstIndex+i, ends[1])
	for _, e := range l.Ends {
		s.f("ipn %s link set dev %s up", e.Node, e.Dev)
	}
}

// node writes what a node has besides its links. Devices are named after name or
// dev, as they can be called what ip takes for a word of its own: up, h.
func (s *scripter) node(name string, n *topology.Node, neighbours []topology.Neighbour) {
	ip := func(format string, args ...any) { s.f("ipn %s %s", name, fmt.Sprintf(format, args...)) }
	add := func(dev, format string, args ...any) {
		ip("link add name %s", fmt.Sprintf(format, args...))
		ip("link set dev %s up", dev)
	}
	s.f("")
	for _, dev := range n.Dummies {
		add(dev, "%s type dummy", dev)
	}
	for _, dev := range n.IFBs {
		add(dev, "%s type ifb", dev)
	}
	for _, dev := range sortedKeys(n.Bridges) {
		filtering := ""
		if n.Bridges[dev].VLANFiltering {
			filtering = " vlan_filtering 1"
		}
		add(dev, "%s type bridge%s", dev, filtering)
	}
	for _, dev := range vlansInOrder(n.VLANs) {
		v := n.VLANs[dev]
		text := fmt.Sprintf("%s link %s type vlan", dev, v.Link)
		if v.Protocol != "" {
			text += " protocol " + v.Protocol
		}
		text += fmt.Sprintf(" id %d", v.ID)
		if v.ReorderHdr != nil {
			text += " reorder_hdr " + map[bool]string{true: "on", false: "off"}[*v.ReorderHdr]
		}
		add(dev, "%s", text)
	}
	for _, dev := range sortedKeys(n.VRFs) {
		add(dev, "%s type vrf table %d", dev, n.VRFs[dev].Table)
	}
	for _, dev := range sortedKeys(n.Bridges) {
		for _, port := range n.Bridges[dev].Devices {
			ip("link set dev %s master %s", port, dev)
		}
	}
	for _, dev := range sortedKeys(n.VRFs) {
		for _, slave := range n.VRFs[dev].Devices {
			ip("link set dev %s master %s", slave, dev)
		}
	}
	for _, dev := range sortedKeys(n.MTU) {
		ip("link set dev %s mtu %d", dev, n.MTU[dev])
	}
	if len(n.Offloads) > 0 {
		s.refuse(n.KeyAt("offloads"), "node %s: offloads, which are ethtool's", name)
	}
	s.sysctls(name, n, true)
	var local []string
	for _, dev := range sortedKeys(n.Addresses) {
		for _, a := range n.Addresses[dev] {
			nodad := ""
			if a.Addr().Is6() {
				nodad = " nodad"
				local = append(local, a.Addr().String())
			}
			ip("addr add %s dev %s%s", a, dev, nodad)
		}
	}
	for _, e := range n.Neighbours {
		neighbours = append(neighbours, *e)
	}
	for _, e := range neighbours {
		ip("neigh replace %s lladdr %s dev %s nud permanent", e.To, e.LLAddr, e.Dev)
	}
	s.seg6(name, n.Seg6)
	for _, r := range n.Rules {
		ip("%s", ruleWords(r))
	}
	s.f("ready %s", strings.Join(append([]string{name}, local...), " "))
	for _, r := range n.Routes {
		ip("%s", routeWords(n, r))
	}
	for _, dev := range sortedKeys(n.Netem) {
		s.f("tcn %s qdisc add dev %s root handle 1: netem%s", name, dev, netemWords(n.Netem[dev]))
	}
	for _, line := range n.Run {
		s.f("on %s sh -c %s", name, quote(line))
	}
}

// vlansInOrder are the names of VLAN devices, those below before those above.
func vlansInOrder(vlans map[string]*topology.VLAN) []string {
	var order []string
	for left := sortedKeys(vlans); len(left) > 0; {
		var later []string
		for _, name := range left {
			if below := vlans[name].Link; vlans[below] != nil && !slices.Contains(order, below) {
				later = append(later, name)
				continue
			}
			order = append(order, name)
		}
		left = later
	}
	return order
}

func (s *scripter) sysctls(name string, n *topology.Node, ofDevices bool) {
	line := ""
	for _, key := range sortedKeys(n.Sysctls) {
		if ofDevice(key) == ofDevices {
			line += " \\\n\t" + quote(key+"="+n.Sysctls[key])
		}
	}
	if line != "" {
		s.f("on %s sysctl -qw%s", name, line)
	}
}

// ofDevice tells a sysctl that is there only with a device.
func ofDevice(key string) bool {
	words := strings.FieldsFunc(key, func(r rune) bool { return r == '.' || r == '/' })
	if len(words) > 1 && words[1] == "vrf" {
		return true
	}
	return len(words) > 3 && (words[2] == "conf" || words[2] == "neigh") && words[3] != "all" && words[3] != "default"
}

func (s *scripter) seg6(name string, t *topology.Seg6) {
	if t == nil {
		return
	}
	if t.TunSrc.IsValid() {
		s.f("on %s ip sr tunsrc set %s", name, t.TunSrc)
	}
	for _, k := range t.HMAC {
		// ip asks for the secret on the terminal where it has one.
		s.f("printf '%%s\\n' %s | on %s setsid -w ip sr hmac set %d %s >/dev/null", quote(k.Secret), name, k.ID, k.Algorithm)
	}
}

func ruleWords(r *topology.Rule) string {
	family := "-6"
	if r.Family == "inet" || r.From.Addr().Is4() || r.To.Addr().Is4() {
		family = "-4"
	}
	text := family + " rule add"
	for _, w := range []struct {
		key string
		val any
		ok  bool
	}{
		{"from", r.From, r.From.IsValid()}, {"to", r.To, r.To.IsValid()}, {"iif", r.IIF, r.IIF != ""}, {"oif", r.OIF, r.OIF != ""},
		{"fwmark", r.FWMark, r.FWMark != 0}, {"priority", r.Priority, r.Priority != 0}, {"table", uint32(r.Table), true},
	} {
		if w.ok {
			text += fmt.Sprintf(" %s %v", w.key, w.val)
		}
	}
	return text
}

func routeWords(n *topology.Node, r *topology.Route) string {
	family, to := "-6", "default"
	if !r.To.Default {
		to = r.To.Prefix.String()
	}
	if r.Family == "inet" || r.Family == "" && (r.To.Prefix.Addr().Is4() || r.To.Default && r.Via.Is4()) {
		family = "-4"
	}
	text := family + " route add"
	if r.Type != "" && r.Type != "unicast" {
		text += " " + r.Type
	}
	text += " " + to
	if r.Encap != nil {
		text += " encap " + encapWords(r.Encap)
	}
	table := uint32(r.Table)
	if vrf := n.VRFs[r.VRF]; vrf != nil {
		table = vrf.Table
	}
	via := fmt.Sprint(r.Via)
	if r.Via.Is6() && family == "-4" {
		via = "inet6 " + via
	}
	for _, w := range []struct {
		key string
		val any
		ok  bool
	}{
		{"via", via, r.Via.IsValid()}, {"dev", r.Dev, r.Dev != ""}, {"table", table, table != 0}, {"metric", r.Metric, r.Metric != 0},
		{"src", r.Source, r.Source.IsValid()}, {"mtu", r.MTU, r.MTU != 0},
	} {
		if w.ok {
			text += fmt.Sprintf(" %s %v", w.key, w.val)
		}
	}
	if r.OnLink {
		text += " onlink"
	}
	return text
}

func encapWords(e *topology.Encap) string {
	if t := e.Seg6; t != nil {
		text := fmt.Sprintf("seg6 mode %s segs %s", t.Mode, segs(t.Segs))
		if t.HMAC != 0 {
			text += fmt.Sprintf(" hmac %d", t.HMAC)
		}
		return text
	}
	t := e.Seg6Local
	text := "seg6local action " + t.Action
	for _, w := range []struct {
		key string
		val any
		ok  bool
	}{
		{"nh4", t.NH4, t.NH4.IsValid()}, {"nh6", t.NH6, t.NH6.IsValid()}, {"iif", t.IIF, t.IIF != ""}, {"oif", t.OIF, t.OIF != ""},
		{"table", uint32(t.Table), t.Table != 0}, {"vrftable", uint32(t.VRFTable), t.VRFTable != 0},
	} {
		if w.ok {
			text += fmt.Sprintf(" %s %v", w.key, w.val)
		}
	}
	if t.SRH != nil {
		text += " srh segs " + segs(t.SRH.Segs)
		if t.SRH.HMAC != 0 {
			text += fmt.Sprintf(" hmac %d", t.SRH.HMAC)
		}
	}
	if t.Count {
		text += " count"
	}
	if len(t.Flavors) > 0 {
		text += " flavors " + strings.Join(t.Flavors, ",")
		if t.LBLen != 0 {
			text += fmt.Sprintf(" lblen %d", t.LBLen)
		}
		if t.NFLen != 0 {
			text += fmt.Sprintf(" nflen %d", t.NFLen)
		}
	}
	return text
}

func segs(list []netip.Addr) string {
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = a.String()
	}
	return strings.Join(words, ",")
}

func netemWords(t *topology.Netem) string {
	text := ""
	if t.Limit != 0 {
		text += fmt.Sprintf(" limit %d", t.Limit)
	}
	if t.Delay != 0 || t.Jitter != 0 {
		text += fmt.Sprintf(" delay %dus", time.Duration(t.Delay).Microseconds())
	}
	if t.Jitter != 0 {
		text += fmt.Sprintf(" %dus", time.Duration(t.Jitter).Microseconds())
	}
	if t.Loss != 0 {
		text += fmt.Sprintf(" loss %g%%", t.Loss)
	}
	return text
}
