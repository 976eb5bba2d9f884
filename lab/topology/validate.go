package topology

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"seg6lab/lab/topology/strictyaml"
)

// Limits of a topology.
const (
	// MaxNodes is the number of nodes in a topology.
	MaxNodes = 1024
	// MaxLinks is the number of links that LinkMAC can number.
	MaxLinks = 1 << 16
	// MaxName is the length of a topology's or a node's name.
	MaxName = 32
	// MaxDevice is the length of a device's name: IFNAMSIZ less its zero byte.
	MaxDevice = 15
)

// Validate reports what can never be meant: names that do not fit, references
// to what is not there, things that exist twice, parameters that a behaviour
// lacks or does not take. What only the kernel can judge, such as a second VRF
// of one table, passes, so that a case can provoke the kernel's answer. The
// error is of type Errors.
func (t *Topology) Validate() error {
	if errs := strictyaml.Check(t); len(errs) > 0 {
		return errs // made by Go code: a file cannot say it
	}
	var v validator
	v.topology(t)
	if len(v.errs) == 0 {
		return nil
	}
	return strictyaml.Sort(v.errs)
}

type validator struct {
	errs Errors
	// broken are the paths where decoding failed. Nothing is said about what
	// contains them or stands in them, since it may only look wrong.
	broken []string
}

// fail reports a mistake. The path says what it is about.
func (v *validator) fail(pos strictyaml.Pos, path, format string, args ...any) {
	for _, b := range v.broken {
		if within(path, b) || within(b, path) {
			return
		}
	}
	v.errs = append(v.errs, &Error{Pos: pos, Path: path, Msg: path + ": " + fmt.Sprintf(format, args...)})
}

// within says whether path is outer or a part of it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

var nodeName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func (v *validator) name(pos strictyaml.Pos, path, what, name string) {
	if len(name) <= MaxName && nodeName.MatchString(name) {
		return
	}
	v.fail(pos, path, "%q is no name of a %s: expected 1 to %d lower-case letters, digits and hyphens, no hyphen first", name, what, MaxName)
}

func (v *validator) topology(t *Topology) {
	v.name(t.ValueAt("name"), "name", "topology", t.Name)
	switch {
	case len(t.Nodes) == 0:
		v.fail(t.ValueAt("nodes"), "nodes", "expected at least one node")
	case len(t.Nodes) > MaxNodes:
		v.fail(t.KeyAt("nodes"), "nodes", "%d nodes: a topology has at most %d", len(t.Nodes), MaxNodes)
		return
	}
	if len(t.Links) > MaxLinks {
		v.fail(t.KeyAt("links"), "links", "%d links: a topology has at most %d", len(t.Links), MaxLinks)
		return
	}
	v.ports(t)
	names := slices.Sorted(maps.Keys(t.Nodes))
	nodes := make(map[string]*node, len(names))
	for _, name := range names {
		path := strictyaml.Key("nodes", name)
		v.name(t.KeyAt(path), path, "node", name)
		nodes[name] = &node{validator: v, Node: t.Nodes[name], path: path, devices: map[string]strictyaml.Pos{}, vrfOf: map[string]string{}}
	}
	for i, l := range t.Links {
		v.link(i, l, names, nodes, t)
	}
	for _, name := range names {
		nodes[name].validate()
	}
	for i, l := range t.Links {
		v.linkAddresses(i, l, nodes)
	}
}

func (v *validator) link(index int, l *Link, names []string, nodes map[string]*node, t *Topology) {
	path := strictyaml.Item("links", index)
	for i, end := range l.Ends {
		pos := l.ValueAt(strictyaml.Item("ends", i))
		n, ok := nodes[end.Node]
		if !ok && t.Port(end) == nil && t.Port(l.Ends[1-i]) != nil {
			continue // outside equipment that nothing is said about
		}
		if !ok {
			v.fail(pos, path, "end %s: there is no node %s%s", end, end.Node, strictyaml.Suggest(end.Node, names))
			continue
		}
		n.device(pos, path, end.Dev)
	}
	if n := len(l.MACs); n != 0 && n != 2 {
		v.fail(l.ValueAt("macs"), path+".macs", "expected an address for each of the two ends, got %d", n)
	}
	for i, mac := range l.MACs {
		at := strictyaml.Item("macs", i)
		switch {
		case mac[0]&1 != 0, mac == MAC{}:
			v.fail(l.ValueAt(at), path+"."+at, "%s cannot be the address of a device: expected a unicast address such as 02:00:00:00:00:01", mac)
		case i == 1 && mac == l.MACs[0]:
			v.fail(l.ValueAt(at), path+"."+at, "both ends have the address %s", mac)
		}
	}
}

