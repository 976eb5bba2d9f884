package forwarder

import (
	"encoding/binary"

	"seg6lab/forwarder/srh"
)

// deliver6 is ip6_protocol_deliver_rcu for a packet to the router itself:
// extension headers, neighbour discovery and echo requests. What is meant for
// a socket finds none.
func (w *Worker) deliver6(p *packet, d *dst) bool {
	if p.own {
		w.drop(dropNotOurs)
		return true
	}
	for {
		b := p.bytes()
		off := p.transport - p.net
		if off > len(b) {
			return w.drop(dropMalformed)
		}
		proto := b[p.nhoff]
		if !isExtension(proto) && proto != protoICMPv6 && w.toHost(p) {
			return true
		}
		switch proto {
		case protoRouting:
			if goOn, verdict := w.routingHeader(p); !goOn {
				return verdict
			}
		case protoDestOpts:
			unknown, ok := options(b, off, false)
			if !ok {
				return w.drop(dropMalformed)
			}
			if unknown != 0 {
				return w.unknownOption(p, unknown)
			}
			p.nhoff = off
			p.transport += (int(b[off+1]) + 1) * 8
		case protoICMPv6:
			return w.receiveICMP6(p, d)
		case protoUDP:
			if udp6(b, b[off:]) {
				w.icmp6Error(p, icmp6Unreachable, icmp6PortUnreachable, 0)
			}
			return w.drop(dropNotOurs)
		case protoFragment:
			if !w.fragment6(p, off) {
				return false
			}
		case protoTCP, protoNone:
			return w.drop(dropNotOurs)
		default:
			w.icmp6Error(p, icmp6ParameterProblem, icmp6UnknownHeader, uint32(p.nhoff))
			return w.drop(dropProtocol)
		}
	}
}

// fragment6 is ipv6_frag_rcv without reassembly: a fragment that is the whole
// packet goes on (RFC 6946), a malformed one is reported, others are dropped.
func (w *Worker) fragment6(p *packet, off int) bool {
	b := p.bytes()
	if p.fragmented || binary.BigEndian.Uint16(b[4:]) == 0 || off+8 > len(b) {
		w.icmp6Error(p, icmp6ParameterProblem, 0, uint32(off))
		return w.drop(dropMalformed)
	}
	field := binary.BigEndian.Uint16(b[off+2:])
	end := int(field&^7) + len(b) - off - 8
	switch {
	case field&^6 == 0:
		p.fragmented = true
		p.nhoff = off
		p.transport += 8
		return true
	case incomplete(b):
		w.icmp6Error(p, icmp6ParameterProblem, icmp6IncompleteChain, 0)
	case end > 0xffff:
		w.icmp6Error(p, icmp6ParameterProblem, 0, uint32(off+2))
	case field&1 != 0 && end%8 != 0:
		w.icmp6Error(p, icmp6ParameterProblem, 0, 4)
	case w.toHost(p):
		return false
	}
	return w.drop(dropNotOurs)
}

// incomplete is ipv6frag_thdr_truncated: a first fragment without all headers up
// to that of the upper layer (RFC 8200 section 4.5).
func incomplete(b []byte) bool {
	proto, off, fragment, ok := skipExtensions(b)
	if !ok || fragment&^7 != 0 {
		return false
	}
	switch proto {
	case protoTCP:
		off += 20
	case protoUDP, protoICMPv6:
		off += 8
	default:
		off++
	}
	return off > len(b)
}

// rplRouting is the routing type of RFC 6554.
const rplRouting = 3

// routingHeader is ipv6_rthdr_rcv. With goOn the next header is to be looked
// at.
func (w *Worker) routingHeader(p *packet) (goOn, verdict bool) {
	b := p.bytes()
	off := p.transport - p.net
	if off+8 > len(b) || off+(int(b[off+1])+1)*8 > len(b) {
		return false, w.drop(dropMalformed)
	}
	if p.dst6()[0] == 0xff || !p.host {
		return false, w.drop(dropAddress)
	}
	length := (int(b[off+1]) + 1) * 8
	switch b[off+2] {
	case rplRouting:
		// Linux takes it only with rpl_seg_enabled.
		return false, w.drop(dropSegmentRouting)
	case srh.RoutingType:
		if done, verdict := w.localSRH(p, off, length); done {
			return false, verdict
		}
	default:
		if b[off+segmentsLeftOffset] != 0 {
			w.icmp6Error(p, icmp6ParameterProblem, 0, uint32(off+2))
			return false, w.drop(dropProtocol)
		}
	}
	p.srcrt = true
	p.nhoff = off
	p.transport += length
	return true, true
}

