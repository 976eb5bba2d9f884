package traffic

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Diff is how a frame differs from the packet that was expected.
type Diff struct {
	// Fields counts the fields that differ. A layer that is missing, extra or of
	// another type counts more than the fields of a layer, so that of several frames the one
	// with the smallest count is the nearest.
	Fields int

	layers   []layerDiff
	expected dump
	actual   dump
}

// otherLayer is what a wrong layer adds to Diff.Fields.
const otherLayer = 20

type layerDiff struct {
	expected, actual string // the layer as an expression, "" when there is none
	fields           []string
}

// dump is a frame with some of its bytes marked.
type dump struct {
	frame []byte
	mark  map[int]bool
}

// Diff compares a frame with the packet. It returns nil when the frame has the
// packet's layers in the same order and in them every field that the packet
// gives. What lies behind the last layer of the packet is not looked at.
// With exact every byte of the built packet must be in the frame and no other.
func (p *Packet) Diff(frame []byte, exact bool) *Diff {
	whole := dissect(frame, p.layers)
	if !exact && whole.has(p) {
		return nil
	}
	want, err := p.fill()
	if err != nil { // Parse has built the packet once; a Default may have spoilt it
		return &Diff{Fields: otherLayer * MaxLayers, layers: []layerDiff{{expected: p.String(), fields: []string{err.Error()}}}}
	}
	if exact && bytes.Equal(join(want), frame) {
		return nil
	}
	got, err := whole.fill()
	if err != nil {
		whole = &Packet{layers: []*Layer{opaque("Raw", frame)}}
		got, _ = whole.fill()
	}
	short := whole.shorten(frame).layers
	if !exact { // the bytes are easier to compare when what does not matter is alike
		if alike, err := p.like(whole).fill(); err == nil {
			want = alike
		}
	}
	d := &Diff{
		expected: dump{frame: join(want), mark: map[int]bool{}},
		actual:   dump{frame: frame, mark: map[int]bool{}},
	}
	wantAt, gotAt := 0, 0
	for i := 0; i < len(want) || i < len(got); i++ {
		if i >= len(want) && !exact {
			break
		}
		var ld layerDiff
		switch {
		case i >= len(got):
			ld.expected = p.layers[i].String()
			ld.fields = []string{"the frame ends before this layer"}
			d.expected.markBytes(wantAt, len(want[i].header))
			d.Fields += otherLayer
		case i >= len(want):
			ld.actual = got[i].String()
			ld.fields = []string{"the expected packet ends before this layer"}
			d.actual.markBytes(gotAt, len(got[i].header))
			d.Fields += otherLayer
		case want[i].typ != got[i].typ:
			ld.expected, ld.actual = p.layers[i].String(), got[i].String()
			ld.fields = []string{fmt.Sprintf("layer: expected %s, actual %s", want[i].typ.name, got[i].typ.name)}
			d.expected.markBytes(wantAt, len(want[i].header))
			d.actual.markBytes(gotAt, len(got[i].header))
			d.Fields += otherLayer
		default:
			ld.expected, ld.actual = p.layers[i].String(), got[i].String()
			if len(short) == len(got) {
				ld.actual = short[i].String()
			}
			for j := range want[i].typ.fields {
				f := &want[i].typ.fields[j]
				a, b := want[i].vals[j], got[i].vals[j]
				if want[i].given[j] == nil && !exact || want[i].lacks(j) && got[i].lacks(j) || want[i].same(j, a, b) {
					continue
				}
				d.Fields++
				ld.fields = append(ld.fields, fmt.Sprintf("%s: expected %s, actual %s", f.name, want[i].show(j), got[i].show(j)))
				d.expected.markBits(wantAt, want[i].spans[j])
				d.actual.markBits(gotAt, got[i].spans[j])
			}
		}
		if i < len(want) {
			wantAt += len(want[i].header)
		}
		if i < len(got) {
			gotAt += len(got[i].header)
		}
		d.layers = append(d.layers, ld)
		if i < len(want) && i < len(got) && want[i].typ != got[i].typ {
			break
		}
	}
	if d.Fields == 0 && exact && !bytes.Equal(d.expected.frame, frame) {
		d.Fields++
	}
	if d.Fields == 0 {
		return nil
	}
	return d
}

