package forwarder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"net/netip"
	"slices"
	"sync/atomic"

	"seg6lab/forwarder/skb"
	"seg6lab/forwarder/srh"
)

// headend is a route with encap seg6, or the SRH of End.B6 and End.B6.Encaps.
type headend struct {
	row *headendRow
	// template is what is put in front of the packet: outer header and SRH,
	// or the SRH alone for an insertion.
	template []byte
	// srh is where the SRH begins in the template, or its length without one.
	srh int
	// nextHeader is where the template names the payload.
	nextHeader int
	key        *hmacKey
	hopLimit   uint8
	segments   int
	// cache is the route of the encapsulated packets by domain. Like the
	// kernel's it is that of the first packet.
	cache []atomic.Pointer[dst]
}

func (c *compiler) compileHeadend(e *Encap, dev *device, v6 bool) (*headend, error) {
	i := slices.IndexFunc(headends, func(r headendRow) bool { return r.mode == e.Mode })
	if i < 0 {
		return nil, fmt.Errorf("encap seg6: no mode is called %q", e.Mode)
	}
	row := &headends[i]
	if !v6 && !row.ipv4 {
		return nil, fmt.Errorf("encap seg6 mode %s: only for IPv6 routes", e.Mode)
	}
	h, err := c.newHeadend(row, e, dev)
	if err != nil {
		return nil, fmt.Errorf("encap seg6 mode %s: %w", e.Mode, err)
	}
	return h, nil
}

func (c *compiler) newHeadend(row *headendRow, e *Encap, dev *device) (*headend, error) {
	if len(e.Segs) == 0 {
		return nil, errors.New("no segments")
	}
	for _, s := range e.Segs {
		if !s.Is6() || s.Is4In6() {
			return nil, fmt.Errorf("segment %s is not an IPv6 address", s)
		}
	}
	h := &headend{row: row, segments: len(e.Segs), hopLimit: 64, cache: make([]atomic.Pointer[dst], len(c.domains))}
	if dev != nil {
		h.hopLimit = dev.hopLimit
	}
	if e.HMAC != 0 {
		if h.key = c.hmac[e.HMAC]; h.key == nil {
			return nil, fmt.Errorf("no HMAC key has the id %d", e.HMAC)
		}
	}
	path := e.Segs
	var header *srh.Header
	switch {
	case row.insert:
		header = srh.New(0, append(slices.Clone(path), netip.IPv6Unspecified())...)
	case row.reduced && len(path) > 1:
		header = srh.NewReduced(0, path...)
	case !row.reduced || h.key != nil:
		header = srh.New(0, path...)
	}
	if !row.insert {
		h.template = c.outerHeader(dev, path[0])
	}
	h.srh = len(h.template)
	h.nextHeader = 6
	if header != nil {
		if h.key != nil {
			header.Flags |= srh.FlagHMAC
			header.TLVs = []srh.TLV{srh.NewHMAC(e.HMAC)}
		}
		if !row.insert {
			h.template[6] = srh.Protocol
		}
		h.nextHeader = h.srh
		var err error
		if h.template, err = header.AppendBinary(h.template); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// outerHeader is the outer IPv6 header as far as it is the same for every
// packet.
func (c *compiler) outerHeader(dev *device, to netip.Addr) []byte {
	b := make([]byte, ipv6Len)
	b[0] = 0x60
	source := c.tunsrc
	if source == [16]byte{} {
		if a := c.own.source6(dev, to); a.IsValid() {
			source = a.As16()
		}
	}
	copy(b[8:], source[:])
	dst := to.As16()
	copy(b[24:], dst[:])
	return b
}

// headend does what the route asks and forwards the result: seg6_input_core.
func (w *Worker) headend(p *packet, h *headend) bool {
	if w.f.model != nil {
		w.account(p, h)
	}
	if !w.push(p, h) {
		return false
	}
	d := h.cache[p.domain.index].Load()
	if d == nil {
		d = w.lookup6(p, *p.dst6())
		if d != nil && d.headend != h {
			h.cache[p.domain.index].Store(d)
		}
	}
	return w.input(p, d)
}

// push encapsulates the packet or inserts the SRH: seg6_do_srh.
func (w *Worker) push(p *packet, h *headend) bool {
	if h.row.insert {
		return w.insert(p, h)
	}
	return w.encapsulate(p, h)
}

func (w *Worker) encapsulate(p *packet, h *headend) bool {
	q := &w.f.quirks
	if !q.InnerHopLimitKept && !w.hop(p) {
		return false
	}
	b := p.buf[p.net:p.end]
	proto, hopLimit := byte(srh.IPv4), h.hopLimit
	var class, label uint32
	if p.v6 {
		first := binary.BigEndian.Uint32(b)
		proto, class, label = srh.IPv6, first&0x0ff00000, first&0x000fffff
		if q.InnerHopLimitKept {
			hopLimit = b[7]
		}
	} else if !q.NoDSCPCopy {
		class = uint32(b[1]) << 20
	}
	if w.f.sys.flowlabel != 0 {
		label = 0
		if w.f.sys.flowlabel > 0 {
			label = flowHash(b, p.v6, w.f.seed) & 0xfffff
		}
	}
	if h.row.l2 {
		if len(p.mac) == 0 || !p.push(len(p.mac)) {
			return w.drop(dropNoRoom)
		}
		copy(p.buf[p.net:], p.mac)
		proto = srh.Ethernet
	}
	if !p.push(len(h.template)) {
		return w.drop(dropNoRoom)
	}
	b = p.buf[p.net:p.end]
	copy(b, h.template)
	binary.BigEndian.PutUint32(b, 6<<28|class|label)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ipv6Len))
	b[7] = hopLimit
	b[h.nextHeader] = proto
	p.v6 = true
	p.transport = p.net + ipv6Len
	return w.sign(p, h)
}