// localSRH is ipv6_srh_rcv: the SRH of a packet to an address of the router
// that is no SID. Without done its next header is to be looked at.
func (w *Worker) localSRH(p *packet, off, length int) (done, verdict bool) {
	if p.in == nil || !p.in.seg6Enabled {
		return true, w.drop(dropSegmentRouting)
	}
	b := p.bytes()
	v := srh.View(b[off : off+length])
	if !w.hmacAllows(p, off) {
		return true, w.drop(dropHMAC)
	}
	for v.SegmentsLeft() != 0 {
		if v.SegmentsLeft() >= v.HdrExtLen()/2 {
			w.icmp6Error(p, icmp6ParameterProblem, 0, uint32(off+segmentsLeftOffset))
			return true, w.drop(dropSegmentRouting)
		}
		p.advance(v)
		d := w.lookup6(p, *p.dst6())
		if d == nil || !d.isLoopback() {
			return true, w.input(p, d)
		}
		if !w.hop(p) {
			return true, false
		}
		p.hopDone = false
	}
	if next := v.NextHeader(); next == srh.IPv6 || next == srh.IPv4 {
		if w.f.quirks.L2TakesOuterHeaders {
			p.mac = append(p.mac, b[:off+length]...)
		}
		p.net += off + length
		p.v6 = next == srh.IPv6
		if p.depth++; p.depth > maxDepth {
			return true, w.drop(dropLoop)
		}
		if p.v6 {
			return true, w.receive6(p)
		}
		return true, w.receive4(p)
	}
	return false, true
}

// receiveICMP6 takes an ICMPv6 message to the router.
func (w *Worker) receiveICMP6(p *packet, d *dst) bool {
	ip := p.bytes()
	b := p.buf[p.transport:p.end]
	if len(b) < 8 || checksum6(ip, protoICMPv6, b) != 0 {
		return w.drop(dropMalformed)
	}
	switch b[0] {
	case icmp6EchoRequest:
		w.echo6(p, d, b)
	case ndSolicitation, ndAdvertisement:
		w.receiveND(p, b)
	default:
		if !w.toHost(p) {
			w.drop(dropNotOurs)
		}
	}
	return true
}

// echo6 answers an echo request (RFC 4443 section 4.2).
func (w *Worker) echo6(p *packet, d *dst, message []byte) {
	r := &w.reply
	r.begin(p)
	r.v6 = true
	r.end = r.net + ipv6Len + copy(r.buf[r.net+ipv6Len:], message)
	b := r.bytes()
	class := binary.BigEndian.Uint32(p.bytes()) & 0x0ff00000
	binary.BigEndian.PutUint32(b, 6<<28|class)
	b[6], b[7] = protoICMPv6, 64
	*r.dst6() = *p.src6()
	*r.src6() = *p.dst6()
	if d.anycast || p.dst6()[0] == 0xff {
		a := w.f.own.source6(p.in, addr16(p.src6()))
		if !a.IsValid() {
			return
		}
		*r.src6() = a.As16()
	}
	b[ipv6Len] = icmp6EchoReply
	w.finish6(r)
}

// begin makes r a packet of the router itself that answers p.
func (r *packet) begin(p *packet) {
	buf := r.buf
	*r = packet{buf: buf, net: headroom, end: headroom, own: true, hopDone: true, host: true, in: p.in, domain: p.domain}
}

// finish6 completes an ICMPv6 message of the router and sends it.
func (w *Worker) finish6(r *packet) {
	r.setPayloadLen()
	b := r.bytes()
	b[ipv6Len+2], b[ipv6Len+3] = 0, 0
	binary.BigEndian.PutUint16(b[ipv6Len+2:], checksum6(b, protoICMPv6, b[ipv6Len:]))
	if isLinkLocal6(r.dst6()) {
		w.transmit(r, r.in, nil, addr16(r.dst6()))
		return
	}
	w.input(r, w.lookup6(r, *r.dst6()))
}
