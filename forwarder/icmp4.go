package forwarder

import (
	"encoding/binary"
	"net/netip"
)

// ICMP types and codes (RFC 792, RFC 1191).
const (
	icmp4EchoReply        = 0
	icmp4Unreachable      = 3
	icmp4EchoRequest      = 8
	icmp4TimeExceeded     = 11
	icmp4ParameterProblem = 12

	icmp4Protocol            = 2
	icmp4Port                = 3
	icmp4FragmentationNeeded = 4
	// icmp4Max is how long an error is at most (RFC 1812 section 4.3.2.3).
	icmp4Max = 576
	// tosInternetControl is the precedence of errors (RFC 1812 section
	// 4.3.2.5); of the packet's type of service tosKept is kept.
	tosInternetControl = 0xc0
	tosKept            = 0x1e
)

// icmp4Errors are the types that report an error, whose receipt is never
// answered by another.
var icmp4Errors = [256]bool{3: true, 4: true, 5: true, 11: true, 12: true}

// icmp4Error is icmp_send: an error about p to its source. Info is the fifth to
// eighth byte of the message; local tells that the route of p leads to the
// router itself, whose address the error then comes from.
func (w *Worker) icmp4Error(p *packet, local bool, kind, code byte, info uint32) {
	b := p.bytes()
	if p.own || len(b) < ipv4Len || !p.host || martian4(*p.src4()) || binary.BigEndian.Uint16(b[6:])&0x1fff != 0 {
		return
	}
	header := int(b[0]&0xf) * 4
	if b[9] == protoICMP && (len(b) <= header || b[header] > 18 || icmp4Errors[b[header]]) {
		return
	}
	limited := w.f.sys.ratemask4>>kind&1 != 0 && (kind != icmp4Unreachable || code != icmp4FragmentationNeeded)
	if limited && !w.f.limit.globalAllows(w.f.now()) {
		return
	}
	to := netip.AddrFrom4(*p.src4())
	source := netip.AddrFrom4(*p.dst4())
	switch {
	case !local:
		source = w.sourceTowards4(p, *p.src4())
	case !w.f.own.has(source):
		return
	}
	if !source.IsValid() || limited && !w.f.limit.peerAllows(w.f.now(), to, w.f.sys.ratelimit4, peerBurst) {
		return
	}
	n := min(len(b), icmp4Max-ipv4Len-8)
	r := &w.reply
	w.begin4(r, p, source.As4(), b[1]&tosKept|tosInternetControl, 8+n)
	m := r.bytes()[ipv4Len:]
	m[0], m[1] = kind, code
	binary.BigEndian.PutUint32(m[4:], info)
	copy(m[8:], b[:n])
	w.finish4(r)
}

// sourceTowards4 is the address that the route towards to prefers: one of its
// device, in the prefix of the destination where there is one.
func (w *Worker) sourceTowards4(p *packet, to [4]byte) netip.Addr {
	d := w.lookup4(p, to)
	if d == nil || d.dev == nil {
		return netip.Addr{}
	}
	if p.domain.index != 0 && d.dev.domain != p.domain {
		return w.f.own.inVRF4(p.domain)
	}
	hop := netip.AddrFrom4(to)
	if d.via.Is4() {
		hop = d.via
	}
	for _, a := range d.dev.addrs {
		if a.Contains(hop) {
			return a.Addr()
		}
	}
	return w.f.own.source4(d.dev)
}

// begin4 starts a packet of the router with n bytes of ICMP, which are 0.
func (w *Worker) begin4(r, p *packet, source [4]byte, tos byte, n int) {
	r.begin(p)
	r.end = r.net + ipv4Len + n
	b := r.bytes()
	clear(b[:ipv4Len+8])
	b[0], b[1], b[8], b[9] = 0x45, tos, w.f.sys.ttl, protoICMP
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[4:], uint16(w.f.ident.Add(1)))
	*r.src4(), *r.dst4() = source, *p.src4()
}

// finish4 completes an ICMP message of the router and sends it.
func (w *Worker) finish4(r *packet) {
	b := r.bytes()
	b[ipv4Len+2], b[ipv4Len+3] = 0, 0
	binary.BigEndian.PutUint16(b[ipv4Len+2:], checksum(b[ipv4Len:]))
	binary.BigEndian.PutUint16(b[10:], checksum(b[:ipv4Len]))
	w.input(r, w.lookup4(r, *r.dst4()))
}
