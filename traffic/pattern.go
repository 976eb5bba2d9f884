package traffic

import (
	"fmt"
	"strings"
)

// Pattern is what Diff compares of a frame, as bits: the frame has the value's
// wherever the mask has ones. Both have the same length; what is behind is not
// compared, but for exact, where the frame has that length. The error tells a
// packet of which the place of a layer depends on what it leaves out.
func (p *Packet) Pattern(exact bool) (val, mask []byte, err error) {
	stack, err := p.fill()
	if err != nil {
		return nil, nil, err
	}
	if val = join(stack); exact {
		return val, []byte(strings.Repeat("\xff", len(val))), nil
	}
	mask = make([]byte, len(val))
	at, end := 0, 0 // of the layer, and of what is compared, in bits and bytes
	for i, f := range stack {
		last := i == len(stack)-1
		for j := range f.typ.fields {
			if f.given[j] == nil && !f.decides(j, stack[i+1:]) {
				continue
			}
			if f.given[j] == nil && f.typ.fields[j].bits == 0 {
				return nil, nil, fmt.Errorf("%s has no %s: where %s begins depends on it", f.typ.name, f.typ.fields[j].name, stack[i+1].typ.name)
			}
			for bit := f.spans[j][0]; bit < f.spans[j][1]; bit++ {
				mask[(at+bit)/8] |= 0x80 >> ((at + bit) % 8)
			}
			end = max(end, (at+f.spans[j][1]+7)/8)
		}
		at += 8 * len(f.header)
		if !last {
			end = max(end, at/8)
		}
	}
	return val[:end], mask[:end], nil
}

// decides tells whether a field that was left out says what layer this one is, or
// which comes next and where.
func (f *filled) decides(j int, over []*filled) bool {
	fd := &f.typ.fields[j]
	if fd.when != nil && !fd.when(f) {
		return false
	}
	if fd.name == "type" && (f.typ.name == "SRH" || f.typ.name == "IPv6ExtHdrRouting" || strings.HasPrefix(f.typ.name, "ICMPv6")) {
		return true
	}
	if len(over) == 0 {
		return false
	}
	if bound(f.typ, fd.name, over[0].typ) != nil {
		// An address is where packets of this kind usually go.
		return fd.bits > 0 && fd.bits <= 16 && fd.name != "hlim"
	}
	switch fd.name {
	case "ihl", "dataofs":
		return true
	case "len":
		return len(f.typ.like) > 0 && f.typ.like[0] == "IPv6" // of an extension header
	case "addresses", "options", "load", "data":
		return fd.bits == 0 && f.typ.name != "IP" && f.typ.name != "TCP"
	}
	return false
}