// linkAddresses finds an address that both ends of a link have.
func (v *validator) linkAddresses(index int, l *Link, nodes map[string]*node) {
	a, b := nodes[l.Ends[0].Node], nodes[l.Ends[1].Node]
	if a == nil || b == nil || a == b {
		return
	}
	for i, p := range b.Addresses[l.Ends[1].Dev] {
		for _, q := range a.Addresses[l.Ends[0].Dev] {
			if p.Addr() == q.Addr() {
				at := strictyaml.Item(strictyaml.Key("addresses", l.Ends[1].Dev), i)
				v.fail(b.ValueAt(at), b.path+"."+at, "%s is also the address of the other end of the link, %s", p.Addr(), l.Ends[0])
			}
		}
	}
}

// first tells where what is at pos for the second time was first.
func first(at, pos strictyaml.Pos) string {
	switch {
	case !at.IsValid():
		return ""
	case at.File == pos.File:
		return fmt.Sprintf(", first on line %d", at.Line)
	}
	return ", first at " + at.String()
}

// node is a node being validated.
type node struct {
	*validator
	*Node
	path string
	// devices are the names that exist, with the place that makes them.
	devices map[string]strictyaml.Pos
	// vrfOf is the VRF, or the bridge, that a device belongs to.
	vrfOf map[string]string
}

// device takes a name for a device that is made at pos.
func (n *node) device(pos strictyaml.Pos, path, name string) {
	if msg := deviceName(name); msg != "" {
		n.fail(pos, path, "%q is no name of a device: %s", name, msg)
	}
	if before, ok := n.devices[name]; ok {
		n.fail(pos, path, "%s already has a device %s%s", n.path, name, first(before, pos))
		return
	}
	n.devices[name] = pos
}

