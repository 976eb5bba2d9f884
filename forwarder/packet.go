package forwarder

import "encoding/binary"

const (
	etherLen = 14
	vlanLen  = 4
	// linkLen is the longest link-layer header that is sent.
	linkLen = etherLen + maxTags*vlanLen
	// maxTags is how many VLAN devices may be on top of each other.
	maxTags   = 2
	ipv6Len   = 40
	ipv4Len   = 20
	maxPacket = 65535 + ipv6Len
	// headroom holds the longest SRH twice, with outer headers; what needs
	// more is dropped.
	headroom   = 4608
	bufferSize = headroom + maxPacket
)

// packet is one packet in a buffer that begins with headroom. Offsets count
// from the start of buf.
type packet struct {
	buf []byte
	// net is where the IP header begins, end is behind the last byte.
	net, end int
	// transport is where the header behind the IP header begins, nhoff the
	// offset of the next-header field that names it, from net.
	transport, nhoff int
	// mac is the link-layer header of the frame that was received, which an
	// L2 encapsulation takes along whatever happened to the packet since. It
	// is empty where there is none.
	mac []byte
	v6  bool
	// host: the frame was addressed to this router (PACKET_HOST).
	host bool
	// own: the router itself made the packet.
	own bool
	// hopDone: the hop limit was checked and decremented already, or need not
	// be, since the router itself sends the packet.
	hopDone bool
	// known (known4) is the neighbour to send to, in place of the destination,
	// on a connected route.
	known   [16]byte
	known4  [4]byte
	isKnown bool
	// fragmented: a fragment header was processed on local delivery.
	fragmented bool
	// srcrt: a routing header was processed on local delivery.
	srcrt  bool
	in     *device
	domain *domain
	// depth counts passes through the routing table.
	depth int
}

func (p *packet) bytes() []byte { return p.buf[p.net:p.end] }
func (p *packet) len() int      { return p.end - p.net }

// push makes room for n bytes in front and reports whether there is some.
func (p *packet) push(n int) bool {
	if p.net-n < linkLen || p.end-p.net+n > maxPacket {
		return false
	}
	p.net -= n
	return true
}

// setPayloadLen writes the IPv6 payload length.
func (p *packet) setPayloadLen() {
	binary.BigEndian.PutUint16(p.buf[p.net+4:], uint16(p.len()-ipv6Len))
}

func (p *packet) src6() *[16]byte { return (*[16]byte)(p.buf[p.net+8:]) }
func (p *packet) dst6() *[16]byte { return (*[16]byte)(p.buf[p.net+24:]) }
func (p *packet) src4() *[4]byte  { return (*[4]byte)(p.buf[p.net+12:]) }
func (p *packet) dst4() *[4]byte  { return (*[4]byte)(p.buf[p.net+16:]) }
