package forwarder

import (
	"encoding/binary"
	"net/netip"
)

// Neighbour discovery (RFC 4861).
const (
	ndSolicitation  = 135
	ndAdvertisement = 136
	ndLen           = 24

	ndSourceLink = 1
	ndTargetLink = 2

	ndRouter    = 0x80
	ndSolicited = 0x40
	ndOverride  = 0x20
)

// solicitedNode is the solicited-node multicast address (RFC 4291 section
// 2.7.1).
func solicitedNode(a netip.Addr) [16]byte {
	b := a.As16()
	return [16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: b[13], 14: b[14], 15: b[15]}
}

// multicastMAC is the Ethernet address of an IPv6 multicast group (RFC 2464
// section 7).
func multicastMAC(a [16]byte) [6]byte { return [6]byte{0x33, 0x33, a[12], a[13], a[14], a[15]} }

// receiveND takes a solicitation or advertisement: b is the ICMPv6 message of
// the packet.
func (w *Worker) receiveND(p *packet, b []byte) {
	if p.buf[p.net+7] != 255 || len(b) < ndLen || b[1] != 0 {
		w.drop(dropMalformed)
		return
	}
	target := netip.AddrFrom16([16]byte(b[8:]))
	option := byte(ndSourceLink)
	if b[0] == ndAdvertisement {
		option = ndTargetLink
	}
	mac, given, ok := linkOption(b[ndLen:], option)
	if !ok || target.IsMulticast() {
		w.drop(dropMalformed)
		return
	}
	if b[0] == ndAdvertisement {
		if given {
			w.learn(p.in, target, mac, false)
		}
		return
	}
	if !w.f.own.has(target) {
		w.drop(dropNotOurs)
		return
	}
	asked := addr16(p.src6())
	multicast := p.dst6()[0] == 0xff
	if asked.IsUnspecified() {
		w.advertise(p.in, target, allNodes, multicastMAC(allNodes.As16()), false, true)
		return
	}
	to := [6]byte(p.mac[6:])
	if given {
		to = mac
		w.learn(p.in, asked, mac, true)
	}
	w.advertise(p.in, target, asked, to, true, multicast)
}

var allNodes = netip.MustParseAddr("ff02::1")

// linkOption finds a link-layer address option. The last result is false for
// options that are malformed.
func linkOption(b []byte, kind byte) (mac [6]byte, given, ok bool) {
	for len(b) > 0 {
		if len(b) < 2 || b[1] == 0 || len(b) < int(b[1])*8 {
			return mac, false, false
		}
		if b[0] == kind && b[1] == 1 {
			mac, given = [6]byte(b[2:8]), true
		}
		b = b[int(b[1])*8:]
	}
	return mac, given, true
}

// advertise sends an advertisement. As ndisc_recv_ns has it, only the answer
// to a multicast solicitation carries the link-layer address.
func (w *Worker) advertise(d *device, target, to netip.Addr, mac [6]byte, solicited, multicast bool) {
	flags := byte(0)
	if w.f.sys.forwarding6 {
		flags |= ndRouter
	}
	if solicited {
		flags |= ndSolicited
	}
	length := ndLen
	if multicast {
		flags |= ndOverride
		length += 8
	}
	b := w.newND(target, to, ndAdvertisement, target, length)
	b[4] = flags
	if multicast {
		putLinkOption(b[ndLen:], ndTargetLink, d.mac)
	}
	w.sendND(d, mac)
}

// solicitND picks the source as ndisc_solicit does: that of the packet if it is
// an address of the device, else the link-local one.
func (w *Worker) solicitND(d *device, addr netip.Addr, known link, p *packet) {
	source := d.linkLocal
	if !source.IsValid() && !w.f.quirks.SolicitFromLinkLocal {
		source = w.f.own.source6(d, addr)
	}
	if p != nil && p.v6 && d.has(addr16(p.src6())) {
		source = addr16(p.src6())
	}
	if !source.IsValid() {
		return
	}
	group := solicitedNode(addr)
	to, mac := netip.AddrFrom16(group), multicastMAC(group)
	if known&linkValid != 0 {
		to, mac = addr, known.mac()
	}
	b := w.newND(source, to, ndSolicitation, addr, ndLen+8)
	putLinkOption(b[ndLen:], ndSourceLink, d.mac)
	w.sendND(d, mac)
}

func putLinkOption(b []byte, kind byte, mac [6]byte) {
	b[0], b[1] = kind, 1
	copy(b[2:], mac[:])
}

// newND begins a message in the reply packet and returns its ICMPv6 part.
func (w *Worker) newND(from, to netip.Addr, kind byte, target netip.Addr, length int) []byte {
	p := &w.reply
	p.net, p.end, p.v6 = headroom, headroom+ipv6Len+length, true
	b := p.bytes()
	clear(b)
	b[0], b[6], b[7] = 0x60, protoICMPv6, 255
	*p.src6(), *p.dst6() = from.As16(), to.As16()
	p.setPayloadLen()
	m := b[ipv6Len:]
	m[0] = kind
	t := target.As16()
	copy(m[8:], t[:])
	return m
}

func (w *Worker) sendND(d *device, mac [6]byte) {
	p := &w.reply
	b := p.bytes()
	binary.BigEndian.PutUint16(b[ipv6Len+2:], checksum6(b, protoICMPv6, b[ipv6Len:]))
	w.sendLink(p, d, mac, etherIPv6)
}
