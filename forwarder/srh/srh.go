// Package srh is the codec of the IPv6 Segment Routing Header (RFC 8754):
// its fields, TLVs and HMAC, the arithmetic of compressed SIDs (RFC 9800) and
// a gopacket layer for routing type 4.
//
// It works on bytes alone. It may not open sockets, look at the host or import
// any other package of the project.
package srh

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Numbers from the IANA registries that the header and its payloads use.
const (
	Protocol    = 43  // IPv6 next header of a routing header
	RoutingType = 4   // routing type of the SRH, RFC 8754 section 8.1
	NoNext      = 59  // next header: nothing follows
	IPv4        = 4   // next header: IPv4 packet
	IPv6        = 41  // next header: IPv6 packet
	Ethernet    = 143 // next header: Ethernet frame, RFC 8986 section 10.1
)

const (
	fixedLen = 8  // bytes before the segment list
	segLen   = 16 // bytes of one segment

	// MaxLen is the length in bytes of the longest header that Hdr Ext Len can say.
	MaxLen = 8 + 8*255
	// MaxSegments is the number of segments that fit into MaxLen.
	MaxSegments = (MaxLen - fixedLen) / segLen
)

// Bits of the flags field. RFC 8754 assigns none of them. RFC 9259 assigns the O-flag
// (OAM); the HMAC bit is the one that Linux reads (SR6_FLAG1_HMAC), and the
// others come from the drafts and have names in Linux and Scapy.
const (
	FlagProtected = 1 << 6
	FlagOAM       = 1 << 5
	FlagAlert     = 1 << 4
	FlagHMAC      = 1 << 3
)

// ErrTruncated is wrapped by the error of Parse when the buffer ends before
// the header does.
var ErrTruncated = errors.New("truncated")

// View is an encoded SRH, from its next header field to its last TLV and no
// further. It reads and writes the fields in place and allocates nothing.
// A View comes from Parse, which has checked every length: on other bytes its
// methods may panic.
type View []byte

// Parse checks the SRH at the start of b and returns it without what follows
// it. The checks are those of RFC 8754 sections 2 and 4.3.1.1: the routing type,
// the header within b, at least one segment, Last Entry within the
// header, Segments Left at most Last Entry + 1, every TLV within the header.
//
// Linux is stricter in one point, see View.LinuxTLVs.
func Parse(b []byte) (View, error) {
	if len(b) < fixedLen {
		return nil, fmt.Errorf("srh: %w: %d bytes, the fixed part has %d", ErrTruncated, len(b), fixedLen)
	}
	n := 8 + 8*int(b[1])
	if b[2] != RoutingType {
		return nil, fmt.Errorf("srh: routing type is %d, not %d", b[2], RoutingType)
	}
	if n > len(b) {
		return nil, fmt.Errorf("srh: %w: hdr ext len %d says %d bytes, there are %d", ErrTruncated, b[1], n, len(b))
	}
	v := View(b[:n:n])
	if fit := int(b[1])/2 - 1; int(v.LastEntry()) > fit {
		return nil, fmt.Errorf("srh: last entry %d is past the header: hdr ext len %d holds %d segments", v.LastEntry(), b[1], fit+1)
	}
	if int(v.SegmentsLeft()) > int(v.LastEntry())+1 {
		return nil, fmt.Errorf("srh: segments left %d is more than last entry %d + 1", v.SegmentsLeft(), v.LastEntry())
	}
	tlvs := v.TLVs()
	for at := 0; at < len(tlvs); {
		size := tlvSize(tlvs[at:])
		if size > len(tlvs)-at {
			return nil, fmt.Errorf("srh: TLV of type %d at offset %d is past the header", tlvs[at], fixedLen+segLen*v.Segments()+at)
		}
		at += size
	}
	return v, nil
}

// NextHeader is the protocol number of what follows.
func (v View) NextHeader() uint8 { return v[0] }

// HdrExtLen is the length of the header in units of 8 bytes, less the first.
func (v View) HdrExtLen() uint8 { return v[1] }

// SegmentsLeft is the index of the active segment.
func (v View) SegmentsLeft() uint8 { return v[3] }

// LastEntry is the index of the last element of the segment list.
func (v View) LastEntry() uint8 { return v[4] }

// Flags is the flags field.
func (v View) Flags() uint8 { return v[5] }

// Tag is the tag field.
func (v View) Tag() uint16 { return binary.BigEndian.Uint16(v[6:]) }

