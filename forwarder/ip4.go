package forwarder

import (
	"encoding/binary"
	"net/netip"
)

// receive4 is ip_rcv_core and ip_route_input: the checks of RFC 1122 that
// Linux makes, without reverse-path filtering, then the route.
func (w *Worker) receive4(p *packet) bool {
	b := p.bytes()
	if len(b) < ipv4Len {
		return w.drop(dropMalformed)
	}
	header, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
	if b[0]>>4 != 4 || header < ipv4Len || total < header || total > len(b) || checksum(b[:header]) != 0 {
		return w.drop(dropMalformed)
	}
	p.end = p.net + total
	p.transport = p.net + header
	return w.input4(p, *p.dst4(), header > ipv4Len)
}

// input4 is ip_route_input and dst_input: to is what is looked up, the
// destination or a next hop. A packet that was received has its options
// checked, one that was decapsulated has not.
func (w *Worker) input4(p *packet, to [4]byte, options bool) bool {
	if src := *p.src4(); martian4(src) || w.f.own.has(netip.AddrFrom4(src)) || to[0] == 127 || to == [4]byte{} {
		return w.drop(dropAddress)
	}
	if to[0] >= 224 {
		return w.drop(dropNotOurs)
	}
	d := w.lookup4(p, to)
	switch {
	case d == nil && !w.f.sys.forwarding4:
		return w.drop(dropNotForwarding)
	case d != nil && d.kind == toAll:
		// Nothing of the router listens, and no error answers a broadcast.
		w.drop(dropNotOurs)
		return true
	}
	if options {
		if at := badOption4(p.bytes()); at != 0 {
			w.icmp4Error(p, d != nil && d.kind == local, icmp4ParameterProblem, 0, uint32(at)<<24)
			return w.drop(dropMalformed)
		}
	}
	switch {
	case d == nil:
		return w.noRoute4(p, noRoute)
	case d.kind == unreachable:
		return w.noRoute4(p, hostUnreachable)
	case d.kind == prohibit:
		return w.noRoute4(p, adminProhibited)
	}
	return w.input(p, d)
}

// IPv4 options (RFC 791 section 3.1, RFC 2113).
const (
	opt4End         = 0
	opt4Nop         = 1
	opt4RouterAlert = 0x94
)

// badOption4 is the offset of what ip_options_compile finds wrong in the
// options of a header, 0 if nothing. Source routes, record route and
// timestamps are passed on unread.
func badOption4(b []byte) int {
	end := int(b[0]&0xf) * 4
	for at := ipv4Len; at < end && b[at] != opt4End; {
		if b[at] == opt4Nop {
			at++
			continue
		}
		if at+2 > end || b[at+1] < 2 || at+int(b[at+1]) > end {
			return at
		}
		if b[at] == opt4RouterAlert && b[at+1] < 4 {
			return at + 1
		}
		at += int(b[at+1])
	}
	return 0
}

// noRoute4 is ip_error, which has a rate limit of its own.
func (w *Worker) noRoute4(p *packet, why unreachability) bool {
	w.drop(dropNoRoute)
	if p.own || w.f.limit.peerAllows(w.f.now(), netip.AddrFrom4(*p.src4()), noRouteInterval, noRouteBurst) {
		w.unreachable(p, why)
	}
	return true
}

// martian4 is a source address that no packet may have.
// Of 0.0.0.0/8 it is the first alone (ipv4_is_zeronet).
func martian4(a [4]byte) bool {
	return a[0] == 127 || a == [4]byte{} || a[0]&0xf0 == 0xe0 || a == [4]byte{255, 255, 255, 255}
}

const dontFragment = 0x4000

// forward4 is ip_forward, or ip_output for packets of the router itself. IP
// options are passed on as they are.
func (w *Worker) forward4(p *packet, d *dst) bool {
	if !p.own {
		switch {
		case !w.f.sys.forwarding4:
			return w.drop(dropNotForwarding)
		case !p.host:
			return w.drop(dropOtherHost)
		case !p.hopDone && p.buf[p.net+8] <= 1:
			w.timeExceeded(p)
			return w.drop(dropHopLimit)
		}
	}
	b := p.bytes()
	if len(b) > d.mtu && binary.BigEndian.Uint16(b[6:])&dontFragment != 0 {
		w.icmp4Error(p, false, icmp4Unreachable, icmp4FragmentationNeeded, uint32(d.mtu))
		return w.drop(dropTooBig)
	}
	if !w.hop(p) {
		return false
	}
	if len(b) > d.mtu {
		return w.fragment4(p, d)
	}
	return w.send4(p, d)
}

