package traffic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// optionList is a list of layers of one group: the options of an extension
// header, the TLVs of an SRH. With the field autopad every option is moved to its
// alignment and the whole to a multiple of 8 bytes; the list begins at byte at of its header.
func optionList(group string, at int) *kind {
	return &kind{
		parse: func(_ *field, n *node) (value, error) {
			elements := []*node{n}
			if n.kind == nodeList {
				elements = n.list
			}
			list := []*Layer{}
			for _, e := range elements {
				l, err := makeLayer(e, group, group)
				if err != nil {
					return nil, err
				}
				list = append(list, l)
			}
			return list, nil
		},
		print: func(_ *field, v value) string {
			var words []string
			for _, l := range v.([]*Layer) {
				words = append(words, l.String())
			}
			return "[" + strings.Join(words, ", ") + "]"
		},
		encode: func(f *filled, v value) ([]byte, error) {
			return encodeOptions(v.([]*Layer), at, f.number("autopad") == 1)
		},
		decode: func(b []byte) (value, bool) { return decodeOptions(group, b) },
	}
}

func encodeOptions(list []*Layer, at int, autopad bool) ([]byte, error) {
	var b []byte
	for _, l := range list {
		if autopad && l.typ.align[0] > 0 {
			b = appendPad(b, padding(at+len(b)-l.typ.align[1], l.typ.align[0]))
		}
		stack, err := (&Packet{layers: []*Layer{l}}).fill()
		if err != nil {
			return nil, err
		}
		b = append(b, stack[0].header...)
	}
	if autopad {
		b = appendPad(b, padding(at+len(b), 8))
	}
	return b, nil
}

// padding is what n lacks to a multiple of unit.
func padding(n, unit int) int { return ((-n)%unit + unit) % unit }

// appendPad appends n bytes as a Pad1 or a PadN option.
func appendPad(b []byte, n int) []byte {
	switch n {
	case 0:
		return b
	case 1:
		return append(b, 0)
	}
	return append(append(b, 1, byte(n-2)), make([]byte, n-2)...)
}

// decodeOptions reads options of the types that the group knows, and what they cannot
// say as the generic one.
func decodeOptions(group string, b []byte) (value, bool) {
	list := []*Layer{}
	for len(b) > 0 {
		var f *filled
		var n int
		for _, name := range namesOf(group) {
			t := layersByName[name]
			if t.generic && f == nil || t.fields[0].def == uint64(b[0]) && !t.generic {
				g, m := decode(t, b)
				// a length field that does not end this option is the generic one's
				if g != nil && (t.generic || m == 1 || m == 2+int(b[1])) {
					f, n = g, m
				}
			}
		}
		if f == nil {
			return nil, false
		}
		stack, err := (&Packet{layers: []*Layer{f.Layer}}).fill()
		if err != nil || !bytes.Equal(stack[0].header, b[:n]) {
			return nil, false
		}
		l := newLayer(f.typ)
		for j, v := range f.given {
			if v != nil && !stack[0].same(j, v, stack[0], stack[0].fill[j]) {
				l.given[j] = v
			}
		}
		list = append(list, l)
		b = b[n:]
	}
	return list, true
}

// tcpOptions are Scapy's list of pairs, [("MSS", 1460), ("NOP", None)]. The value is
// the bytes of the options, padded to a multiple of 4.
var tcpOptions = &kind{parse: parseTCPOptions, print: printTCPOptions, encode: octets.encode, decode: octets.decode}

// tcpOption is an option with a name: the widths in bytes of its numbers.
type tcpOption struct {
	code   byte
	name   string
	widths []int
}

var tcpOptionTable = []tcpOption{
	{2, "MSS", []int{2}}, {3, "WScale", []int{1}}, {4, "SAckOK", nil}, {8, "Timestamp", []int{4, 4}}, {28, "UTO", []int{2}},
}

