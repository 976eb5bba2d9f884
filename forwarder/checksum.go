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

// udp6 reports whether a datagram in the IPv6 packet that ip begins with is
// sound: its length (0 for a jumbogram) and its checksum, which it must have
// (RFC 8200 section 8.1).
func udp6(ip, datagram []byte) bool {
	if len(datagram) < 8 {
		return false
	}
	length := int(binary.BigEndian.Uint16(datagram[4:]))
	if length == 0 {
		length = len(datagram)
	}
	return length >= 8 && length <= len(datagram) && binary.BigEndian.Uint16(datagram[6:]) != 0 &&
		checksum6(ip, protoUDP, datagram[:length]) == 0
}

// udp4 is udp6 for IPv4, where the checksum may be left out (RFC 768).
func udp4(ip, datagram []byte) bool {
	if len(datagram) < 8 {
		return false
	}
	length := int(binary.BigEndian.Uint16(datagram[4:]))
	if length < 8 || length > len(datagram) {
		return false
	}
	sum := sum16(datagram[:length], sum16(ip[12:20], uint32(length)+protoUDP))
	return binary.BigEndian.Uint16(datagram[6:]) == 0 || fold(sum) == 0
}

// checksum is the Internet checksum of b.
func checksum(b []byte) uint16 { return fold(sum16(b, 0)) }
