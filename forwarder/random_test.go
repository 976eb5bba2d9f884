package forwarder_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"seg6lab/forwarder"
)

var (
	randomSeed  = flag.Uint64("seed", 1, "seed of the random frames")
	randomCount = flag.Int("frames", 50000, "how many random frames go through the kernel and the forwarder")
)

// randomConfig has every behaviour that needs no VRF. It leaves seg6_enabled
// off: before the push by -skb_network_offset in ipv6_srh_rcv, kernels lost
// bytes of packets with an options header in front of the SRH.
func randomConfig() forwarder.Config {
	c := baseConfig()
	policy := &forwarder.Encap{Segs: addrs("fc00:d::1", "fc00:e::1")}
	c.Routes = append(c.Routes,
		encapRoute("2001:db8:99:1::/64", "encap", "fc00:f::1", "fc00:c::1"),
		encapRoute("2001:db8:99:2::/64", "encap.red", "fc00:f::1", "fc00:c::1"),
		encapRoute("2001:db8:99:3::/64", "l2encap", "fc00:f::1"),
		encapRoute("2001:db8:99:4::/64", "l2encap.red", "fc00:f::1"),
		encapRoute("2001:db8:99:5::/64", "inline", "fc00:f::1"),
		encapRoute("10.99.1.0/24", "encap", "fc00:f::1"),
		forwarder.Route{To: prefix("2001:db8:99:6::/64"), Dev: "r1", Encap: &forwarder.Encap{Mode: "encap", HMAC: 7, Segs: addrs("fc00:b::1", "fc00:c::1")}},
		localRoute("fc00:b::1/128", forwarder.Local{Action: "End"}),
		localRoute("fc00:b::2/128", forwarder.Local{Action: "End", Flavors: []string{"psp"}}),
		localRoute("fc00:b::3/128", forwarder.Local{Action: "End.X", NH6: addr("2001:db8:2::2")}),
		localRoute("fc00:b::4/128", forwarder.Local{Action: "End.T", Table: forwarder.TableMain}),
		localRoute("fc00:b::5/128", forwarder.Local{Action: "End.DX2", OIF: "r1"}),
		localRoute("fc00:b::6/128", forwarder.Local{Action: "End.DX6", NH6: addr("::")}),
		localRoute("fc00:b::7/128", forwarder.Local{Action: "End.DX4", NH4: addr("0.0.0.0")}),
		localRoute("fc00:b::8/128", forwarder.Local{Action: "End.DT6", Table: forwarder.TableMain}),
		localRoute("fc00:b::9/128", forwarder.Local{Action: "End.B6", SRH: policy}),
		localRoute("fc00:b::a/128", forwarder.Local{Action: "End.B6.Encaps", SRH: policy}),
		localRoute("fc00:b:1::/48", forwarder.Local{Action: "End", Flavors: []string{"next-csid"}}),
		localRoute("fc00:b:2::/48", forwarder.Local{Action: "End.X", NH6: addr("2001:db8:2::2"), Flavors: []string{"next-csid"}}),
	)
	hmacKeys(&c)
	return c
}

// frames draws frames: extension headers in any order around an SRH whose
// fields do not always fit together, with valid and damaged parts.
type frames struct{ *rand.Rand }

func (r frames) oneOf(list ...string) string { return list[r.IntN(len(list))] }

func (r frames) address() string {
	return r.oneOf(host, far, segB, segC, "20010db8000100000000000000000002", "30010db8000000000000000000000001",
		"20010db800990001000000000000000"+r.oneOf("1", "2"), "20010db800990002000000000000000"+r.oneOf("1", "2"),
		"20010db8009900030000000000000001", "20010db8009900040000000000000001", "20010db8009900050000000000000001",
		"20010db8009900060000000000000001", "20010db8000200000000000000000002", r.sid(), r.sid(), r.sid())
}

func (r frames) sid() string {
	return r.oneOf("fc00000b00000000000000000000000"+r.oneOf("1", "2", "3", "4", "5", "6", "7", "8", "9", "a"),
		"fc00000b000"+r.oneOf("1", "2")+"0005000600070000"+r.oneOf("0000", "0009"),
		"fc00000b000"+r.oneOf("1", "2")+"0000000000000000"+"0000")
}

// packet is an IPv6 packet in bytes, at most depth packets deep.
func (r frames) packet(t testing.TB, depth int) []byte {
	if r.IntN(8) == 0 {
		return r.packet4(t)
	}
	class := bytesOf(t, r.oneOf("60000000", "6abcdef1", "60000001"))
	next, payload := r.upper(t, depth)
	for range r.IntN(4) {
		next, payload = r.extension(t, next, payload)
	}
	b := append(class, 0, 0, next, byte(r.IntN(4)*r.IntN(60)))
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	// No source is a SID: the kernel would look for a neighbour of that address,
	// and keep its errors until it gives up.
	b = append(b, bytesOf(t, r.oneOf(host, host, far, segC, "30010db8000000000000000000000001"), r.address())...)
	return append(b, payload...)
}

