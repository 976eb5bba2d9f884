package forwarder

import (
	"seg6lab/forwarder/srh"
)

// upperLayerError is the code "SR Upper-layer Header Error" of a parameter
// problem (RFC 8986 section 4.1.1).
const upperLayerError = 4

// segmentsLeftOffset is where an SRH has its Segments Left.
const segmentsLeftOffset = 3

// end is End, End.X and End.T, which differ in the route of the result only:
// RFC 8986 sections 4.1 to 4.3 and 4.16, RFC 9800 section 4.1.
func (w *Worker) end(p *packet, e *endpoint) bool {
	q := &w.f.quirks
	if e.flavors&nextCSID != 0 && e.csid.HasArgument(p.dst6()) {
		if !q.HopLimitAfterEdit && !w.hop(p) {
			return false
		}
		if !q.CSIDIgnoresSRH {
			if v, off := w.segmentRouting(p, false); v != nil && !w.hmacAllows(p, off) {
				return w.drop(dropHMAC)
			}
		}
		e.csid.Advance(p.dst6())
		return w.onward(p, e)
	}
	flavors := e.flavors &^ nextCSID
	if q.CSIDWithoutPSP && flavors != e.flavors {
		flavors &^= psp
	}
	v, off := w.segmentRouting(p, flavors == 0 && q.UpperLayerDrop)
	switch {
	case v == nil && off != 0:
		return w.refuse(p, 0, off+segmentsLeftOffset)
	case v == nil:
		return w.upperLayer(p, e)
	case !w.hmacAllows(p, off):
		return w.drop(dropHMAC)
	case v.SegmentsLeft() == 0:
		if flavors&usp != 0 && !p.popSRH(v, off) {
			return w.drop(dropSegmentRouting)
		}
		return w.upperLayer(p, e)
	case !q.HopLimitAfterEdit && !w.hop(p):
		return false
	}
	p.advance(v)
	if flavors&psp != 0 && v.SegmentsLeft() == 0 && !p.popSRH(v, off) {
		return w.drop(dropSegmentRouting)
	}
	return w.onward(p, e)
}

// advance makes the next segment the destination: advance_nextseg.
func (p *packet) advance(v srh.View) {
	left := v.SegmentsLeft() - 1
	v.SetSegmentsLeft(left)
	*p.dst6() = *v.Segment(int(left))
}

// onward forwards the packet by the route that the behaviour asks for:
// seg6_lookup_nexthop.
func (w *Worker) onward(p *packet, e *endpoint) bool {
	var d *dst
	switch {
	case e.tableID != 0:
		d = e.inTable(addr16(p.dst6()))
	case e.hasNH6:
		d = w.lookup6(p, e.nh6)
		p.known, p.isKnown = e.nh6, true
	default:
		d = w.lookup6(p, *p.dst6())
	}
	if d != nil && d.isLoopback() {
		d = blackholeDst
	}
	return w.input(p, d)
}

// upperLayer is what comes behind the last segment (RFC 8986 sections 4.1.1
// and 4.16.3): USD forwards the packet inside, anything else is for the node.
func (w *Worker) upperLayer(p *packet, e *endpoint) bool {
	proto, off, ok := findHeader(p.bytes(), anyUpper, false)
	if ok && e.flavors&usd != 0 && (proto == srh.IPv6 || proto == srh.IPv4) {
		if !w.decapsulate(p, proto, off) {
			return false
		}
		if p.v6 {
			return w.input(p, w.lookup6(p, *p.dst6()))
		}
		return w.input(p, w.lookup4(p, *p.dst4()))
	}
	if w.f.quirks.UpperLayerDrop && e.flavors&(usp|usd) == 0 {
		return w.drop(dropSegmentRouting)
	}
	if !ok || proto != protoICMPv6 {
		return w.refuse(p, upperLayerError, off)
	}
	p.transport = p.net + off
	return w.receiveICMP6(p, &linkLocalDst)
}

// popSRH takes the SRH at off out of the packet (RFC 8986 section 4.16.1:
// seg6_pop_srh). It is false when no next-header field names the SRH.
func (p *packet) popSRH(v srh.View, off int) bool {
	b, n, next := p.bytes(), len(v), v.NextHeader()
	field := 6
	for at := ipv6Len; b[field] != protoRouting; {
		kind := b[field]
		if !isExtension(kind) || kind == protoNone || at+2 > off {
			return false
		}
		field = at
		if b[field] != protoRouting && (kind == protoFragment || kind == protoAuth) {
			return false
		}
		at += (int(b[at+1]) + 1) * 8
	}
	b[field] = next
	copy(b[n:n+off], b[:off])
	p.net += n
	p.setPayloadLen()
	p.transport = p.net + ipv6Len
	return true
}