func (w *Worker) send4(p *packet, d *dst) bool {
	if d.next != nil {
		return w.transmit(p, d.dev, d.next, d.via)
	}
	if p.isKnown {
		return w.transmit(p, d.dev, nil, netip.AddrFrom4(p.known4))
	}
	to := *p.dst4()
	if mac, ok := w.groupMAC4(to); ok {
		w.sendTo(p, d.dev, linkOf(mac))
		return true
	}
	return w.transmit(p, d.dev, nil, netip.AddrFrom4(to))
}

// groupMAC4 is the link-layer address of a multicast group (RFC 1112 section
// 6.4) or a broadcast, of whichever device (arp_constructor). End.DX4 sends
// packets to them by its next hop's route.
func (w *Worker) groupMAC4(a [4]byte) (mac [6]byte, ok bool) {
	switch {
	case a[0]&0xf0 == 0xe0:
		return [6]byte{1, 0, 0x5e, a[1] & 0x7f, a[2], a[3]}, true
	case a == [4]byte{}, a == [4]byte{255, 255, 255, 255}, w.f.own.broadcast[a]:
		return [6]byte{255, 255, 255, 255, 255, 255}, true
	}
	return mac, false
}

// fragment4 is ip_do_fragment: fragments as long as the MTU allows, each with
// the header of the packet (RFC 791 section 3.2). Options are copied to all.
func (w *Worker) fragment4(p *packet, d *dst) bool {
	whole := p.bytes()
	header := int(whole[0]&0xf) * 4
	field := binary.BigEndian.Uint16(whole[6:])
	step := (d.mtu - header) &^ 7
	if step <= 0 {
		return w.drop(dropTooBig)
	}
	r := &w.reply
	for at := header; at < len(whole); at += step {
		r.begin(p)
		r.isKnown, r.known4 = p.isKnown, p.known4
		end := min(at+step, len(whole))
		copy(r.buf[r.net:], whole[:header])
		r.end = r.net + header + copy(r.buf[r.net+header:], whole[at:end])
		b := r.bytes()
		part := field + uint16((at-header)/8)
		if end < len(whole) {
			part |= 0x2000
		}
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[6:], part)
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], checksum(b[:header]))
		if !w.send4(r, d) {
			return false
		}
	}
	return true
}

// deliver4 takes a packet to the router itself: echo requests are answered,
// for anything else there is no socket.
func (w *Worker) deliver4(p *packet) bool {
	if p.own {
		w.drop(dropNotOurs)
		return true
	}
	b, m := p.bytes(), p.buf[p.transport:p.end]
	request := b[9] == protoICMP && len(m) > 0 && m[0] == icmp4EchoRequest
	if !request && w.toHost(p) {
		return true
	}
	switch proto := b[9]; {
	case binary.BigEndian.Uint16(b[6:])&0x3fff != 0, proto == protoTCP:
		w.drop(dropNotOurs)
	case proto == protoUDP:
		if udp4(b, m) {
			w.icmp4Error(p, true, icmp4Unreachable, icmp4Port, 0)
		}
		w.drop(dropNotOurs)
	case proto != protoICMP:
		w.icmp4Error(p, true, icmp4Unreachable, icmp4Protocol, 0)
		w.drop(dropProtocol)
	case len(m) < 8 || checksum(m) != 0:
		w.drop(dropMalformed)
	case m[0] == icmp4EchoRequest:
		r := &w.reply
		w.begin4(r, p, *p.dst4(), b[1], len(m))
		copy(r.bytes()[ipv4Len:], m)
		r.bytes()[ipv4Len] = icmp4EchoReply
		w.finish4(r)
	default:
		w.drop(dropNotOurs)
	}
	return true
}
