// Package traffic says packets, sends them and captures them.
//
// A packet is written as an expression in Scapy's notation,
//
//	Ether()/IPv6(src="2001:db8::1", dst="2001:db8::2")/UDP(dport=9)/Raw(16)
//
// which Parse reads, Packet.Bytes builds, Dissect makes from a frame and
// Packet.Diff compares with one. Layers, fields and defaults are those of Scapy
// 2.5; the differences are listed at the table of layers (layers.go).
//
// The package may not import the lab or know a topology: who sends and
// captures enters the network namespace first.
package traffic

import (
	"fmt"
	"net/netip"
)

// Limits of an expression and of what it builds.
const (
	MaxExpression = 512 << 10 // bytes of an expression
	MaxLayers     = 64        // layers of a packet
	MaxFrame      = 256 << 10 // bytes of a built frame
	maxDepth      = 8         // nesting of lists and options
)

// Packet is a stack of layers, outermost first. Fields that were not given are
// filled in when the packet is built.
type Packet struct {
	layers []*Layer
}

// Layer is one header of a Packet, or the payload that ends it.
type Layer struct {
	typ   *layerType
	given []value // by index of typ.fields: said in the expression, or read from a frame; nil when left out
	dflt  []value // set by Packet.Default
}

func newLayer(t *layerType) *Layer {
	return &Layer{typ: t, given: make([]value, len(t.fields)), dflt: make([]value, len(t.fields))}
}

// Layers returns the layers, outermost first.
func (p *Packet) Layers() []*Layer { return p.layers }

// Name is the name of the layer in expressions, "IPv6" or "SRH".
func (l *Layer) Name() string { return l.typ.name }

// Has reports whether a field was given, as opposed to filled in.
func (l *Layer) Has(field string) bool {
	i, ok := l.typ.index[field]
	return ok && l.given[i] != nil
}

// Default gives a field of a layer, counted from 0, a value for the case that
// the expression left it out. Diff still takes the field for left out.
// The value is a number, an address or text as it would stand in an expression
// without quotes, or bytes.
func (p *Packet) Default(layer int, field string, v any) error {
	if layer < 0 || layer >= len(p.layers) {
		return fmt.Errorf("packet has no layer %d: it has %d", layer, len(p.layers))
	}
	l := p.layers[layer]
	i, err := l.typ.find(field)
	if err != nil {
		return err
	}
	n := &node{}
	switch v := v.(type) {
	case int:
		n.kind, n.num = nodeNumber, uint64(v)
	case uint64:
		n.kind, n.num = nodeNumber, v
	case []byte:
		n.kind, n.text = nodeString, string(v)
	case string:
		n.kind, n.text = nodeString, v
	case fmt.Stringer: // netip.Addr, net.HardwareAddr
		n.kind, n.text = nodeString, v.String()
	default:
		return fmt.Errorf("%s %s: cannot take a %T", l.typ.name, field, v)
	}
	f := &l.typ.fields[i]
	if l.dflt[i], err = f.kind.parse(f, n); err != nil {
		return fmt.Errorf("%s %s: %w", l.typ.name, field, err)
	}
	return nil
}

// value is what a field holds: a uint64 for every field of a fixed number of
// bits (numbers, MAC and IPv4 addresses), a netip.Addr, a string of bytes,
// a []netip.Addr, or a []*Layer of options.
type value any

// number returns the value of a numeric field, 0 for one that is not there.
func (f *filled) number(name string) uint64 {
	if i, ok := f.typ.index[name]; ok {
		n, _ := f.vals[i].(uint64)
		return n
	}
	return 0
}

func (f *filled) addr(name string) netip.Addr {
	a, _ := f.vals[f.typ.index[name]].(netip.Addr)
	return a
}