// like returns the packet with the fields that it leaves out as another has them,
// layer by layer, but for computed ones.
func (p *Packet) like(other *Packet) *Packet {
	q := &Packet{}
	for i, l := range p.layers {
		if i < len(other.layers) && other.layers[i].typ == l.typ {
			l = &Layer{typ: l.typ, given: l.given, dflt: slices.Clone(l.dflt)}
			for j, f := range l.typ.fields {
				follows := i+1 < len(p.layers) && bound(l.typ, f.name, p.layers[i+1].typ) != nil
				if f.auto == nil && f.when == nil && !follows {
					l.dflt[j] = other.layers[i].given[j]
				}
			}
		}
		q.layers = append(q.layers, l)
	}
	return q
}

// has reports whether a dissected packet begins with the layers that are wanted and has
// every field that they give.
func (p *Packet) has(want *Packet) bool {
	if len(p.layers) < len(want.layers) {
		return false
	}
	for i, l := range want.layers {
		w, got := &filled{Layer: l, vals: l.given}, p.layers[i]
		if got.typ != w.typ {
			return false
		}
		for j, v := range w.given {
			if v != nil && !w.same(j, v, got.given[j]) {
				return false
			}
		}
	}
	return true
}

func join(stack []*filled) []byte {
	var b []byte
	for _, f := range stack {
		b = append(b, f.header...)
	}
	return b
}

// lacks reports whether the header has no such field, as its other fields have it.
func (f *filled) lacks(j int) bool { return f.typ.fields[j].when != nil && !f.typ.fields[j].when(f) }

func (f *filled) show(j int) string {
	if f.lacks(j) || f.vals[j] == nil {
		return "none"
	}
	return f.typ.fields[j].kind.print(&f.typ.fields[j], f.vals[j])
}

func (d *dump) markBytes(at, n int) {
	for i := range n {
		d.mark[at+i] = true
	}
}

// markBits marks the bytes that the bits of a field touch.
func (d *dump) markBits(at int, span [2]int) {
	first, end := at+span[0]/8, at+(span[1]+7)/8
	d.markBytes(first, end-first)
}

// String prints both packets layer by layer, with what differs below each
// layer, and both as hexadecimal with the bytes in question in brackets.
func (d *Diff) String() string {
	var b strings.Builder
	for _, l := range d.layers {
		mark := " "
		if len(l.fields) > 0 {
			mark = "!"
		}
		if l.expected != "" {
			fmt.Fprintf(&b, "%s expected  %s\n", mark, l.expected)
		}
		if l.actual != "" {
			fmt.Fprintf(&b, "%s actual    %s\n", mark, l.actual)
		}
		for _, f := range l.fields {
			fmt.Fprintf(&b, "!           %s\n", f)
		}
	}
	fmt.Fprintf(&b, "  expected, %d bytes (what is left out as in the actual frame, lengths and checksums filled in):\n%s", len(d.expected.frame), d.expected)
	fmt.Fprintf(&b, "  actual, %d bytes:\n%s", len(d.actual.frame), d.actual)
	return b.String()
}

// maxDump is how many bytes of a frame are printed.
const maxDump = 512

func (d dump) String() string {
	var b strings.Builder
	for at := 0; at < len(d.frame) && at < maxDump; at += 16 {
		fmt.Fprintf(&b, "    %04x ", at)
		end := min(at+16, len(d.frame))
		for i := at; i < end; i++ {
			between := " "
			switch marked, before := d.mark[i], i > at && d.mark[i-1]; {
			case marked && !before:
				between = "["
			case before && !marked:
				between = "]"
			}
			fmt.Fprintf(&b, "%s%02x", between, d.frame[i])
		}
		if d.mark[end-1] {
			b.WriteByte(']')
		}
		b.WriteByte('\n')
	}
	if len(d.frame) > maxDump {
		fmt.Fprintf(&b, "    ... %d more bytes\n", len(d.frame)-maxDump)
	}
	return b.String()
}