// insert is __seg6_do_srh_inline.
func (w *Worker) insert(p *packet, h *headend) bool {
	if !p.v6 {
		return w.drop(dropSegmentRouting)
	}
	n := len(h.template)
	if !p.push(n) {
		return w.drop(dropNoRoom)
	}
	b := p.buf[p.net:p.end]
	copy(b, b[n:n+ipv6Len])
	copy(b[ipv6Len:], h.template)
	v := srh.View(b[ipv6Len : ipv6Len+n])
	v.SetNextHeader(b[6])
	b[6] = srh.Protocol
	*v.Segment(0) = *p.dst6()
	*p.dst6() = *v.Segment(int(v.LastEntry()))
	p.setPayloadLen()
	p.transport = p.net + ipv6Len
	return w.sign(p, h)
}

// sign fills in the HMAC of the SRH that was just put in front.
func (w *Worker) sign(p *packet, h *headend) bool {
	if h.key == nil {
		return true
	}
	v := srh.View(p.buf[p.net+ipv6Len : p.net+ipv6Len+len(h.template)-h.srh])
	tag := v.HMAC()
	sum, ok := w.digest(tag.KeyID(), v, p.src6())
	if !ok {
		return w.drop(dropHMAC)
	}
	copy(tag.Digest(), sum)
	return true
}

// flowHash is a keyed hash of addresses, protocol and ports.
func flowHash(b []byte, v6 bool, seed uint32) uint32 {
	hash := fnv.New32a()
	var key [4]byte
	binary.BigEndian.PutUint32(key[:], seed)
	hash.Write(key[:])
	proto, at := b[6], ipv6Len
	if v6 {
		hash.Write(b[8:40])
	} else {
		proto, at = b[9], int(b[0]&0xf)*4
		hash.Write(b[12:20])
	}
	hash.Write([]byte{proto})
	if (proto == protoTCP || proto == protoUDP) && len(b) >= at+4 {
		hash.Write(b[at : at+4])
	}
	return bits.RotateLeft32(hash.Sum32(), 16)
}

// account reports what the encapsulation would do to an sk_buff.
func (w *Worker) account(p *packet, h *headend) {
	m := w.f.model
	e := skb.Encapsulation{
		Frame: m.Frame, Mode: h.row.model, Segments: h.segments, HMAC: h.key != nil,
		Cold: h.cache[p.domain.index].Load() == nil,
	}
	e.MacLen, e.Len = len(p.mac), p.len()
	if r, err := e.Run(m.Profile, m.InitOnAlloc); err == nil && m.Observe != nil {
		m.Observe(*r)
	}
}
