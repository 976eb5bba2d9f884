package forwarder

import (
	"encoding/binary"

	"seg6lab/forwarder/srh"
)

// Protocol numbers.
const (
	protoHopByHop = 0
	protoICMP     = 1
	protoTCP      = 6
	protoUDP      = 17
	protoRouting  = 43
	protoFragment = 44
	protoAuth     = 51
	protoICMPv6   = 58
	protoNone     = 59
	protoDestOpts = 60
)

// isExtension is ipv6_ext_hdr.
func isExtension(proto byte) bool {
	switch proto {
	case protoHopByHop, protoRouting, protoFragment, protoAuth, protoNone, protoDestOpts:
		return true
	}
	return false
}

// anyUpper asks findHeader for the first header that is not an extension.
const anyUpper = -1

// findHeader is ipv6_find_hdr over a packet from its IPv6 header on: the
// protocol and offset of the first header of the wanted protocol, or of the
// upper-layer header. With skipDone routing headers with segments left 0 do
// not count. It is false when there is none, or not where it can be known.
func findHeader(b []byte, target int, skipDone bool) (proto byte, off int, ok bool) {
	proto, off = b[6], ipv6Len
	for {
		found := int(proto) == target
		if !isExtension(proto) || proto == protoNone {
			return proto, off, found || target == anyUpper
		}
		if off+2 > len(b) {
			return 0, 0, false
		}
		length := (int(b[off+1]) + 1) * 8
		switch proto {
		case protoRouting:
			if off+4 > len(b) {
				return 0, 0, false
			}
			if skipDone && b[off+3] == 0 {
				found = false
			}
		case protoFragment:
			if off+4 > len(b) {
				return 0, 0, false
			}
			if binary.BigEndian.Uint16(b[off+2:])&^7 != 0 {
				next := b[off]
				if target == anyUpper && (!isExtension(next) || next == protoNone) {
					return next, off, true
				}
				return proto, off, found
			}
			length = 8
		case protoAuth:
			length = (int(b[off+1]) + 2) * 4
		}
		if found {
			return proto, off, true
		}
		proto, off = b[off], off+length
	}
}

// skipExtensions is ipv6_skip_exthdr over a packet from its IPv6 header on: the
// protocol and offset of the upper-layer header, or of the header of a fragment that
// is not the first; and the offset field of a fragment. It is false when the
// packet ends before that, or has no next header.
func skipExtensions(b []byte) (proto byte, off int, fragment uint16, ok bool) {
	proto, off = b[6], ipv6Len
	for isExtension(proto) {
		if proto == protoNone || off+2 > len(b) {
			return 0, 0, 0, false
		}
		length := (int(b[off+1]) + 1) * 8
		switch proto {
		case protoFragment:
			if off+4 > len(b) {
				return 0, 0, 0, false
			}
			if fragment = binary.BigEndian.Uint16(b[off+2:]); fragment&^7 != 0 {
				return proto, off, fragment, true
			}
			length = 8
		case protoAuth:
			length = (int(b[off+1]) + 2) * 4
		}
		proto, off = b[off], off+length
	}
	return proto, off, fragment, true
}

// segmentRouting is seg6_get_srh: the SRH of the packet and its offset from
// the IPv6 header, nil without a valid one.
func (w *Worker) segmentRouting(p *packet, skipDone bool) (srh.View, int) {
	b := p.bytes()
	_, off, ok := findHeader(b, protoRouting, skipDone)
	if !ok || off > len(b) {
		return nil, 0
	}
	if w.f.quirks.TLVsWithoutPad1 {
		return linuxSRH(b[off:]), off
	}
	v, err := srh.Parse(b[off:])
	if err != nil {
		return nil, off
	}
	return v, off
}

// linuxSRH is seg6_validate_srh for a received, perhaps reduced SRH. It differs
// from srh.Parse in the TLVs only.
func linuxSRH(b []byte) srh.View {
	if len(b) < 8 || b[2] != srh.RoutingType {
		return nil
	}
	v := srh.View(b)
	length := (int(v.HdrExtLen()) + 1) * 8
	if length > len(b) || v.Segments() > int(v.HdrExtLen())/2 || int(v.SegmentsLeft()) > v.Segments() {
		return nil
	}
	if v = v[:length]; !v.LinuxTLVs() {
		return nil
	}
	return v
}
