package topology

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"seg6lab/lab/topology/strictyaml"
)

// pciAddress is domain:bus:device.function in hexadecimal, the domain 0000 when
// left out, as lspci does.
var pciAddress = regexp.MustCompile(`^([0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)

// String is the port as ParsePort reads it.
func (p *Port) String() string {
	switch {
	case p.PCI != "":
		return p.PCI
	case p.MAC != nil:
		return p.MAC.String()
	}
	return p.Name
}

// ParsePort reads a port by its shape: a PCI address, an Ethernet address, or
// else the name of a device, which never has a colon.
func ParsePort(s string) (*Port, error) {
	p := &Port{Name: s}
	if strings.Contains(s, ":") {
		p = &Port{PCI: s}
		if mac := new(MAC); mac.UnmarshalText([]byte(s)) == nil {
			p = &Port{MAC: mac}
		}
	}
	if s == "" {
		return nil, errors.New("no port is named: expected a name, a PCI address or an Ethernet address")
	}
	if _, msg := p.check(); msg != "" {
		return nil, fmt.Errorf("port %s", msg)
	}
	return p, nil
}

// ParseBinding reads END=PORT, such as "pe1:core=enp3s0f0".
func ParseBinding(s string) (end string, p *Port, err error) {
	end, name, ok := strings.Cut(s, "=")
	if !ok {
		return "", nil, fmt.Errorf("%q binds nothing: expected NODE:DEV=PORT, such as pe1:core=enp3s0f0", s)
	}
	if err := new(End).UnmarshalText([]byte(end)); err != nil {
		return "", nil, err
	}
	p, err = ParsePort(name)
	return end, p, err
}

// check says what is wrong with a port, and which key is. It writes a PCI address
// as the kernel does.
func (p *Port) check() (key, msg string) {
	var given []string
	for key, set := range map[string]bool{"name": p.Name != "", "pci": p.PCI != "", "mac": p.MAC != nil} {
		if set {
			given = append(given, key)
		}
	}
	if len(given) != 1 {
		slices.Sort(given)
		return "", "expected one of name, pci and mac, got " + cmp.Or(strings.Join(given, " and "), "none")
	}
	switch {
	case p.PCI != "":
		p.PCI = strings.ToLower(p.PCI)
		if !pciAddress.MatchString(p.PCI) {
			return "pci", fmt.Sprintf("%q is no PCI address: expected one such as 0000:03:00.0", p.PCI)
		}
		if strings.Count(p.PCI, ":") == 1 {
			p.PCI = "0000:" + p.PCI
		}
	case strings.Contains(p.Name, ":"):
		return "name", fmt.Sprintf(`%q is no name of a device: expected {pci: "0000:03:00.0"}, {mac: "02:00:00:00:00:01"} or a name without a colon`, p.Name)
	case p.MAC == nil:
		if msg := deviceName(p.Name); msg != "" {
			return "name", fmt.Sprintf("%q is no name of a device: %s", p.Name, msg)
		}
	}
	return "", ""
}

// Port is the port that an end is bound to, nil when there is none.
func (t *Topology) Port(e End) *Port { return t.Ports[e.String()] }

// Outside are the nodes that are outside equipment: a link leads to them of which
// only the other end is bound to a port. They are not built.
func (t *Topology) Outside() map[string]bool {
	outside := make(map[string]bool)
	if len(t.Ports) == 0 {
		return outside
	}
	for _, l := range t.Links {
		for i, e := range l.Ends {
			if t.Port(e) == nil && t.Port(l.Ends[1-i]) != nil {
				outside[e.Node] = true
			}
		}
	}
	return outside
}

// Bind is t with more ends bound to ports. The error tells what does not fit.
func (t *Topology) Bind(ports map[string]*Port) (*Topology, error) {
	if len(ports) == 0 {
		return t, nil
	}
	bound := *t
	bound.Ports = make(map[string]*Port)
	maps.Copy(bound.Ports, t.Ports)
	maps.Copy(bound.Ports, ports)
	return &bound, bound.Validate()
}

// ports checks what ends are bound to, before the links are.
func (v *validator) ports(t *Topology) {
	if len(t.Ports) == 0 {
		return
	}
	seen := make(map[string]string)
	var ends []string
	for _, l := range t.Links {
		ends = append(ends, l.Ends[0].String(), l.Ends[1].String())
	}
	for _, end := range slices.Sorted(maps.Keys(t.Ports)) {
		port, path := t.Ports[end], strictyaml.Key("ports", end)
		if !slices.Contains(ends, end) {
			at := t.KeyAt(path)
			if !port.Pos().IsValid() {
				at = strictyaml.Pos{} // it is not from the file
			}
			v.fail(at, path, "no link has the end %s%s", end, strictyaml.Suggest(end, ends))
		}
		if key, msg := port.check(); msg != "" {
			at := port.Pos()
			if key != "" {
				at, path = port.ValueAt(key), path+"."+key
			}
			v.fail(at, path, "%s", msg)
		}
		if other, ok := seen[port.String()]; ok {
			v.fail(port.Pos(), path, "%s is bound to %s already", port, other)
		}
		seen[port.String()] = end
	}
	outside := t.Outside()
	for i, l := range t.Links {
		for _, e := range l.Ends {
			// The one end is not built, the other must not be a device then.
			if outside[e.Node] && (t.Port(l.Ends[0]) != nil) == (t.Port(l.Ends[1]) != nil) {
				v.fail(l.Pos(), strictyaml.Item("links", i), "%s is outside equipment, as a link to it is bound to a port at its other end: bind the end of %s to a port too, and not that of %s", e.Node, other(l, e.Node), e.Node)
				break
			} else if outside[e.Node] && t.Port(e) != nil {
				v.fail(l.Pos(), strictyaml.Item("links", i), "%s is outside equipment and has the port %s: bind both ends of each link between two ports of this machine", e.Node, t.Port(e))
				break
			}
		}
	}
}

func other(l *Link, node string) string {
	if l.Ends[0].Node == node {
		return l.Ends[1].Node
	}
	return l.Ends[0].Node
}
