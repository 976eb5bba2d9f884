package forwarder

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// ARP for IPv4 over Ethernet (RFC 826).
const (
	arpLen     = 28
	arpRequest = 1
	arpReply   = 2
)

var (
	arpFixed  = []byte{0, 1, 8, 0, 6, 4}
	broadcast = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
)

// receiveARP answers requests for own addresses and learns from what is said
// to the router.
func (w *Worker) receiveARP(p *packet) {
	b := p.bytes()
	if len(b) < arpLen || !bytes.Equal(b[:6], arpFixed) {
		w.drop(dropMalformed)
		return
	}
	sender, target := netip.AddrFrom4([4]byte(b[14:])), netip.AddrFrom4([4]byte(b[24:]))
	mac := [6]byte(b[8:])
	switch ours := w.f.own.has(target); binary.BigEndian.Uint16(b[6:]) {
	case arpRequest:
		if !ours {
			w.drop(dropNotOurs)
			return
		}
		if !sender.IsUnspecified() {
			w.learn(p.in, sender, mac, true)
		}
		w.sendARP(p.in, arpReply, target, sender, mac, mac)
	case arpReply:
		w.learn(p.in, sender, mac, false)
	}
}

func (w *Worker) solicitARP(d *device, addr netip.Addr, known link) {
	to := broadcast
	if known&linkValid != 0 {
		to = known.mac()
	}
	source := w.f.own.source4(d)
	for _, a := range d.addrs {
		if a.Addr().Is4() && a.Contains(addr) {
			source = a.Addr()
			break
		}
	}
	if !source.IsValid() {
		source = netip.IPv4Unspecified()
	}
	w.sendARP(d, arpRequest, source, addr, [6]byte{}, to)
}

func (w *Worker) sendARP(d *device, op uint16, from, to netip.Addr, toMAC, link [6]byte) {
	p := &w.reply
	p.net, p.end = headroom, headroom+arpLen
	b := p.bytes()
	copy(b, arpFixed)
	binary.BigEndian.PutUint16(b[6:], op)
	copy(b[8:], d.mac[:])
	copy(b[14:], from.AsSlice())
	copy(b[18:], toMAC[:])
	copy(b[24:], to.AsSlice())
	w.sendLink(p, d, link, etherARP)
}

// sendLink puts a MAC header in front and sends.
func (w *Worker) sendLink(p *packet, d *device, to [6]byte, proto uint16) {
	start := p.net - etherLen
	copy(p.buf[start:], to[:])
	copy(p.buf[start+6:], d.mac[:])
	binary.BigEndian.PutUint16(p.buf[start+12:], proto)
	w.sendFrame(p, d, start)
}
