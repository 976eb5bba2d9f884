package forwarder

import "encoding/binary"

// ICMPv6 types and codes (RFC 4443, RFC 8986 section 4.1.1).
const (
	icmp6Unreachable      = 1
	icmp6PacketTooBig     = 2
	icmp6TimeExceeded     = 3
	icmp6ParameterProblem = 4
	icmp6EchoRequest      = 128
	icmp6EchoReply        = 129

	icmp6BeyondScope     = 2
	icmp6PortUnreachable = 4
	icmp6UnknownHeader   = 1
	icmp6UnknownOption   = 2
	icmp6IncompleteChain = 3 // RFC 7112 section 5
)

// unreachability says why a packet cannot go on, for both families.
type unreachability struct {
	code6, code4 byte
}

var (
	noRoute         = unreachability{0, 0}
	hostUnreachable = unreachability{0, 1}
	adminProhibited = unreachability{1, 13}
	noNeighbour     = unreachability{3, 1}
)

func (w *Worker) unreachable(p *packet, why unreachability) {
	if p.v6 {
		w.icmp6Error(p, icmp6Unreachable, why.code6, 0)
		return
	}
	w.icmp4Error(p, false, icmp4Unreachable, why.code4, 0)
}

func (w *Worker) timeExceeded(p *packet) {
	if p.v6 {
		w.icmp6Error(p, icmp6TimeExceeded, 0, 0)
		return
	}
	w.icmp4Error(p, false, icmp4TimeExceeded, 0, 0)
}

// icmp6Error is icmp6_send: an error about p to its source (RFC 4443 section
// 2.4). Info is the fifth to eighth byte of the message: MTU or pointer.
func (w *Worker) icmp6Error(p *packet, kind, code byte, info uint32) {
	b := p.bytes()
	if p.own || len(b) < ipv6Len {
		return
	}
	src, dst := p.src6(), p.dst6()
	toGroup := dst[0] == 0xff || !p.host
	if toGroup && kind != icmp6PacketTooBig &&
		!(kind == icmp6ParameterProblem && code == icmp6UnknownOption && b[info]&0xc0 == 0x80) {
		return
	}
	if *src == [16]byte{} || src[0] == 0xff || ineligible6(b) {
		return
	}
	limited := kind != icmp6PacketTooBig
	if limited && !w.f.limit.globalAllows(w.f.now()) {
		return
	}
	r := &w.reply
	r.begin(p)
	r.v6 = true
	n := min(len(b), ipv6MinMTU-ipv6Len-8)
	r.end = r.net + ipv6Len + 8 + n
	m := r.bytes()
	copy(m[ipv6Len+8:], b[:n])
	binary.BigEndian.PutUint32(m, 6<<28)
	m[6], m[7] = protoICMPv6, 64
	*r.dst6() = *src
	source := addr16(dst)
	if toGroup || !w.f.own.inDomain(source, p.domain) && !w.f.own.anycast[source] {
		source = w.f.own.source6(p.in, addr16(src))
	}
	if !source.IsValid() {
		return
	}
	*r.src6() = source.As16()
	m[ipv6Len], m[ipv6Len+1] = kind, code
	binary.BigEndian.PutUint32(m[ipv6Len+4:], info)
	if limited && !w.allow6(r) {
		return
	}
	w.finish6(r)
}

// allow6 is icmpv6_xrlim_allow: one message to a destination each ratelimit,
// more often to the wider prefixes.
func (w *Worker) allow6(r *packet) bool {
	interval := w.f.sys.ratelimit6
	w.key.Dst, w.key.Src = addr16(r.dst6()), addr16(r.src6())
	w.key.IIF, w.key.L3Domain = 0, r.domain.table6
	if length, _, ok := w.f.fib6.LookupPrefix(&w.key); ok && length < 128 {
		interval >>= (128 - length) >> 5
	}
	return w.f.limit.peerAllows(w.f.now(), w.key.Dst, interval, peerBurst)
}

// ineligible6 is is_ineligible: b is an ICMPv6 error itself, or may be one.
func ineligible6(b []byte) bool {
	proto, off, fragment, ok := skipExtensions(b)
	switch {
	case !ok || proto != protoICMPv6:
		return false
	case off >= len(b):
		return fragment == 0
	}
	return b[off]&0x80 == 0
}
