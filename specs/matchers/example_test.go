package matchers_test

import (
	"encoding/hex"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"

	. "seg6lab/specs/matchers"
)

// encapsulated is an IPv6 packet after H.Encaps towards fc00:1::1 and then
// fc00:2::2, written by hand from RFC 8200 section 3 and RFC 8754 section 2.
var encapsulated = unhex(`
	020000000002 020000000001 86dd
	6b812345 0052 2b 3f fc000000000000000000000000000001 fc000001000000000000000000000001
	29 04 04 01  01 00 beef
	fc000002000000000000000000000002
	fc000001000000000000000000000001
	60000000 0002 3b 40 20010db8000100000000000000000002 20010db8000a00000000000000000001
	abcd`)

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		panic(err)
	}
	return b
}

func Example() {
	g := NewGomega(func(message string, _ ...int) { fmt.Println(message) })
	frame := encapsulated // from a capture

	g.Expect(frame).To(MatchPacket(`Ether()/IPv6(dst="fc00:1::1", hlim=63)/SRH(segleft=1)/IPv6()`))
	g.Expect(frame).To(HaveOuterIPv6("fc00::1", "fc00:1::1", HopLimit(63), TrafficClass(0xb8)))
	g.Expect(frame).To(HaveSRH(SegmentsLeft(1), Segments("fc00:2::2", "fc00:1::1"), TLVs(BeEmpty())))
	g.Expect(frame).To(HaveInner(`IPv6(dst="2001:db8:a::1", hlim=64)`))

	g.Expect(frame).To(HaveSRH(SegmentsLeft(0)))
	// Output:
	// Expected
	//     Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")/IPv6(tc=184, fl=74565, hlim=63, src="fc00::1", dst="fc00:1::1")/SRH(tag=48879, addresses=["fc00:2::2", "fc00:1::1"])/IPv6(src="2001:db8:1::2", dst="2001:db8:a::1")/Raw(b"\xab\xcd")
	// to have an SRH with segments left:
	// segments left: Expected
	//     <uint8>: 1
	// to be ==
	//     <int>: 0
}
