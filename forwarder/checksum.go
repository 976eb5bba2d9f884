package forwarder

import "encoding/binary"

// sum16 adds 16-bit words in network order (RFC 1071).
func sum16(b []byte, sum uint32) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// checksum6 is the checksum of an upper-layer message in the IPv6 packet that
// ip begins with (RFC 8200 section 8.1). Over a message that carries its
// checksum it is 0.
func checksum6(ip []byte, proto byte, message []byte) uint16 {
	sum := sum16(ip[8:40], uint32(len(message))+uint32(proto))
	return fold(sum16(message, sum))
}

// checksum is the Internet checksum of b.
func checksum(b []byte) uint16 { return fold(sum16(b, 0)) }
