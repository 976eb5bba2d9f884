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

	want  *Packet
	got   *Packet // of frame, every field given
	frame []byte
	exact bool
}

// otherLayer is what a wrong layer adds to Diff.Fields.
const otherLayer = 20

// Diff compares a frame with the packet. It returns nil when the frame has the
// packet's layers in the same order and in them every field that the packet
// gives. What lies behind the last layer of the packet is not looked at.
// With exact every byte of the built packet must be in the frame and no other.
func (p *Packet) Diff(frame []byte, exact bool) *Diff {
	d := &Diff{want: p, got: dissect(frame, p.layers), frame: frame, exact: exact}
	want := bare(p.layers)
	if exact {
		var err error
		if want, err = p.fill(); err == nil && bytes.Equal(join(want), frame) {
			return nil
		}
	}
	for _, l := range compare(want, bare(d.got.layers), exact) {
		d.Fields += len(l.fields) + otherLayer*l.others
	}
	if d.Fields == 0 && exact { // the packet cannot be built, or the frame not be said in fields
		d.Fields = otherLayer
	}
	if d.Fields == 0 {
		return nil
	}
	return d
}

// layerDiff is what is wrong with one layer.
type layerDiff struct {
	fields []int  // by index
	others int    // layers that are not there, or of another type
	says   string // why, with others
}

// compare goes through the layers side by side, up to one of another type.
func compare(want, got []*filled, exact bool) []layerDiff {
	var diffs []layerDiff
	for i := 0; i < len(want) || exact && i < len(got); i++ {
		var d layerDiff
		switch {
		case i >= len(got):
			d = layerDiff{others: 1, says: "the frame ends before this layer"}
		case i >= len(want):
			d = layerDiff{others: 1, says: "the expected packet ends before this layer"}
		case want[i].typ != got[i].typ:
			d = layerDiff{others: len(want) - i, says: fmt.Sprintf("layer: expected %s, actual %s", want[i].typ.name, got[i].typ.name)}
			return append(diffs, d)
		default:
			w, g := want[i], got[i]
			for j := range w.typ.fields {
				if (w.given[j] != nil || exact) && !(w.lacks(j) && g.lacks(j)) && !w.same(j, w.vals[j], g, g.vals[j]) {
					d.fields = append(d.fields, j)
				}
			}
		}
		diffs = append(diffs, d)
	}
	return diffs
}

// bare are layers with the values that they give, and autopad, which is on
// unless an expression says otherwise.
func bare(layers []*Layer) []*filled {
	stack := make([]*filled, len(layers))
	for i, l := range layers {
		stack[i] = &filled{Layer: l, vals: l.given}
		if j, ok := l.typ.index["autopad"]; ok && l.given[j] == nil {
			stack[i].vals = slices.Clone(l.given)
			stack[i].vals[j] = l.typ.fields[j].def
		}
	}
	return stack
}

// String prints both packets layer by layer, with what differs below each
// layer, and both as hexadecimal with the bytes in question in brackets.
func (d *Diff) String() string {
	want, err := d.want.fill()
	if err != nil { // Parse has built the packet; a Default has spoilt it
		return fmt.Sprintf("! expected  %s\n!           %v\n", d.want, err)
	}
	if !d.exact { // the bytes are easier to compare when what does not matter is alike
		if alike, err := d.want.like(d.got).fill(); err == nil {
			want = alike
		}
	}
	got, err := d.got.fill()
	if err != nil {
		got, _ = (&Packet{layers: []*Layer{opaque("Raw", d.frame)}}).fill()
	}
	short := d.got.shorten(d.frame).layers

	var b strings.Builder
	expected, actual := dump{frame: join(want)}, dump{frame: d.frame}
	wantAt, gotAt := 0, 0
	for i, l := range compare(want, got, d.exact) {
		mark := " "
		if l.others > 0 || len(l.fields) > 0 {
			mark = "!"
		}
		if i < len(want) {
			fmt.Fprintf(&b, "%s expected  %s\n", mark, d.want.layers[i])
		}
		if i < len(got) {
			shown := got[i].Layer
			if len(short) == len(got) {
				shown = short[i]
			}
			fmt.Fprintf(&b, "%s actual    %s\n", mark, shown)
		}
		if l.others > 0 {
			fmt.Fprintf(&b, "!           %s\n", l.says)
		}
		for _, j := range l.fields {
			w, g := want[i], got[i]
			fmt.Fprintf(&b, "!           %s: expected %s, actual %s\n", w.typ.fields[j].name, w.show(j), g.show(j))
			expected.mark(8*wantAt+w.spans[j][0], 8*wantAt+w.spans[j][1])
			actual.mark(8*gotAt+g.spans[j][0], 8*gotAt+g.spans[j][1])
		}
		if i < len(want) {
			wantAt += expected.header(wantAt, want[i], l.others > 0)
		}
		if i < len(got) {
			gotAt += actual.header(gotAt, got[i], l.others > 0)
		}
	}
	left := "what is left out as in the actual frame, lengths and checksums filled in"
	if d.exact {
		left = "every byte is compared"
	}
	fmt.Fprintf(&b, "  expected, %d bytes (%s):\n%s", len(expected.frame), left, expected)
	fmt.Fprintf(&b, "  actual, %d bytes:\n%s", len(actual.frame), actual)
	return b.String()
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

// dump is a frame with some of its bytes marked.
type dump struct {
	frame  []byte
	marked map[int]bool
}

// mark marks the bytes that some bits touch.
func (d *dump) mark(first, end int) {
	if d.marked == nil {
		d.marked = map[int]bool{}
	}
	for i := first / 8; i < (end+7)/8; i++ {
		d.marked[i] = true
	}
}

// header returns the length of a layer that begins at a byte, and marks it whole when it is wrong.
func (d *dump) header(at int, f *filled, wrong bool) int {
	if wrong {
		d.mark(8*at, 8*(at+len(f.header)))
	}
	return len(f.header)
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
			switch marked, before := d.marked[i], i > at && d.marked[i-1]; {
			case marked && !before:
				between = "["
			case before && !marked:
				between = "]"
			}
			fmt.Fprintf(&b, "%s%02x", between, d.frame[i])
		}
		if d.marked[end-1] {
			b.WriteByte(']')
		}
		b.WriteByte('\n')
	}
	if len(d.frame) > maxDump {
		fmt.Fprintf(&b, "    ... %d more bytes\n", len(d.frame)-maxDump)
	}
	return b.String()
}
