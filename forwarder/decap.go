package forwarder

import (
	"encoding/binary"
	"net/netip"

	"seg6lab/forwarder/srh"
)

func addr16(b *[16]byte) netip.Addr { return netip.AddrFrom16(*b) }

// exposed is decap_and_validate: what is inside the packet, of the wanted
// protocol, becomes the packet. With a NEXT-CSID argument left, the next SID
// of the destination takes over instead (RFC 9800 section 4.1).
func (w *Worker) exposed(p *packet, e *endpoint, proto byte) bool {
	v, off := w.segmentRouting(p, false)
	if v != nil && v.SegmentsLeft() > 0 {
		return w.refuse(p, 0, off+segmentsLeftOffset)
	}
	if v != nil && !w.hmacAllows(p, off) {
		return w.drop(dropHMAC)
	}
	_, at, ok := findHeader(p.bytes(), int(proto), false)
	if !ok {
		return w.refuse(p, upperLayerError, at)
	}
	return w.decapsulate(p, proto, at)
}

// leastLen is how long at least a packet of a protocol is.
var leastLen = [256]uint8{srh.IPv6: ipv6Len, srh.IPv4: ipv4Len, srh.Ethernet: etherLen}

// decapsulate makes what begins at off the packet.
func (w *Worker) decapsulate(p *packet, proto byte, off int) bool {
	least := int(leastLen[proto])
	if p.len() < off+least {
		return w.drop(dropMalformed)
	}
	p.net += off
	p.v6 = proto == srh.IPv6
	p.transport, p.nhoff = p.net+least, 6
	if ihl := int(p.buf[p.net]&0xf) * 4; proto == srh.IPv4 && !w.f.quirks.DecapIgnoresOptions {
		if ihl < ipv4Len || p.net+ihl > p.end {
			return w.drop(dropMalformed)
		}
		p.transport = p.net + ihl
	}
	return true
}

// shifted is RFC 9800 section 4.1 for the decapsulating behaviours: true when
// the destination held a further CSID, which is then active and was forwarded
// with the given verdict.
func (w *Worker) shifted(p *packet, e *endpoint) (verdict, done bool) {
	if e.flavors&nextCSID == 0 || !e.csid.HasArgument(p.dst6()) {
		return false, false
	}
	e.csid.Advance(p.dst6())
	return w.input(p, w.lookup6(p, *p.dst6())), true
}

func (w *Worker) endDX6(p *packet, e *endpoint) bool {
	if verdict, done := w.shifted(p, e); done {
		return verdict
	}
	if !w.exposed(p, e, srh.IPv6) {
		return false
	}
	return w.onward(p, e)
}

func (w *Worker) endDX4(p *packet, e *endpoint) bool {
	if verdict, done := w.shifted(p, e); done {
		return verdict
	}
	if !w.exposed(p, e, srh.IPv4) {
		return false
	}
	to := *p.dst4()
	if e.hasNH4 {
		to = e.nh4
		if !w.f.quirks.DX4NextHopUnused {
			p.known4, p.isKnown = e.nh4, true
		}
	}
	return w.input4(p, to, false)
}

func (w *Worker) endDT6(p *packet, e *endpoint) bool {
	if verdict, done := w.shifted(p, e); done {
		return verdict
	}
	if !w.exposed(p, e, srh.IPv6) {
		return false
	}
	if e.vrf == nil {
		return w.input(p, e.inTable(addr16(p.dst6())))
	}
	p.enter(e.vrf)
	return w.input(p, w.lookup6(p, *p.dst6()))
}

func (w *Worker) endDT4(p *packet, e *endpoint) bool {
	if verdict, done := w.shifted(p, e); done {
		return verdict
	}
	if !w.exposed(p, e, srh.IPv4) {
		return false
	}
	p.enter(e.vrf)
	return w.input4(p, *p.dst4(), false)
}

func (w *Worker) endDT46(p *packet, e *endpoint) bool {
	if verdict, done := w.shifted(p, e); done {
		return verdict
	}
	switch proto, off, ok := findHeader(p.bytes(), anyUpper, false); {
	case ok && proto == srh.IPv4:
		return w.endDT4(p, e)
	case ok && proto == srh.IPv6:
		return w.endDT6(p, e)
	default:
		return w.refuse(p, upperLayerError, off)
	}
}

// enter puts the packet into a VRF, which has no link-layer header to show
// (end_dt_vrf_rcv).
func (p *packet) enter(vrf *domain) {
	p.domain = vrf
	p.mac = p.mac[:0]
}

func (w *Worker) endDX2(p *packet, e *endpoint) bool {
	if verdict, done := w.shifted(p, e); done {
		return verdict
	}
	if !w.exposed(p, e, srh.Ethernet) {
		return false
	}
	b := p.bytes()
	switch {
	case w.f.quirks.DX2DropsLLC && binary.BigEndian.Uint16(b[12:]) < minEtherType:
		return w.drop(dropProtocol)
	case len(b)-etherLen > e.oif.mtu:
		return w.drop(dropTooBig)
	}
	w.sendFrame(p, e.oif, p.net)
	return true
}

// endB6Insert is input_action_end_b6: the SRH of the policy goes in front of
// the packet's own, which is left as it is.
func (w *Worker) endB6Insert(p *packet, e *endpoint) bool {
	v, off := w.segmentRouting(p, true)
	if v == nil {
		return w.refuse(p, 0, off+segmentsLeftOffset)
	}
	if !w.hmacAllows(p, off) {
		return w.drop(dropHMAC)
	}
	if !w.insert(p, e.srh) {
		return false
	}
	return w.onward(p, e)
}

// endB6Encaps is input_action_end_b6_encap (RFC 8986 section 4.13).
func (w *Worker) endB6Encaps(p *packet, e *endpoint) bool {
	v, off := w.segmentRouting(p, true)
	if v == nil || v.SegmentsLeft() == 0 {
		return w.refuse(p, 0, off+segmentsLeftOffset)
	}
	if !w.hmacAllows(p, off) {
		return w.drop(dropHMAC)
	}
	p.advance(v)
	if !w.encapsulate(p, e.srh) {
		return false
	}
	return w.onward(p, e)
}