func parseTCPOptions(f *field, n *node) (value, error) {
	if n.kind == nodeString {
		return n.text, nil
	}
	if n.kind != nodeList {
		return nil, fmt.Errorf(`expected a list such as [("MSS", 1460), ("NOP", None)], found %s`, n)
	}
	var b []byte
	for _, e := range n.list {
		if e.kind != nodeList || len(e.list) != 2 {
			return nil, failf(e.pos, `expected a pair such as ("MSS", 1460), found %s`, e)
		}
		opt, err := tcpOptionBytes(e.list[0], e.list[1])
		if err != nil {
			return nil, err
		}
		b = append(b, opt...)
	}
	if len(b) > 40 {
		return nil, fmt.Errorf("options of %d bytes: a TCP header has room for 40", len(b))
	}
	return string(append(b, make([]byte, -len(b)&3)...)), nil
}

func tcpOptionBytes(name, val *node) ([]byte, error) {
	if name.kind == nodeNumber && name.num < 256 && val.kind == nodeString && len(val.text) <= 38 {
		return append([]byte{byte(name.num), byte(2 + len(val.text))}, val.text...), nil
	}
	words := []string{"EOL", "NOP"}
	switch name.text {
	case "EOL":
		return []byte{0}, nil
	case "NOP":
		return []byte{1}, nil
	}
	for _, o := range tcpOptionTable {
		words = append(words, o.name)
		if o.name != name.text {
			continue
		}
		b := []byte{o.code, 2}
		vals := val.list
		switch val.kind {
		case nodeNumber:
			vals = []*node{val}
		case nodeString:
			b = append(b, val.text...)
		}
		if val.kind != nodeString && len(vals) != len(o.widths) {
			return nil, failf(val.pos, "%s: expected %d numbers, found %s", o.name, len(o.widths), val)
		}
		for i, v := range vals {
			if v.kind != nodeNumber || v.num >= 1<<(8*o.widths[i]) {
				return nil, failf(v.pos, "%s: expected a number of %d bytes, found %s", o.name, o.widths[i], v)
			}
			be := binary.BigEndian.AppendUint64(nil, v.num)
			b = append(b, be[8-o.widths[i]:]...)
		}
		if len(b) > 40 {
			return nil, failf(val.pos, "%s: option of %d bytes: a TCP header has room for 40", o.name, len(b))
		}
		b[1] = byte(len(b))
		return b, nil
	}
	return nil, failf(name.pos, "unknown TCP option%s", didYouMean(name.text, words))
}

func printTCPOptions(f *field, v value) string {
	b := v.(string)
	var words []string
	for rest := b; rest != ""; {
		switch {
		case rest[0] == 0 && strings.Trim(rest, "\x00") == "" && len(rest) < 4:
			rest = "" // padding comes by itself
			continue
		case rest[0] == 0:
			words = append(words, `("EOL", None)`)
			rest = rest[1:]
			continue
		case rest[0] == 1:
			words = append(words, `("NOP", None)`)
			rest = rest[1:]
			continue
		case len(rest) < 2 || rest[1] < 2 || int(rest[1]) > len(rest):
			return printBytes(b)
		}
		words = append(words, printTCPOption(rest[0], rest[2:rest[1]]))
		rest = rest[rest[1]:]
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func printTCPOption(code byte, val string) string {
	for _, o := range tcpOptionTable {
		size := 0
		for _, w := range o.widths {
			size += w
		}
		if o.code != code || size != len(val) {
			continue
		}
		var nums []string
		for _, w := range o.widths {
			nums = append(nums, strconv.FormatUint(binary.BigEndian.Uint64(append(make([]byte, 8-w), val[:w]...)), 10))
			val = val[w:]
		}
		switch len(nums) {
		case 0:
			return fmt.Sprintf(`(%q, b"")`, o.name)
		case 1:
			return fmt.Sprintf("(%q, %s)", o.name, nums[0])
		}
		return fmt.Sprintf("(%q, (%s))", o.name, strings.Join(nums, ", "))
	}
	return fmt.Sprintf("(%d, %s)", code, printBytes(val))
}
