package skb

import (
	"fmt"
	"slices"
)

// Mode is an encapsulation mode in iproute2's words.
type Mode string

// The modes of encap seg6.
const (
	Inline     Mode = "inline"
	Encap      Mode = "encap"
	EncapRed   Mode = "encap.red"
	L2Encap    Mode = "l2encap"
	L2EncapRed Mode = "l2encap.red"
)

// Modes lists every mode.
func Modes() []Mode { return []Mode{Inline, Encap, EncapRed, L2Encap, L2EncapRed} }

const (
	ipv6Header = 40
	srhFixed   = 8
	segment    = 16
	hmacTLV    = 40
	// ethernetReserved is LL_RESERVED_SPACE of an Ethernet device: its header
	// of 14 bytes rounded up to 16.
	ethernetReserved = 16
)

// Overhead is how many bytes the mode puts in front of the IP header (of the
// frame for the L2 modes): outer header and SRH, with an HMAC TLV or without.
// It is 0 for a mode or a number of segments that does not exist.
func (m Mode) Overhead(segments int, hmac bool) int {
	if segments < 1 {
		return 0
	}
	tlv := 0
	if hmac {
		tlv = hmacTLV
	}
	srh := func(n int) int { return srhFixed + n*segment + tlv }
	switch m {
	case Inline:
		return srh(segments + 1)
	case Encap, L2Encap:
		return ipv6Header + srh(segments)
	case EncapRed, L2EncapRed:
		switch {
		case segments > 1:
			return ipv6Header + srh(segments-1)
		case hmac:
			return ipv6Header + srh(1)
		}
		return ipv6Header
	}
	return 0
}

// L2 reports whether the mode carries the link-layer header along.
func (m Mode) L2() bool { return m == L2Encap || m == L2EncapRed }

// Frame says how a packet lies in its buffer when it reaches seg6.
type Frame struct {
	// Headroom in bytes before the network header; the MAC header of MacLen
	// bytes is in it.
	Headroom int
	// MacLen is skb->mac_len: 14 for Ethernet, 18 with a VLAN tag in it.
	MacLen int
	// Len is the length of the packet from the network header on; 0 stands
	// for 64.
	Len int
	// Page is the room from skb->head to skb->end where the head is a page
	// fragment of a driver; 0 for a head from the slab.
	Page int
	// Cloned: someone else refers to the buffer. HeaderCloned: someone else
	// may read its headers as well, as a packet socket does.
	Cloned, HeaderCloned bool
}

// Buffer builds the frame. The second result is the other reference to it, nil
// unless the frame is cloned.
func (f Frame) Buffer(k *Kernel) (s, other *SKB, err error) {
	length := f.Len
	if length == 0 {
		length = 64
	}
	if f.Headroom < f.MacLen || f.MacLen < 0 || length < ipv6Header {
		return nil, nil, fmt.Errorf("frame with headroom %d, mac_len %d, length %d: the headroom must hold the MAC header and the packet an IPv6 header",
			f.Headroom, f.MacLen, length)
	}
	if f.Page > 0 {
		s = k.AllocPage(f.Page)
	} else {
		s = k.Alloc(f.Headroom + length)
	}
	if err := s.Reserve(f.Headroom - f.MacLen); err != nil {
		return nil, nil, err
	}
	if _, err := s.Put(f.MacLen + length); err != nil {
		return nil, nil, err
	}
	s.ResetMac()
	if err := s.Pull(f.MacLen); err != nil {
		return nil, nil, err
	}
	s.ResetNetwork()
	s.ResetMacLen()
	switch {
	case f.HeaderCloned:
		other = s.Clone()
	case f.Cloned:
		other = s
		other.HeaderRelease()
		s = other.Clone()
	}
	return s, other, nil
}

// Encapsulation is one packet that an encap seg6 route takes.
type Encapsulation struct {
	Frame
	Mode     Mode
	Segments int
	HMAC     bool
	// Cold: the route's dst cache holds nothing yet on this CPU.
	Cold bool
	// Reserved is LL_RESERVED_SPACE of the outgoing device in bytes; 0 stands
	// for Ethernet's 16.
	Reserved int
}

