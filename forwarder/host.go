package forwarder

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// The host is who has the sockets of the router: the kernel behind a TAP
// device, which bears the router's addresses. What is sent to them and is not
// for the router itself to answer goes there; what comes from there is the
// router's own. The host takes every address for a neighbour: it has routes
// over the device without a gateway, or with any.

// toHost hands a packet to the host and reports whether there is one.
func (w *Worker) toHost(p *packet) bool {
	h := w.f.host
	if h == nil {
		return false
	}
	w.sendTo(p, h, w.f.hostLink)
	return true
}

// routerSide is the link-layer address of the router towards the host.
func routerSide(host [6]byte) [6]byte {
	host[0] |= 2
	host[5] ^= 1
	return host
}

// fromHost takes a frame of the host: its packets are routed as they are, its
// questions for neighbours are answered by the router.
func (w *Worker) fromHost(p *packet, proto uint16) {
	p.own, p.hopDone, p.host = true, true, true
	b := p.bytes()
	switch {
	case proto == etherIPv4 && len(b) >= ipv4Len && b[0]>>4 == 4:
		p.v6 = false
		w.input(p, w.lookup4(p, *p.dst4()))
	case proto == etherARP && len(b) >= arpLen && bytes.Equal(b[:6], arpFixed):
		sender, target := [4]byte(b[14:]), [4]byte(b[24:])
		if binary.BigEndian.Uint16(b[6:]) == arpRequest && sender != [4]byte{} && sender != target {
			mac := [6]byte(b[8:])
			w.sendARP(w.f.host, arpReply, netip.AddrFrom4(target), netip.AddrFrom4(sender), mac, mac)
		}
	case proto == etherIPv6 && len(b) >= ipv6Len && b[0]>>4 == 6:
		p.v6 = true
		w.fromHost6(p, b)
	default:
		w.drop(dropMalformed)
	}
}

func (w *Worker) fromHost6(p *packet, b []byte) {
	if p.dst6()[0] != 0xff && b[6] != protoICMPv6 {
		w.input(p, w.lookup6(p, *p.dst6()))
		return
	}
	m := b[ipv6Len:]
	if b[6] != protoICMPv6 || len(m) < ndLen || m[0] != ndSolicitation {
		if p.dst6()[0] != 0xff {
			w.input(p, w.lookup6(p, *p.dst6()))
		}
		return
	}
	source, target := addr16(p.src6()), netip.AddrFrom16([16]byte(m[8:]))
	if !source.IsUnspecified() && source != target {
		w.advertise(w.f.host, target, source, [6]byte(p.mac[6:]), true, true)
	}
}
