package seg6

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// SRH is the Segment Routing Header (RFC 8754 section 2) that a route keeps as
// a template: of struct ipv6_sr_hdr only what a route can choose.
type SRH struct {
	// Segs are the segments in the order of travel.
	Segs []netip.Addr
	// HMACKeyID is the id of the key that signs the header (RFC 8754 section
	// 2.1.2); 0 for no HMAC TLV.
	HMACKeyID uint32
}

const (
	srhHeader   = 8 // struct ipv6_sr_hdr before the segments
	srhType     = 4 // RFC 8754 section 2, Routing Type
	srhFlagHMAC = 1 << 3
	hmacTLV     = 40 // struct sr6_tlv_hmac
	hmacTLVType = 5
)

// encode returns the template. With inline, one more entry than there are
// segments is written at index 0: the kernel puts the destination of the packet
// there (__seg6_do_srh_inline).
func (s *SRH) encode(inline bool) ([]byte, error) {
	if len(s.Segs) == 0 {
		return nil, fmt.Errorf("no segments: give at least one IPv6 address")
	}
	entries := slices.Clone(s.Segs)
	slices.Reverse(entries)
	if inline {
		entries = slices.Insert(entries, 0, netip.IPv6Unspecified())
	}
	size := srhHeader + 16*len(entries)
	var flags byte
	if s.HMACKeyID != 0 {
		size += hmacTLV
		flags = srhFlagHMAC
	}
	// Hdr Ext Len counts units of 8 bytes after the first, in one byte.
	if size/8-1 > 255 {
		return nil, fmt.Errorf("%d segments do not fit into one SRH of at most 2048 bytes: it would need %d", len(s.Segs), size)
	}
	last := byte(len(entries) - 1)
	b := make([]byte, 0, size)
	b = append(b, 0, byte(size/8-1), srhType, last, last, flags, 0, 0)
	for i, seg := range entries {
		// netip.Addr.As16 would map an IPv4 address into IPv6 in silence.
		if !seg.Is6() || seg.Zone() != "" {
			if !seg.IsValid() {
				return nil, fmt.Errorf("segment %d is missing", len(entries)-i)
			}
			return nil, fmt.Errorf("segment %s is not a plain IPv6 address", seg)
		}
		b = append(b, seg.AsSlice()...)
	}
	if s.HMACKeyID != 0 {
		b = append(b, hmacTLVType, hmacTLV-2, 0, 0)
		b = binary.BigEndian.AppendUint32(b, s.HMACKeyID)
		b = append(b, make([]byte, 32)...)
	}
	return b, nil
}

// decode reads a template back. With inline, the entry at index 0 is left out.
func (s *SRH) decode(b []byte, inline bool) error {
	if len(b) < srhHeader {
		return fmt.Errorf("SRH of %d bytes", len(b))
	}
	size, kind, entries, flags := (int(b[1])+1)*8, b[2], int(b[4])+1, b[5]
	if kind != srhType {
		return fmt.Errorf("routing type %d instead of %d", kind, srhType)
	}
	end := srhHeader + 16*entries
	if size > len(b) || end > size {
		return fmt.Errorf("SRH of %d bytes with %d entries in %d bytes", size, entries, len(b))
	}
	*s = SRH{}
	first := 0
	if inline {
		first = 1
	}
	for i := entries - 1; i >= first; i-- {
		s.Segs = append(s.Segs, netip.AddrFrom16([16]byte(b[srhHeader+16*i:])))
	}
	if flags&srhFlagHMAC != 0 {
		// The HMAC TLV is the last one (seg6_get_tlv_hmac).
		if size-end < hmacTLV {
			return fmt.Errorf("HMAC flag without room for the HMAC TLV")
		}
		tlv := b[size-hmacTLV:]
		if tlv[0] != hmacTLVType {
			return fmt.Errorf("TLV of type %d where the HMAC TLV belongs", tlv[0])
		}
		s.HMACKeyID = binary.BigEndian.Uint32(tlv[4:])
	}
	return nil
}

// text is the header in iproute2's words. iproute2 shows the entry that the
// kernel fills in for inline, and so does text.
func (s *SRH) text(inline bool) string {
	n := len(s.Segs)
	var b strings.Builder
	if inline {
		n++
	}
	fmt.Fprintf(&b, "segs %d [ ", n)
	for _, seg := range s.Segs {
		fmt.Fprintf(&b, "%s ", seg)
	}
	if inline {
		b.WriteString(":: ")
	}
	b.WriteString("]")
	if s.HMACKeyID != 0 {
		fmt.Fprintf(&b, " hmac %#x", s.HMACKeyID)
	}
	return b.String()
}

func (s *SRH) equal(o *SRH) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.HMACKeyID == o.HMACKeyID && slices.Equal(s.Segs, o.Segs)
}
