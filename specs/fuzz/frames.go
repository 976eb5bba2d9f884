package fuzz

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"seg6lab/lab/topology"
)

// Pieces of frames. Addresses are those of the topology that config.go draws.
const (
	hostAddr = "20010db8000100000000000000000001"
	farAddr  = "20010db8009900000000000000000001"
	lostAddr = "30010db8000000000000000000000001" // no route leads there
	ownAddr  = "20010db8000100000000000000000002"
	segB     = "fc00000b000000000000000000000001"
	segC     = "fc00000c000000000000000000000001"
	// udp is a datagram to the discard port with eight bytes of payload.
	udp = "04d2 0009 0010 0000 0102030405060708"
	// inner is an IPv6 packet from src to beyond dst.
	inner = "6abcdef1 0010 11 40" + hostAddr + farAddr + udp
)

// unhex reads hexadecimal, which is that of this file, with blanks in it.
func unhex(parts ...string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// address of an IPv6 packet, in hexadecimal.
func (d draw) address() string {
	return pick(d, hostAddr, farAddr, segB, segC, ownAddr, lostAddr,
		fmt.Sprintf("20010db80099%04x000000000000000%d", 1+d.IntN(7), 1+d.IntN(2)),
		fmt.Sprintf("20010db80099%04x000000000000000%d", 1+d.IntN(7), 1+d.IntN(2)),
		"20010db8000200000000000000000002", d.sid(), d.sid(), d.sid())
}

func (d draw) sid() string {
	return pick(d, fmt.Sprintf("fc00000b0000000000000000000000%02x", 1+d.IntN(13)), fmt.Sprintf("fc00000b0000000000000000000000%02x", 1+d.IntN(13)),
		fmt.Sprintf("fc00000b000%d0005000600070000000%d", 1+d.IntN(2), 9*d.IntN(2)),
		fmt.Sprintf("fc00000b000%d0000000000000000%04x", 1+d.IntN(2), pick(d, 0, 0, 1, 0x100)))
}

// packet is an IP packet, at most depth packets deep: extension headers in any
// order around an SRH whose fields do not always fit together.
func (d draw) packet(depth int) []byte {
	if d.one(8) {
		return d.packet4()
	}
	next, payload := d.upper(depth)
	for range d.IntN(4) {
		next, payload = d.extension(next, payload)
	}
	b := append(unhex(pick(d, "60000000", "6abcdef1", "60000001")), 0, 0, next, d.hopLimit())
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	if next == 0 && d.one(8) {
		b[4], b[5] = 0, 0 // as of a jumbogram
	}
	// No source is a SID: the kernel would look for a neighbour of that address,
	// and keep its errors until it gives up.
	b = append(b, unhex(pick(d, hostAddr, hostAddr, farAddr, segC, lostAddr), d.address())...)
	return append(b, payload...)
}

func (d draw) hopLimit() byte { return pick[byte](d, 0, 1, 2, 3, 63, 64, 64, 64, 255) }

func (d draw) packet4() []byte {
	// Without options, with ones that ask for nothing, and with malformed ones.
	version, options := "45", pick(d, "", "", "", "01010100", "94040000", "94040001", "5e040000", "5e050000", "01010182")
	if options != "" {
		version = "46"
	}
	b := unhex(version, pick(d, "00", "28"), fmt.Sprintf("%04x", 0x24+len(options)/2), "1234", pick(d, "4000", "0000", "2000", "0004"),
		pick(d, "40", "01", "02"), "11 0000", pick(d, "0a000101", "0a000101", "0a000101", "7f000001", "e0000001", "0a000102"),
		pick(d, "0a630001", "0a630101", "0a000102", "0a0001ff", "7f000001"), options, udp)
	var sum uint32
	for i := 0; i < 20+len(options)/2; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
	return b
}

// upper is what the extension headers end with, and its protocol.
func (d draw) upper(depth int) (byte, []byte) {
	switch n := d.IntN(10); {
	case n < 4 && depth > 0:
		b := d.packet(depth - 1)
		if b[0]>>4 == 4 {
			return 4, b
		}
		return 41, b
	case n < 6:
		return 143, append(unhex(pick(d, "020000000102 020000000101", "ffffffffffff 020000000101"), pick(d, "86dd", "0806", "8100 0064 86dd", "0010")), unhex(inner)...)
	case n < 7:
		return 59, nil
	}
	return 17, unhex(udp)
}

func (d draw) extension(next byte, payload []byte) (byte, []byte) {
	head := []byte{next}
	switch d.IntN(10) {
	case 0:
		head = append(head, unhex("00 0104 00000000")...)
		return pick[byte](d, 60, 0), append(head, payload...)
	case 1:
		head = append(head, unhex("00", pick(d, "1e", "5e", "9e", "de", "05"), "04 00000000")...)
		return pick[byte](d, 60, 0), append(head, payload...)
	case 2:
		head = append(head, unhex("00", pick(d, "0000", "0001", "0011", "0009"), "00000007")...)
		return 44, append(head, payload...)
	}
	n := 1 + d.IntN(4)
	last, left := n-1, d.IntN(n+1)
	if d.one(8) {
		last = d.IntN(n + 2)
	}
	if d.one(8) {
		left = d.IntN(n + 3)
	}
	tlvs := unhex(pick(d, "", "", "", "0406 000000000000", "0000000000000000", "0a06 010203040506", "0407 000000000000"))
	flags := byte(0)
	if d.one(10) {
		flags = 8
		tlvs = append(tlvs, unhex("0526 0000 00000007", strings.Repeat("00", 32))...)
	}
	kind := byte(4)
	if d.one(16) {
		kind = pick[byte](d, 0, 1, 3, 5) // not 2, of which kernels with CONFIG_IPV6_MIP6 think otherwise
	}
	head = append(head, byte(2*n+len(tlvs)/8), kind, byte(left), byte(last), flags, 0, byte(d.IntN(2)))
	for range n {
		head = append(head, unhex(d.address())...)
	}
	return 43, append(append(head, tlvs...), payload...)
}

// frame is a whole frame for a port, sometimes cut short, damaged or tagged.
func (d draw) frame() (port int, frame []byte) {
	if d.one(16) {
		port = 1
	}
	b, proto := d.packet(2), "86dd"
	if b[0]>>4 == 4 {
		proto = "0800"
		if d.one(20) {
			b[d.IntN(len(b))] ^= byte(1 << d.IntN(8))
		}
	} else {
		switch d.IntN(20) {
		case 0:
			b = b[:d.IntN(len(b))]
		case 1:
			b[4+d.IntN(len(b)-4)] ^= byte(1 << d.IntN(8))
		}
	}
	tag := ""
	if d.one(16) {
		tag = pick(d, "8100 0064", "8100 a000", "8100 0065", "88a8 0064")
	}
	return port, append(ethernet(port, tag, proto), b...)
}

// ethernet is the header of a frame from the end behind a port to the router.
func ethernet(port int, tag, proto string) []byte {
	own, peer := topology.LinkMAC(port, 1-port), topology.LinkMAC(port, port)
	return append(append(append([]byte{}, own[:]...), peer[:]...), unhex(tag, proto)...)
}