// Result is what an encapsulation did to the buffer. Sizes are in bytes.
type Result struct {
	// Expansions are the calls of pskb_expand_head, in order.
	Expansions []Expansion
	// Needed is the headroom with which a kernel that reallocates only when it
	// must would not have to, counted from the network header; Left is what
	// there was.
	Needed, Left int
	// Mac and Network are the header offsets afterwards.
	Mac, Network uint16
	// Stray counts copies of the MAC header to outside of the head.
	Stray int
	// Copied and Zeroed are the costs of the expansions.
	Copied, Zeroed int
}

// Count is the number of expansions by the given site.
func (r *Result) Count(by Site) int {
	n := 0
	for _, e := range r.Expansions {
		if e.By == by {
			n++
		}
	}
	return n
}

// Run does to a buffer what seg6_input_core and seg6_do_srh do, on a kernel
// with the given fixes.
func (e Encapsulation) Run(profile Profile, initOnAlloc bool) (*Result, error) {
	k := &Kernel{Profile: profile, InitOnAlloc: initOnAlloc}
	overhead := e.Mode.Overhead(e.Segments, e.HMAC)
	if !slices.Contains(Modes(), e.Mode) {
		return nil, fmt.Errorf("encapsulation: there is no mode %q; modes are %v", e.Mode, Modes())
	}
	if overhead == 0 {
		return nil, fmt.Errorf("encapsulation: mode %s with %d segments does not exist", e.Mode, e.Segments)
	}
	s, _, err := e.Buffer(k)
	if err != nil {
		return nil, err
	}
	if err := e.apply(s, overhead); err != nil {
		return nil, err
	}
	r := &Result{
		Expansions: k.Expansions,
		Needed:     overhead + e.linkLayer(k.Profile, s),
		Left:       e.Headroom,
		Mac:        s.MacOffset(), Network: s.NetworkOffset(),
		Stray: k.Stray, Copied: k.Copied, Zeroed: k.Zeroed,
	}
	if e.Mode.L2() {
		r.Needed += e.MacLen
	}
	return r, nil
}

func (e Encapsulation) reserved() int {
	if e.Reserved == 0 {
		return ethernetReserved
	}
	return e.Reserved
}

// linkLayer is dst_dev_overhead.
func (e Encapsulation) linkLayer(p Profile, s *SKB) int {
	room := e.reserved()
	if e.Cold {
		room = s.MacLen()
	}
	if p.Has(MacHeaderRoom) {
		room = max(room, s.MacLen())
	}
	return room
}

func (e Encapsulation) apply(s *SKB, overhead int) error {
	p := s.kernel.Profile
	if e.Mode.L2() {
		if err := e.takeMAC(s, overhead, p); err != nil {
			return err
		}
	}
	if err := s.CowHead(overhead+e.linkLayer(p, s), SiteHeader); err != nil {
		return err
	}
	if e.Mode == Inline {
		if err := s.Pull(ipv6Header); err != nil {
			return err
		}
		overhead += ipv6Header
	}
	if err := s.Push(overhead); err != nil {
		return err
	}
	s.ResetNetwork()
	s.RebuildMac()
	s.SetTransport(ipv6Header)
	if e.Cold {
		return s.CowHead(e.reserved(), SiteLinkLayer)
	}
	return nil
}

// takeMAC makes the link-layer header part of the payload.
func (e Encapsulation) takeMAC(s *SKB, overhead int, p Profile) error {
	var err error
	switch {
	case p.Has(L2Cow):
		err = s.CowHead(s.MacLen()+overhead+e.linkLayer(p, s), SiteL2)
	case p.Has(L2CowMacLenOnly):
		err = s.CowHead(s.MacLen(), SiteL2)
	default:
		err = s.ExpandHead(s.MacLen(), 0, SiteL2)
	}
	if err != nil {
		return err
	}
	s.RebuildMac()
	return s.Push(s.MacLen())
}

// Edit is what an endpoint does before it writes to the first n bytes of the
// packet: nothing, so that clones see the edit, unless the kernel has EndUncow.
func Edit(s *SKB, n int) error {
	if !s.kernel.Profile.Has(EndUncow) {
		return nil
	}
	return s.EnsureWritable(n, SiteEndpoint)
}
