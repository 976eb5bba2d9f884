package matchers

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"strings"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"seg6lab/forwarder/srh"
)

// SRHField is what HaveSRH asserts on one field of the header.
type SRHField = field[*srh.Header]

// IPv6Field is what HaveOuterIPv6 asserts on one field of the header.
type IPv6Field = field[*layers.IPv6]

// field is a matcher over the value that get takes from a header.
type field[H any] struct {
	name    string
	get     func(H) any
	matcher types.GomegaMatcher
	err     error // wrong use
}

// HaveSRH matches a frame whose outermost SRH has the fields; without any, a
// frame that has an SRH that is well-formed by RFC 8754.
func HaveSRH(fields ...SRHField) types.GomegaMatcher {
	return haveHeader("have an SRH", fields, func(p gopacket.Packet) (*srh.Header, bool) {
		l, ok := p.Layer(srh.LayerType).(*srh.Layer)
		if !ok {
			return nil, false
		}
		return &l.Header, true
	})
}

// SegmentsLeft asserts on the field of the SRH: a number, or a matcher over a
// uint8.
func SegmentsLeft(n any) SRHField {
	return number("segments left", n, func(h *srh.Header) any { return h.SegmentsLeft })
}

// LastEntry asserts on the field of the SRH: a number, or a matcher over a
// uint8.
func LastEntry(n any) SRHField {
	return number("last entry", n, func(h *srh.Header) any { return h.LastEntry })
}

// Flags asserts on the field of the SRH: a number, or a matcher over a uint8.
func Flags(n any) SRHField {
	return number("flags", n, func(h *srh.Header) any { return h.Flags })
}

// Tag asserts on the field of the SRH: a number, or a matcher over a uint16.
func Tag(n any) SRHField {
	return number("tag", n, func(h *srh.Header) any { return h.Tag })
}

// Segments asserts on the segment list in the order of the header, the last
// segment of the path first.
func Segments(addresses ...string) SRHField {
	f := SRHField{name: "segments", get: func(h *srh.Header) any { return texts(h.Segments) }}
	want := make([]string, len(addresses))
	for i, s := range addresses {
		a, err := address(s)
		if err != nil {
			f.err = err
			return f
		}
		want[i] = a
	}
	f.matcher = gomega.Equal(want)
	return f
}

// TLVs asserts on the TLVs behind the segment list, padding included: a
// []srh.TLV, or a matcher over one.
func TLVs(tlvs any) SRHField {
	m, ok := tlvs.(types.GomegaMatcher)
	if !ok {
		m = gomega.Equal(tlvs)
	}
	return SRHField{name: "TLVs", get: func(h *srh.Header) any { return h.TLVs }, matcher: m}
}

// HaveOuterIPv6 matches a frame whose first layer 3 header is IPv6 with this
// source and destination, VLAN tags before it or not. An empty address is not
// compared.
func HaveOuterIPv6(src, dst string, fields ...IPv6Field) types.GomegaMatcher {
	all := []IPv6Field{
		ipv6Address("source", src, func(h *layers.IPv6) any { return text(h.SrcIP) }),
		ipv6Address("destination", dst, func(h *layers.IPv6) any { return text(h.DstIP) }),
	}
	return haveHeader("have an outer IPv6 header", append(all, fields...), outerIPv6)
}

// outerIPv6 is the first layer 3 header, if it is IPv6.
func outerIPv6(p gopacket.Packet) (*layers.IPv6, bool) {
	h, ok := p.NetworkLayer().(*layers.IPv6)
	return h, ok
}

// HopLimit asserts on the field of the IPv6 header: a number, or a matcher over
// a uint8.
func HopLimit(n any) IPv6Field {
	return number("hop limit", n, func(h *layers.IPv6) any { return h.HopLimit })
}

// TrafficClass asserts on the field of the IPv6 header: a number, or a matcher
// over a uint8.
func TrafficClass(n any) IPv6Field {
	return number("traffic class", n, func(h *layers.IPv6) any { return h.TrafficClass })
}

// FlowLabel asserts on the field of the IPv6 header: a number, or a matcher
// over a uint32.
func FlowLabel(n any) IPv6Field {
	return number("flow label", n, func(h *layers.IPv6) any { return h.FlowLabel })
}

// NextHeader asserts on the field of the IPv6 header: a number, or a matcher
// over a uint8.
func NextHeader(n any) IPv6Field {
	return number("next header", n, func(h *layers.IPv6) any { return uint8(h.NextHeader) })
}

