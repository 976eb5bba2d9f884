package traffic

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// filled is a layer with a value for every field.
type filled struct {
	*Layer
	vals   []value
	fill   []value // what each field would be had it been left out
	header []byte
	spans  [][2]int // the bits of the header that each field takes, end excluded
}

// scope is what a computed field is computed from.
type scope struct {
	stack   []*filled
	at      int
	header  []byte // the layer itself, with zeros for what is not known yet
	payload []byte // everything that the layer carries
}

func (c *scope) layer() *filled { return c.stack[c.at] }

func (f *filled) list(name string) []netip.Addr {
	l, _ := f.vals[f.typ.index[name]].([]netip.Addr)
	return l
}

// Bytes builds the packet. Lengths, checksums, protocol numbers and the like
// are filled in where they were left out.
func (p *Packet) Bytes() ([]byte, error) {
	stack, err := p.fill()
	if err != nil {
		return nil, err
	}
	return join(stack), nil
}

// layerError is why a layer cannot be built.
type layerError struct {
	layer int
	err   error
}

func (e *layerError) Error() string { return e.err.Error() }
func (e *layerError) Unwrap() error { return e.err }

// fill gives every field of every layer its value: first those that depend on
// the neighbouring layers only, then, from the innermost layer out, lengths and checksums.
func (p *Packet) fill() ([]*filled, error) {
	stack := make([]*filled, len(p.layers))
	for i, l := range p.layers {
		f := &filled{Layer: l, vals: make([]value, len(l.given)), fill: make([]value, len(l.given))}
		stack[i] = f
		for j := range l.typ.fields {
			f.fill[j] = l.typ.fields[j].def
			if i+1 < len(p.layers) {
				if v := bound(l.typ, l.typ.fields[j].name, p.layers[i+1].typ); v != nil {
					f.fill[j] = v
				}
			}
			f.vals[j] = f.fill[j]
			if l.dflt[j] != nil {
				f.vals[j] = l.dflt[j]
			}
			if l.given[j] != nil {
				f.vals[j] = l.given[j]
			}
		}
	}
	var payload []byte
	for i := len(stack) - 1; i >= 0; i-- {
		f := stack[i]
		c := &scope{stack: stack, at: i, payload: payload}
		if err := f.compute(c); err != nil {
			return nil, &layerError{i, fmt.Errorf("%s: %w", f.typ.name, err)}
		}
		if f.typ.name == "Padding" {
			continue // no length counts it
		}
		payload = append(f.header[:len(f.header):len(f.header)], payload...)
		if len(payload) > MaxFrame {
			return nil, &layerError{i, fmt.Errorf("packet of more than %d bytes", MaxFrame)}
		}
	}
	return stack, nil
}

// compute fills in the computed fields of one layer and encodes it.
func (f *filled) compute(c *scope) (err error) {
	for _, sums := range []bool{false, true} {
		if c.header, err = f.encode(); err != nil {
			return err
		}
		for j := range f.typ.fields {
			fd := &f.typ.fields[j]
			if fd.auto == nil || fd.sum != sums || fd.when != nil && !fd.when(f) {
				continue
			}
			kept := f.vals[j]
			if fd.sum { // a sum is over the header with zeros in its place
				f.vals[j] = uint64(0)
				if c.header, err = f.encode(); err != nil {
					return err
				}
			}
			f.fill[j] = fd.auto(c)
			f.vals[j] = f.fill[j]
			if kept != nil {
				f.vals[j] = kept
			} else if n := f.fill[j].(uint64); n>>fd.bits != 0 {
				return fmt.Errorf("%s: %d does not fit into %d bits: give it another value or make the packet smaller", fd.name, n, fd.bits)
			}
		}
	}
	f.header, err = f.encode()
	return err
}