// deviceName says why a name is none (dev_valid_name of the kernel, and the
// names that stand for something else in a namespace).
func deviceName(name string) string {
	switch {
	case name == "lo" || name == "all" || name == "default":
		return "the name is taken: every namespace has lo, and sysctls use all and default"
	case len(name) > MaxDevice:
		return fmt.Sprintf("it has %d characters, the kernel takes at most %d", len(name), MaxDevice)
	case name == "" || name == "." || name == "..":
		return "expected letters, digits, dots, hyphens or underscores"
	}
	for _, r := range name {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune(`/:%"'\`, r) {
			return fmt.Sprintf("it contains %q; expected letters, digits, dots, hyphens or underscores", r)
		}
	}
	return ""
}

// needs reports a reference to a device that the node has not.
func (n *node) needs(pos strictyaml.Pos, path, name string) bool {
	if _, ok := n.devices[name]; ok || name == "lo" {
		return true
	}
	for _, b := range n.broken {
		if within(b, "links") || within(b, n.path) && !within(b, n.path+".routes") {
			return true // the device may be in what was not understood
		}
	}
	names := append(slices.Sorted(maps.Keys(n.devices)), "lo")
	n.fail(pos, path, "%s has no device %q%s", n.path, name, strictyaml.Suggest(name, names))
	return false
}

func (n *node) validate() {
	for _, name := range slices.Sorted(maps.Keys(n.VRFs)) {
		n.device(n.KeyAt("vrfs."+name), n.path+".vrfs", name)
	}
	for _, name := range slices.Sorted(maps.Keys(n.VLANs)) {
		n.device(n.KeyAt("vlans."+name), n.path+".vlans", name)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Bridges)) {
		n.device(n.KeyAt("bridges."+name), n.path+".bridges", name)
	}
	for i, name := range n.Dummies {
		n.device(n.ValueAt(strictyaml.Item("dummies", i)), n.path+".dummies", name)
	}
	for i, name := range n.IFBs {
		n.device(n.ValueAt(strictyaml.Item("ifbs", i)), n.path+".ifbs", name)
	}
	for _, name := range slices.Sorted(maps.Keys(n.VRFs)) {
		vrf := n.VRFs[name]
		n.enslave(name, &vrf.At, n.path+".vrfs."+name, vrf.Devices)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Bridges)) {
		br := n.Bridges[name]
		n.enslave(name, &br.At, n.path+".bridges."+name, br.Devices)
	}
	n.vlans()
	n.quirks()
	n.sysctls()
	n.seg6()
	n.addresses()
	n.neighbours()
	n.rules()
	n.routes()
	n.impairments()
	for i, line := range n.Run {
		at := strictyaml.Item("run", i)
		if strings.TrimSpace(line) == "" || strings.ContainsRune(line, 0) {
			n.fail(n.ValueAt(at), n.path+"."+at, "is empty: expected a command line")
		}
	}
}

func (n *node) enslave(master string, at *strictyaml.At, path string, devices []string) {
	for i, dev := range devices {
		p := strictyaml.Item("devices", i)
		switch {
		case dev == master || dev == "lo":
			n.fail(at.ValueAt(p), path+"."+p, "%s cannot belong to %s", dev, master)
		case !n.needs(at.ValueAt(p), path+"."+p, dev):
		case n.vrfOf[dev] != "":
			n.fail(at.ValueAt(p), path+"."+p, "%s belongs to %s already", dev, n.vrfOf[dev])
		default:
			n.vrfOf[dev] = master
		}
	}
}

func (n *node) vlans() {
	type tag struct {
		link, protocol string
		id             uint16
	}
	seen := map[tag]string{}
	for _, name := range slices.Sorted(maps.Keys(n.VLANs)) {
		vlan, path := n.VLANs[name], n.path+".vlans."+name
		if !n.needs(vlan.ValueAt("link"), path+".link", vlan.Link) {
			continue
		}
		below := vlan
		for range len(n.VLANs) {
			if below = n.VLANs[below.Link]; below == nil {
				break
			}
		}
		if below != nil {
			n.fail(vlan.ValueAt("link"), path+".link", "%s stands, in the end, on itself", name)
		}
		key := tag{vlan.Link, vlan.Protocol, vlan.ID}
		if key.protocol == "" {
			key.protocol = "802.1Q"
		}
		if other, ok := seen[key]; ok {
			n.fail(vlan.ValueAt("id"), path+".id", "%s %d of %s is the device %s already", key.protocol, vlan.ID, vlan.Link, other)
		}
		seen[key] = name
	}
}

var (
	// A sysctl name has a "/" where a device name has a dot.
	sysctlName = regexp.MustCompile(`^net(\.[a-zA-Z0-9_@-][a-zA-Z0-9_@/-]*)+$`)
	perDevice  = regexp.MustCompile(`^net\.ipv[46]\.(?:conf|neigh)\.([^.]+)\.`)
)

func (n *node) sysctls() {
	for _, name := range slices.Sorted(maps.Keys(n.Sysctls)) {
		at := "sysctls." + name
		path := n.path + "." + at
		if strings.HasPrefix(name, "net/") {
			n.fail(n.KeyAt(at), path, "expected the name with dots: %s", strings.ReplaceAll(name, "/", "."))
		} else if !strings.HasPrefix(name, "net.") {
			n.fail(n.KeyAt(at), path, "only names that begin with net. belong to a namespace; others would change the host")
		} else if !sysctlName.MatchString(name) {
			n.fail(n.KeyAt(at), path, "is no sysctl name: expected words of letters, digits, _ and -, joined by dots")
		} else if m := perDevice.FindStringSubmatch(name); m != nil && m[1] != "all" && m[1] != "default" {
			n.needs(n.KeyAt(at), path, strings.ReplaceAll(m[1], "/", "."))
		}
		switch value := n.Sysctls[name]; {
		case value == "" || strings.ContainsAny(value, "\n\x00"):
			n.fail(n.ValueAt(at), path, "expected a value of one line")
		case value == "true" || value == "on":
			n.fail(n.ValueAt(at), path, "the kernel reads no %q; did you mean 1?", value)
		case value == "false" || value == "off":
			n.fail(n.ValueAt(at), path, "the kernel reads no %q; did you mean 0?", value)
		}
	}
}

func (n *node) seg6() {
	if n.Seg6 == nil {
		return
	}
	s, path := n.Seg6, n.path+".seg6"
	if s.TunSrc.IsValid() && !isIPv6(s.TunSrc) {
		n.fail(s.ValueAt("tunsrc"), path+".tunsrc", "%s is an IPv4 address: the outer header is IPv6", s.TunSrc)
	}
	seen := map[uint32]strictyaml.Pos{}
	for i, key := range s.HMAC {
		p := path + "." + strictyaml.Item("hmac", i)
		if before, ok := seen[key.ID]; ok {
			n.fail(key.ValueAt("id"), p+".id", "the key %d is given twice%s", key.ID, first(before, key.ValueAt("id")))
		}
		seen[key.ID] = key.ValueAt("id")
		if len(key.Secret) > MaxSecret {
			n.fail(key.ValueAt("secret"), p+".secret", "has %d bytes: the kernel takes at most %d", len(key.Secret), MaxSecret)
		}
	}
}

func isIPv6(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }

func (n *node) addresses() {
	type key struct {
		domain string
		addr   netip.Addr
	}
	seen := map[key]string{}
	for _, dev := range slices.Sorted(maps.Keys(n.Addresses)) {
		at := "addresses." + dev
		n.needs(n.KeyAt(at), n.path+"."+at, dev)
		// Each VRF has addresses of its own.
		domain := n.vrfOf[dev]
		if n.VRFs[dev] != nil {
			domain = dev
		} else if n.VRFs[domain] == nil {
			domain = ""
		}
		for i, p := range n.Addresses[dev] {
			pos, path := n.ValueAt(strictyaml.Item(at, i)), n.path+"."+strictyaml.Item(at, i)
			a := p.Addr()
			if a.IsUnspecified() || a.IsMulticast() || a.Is4In6() {
				n.fail(pos, path, "%s cannot be the address of a device", a)
			}
			k := key{domain, a}
			if a.IsLinkLocalUnicast() {
				k.domain += " " + dev
			}
			if other, ok := seen[k]; ok {
				n.fail(pos, path, "the node has %s already, on %s", a, other)
			} else {
				seen[k] = dev
			}
		}
	}
}

func (n *node) neighbours() {
	type key struct {
		dev string
		to  netip.Addr
	}
	seen := map[key]strictyaml.Pos{}
	for i, nb := range n.Neighbours {
		path := n.path + "." + strictyaml.Item("neighbours", i)
		n.needs(nb.ValueAt("dev"), path+".dev", nb.Dev)
		k := key{nb.Dev, nb.To}
		if before, ok := seen[k]; ok {
			n.fail(nb.Pos(), path, "%s on %s is given twice%s", nb.To, nb.Dev, first(before, nb.Pos()))
		}
		seen[k] = nb.Pos()
	}
}

func (n *node) impairments() {
	for _, dev := range slices.Sorted(maps.Keys(n.Netem)) {
		q, path := n.Netem[dev], n.path+".netem."+dev
		n.needs(n.KeyAt("netem."+dev), path, dev)
		if q.Jitter != 0 && q.Delay == 0 {
			n.fail(q.ValueAt("jitter"), path+".jitter", "needs a delay to vary")
		}
	}
	for _, dev := range slices.Sorted(maps.Keys(n.MTU)) {
		at := "mtu." + dev
		n.needs(n.KeyAt(at), n.path+"."+at, dev)
	}
	for _, dev := range slices.Sorted(maps.Keys(n.Offloads)) {
		at := "offloads." + dev
		n.needs(n.KeyAt(at), n.path+"."+at, dev)
		for _, feature := range slices.Sorted(maps.Keys(n.Offloads[dev])) {
			if !nodeName.MatchString(feature) {
				n.fail(n.KeyAt(at+"."+feature), n.path+"."+at, "%q is no feature name: expected a word of ethtool -k such as tx-checksum-ip-generic", feature)
			}
		}
	}
}