func (r frames) packet4(t testing.TB) []byte {
	// Without options, with ones that ask for nothing, and with malformed ones.
	version, options := "45", r.oneOf("", "", "", "01010100", "94040000", "94040001", "5e040000", "5e050000", "01010182")
	if options != "" {
		version = "46"
	}
	b := bytesOf(t, version, r.oneOf("00", "28"), fmt.Sprintf("%04x", 0x24+len(options)/2), "1234", r.oneOf("4000", "0000", "2000", "0004"),
		r.oneOf("40", "01", "02"), "11 0000", r.oneOf("0a000101", "0a000101", "0a000101", "7f000001", "e0000001", "0a000102"),
		r.oneOf("0a630001", "0a630101", "0a000102", "0a0001ff", "7f000001"), options, udp)
	var sum uint32
	for i := 0; i < 20+len(options)/2; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
	return b
}

func (r frames) upper(t testing.TB, depth int) (byte, []byte) {
	switch n := r.IntN(10); {
	case n < 4 && depth > 0:
		b := r.packet(t, depth-1)
		if b[0]>>4 == 4 {
			return 4, b
		}
		return 41, b
	case n < 6:
		return 143, append(bytesOf(t, r.oneOf("020000000102 020000000101", "ffffffffffff 020000000101"), r.oneOf("86dd", "0806", "8100 0064 86dd", "0010")), bytesOf(t, inner)...)
	case n < 7:
		return 59, nil
	}
	return 17, bytesOf(t, udp)
}

func (r frames) extension(t testing.TB, next byte, payload []byte) (byte, []byte) {
	head := []byte{next}
	switch r.IntN(10) {
	case 0:
		head = append(head, bytesOf(t, "00 0104 00000000")...)
		return r.either(60, 0), append(head, payload...)
	case 1:
		head = append(head, bytesOf(t, "00", r.oneOf("1e", "5e", "9e", "de", "05"), "04 00000000")...)
		return r.either(60, 0), append(head, payload...)
	case 2:
		head = append(head, bytesOf(t, "00", r.oneOf("0000", "0001", "0011", "0009"), "00000007")...)
		return 44, append(head, payload...)
	}
	n := 1 + r.IntN(3)
	last, left := n-1, r.IntN(n+1)
	if r.IntN(8) == 0 {
		last = r.IntN(n + 2)
	}
	if r.IntN(8) == 0 {
		left = r.IntN(n + 3)
	}
	tlvs := bytesOf(t, r.oneOf("", "", "", "0406 000000000000", "0000000000000000", "0a06 010203040506", "0407 000000000000"))
	flags := byte(0)
	if r.IntN(10) == 0 {
		flags = 8
		tlvs = append(tlvs, bytesOf(t, "0526 0000 00000007", zeros(32))...)
	}
	kind := byte(4)
	if r.IntN(16) == 0 {
		kind = byte(r.IntN(6))
	}
	head = append(head, byte(2*n+len(tlvs)/8), kind, byte(left), byte(last), flags, 0, 0)
	for range n {
		head = append(head, bytesOf(t, r.address())...)
	}
	return 43, append(append(head, tlvs...), payload...)
}

func (r frames) either(a, b byte) byte {
	if r.IntN(2) == 0 {
		return a
	}
	return b
}

// frame is a whole frame, sometimes cut short or damaged.
func (r frames) frame(t testing.TB) []byte {
	b := r.packet(t, 2)
	if b[0]>>4 == 4 {
		if r.IntN(20) == 0 {
			b[r.IntN(len(b))] ^= byte(1 << r.IntN(8))
		}
		return append(bytesOf(t, etherIn4), b...)
	}
	switch r.IntN(20) {
	case 0:
		b = b[:r.IntN(len(b))]
	case 1:
		b[4+r.IntN(len(b)-4)] ^= byte(1 << r.IntN(8))
	}
	return append(bytesOf(t, etherIn), b...)
}

// TestKernelAgreesAtRandom is the judge at large: random frames, every byte
// compared. A difference prints the frame; the same -seed draws it again.
func TestKernelAgreesAtRandom(t *testing.T) {
	c := randomConfig()
	k, f := newKernelRouter(t, c), newRouter(t, c)
	r := frames{rand.New(rand.NewPCG(*randomSeed, 0))}
	differences := 0
	for i := range *randomCount {
		if !compare(t, k, f, 0, r.frame(t)) {
			t.Logf("frame %d of -seed %d", i, *randomSeed)
			if differences++; differences == 5 {
				t.Fatal("giving up after 5 differences")
			}
		}
	}
	all := k.router.counters()
	if len(all) == 0 {
		t.Error("the kernel shows no counters")
	}
	for sid, want := range all {
		if got, ok := f.Counters(sid); !ok || got != want {
			t.Errorf("%s: counters %+v, the kernel has %+v", sid, got, want)
		}
	}
	t.Logf("drops: %v", f.Drops())
}