// encode writes the fields one after the other, those not known yet as zeros.
func (f *filled) encode() ([]byte, error) {
	var b []byte
	var acc uint64 // bits not yet written
	var n int
	f.spans = make([][2]int, len(f.vals))
	for j := range f.typ.fields {
		fd := &f.typ.fields[j]
		if fd.when != nil && !fd.when(f) {
			if f.given[j] != nil {
				return nil, fmt.Errorf("field %s does not go with the other fields", fd.name)
			}
			continue
		}
		if fd.kind.encode != nil {
			v, err := fd.kind.encode(f, f.vals[j])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", fd.name, err)
			}
			f.spans[j] = [2]int{8 * len(b), 8 * (len(b) + len(v))}
			b = append(b, v...)
			continue
		}
		f.spans[j] = [2]int{8*len(b) + n, 8*len(b) + n + fd.bits}
		v, _ := f.vals[j].(uint64)
		for left := fd.bits; left > 0; {
			take := min(left, 8-n)
			acc = acc<<take | v>>(left-take)&(1<<take-1)
			left -= take
			if n += take; n == 8 {
				b = append(b, byte(acc))
				acc, n = 0, 0
			}
		}
	}
	if f.typ.pad != nil {
		i, ok := f.typ.index["len"]
		b = f.typ.pad(f, ok && f.given[i] != nil, b)
	}
	return b, nil
}

// bound is what the layer over sets in a field of the layer under, or nil.
func bound(under *layerType, field string, over *layerType) value {
	for _, name := range append([]string{under.name}, under.like...) {
		if v, ok := over.lift[field]; ok && name == "IPv6" {
			return v
		}
		for _, b := range bindings {
			if b.only != reading && b.under == name && b.over == over.name && b.field == field {
				return b.value
			}
		}
	}
	return nil
}

// checksum is the Internet checksum (RFC 1071) of the concatenation of parts,
// each but the last of an even length.
func checksum(parts ...[]byte) uint64 {
	var sum uint64
	for _, b := range parts {
		for ; len(b) > 1; b = b[2:] {
			sum += uint64(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			sum += uint64(b[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^sum & 0xffff
}

// transportSum is the checksum of an upper layer with the pseudo-header of the
// IP layer below, 0 when there is none. noZero: a sum of 0 is sent as 0xffff (UDP).
func (c *scope) transportSum(proto byte, noZero bool) uint64 {
	pseudo := c.pseudoHeader(proto, len(c.header)+len(c.payload))
	if pseudo == nil {
		return 0
	}
	sum := checksum(pseudo, append(c.header[:len(c.header):len(c.header)], c.payload...))
	if sum == 0 && noZero {
		return 0xffff
	}
	return sum
}

// pseudoHeader follows RFC 8200 section 8.1: with a routing header that has
// segments left the destination is that of the last segment.
func (c *scope) pseudoHeader(proto byte, length int) []byte {
	var final *netip.Addr
	for i := c.at - 1; i >= 0; i-- {
		f := c.stack[i]
		switch {
		case f.typ.name == "IPv6":
			src, dst := f.addr("src").As16(), f.addr("dst").As16()
			if final != nil {
				dst = final.As16()
			}
			b := append(src[:], dst[:]...)
			b = binary.BigEndian.AppendUint32(b, uint32(length))
			return append(b, 0, 0, 0, proto)
		case f.typ.name == "IP" && i == c.at-1:
			b := binary.BigEndian.AppendUint32(nil, uint32(f.number("src")))
			b = binary.BigEndian.AppendUint32(b, uint32(f.number("dst")))
			if total, given := f.vals[f.typ.index["len"]].(uint64); given { // wrong on purpose, or of a packet cut short
				ihl, given := f.vals[f.typ.index["ihl"]].(uint64)
				if !given {
					ihl = 5 + uint64(len(f.vals[f.typ.index["options"]].(string))+3)/4
				}
				length = max(int(total)-4*int(ihl), 0)
			}
			return binary.BigEndian.AppendUint16(append(b, 0, proto), uint16(length))
		case len(f.typ.like) == 0 || f.typ.like[0] != "IPv6":
			return nil
		case final == nil && f.typ.index["addresses"] > 0:
			final = f.finalAddress()
		}
	}
	return nil
}

// finalAddress is where a routing header takes the packet in the end, nil when
// it is there already.
func (f *filled) finalAddress() *netip.Addr {
	list := f.list("addresses")
	i := f.typ.index["segleft"]
	left, known := f.vals[i].(uint64)
	if !known { // still to be computed: the last index, or the count
		left = uint64(len(list))
		if f.typ.name == "SRH" {
			left = uint64(max(len(list)-1, 0))
		}
	}
	if left == 0 || len(list) == 0 {
		return nil
	}
	if f.typ.name == "SRH" {
		return &list[0]
	}
	return &list[len(list)-1]
}