// Segments is the number of elements of the segment list.
func (v View) Segments() int { return int(v.LastEntry()) + 1 }

// Segment points at element i of the segment list: 0 is the last segment of
// the path. It panics when i is past Last Entry and past the header.
func (v View) Segment(i int) *[16]byte { return (*[16]byte)(v[fixedLen+segLen*i:]) }

// TLVs is what follows the segment list.
func (v View) TLVs() []byte { return v[fixedLen+segLen*v.Segments():] }

// SetNextHeader sets the protocol number of what follows.
func (v View) SetNextHeader(proto uint8) { v[0] = proto }

// SetSegmentsLeft sets the index of the active segment.
func (v View) SetSegmentsLeft(n uint8) { v[3] = n }

// Header is a decoded SRH. HdrExtLen is not a field: it follows from the
// segments and TLVs.
type Header struct {
	NextHeader   uint8
	SegmentsLeft uint8
	LastEntry    uint8
	Flags        uint8
	Tag          uint16
	Segments     []netip.Addr // in the order of the header: the last segment of the path first
	TLVs         []TLV
}

// New is the SRH of a path given in the order of travel, as
// H.Encaps and H.Insert write it: the list reversed, the first segment active.
// For H.Insert the original destination is the last segment of the path.
func New(nextHeader uint8, path ...netip.Addr) *Header {
	h := &Header{NextHeader: nextHeader, Segments: make([]netip.Addr, len(path))}
	for i, a := range path {
		h.Segments[len(path)-1-i] = a
	}
	h.LastEntry = uint8(len(path) - 1)
	h.SegmentsLeft = h.LastEntry
	return h
}

// NewReduced is the SRH of a path as H.Encaps.Red writes it (RFC 8986
// section 5.2): the first segment, which the destination address holds, is left
// out of the list. It is nil for a path of one segment, which needs no SRH.
func NewReduced(nextHeader uint8, path ...netip.Addr) *Header {
	if len(path) < 2 {
		return nil
	}
	h := New(nextHeader, path[1:]...)
	h.SegmentsLeft++
	return h
}

// Decode reads the SRH at the start of b, checked as by Parse, and returns how
// many bytes it has.
func Decode(b []byte) (*Header, int, error) {
	v, err := Parse(b)
	if err != nil {
		return nil, 0, err
	}
	h := &Header{
		NextHeader: v.NextHeader(), SegmentsLeft: v.SegmentsLeft(), LastEntry: v.LastEntry(),
		Flags: v.Flags(), Tag: v.Tag(), Segments: make([]netip.Addr, v.Segments()),
	}
	for i := range h.Segments {
		h.Segments[i] = netip.AddrFrom16(*v.Segment(i))
	}
	h.TLVs = decodeTLVs(v.TLVs())
	return h, len(v), nil
}

// Len is the length of the encoded header in bytes, padding included.
func (h *Header) Len() int {
	n := fixedLen + segLen*len(h.Segments)
	for _, t := range h.TLVs {
		n += t.Len()
	}
	return (n + 7) &^ 7
}

// AppendBinary appends the encoded header to b. TLVs that do not end on a
// multiple of 8 bytes are followed by a Pad1 or a PadN, before the HMAC TLV
// if that is the last one, since Linux looks for it at the very end.
func (h *Header) AppendBinary(b []byte) ([]byte, error) {
	n := h.Len()
	if n > MaxLen {
		return b, fmt.Errorf("srh: header of %d bytes: at most %d can be encoded", n, MaxLen)
	}
	b = append(b, h.NextHeader, uint8(n/8-1), RoutingType, h.SegmentsLeft, h.LastEntry, h.Flags, uint8(h.Tag>>8), uint8(h.Tag))
	pad := n - fixedLen - segLen*len(h.Segments)
	for _, s := range h.Segments {
		if !s.Is6() {
			return b, fmt.Errorf("srh: segment %v is not an IPv6 address", s)
		}
		a := s.As16()
		b = append(b, a[:]...)
	}
	for _, t := range h.TLVs {
		pad -= t.Len()
	}
	var err error
	for i, t := range h.TLVs {
		if i == len(h.TLVs)-1 && t.Type == TLVHMAC {
			b, pad = appendPad(b, pad), 0
		}
		if b, err = t.AppendBinary(b); err != nil {
			return b, err
		}
	}
	return appendPad(b, pad), nil
}
