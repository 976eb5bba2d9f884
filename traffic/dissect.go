package traffic

import (
	"bytes"
	"encoding/binary"
)

// Dissect takes an Ethernet frame apart. What it cannot read is a Raw layer,
// bytes behind the length that an IP header says are Padding. The packet gives
// only the fields that differ from what would be filled in, and its Bytes are the frame.
func Dissect(frame []byte) *Packet {
	return dissect(frame, nil).shorten(frame)
}

// dissect gives every field. Hints are the layers that the caller expects: they
// are taken where the frame does not say what follows, and a Raw that ends them ends the dissection.
func dissect(frame []byte, hints []*Layer) *Packet {
	p := &Packet{}
	hint := func() *layerType {
		if len(p.layers) < len(hints) {
			return hints[len(p.layers)].typ
		}
		return nil
	}
	rest, padding := frame, 0
	t := layersByName["Ether"]
	if h := hint(); h != nil {
		t = h
	}
	for t.name != "Raw" && t.name != "Padding" && len(p.layers) < MaxLayers-2 {
		if t.name == "Ether" && hint() != t && len(rest) >= 14 && binary.BigEndian.Uint16(rest[12:]) <= 1500 {
			t = layersByName["Dot3"]
		}
		f, n := decode(t, rest)
		if f == nil {
			break
		}
		p.layers = append(p.layers, f.Layer)
		rest = rest[n:]
		if t.inner != nil {
			if inner := t.inner(f); inner >= 0 && inner < len(rest) {
				padding += len(rest) - inner
				rest = rest[:inner]
			}
		}
		if len(rest) == 0 {
			break
		}
		natural := following(f, rest)
		t = natural
		if h := hint(); h != nil && (natural.name == "Raw" || h.name == "Raw" && len(p.layers) == len(hints)-1) {
			t = h
		}
	}
	if len(rest) > 0 || len(p.layers) == 0 {
		p.layers = append(p.layers, opaque("Raw", rest))
	}
	if padding > 0 {
		p.layers = append(p.layers, opaque("Padding", frame[len(frame)-padding:]))
	}
	return p
}

func opaque(name string, b []byte) *Layer {
	l := newLayer(layersByName[name])
	l.given[0] = string(b)
	return l
}

// following is the type of the layer behind f.
func following(f *filled, payload []byte) *layerType {
	if f.typ.next != nil {
		if name := f.typ.next(f, payload); name != "" {
			return layersByName[name]
		}
	}
	for _, name := range append([]string{f.typ.name}, f.typ.like...) {
		for _, b := range bindings {
			if b.only != writing && b.under == name && f.number(b.field) == b.value {
				return layersByName[b.over]
			}
		}
	}
	return layersByName["Raw"]
}

// decode reads one header from the start of b. It returns nil when b is
// too short, or holds what the layer's fields cannot say.
func decode(t *layerType, b []byte) (*filled, int) {
	l := newLayer(t)
	f := &filled{Layer: l, vals: l.given}
	bit := 0
	for j := range t.fields {
		fd := &t.fields[j]
		if fd.when != nil && !fd.when(f) {
			continue
		}
		if fd.kind.decode != nil {
			at := bit / 8
			n := fd.size(f, at, len(b)-at)
			if n < 0 || n > len(b)-at {
				return nil, 0
			}
			v, ok := fd.kind.decode(b[at : at+n])
			if !ok {
				return nil, 0
			}
			l.given[j] = v
			bit += 8 * n
			continue
		}
		if fd.bits == 0 {
			l.given[j] = fd.def // not on the wire
			continue
		}
		if bit+fd.bits > 8*len(b) {
			return nil, 0
		}
		var v uint64
		for left := fd.bits; left > 0; {
			take := min(left, 8-bit%8)
			v = v<<take | uint64(b[bit/8])>>(8-bit%8-take)&(1<<take-1)
			bit += take
			left -= take
		}
		l.given[j] = v
	}
	n := bit / 8
	if !t.rewritten {
		return f, n
	}
	if i, ok := t.index["autopad"]; ok && !f.is(b[:n]) {
		l.given[i] = uint64(0)
	}
	if !f.is(b[:n]) {
		return nil, 0
	}
	return f, n
}

// is reports whether the fields are encoded as b.
func (f *filled) is(b []byte) bool {
	again, err := f.encode()
	return err == nil && bytes.Equal(again, b)
}

// shorten leaves out the fields that would be filled in with what they hold.
func (p *Packet) shorten(frame []byte) *Packet {
	stack, err := p.fill()
	if err != nil {
		return &Packet{layers: []*Layer{opaque("Raw", frame)}}
	}
	short := &Packet{}
	for _, f := range stack {
		l := newLayer(f.typ)
		for j, v := range f.given {
			if v != nil && !f.same(j, v, f, f.fill[j]) {
				l.given[j] = v
			}
		}
		short.layers = append(short.layers, l)
	}
	if b, err := short.Bytes(); err == nil && bytes.Equal(b, frame) {
		return short
	}
	if b, err := p.Bytes(); err == nil && bytes.Equal(b, frame) {
		return p
	}
	return &Packet{layers: []*Layer{opaque("Raw", frame)}}
}

// same reports whether a value of field j is on the wire what another layer of the type has there.
func (f *filled) same(j int, a value, other *filled, b value) bool {
	k := f.typ.fields[j].kind
	if k.encode == nil || a == nil || b == nil {
		return k.encode == nil && a == b || a == nil && b == nil
	}
	x, errX := k.encode(f, a)
	y, errY := k.encode(other, b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
