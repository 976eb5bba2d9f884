package traffic

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// field is a row of a layer: where a value stands in the header and what it is
// when an expression leaves it out.
type field struct {
	name string
	kind *kind
	bits int   // width of a numeric field; 0 for bytes, addresses and lists
	def  value // when left out; nil with auto

	auto func(*scope) uint64 // computes the value from the built packet, instead of def
	sum  bool                // auto runs after every other field is known: a checksum
	when func(*filled) bool  // the header has the field only then; nil: always
	size sizeFunc            // of a field without bits

	names map[string]uint64 // words that stand for numbers
	flags []string          // names of single bits, the lowest first
}

// sizeFunc is the length in bytes of a field when a header is read: it begins at byte
// at of the header, and rest is what is left of the packet.
type sizeFunc func(f *filled, at, rest int) int

// kind is what the value of a field looks like.
type kind struct {
	parse  func(f *field, n *node) (value, error)
	print  func(f *field, v value) string
	encode func(f *filled, v value) ([]byte, error) // nil for numeric kinds
	decode func(b []byte) (value, bool)             // nil for numeric kinds
}

var (
	decimal  = &kind{parse: parseNumber, print: func(f *field, v value) string { return strconv.FormatUint(v.(uint64), 10) }}
	hexdec   = &kind{parse: parseNumber, print: func(f *field, v value) string { return fmt.Sprintf("0x%x", v) }}
	bitflags = &kind{parse: parseFlags, print: printFlags}
	mac      = &kind{parse: parseMAC, print: printMAC}
	ipv4     = &kind{parse: parseIPv4, print: printIPv4}

	ipv6 = &kind{
		parse:  func(_ *field, n *node) (value, error) { return parseIPv6(n) },
		print:  func(_ *field, v value) string { return strconv.Quote(v.(netip.Addr).String()) },
		encode: func(_ *filled, v value) ([]byte, error) { a := v.(netip.Addr).As16(); return a[:], nil },
		decode: func(b []byte) (value, bool) { return netip.AddrFrom16([16]byte(b)), true },
	}
	octets = &kind{
		parse:  parseBytes,
		print:  func(_ *field, v value) string { return printBytes(v.(string)) },
		encode: func(_ *filled, v value) ([]byte, error) { return []byte(v.(string)), nil },
		decode: func(b []byte) (value, bool) { return string(b), true },
	}
	payload = &kind{parse: parsePayload, print: printPayload, encode: octets.encode, decode: octets.decode}
	ipv6s   = &kind{parse: parseIPv6s, print: printIPv6s, encode: encodeIPv6s, decode: decodeIPv6s}
)

func parseNumber(f *field, n *node) (value, error) {
	limit := uint64(1)<<max(f.bits, 1) - 1 // autopad has no bits and is 0 or 1
	switch n.kind {
	case nodeNumber:
		if n.num <= limit {
			return n.num, nil
		}
	case nodeString:
		if v, ok := f.names[n.text]; ok {
			return v, nil
		}
		if len(f.names) > 0 {
			return nil, fmt.Errorf("unknown name %.40q%s", n.text, didYouMean(n.text, keys(f.names)))
		}
	}
	return nil, fmt.Errorf("expected a number from 0 to %d, found %s", limit, n)
}

// parseFlags takes a number, "DF", "MF+DF" or "SA".
func parseFlags(f *field, n *node) (value, error) {
	if n.kind != nodeString {
		return parseNumber(f, n)
	}
	var v uint64
	words := strings.Split(n.text, "+")
	if len(f.flags[0]) == 1 {
		words = strings.Split(n.text, "")
	}
	for _, w := range words {
		bit := -1
		for i, name := range f.flags {
			if name == w && name != "" {
				bit = i
			}
		}
		if bit < 0 {
			return nil, fmt.Errorf("unknown flag %.40q: expected some of %s", w, strings.Join(slices.DeleteFunc(slices.Clone(f.flags), func(s string) bool { return s == "" }), ", "))
		}
		v |= 1 << bit
	}
	return v, nil
}

