package forwarder

import "encoding/binary"

// EtherTypes.
const (
	etherIPv4    = 0x0800
	etherARP     = 0x0806
	etherIPv6    = 0x86dd
	etherVLAN    = 0x8100
	etherQinQ    = 0x88a8
	minEtherType = 0x0600
)

// Input is Forwarder.Input on a worker of its own.
func (w *Worker) Input(port int, frame []byte, out Out) {
	w.out = out
	d := w.f.portDevice(port)
	if d == nil || len(frame) < etherLen || len(frame) > maxPacket {
		w.drop(dropMalformed)
		return
	}
	p := &w.packet
	proto := w.receive(p, d, frame)
	if d == w.f.host {
		w.fromHost(p, proto)
		return
	}
	switch proto {
	case etherIPv6:
		p.v6 = true
		w.receive6(p)
	case etherIPv4:
		p.v6 = false
		w.receive4(p)
	case etherARP:
		w.receiveARP(p)
	default:
		w.drop(dropProtocol)
	}
}

func (f *Forwarder) portDevice(port int) *device {
	if port < 0 || port >= len(f.ports) {
		return nil
	}
	return f.ports[port]
}

// receive copies the frame behind the headroom, takes off VLAN tags and
// returns the EtherType; 0 for a frame of nobody's.
func (w *Worker) receive(p *packet, d *device, frame []byte) uint16 {
	// The link layer goes to where it was in front of the packet, the packet
	// to the end of the headroom.
	p.mac = append(p.mac[:0], frame[:12]...)
	length := etherLen
	proto := binary.BigEndian.Uint16(frame[12:])
	for (proto == etherVLAN || proto == etherQinQ) && len(frame) >= length+vlanLen {
		tag := frame[length-2:]
		vid := binary.BigEndian.Uint16(tag[2:]) & 0xfff
		switch v := d.vlanDevice(proto, vid); {
		case v != nil:
			d = v
			if d.keepTag {
				p.mac = append(p.mac, tag[:vlanLen]...)
			}
		case vid != 0:
			w.drop(dropOtherHost)
			return 0
		}
		length += vlanLen
		proto = binary.BigEndian.Uint16(tag[vlanLen:])
	}
	p.mac = binary.BigEndian.AppendUint16(p.mac, proto)
	p.net = headroom
	p.end = headroom + copy(p.buf[headroom:], frame[length:])
	p.in, p.domain = d, d.domain
	p.host = [6]byte(frame) == d.mac
	p.own, p.hopDone, p.isKnown, p.srcrt, p.fragmented, p.depth = false, false, false, false, false, 0
	if !p.host && frame[0]&1 == 0 {
		w.drop(dropOtherHost)
		return 0
	}
	return proto
}

// sendFrame sends the frame that begins at start, from its MAC header on.
func (w *Worker) sendFrame(p *packet, d *device, start int) {
	if d.port == noPort {
		w.drop(dropBlackhole)
		return
	}
	for ; d.below != nil; d = d.below {
		copy(p.buf[start-vlanLen:], p.buf[start:start+12])
		start -= vlanLen
		binary.BigEndian.PutUint16(p.buf[start+12:], d.proto)
		binary.BigEndian.PutUint16(p.buf[start+14:], d.vlan)
	}
	w.out(d.port, p.buf[start:p.end])
}

// sendTo sends the packet to a neighbour whose link-layer address is known.
func (w *Worker) sendTo(p *packet, d *device, mac link) {
	start := p.net - etherLen
	b := p.buf[start : start+etherLen]
	binary.BigEndian.PutUint64(b, uint64(mac)<<16)
	copy(b[6:], d.mac[:])
	proto := uint16(etherIPv4)
	if p.v6 {
		proto = etherIPv6
	}
	binary.BigEndian.PutUint16(b[12:], proto)
	w.sendFrame(p, d, start)
}
