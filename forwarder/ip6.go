package forwarder

import "encoding/binary"

const ipv6MinMTU = 1280

// receive6 is ip6_rcv_core and what follows it: the checks of RFC 4291 and RFC
// 8200 that Linux makes, then the route.
func (w *Worker) receive6(p *packet) bool {
	b := p.bytes()
	if len(b) < ipv6Len || b[0]>>4 != 6 {
		return w.drop(dropMalformed)
	}
	src, dst := p.src6(), p.dst6()
	if isLoopback6(src) || isLoopback6(dst) || src[0] == 0xff || dst[0] == 0xff && dst[1]&0xf <= 1 {
		return w.drop(dropAddress)
	}
	p.transport, p.nhoff = p.net+ipv6Len, 6
	if payload := int(binary.BigEndian.Uint16(b[4:])); payload != 0 || b[6] != protoHopByHop {
		if ipv6Len+payload > len(b) {
			return w.drop(dropMalformed)
		}
		p.end = p.net + ipv6Len + payload
	}
	if b[6] == protoHopByHop && !w.hopByHop(p) {
		return false
	}
	if dst[0] == 0xff {
		return w.receiveMulticast6(p)
	}
	if isLinkLocal6(dst) {
		if w.f.own.has(addr16(dst)) {
			return w.deliver6(p, &linkLocalDst)
		}
		return w.drop(dropAddress)
	}
	return w.input(p, w.lookup6(p, *dst))
}

var linkLocalDst = dst{kind: local}

func isLoopback6(a *[16]byte) bool  { return *a == [16]byte{15: 1} }
func isLinkLocal6(a *[16]byte) bool { return a[0] == 0xfe && a[1]&0xc0 == 0x80 }

// receiveMulticast6 takes what is sent to the groups that a router listens to:
// all nodes, all routers and the solicited-node groups of its addresses.
func (w *Worker) receiveMulticast6(p *packet) bool {
	to := *p.dst6()
	switch {
	case to == [16]byte{0: 0xff, 1: 2, 15: 1}, to == [16]byte{0: 0xff, 1: 2, 15: 2}:
		return w.deliver6(p, &linkLocalDst)
	}
	for _, a := range w.f.own.list {
		if a.addr.Is6() && solicitedNode(a.addr) == to {
			return w.deliver6(p, &linkLocalDst)
		}
	}
	return w.drop(dropNotOurs)
}

// hop checks and decrements the hop limit ahead of forwarding.
func (w *Worker) hop(p *packet) bool {
	if p.hopDone {
		return true
	}
	at := p.net + 7
	if !p.v6 {
		at++
	}
	if p.buf[at] <= 1 {
		w.timeExceeded(p)
		return w.drop(dropHopLimit)
	}
	p.buf[at]--
	if !p.v6 {
		// The header checksum grows by what the word of the TTL shrinks
		// (RFC 1624).
		sum := uint32(binary.BigEndian.Uint16(p.buf[p.net+10:])) + 0x100
		binary.BigEndian.PutUint16(p.buf[p.net+10:], uint16(sum+sum>>16))
	}
	p.hopDone = true
	return true
}

// forward6 is ip6_forward, or ip6_output for packets of the router itself.
func (w *Worker) forward6(p *packet, d *dst) bool {
	b := p.buf[p.net:p.end]
	if !p.own && !w.mayForward6(p, d) {
		return false
	}
	if len(b) > max(d.mtu, ipv6MinMTU) {
		if !p.own {
			w.icmp6Error(p, icmp6PacketTooBig, 0, uint32(max(d.mtu, ipv6MinMTU)))
		}
		return w.drop(dropTooBig)
	}
	if !p.hopDone {
		b[7]--
	}
	if d.next != nil {
		return w.transmit(p, d.dev, d.next, d.via)
	}
	if p.isKnown {
		return w.transmit(p, d.dev, nil, addr16(&p.known))
	}
	return w.transmit(p, d.dev, nil, addr16(p.dst6()))
}

func (w *Worker) mayForward6(p *packet, d *dst) bool {
	switch {
	case !w.f.sys.forwarding6:
		return w.drop(dropNotForwarding)
	case !p.host:
		return w.drop(dropOtherHost)
	case !p.hopDone && p.buf[p.net+7] <= 1:
		w.timeExceeded(p)
		return w.drop(dropHopLimit)
	case d.dev == p.in && !p.srcrt:
		return true
	}
	src := p.src6()
	switch {
	case *src == [16]byte{}, src[0] == 0xff, isLoopback6(src):
		return w.drop(dropAddress)
	case isLinkLocal6(src):
		w.icmp6Error(p, icmp6Unreachable, icmp6BeyondScope, 0)
		return w.drop(dropAddress)
	}
	return true
}

// options is how ip6_parse_tlv takes an options header at off of b: the
// unrecognised option that has to be acted on, 0 for none, and whether the
// header is well-formed. Of the options router alert is known, hop by hop.
func options(b []byte, off int, hopByHop bool) (unknown int, ok bool) {
	if off+2 > len(b) {
		return 0, false
	}
	end := off + (int(b[off+1])+1)*8
	if end > len(b) {
		return 0, false
	}
	pad, count := 0, 0
	for at := off + 2; at < end; {
		kind := b[at]
		if kind == 0 {
			if pad++; pad > 7 {
				return 0, false
			}
			at++
			continue
		}
		if at+2 > end || at+2+int(b[at+1]) > end {
			return 0, false
		}
		length := int(b[at+1]) + 2
		if kind != 1 {
			if count++; count > maxOptions {
				return 0, false
			}
		}
		switch {
		case kind == 1:
			if pad += length; pad > 7 {
				return 0, false
			}
			for _, x := range b[at+2 : at+length] {
				if x != 0 {
					return 0, false
				}
			}
		case hopByHop && (kind == optRouterAlert && length != 4 || kind == optCALIPSO || kind == optIOAM && at%4 != 0):
			return 0, false
		case kind>>6 == 0:
			pad = 0
		default:
			return at, true
		}
		at += length
	}
	return 0, true
}

// Hop-by-hop options. Without a domain of interpretation no CALIPSO option is
// valid.
const (
	optRouterAlert = 5
	optCALIPSO     = 7
	optIOAM        = 0x31
	optJumbo       = 0xc2
)

// maxOptions is IP6_DEFAULT_MAX_HBH_OPTS_CNT, and as many for the destination.
const maxOptions = 8

// hopByHop is ipv6_parse_hopopts. Router alert is passed on; a jumbogram,
// longer than any frame, is dropped.
func (w *Worker) hopByHop(p *packet) bool {
	b := p.bytes()
	unknown, ok := options(b, ipv6Len, true)
	if !ok || unknown != 0 && b[unknown] == optJumbo {
		return w.drop(dropMalformed)
	}
	if unknown != 0 {
		return w.unknownOption(p, unknown)
	}
	p.nhoff = ipv6Len
	p.transport += (int(b[ipv6Len+1]) + 1) * 8
	return true
}

// unknownOption does what the two highest bits of the option ask (RFC 8200
// section 4.2); 00 never gets here.
func (w *Worker) unknownOption(p *packet, at int) bool {
	switch p.buf[p.net+at] >> 6 {
	case 2:
		w.icmp6Error(p, icmp6ParameterProblem, icmp6UnknownOption, uint32(at))
	case 3:
		if p.dst6()[0] != 0xff {
			w.icmp6Error(p, icmp6ParameterProblem, icmp6UnknownOption, uint32(at))
		}
	}
	return w.drop(dropProtocol)
}