func printFlags(f *field, v value) string {
	var words []string
	rest := v.(uint64)
	for i, name := range f.flags {
		if rest>>i&1 == 1 && name != "" {
			words = append(words, name)
			rest &^= 1 << i
		}
	}
	if rest != 0 || len(words) == 0 {
		return fmt.Sprintf("0x%x", v)
	}
	if len(f.flags[0]) == 1 {
		return strconv.Quote(strings.Join(words, ""))
	}
	return strconv.Quote(strings.Join(words, "+"))
}

func parseMAC(_ *field, n *node) (value, error) {
	if n.kind == nodeString {
		if a, err := net.ParseMAC(n.text); err == nil && len(a) == 6 {
			return binary.BigEndian.Uint64(append([]byte{0, 0}, a...)), nil
		}
	}
	return nil, fmt.Errorf(`expected a MAC address such as "02:00:00:00:00:01", found %s`, n)
}

func printMAC(_ *field, v value) string {
	b := binary.BigEndian.AppendUint64(nil, v.(uint64))
	return strconv.Quote(net.HardwareAddr(b[2:]).String())
}

func parseIPv4(_ *field, n *node) (value, error) {
	if n.kind == nodeString {
		if a, err := netip.ParseAddr(n.text); err == nil && a.Is4() {
			b := a.As4()
			return uint64(binary.BigEndian.Uint32(b[:])), nil
		}
	}
	return nil, fmt.Errorf(`expected an IPv4 address such as "192.0.2.1", found %s`, n)
}

func printIPv4(_ *field, v value) string {
	return strconv.Quote(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(v.(uint64))))).String())
}

func parseIPv6(n *node) (netip.Addr, error) {
	if n.kind == nodeString {
		if a, err := netip.ParseAddr(n.text); err == nil && a.Is6() && a.Zone() == "" {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf(`expected an IPv6 address such as "2001:db8::1", found %s`, n)
}

func parseIPv6s(_ *field, n *node) (value, error) {
	if n.kind != nodeList {
		return nil, fmt.Errorf(`expected a list such as ["2001:db8::1"], found %s`, n)
	}
	list := make([]netip.Addr, 0, len(n.list))
	for _, e := range n.list {
		a, err := parseIPv6(e)
		if err != nil {
			return nil, failf(e.pos, "%v", err)
		}
		list = append(list, a)
	}
	return list, nil
}

func printIPv6s(_ *field, v value) string {
	var words []string
	for _, a := range v.([]netip.Addr) {
		words = append(words, strconv.Quote(a.String()))
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func encodeIPv6s(_ *filled, v value) ([]byte, error) {
	var b []byte
	for _, a := range v.([]netip.Addr) {
		b = append(b, a.AsSlice()...)
	}
	return b, nil
}

func decodeIPv6s(b []byte) (value, bool) {
	if len(b)%16 != 0 {
		return nil, false
	}
	list := make([]netip.Addr, 0, len(b)/16)
	for ; len(b) > 0; b = b[16:] {
		list = append(list, netip.AddrFrom16([16]byte(b)))
	}
	return list, true
}

func parseBytes(_ *field, n *node) (value, error) {
	if n.kind != nodeString {
		return nil, fmt.Errorf(`expected bytes such as b"\x00\x01", found %s`, n)
	}
	return n.text, nil
}

// printBytes writes a bytes literal that Python reads too.
func printBytes(s string) string {
	var b strings.Builder
	b.WriteString(`b"`)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// pattern is what Raw(n) stands for: the bytes 0, 1, 2, ... 255, 0, ...
func pattern(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

func parsePayload(f *field, n *node) (value, error) {
	if n.kind != nodeNumber {
		return parseBytes(f, n)
	}
	if n.num > MaxFrame {
		return nil, fmt.Errorf("expected at most %d bytes, found %d", MaxFrame, n.num)
	}
	return pattern(int(n.num)), nil
}

func printPayload(_ *field, v value) string {
	s := v.(string)
	if len(s) >= 4 && s == pattern(len(s)) {
		return strconv.Itoa(len(s))
	}
	return printBytes(s)
}