// HaveInner matches a frame that carries a packet behind its outer IPv6 header and
// that header's extension headers: an IPv6 or IPv4 packet or an Ethernet frame
// (next headers 41, 4 and 143). The expression begins with that layer; what
// follows its last layer is not looked at.
func HaveInner(expr string) types.GomegaMatcher {
	packet, err := parse(expr)
	if err == nil && packet.Layers()[0].Name() != "Ether" {
		// Frames are compared, so the inner packet gets a link layer.
		packet, err = parse("Ether()/" + expr)
	}
	return &frameMatcher{what: "carry " + expr, check: func(frame []byte) (string, error) {
		if err != nil {
			return "", err
		}
		inner := innerFrame(frame)
		if inner == nil {
			return "there is no inner packet", nil
		}
		return diff(packet, inner, false), nil
	}}
}

// innerFrame is the inner packet as a frame: an inner Ethernet frame as it is,
// any other with a link layer of no meaning. It is nil where there is none.
func innerFrame(frame []byte) []byte {
	p := decode(frame)
	outer, ok := outerIPv6(p)
	if !ok {
		return nil
	}
	behind := false
	for _, l := range p.Layers() {
		if l == gopacket.Layer(outer) {
			behind = true
			continue
		}
		if !behind {
			continue
		}
		whole := append(append([]byte(nil), l.LayerContents()...), l.LayerPayload()...)
		switch l.LayerType() {
		case layers.LayerTypeEthernet:
			return whole
		case layers.LayerTypeIPv6:
			return linkLayer(layers.EthernetTypeIPv6, whole)
		case layers.LayerTypeIPv4:
			return linkLayer(layers.EthernetTypeIPv4, whole)
		}
	}
	return nil
}

func linkLayer(t layers.EthernetType, packet []byte) []byte {
	return append([]byte{12: byte(t >> 8), 13: byte(t)}, packet...)
}

func decode(frame []byte) gopacket.Packet {
	return gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
}

// haveHeader is the matcher of a header and its fields; every field that does
// not match is in the failure message.
func haveHeader[H any](what string, fields []field[H], find func(gopacket.Packet) (H, bool)) types.GomegaMatcher {
	for i, f := range fields {
		if i == 0 {
			what += " with "
		} else {
			what += ", "
		}
		what += f.name
	}
	return &frameMatcher{what: what, check: func(frame []byte) (string, error) {
		for _, f := range fields {
			if f.err != nil {
				return "", fmt.Errorf("%s: %w", f.name, f.err)
			}
		}
		p := decode(frame)
		h, ok := find(p)
		if bad := p.ErrorLayer(); !ok && bad != nil {
			return fmt.Sprintf("there is none that can be read: %v", bad.Error()), nil
		}
		if !ok {
			return "there is none", nil
		}
		var mismatches []string
		for _, f := range fields {
			if f.matcher == nil {
				continue
			}
			v := f.get(h)
			ok, err := f.matcher.Match(v)
			if err != nil {
				return "", fmt.Errorf("%s: %w", f.name, err)
			}
			if !ok {
				mismatches = append(mismatches, f.name+": "+f.matcher.FailureMessage(v))
			}
		}
		return strings.Join(mismatches, "\n"), nil
	}}
}

// number is a field compared with a number of any type, or by a matcher.
func number[H any](name string, want any, get func(H) any) field[H] {
	f := field[H]{name: name, get: get}
	switch m, ok := want.(types.GomegaMatcher); {
	case ok:
		f.matcher = m
	case want != nil && reflect.TypeOf(want).ConvertibleTo(reflect.TypeFor[float64]()):
		f.matcher = gomega.BeNumerically("==", want)
	default:
		f.err = fmt.Errorf("expected a number or a matcher, got %T", want)
	}
	return f
}

// ipv6Address is a field compared with an address; "" is not compared.
func ipv6Address(name, want string, get func(*layers.IPv6) any) IPv6Field {
	f := IPv6Field{name: name, get: get}
	if want != "" {
		a, err := address(want)
		f.matcher, f.err = gomega.Equal(a), err
	}
	return f
}

// address is an IPv6 address in the notation of RFC 5952, in which addresses
// are compared, so that a failure shows them as they are written.
func address(s string) (string, error) {
	a, err := netip.ParseAddr(s)
	if err == nil && !a.Is6() {
		err = fmt.Errorf("%s is no IPv6 address", s)
	}
	return a.String(), err
}

// text is a.String, but IPv4-mapped addresses too are written as IPv6.
func text(ip net.IP) string {
	a, _ := netip.AddrFromSlice(ip)
	return a.String()
}

func texts(addresses []netip.Addr) []string {
	s := make([]string, len(addresses))
	for i, a := range addresses {
		s[i] = a.String()
	}
	return s
}
