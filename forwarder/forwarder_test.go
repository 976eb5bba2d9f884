package forwarder_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"seg6lab/forwarder"
	"seg6lab/forwarder/srh"
	"seg6lab/traffic"
)

// The router of these tests, and what is around it:
//
//	source --- r0 router r1 --- core
//	02:..:01:01    01:02  02:01     02:02
//	2001:db8:1::1  ::2    2001:db8:2::1  ::2
//	10.0.1.1       .2     10.0.2.1       .2
//
// fc00::/16, 2001:db8:99::/48 and 10.99.0.0/16 are behind the core.
func baseConfig() forwarder.Config {
	return forwarder.Config{
		Devices: []forwarder.Device{
			{Name: "r0", MAC: [6]byte{2, 0, 0, 0, 1, 2}},
			{Name: "r1", MAC: [6]byte{2, 0, 0, 0, 2, 1}},
		},
		Addresses: map[string][]netip.Prefix{
			"r0": {netip.MustParsePrefix("2001:db8:1::2/64"), netip.MustParsePrefix("10.0.1.2/24")},
			"r1": {netip.MustParsePrefix("2001:db8:2::1/64"), netip.MustParsePrefix("10.0.2.1/24")},
		},
		Neighbours: []forwarder.Neighbour{
			{To: addr("2001:db8:1::1"), Dev: "r0", LLAddr: [6]byte{2, 0, 0, 0, 1, 1}},
			{To: addr("10.0.1.1"), Dev: "r0", LLAddr: [6]byte{2, 0, 0, 0, 1, 1}},
			{To: addr("2001:db8:2::2"), Dev: "r1", LLAddr: [6]byte{2, 0, 0, 0, 2, 2}},
			{To: addr("10.0.2.2"), Dev: "r1", LLAddr: [6]byte{2, 0, 0, 0, 2, 2}},
		},
		Routes: []forwarder.Route{
			{To: prefix("fc00::/16"), Via: addr("2001:db8:2::2"), Dev: "r1"},
			{To: prefix("2001:db8:99::/48"), Via: addr("2001:db8:2::2"), Dev: "r1"},
			{To: prefix("10.99.0.0/16"), Via: addr("10.0.2.2"), Dev: "r1"},
		},
		TunSrc: addr("fc00:a::1"),
		Sysctls: map[string]string{
			"net.ipv6.conf.all.forwarding":    "1",
			"net.ipv4.ip_forward":             "1",
			"net.ipv6.conf.all.addr_gen_mode": "1",
			"net.ipv6.icmp.ratelimit":         "0",
			"net.ipv4.icmp_ratelimit":         "0",
			"net.ipv4.icmp_msgs_per_sec":      "1000000",
			"net.ipv4.icmp_msgs_burst":        "1000000",
		},
	}
}

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func encapRoute(to, mode string, segs ...string) forwarder.Route {
	e := &forwarder.Encap{Mode: mode}
	for _, s := range segs {
		e.Segs = append(e.Segs, addr(s))
	}
	return forwarder.Route{To: prefix(to), Dev: "r1", Encap: e}
}

func localRoute(to string, l forwarder.Local) forwarder.Route {
	return forwarder.Route{To: prefix(to), Dev: "r1", Local: &l}
}

// sent is a frame that a router sent.
type sent = traffic.Arrival

func newRouter(t testing.TB, c forwarder.Config) *forwarder.Forwarder {
	t.Helper()
	f, err := forwarder.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// through gives what f sends for a frame on a port.
func through(f *forwarder.Forwarder, port int, frame []byte) (out []sent) {
	f.Input(port, frame, func(port int, frame []byte) { out = append(out, sent{Port: port, Frame: bytes.Clone(frame)}) })
	return out
}

// bytesOf reads hexadecimal with blanks in it.
func bytesOf(t testing.TB, parts ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(strings.Join(parts, "")), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Pieces of frames, written by hand.
const (
	etherIn  = "020000000102 020000000101 86dd "
	etherIn4 = "020000000102 020000000101 0800 "
	etherOut = "020000000202 020000000201 86dd "
	tunsrc   = "fc00000a000000000000000000000001 "
	host     = "20010db8000100000000000000000001 "
	far      = "20010db8009900000000000000000001 "
	segB     = "fc00000b000000000000000000000001 "
	segC     = "fc00000c000000000000000000000001 "
	// udp is a datagram to the discard port with eight bytes of payload.
	udp = "04d2 0009 0010 0000 0102030405060708 "
	// inner is an IPv6 packet with class 0xab, flow label 0xcdef1, hop limit
	// 64.
	inner = "6abcdef1 0010 11 40 " + host + far + udp
	// inner4 is 10.0.1.1 > 10.99.0.1 with type of service 0x28 and TTL 64.
	inner4 = "4528 0024 1234 4000 40 11 1309 0a000101 0a630001 " + udp
)

func TestBehavioursByHand(t *testing.T) {
	for _, row := range []struct {
		name  string
		route forwarder.Route
		in    string
		// want is empty for a packet that is dropped in silence.
		want string
	}{
		// RFC 8986 section 5.1; seg6_do_srh_encap copies class, label and hop
		// limit, and the outer hop limit is then decremented.
		{"H.Encaps of IPv6", encapRoute("2001:db8:99::/64", "encap", "fc00:b::1", "fc00:c::1"), etherIn + inner,
			etherOut + "6abcdef1 0060 2b 3f" + tunsrc + segB + "29 04 04 01 01 00 0000" + segC + segB + inner},
		{"H.Encaps of IPv4", encapRoute("10.99.0.0/24", "encap", "fc00:b::1"), etherIn4 + inner4,
			etherOut + "60000000 003c 2b 3f" + tunsrc + segB + "04 02 04 00 00 00 0000" + segB + inner4},
		{"H.Encaps.Red, two segments", encapRoute("2001:db8:99::/64", "encap.red", "fc00:b::1", "fc00:c::1"), etherIn + inner,
			etherOut + "6abcdef1 0050 2b 3f" + tunsrc + segB + "29 02 04 01 00 00 0000" + segC + inner},
		{"H.Encaps.Red, one segment", encapRoute("2001:db8:99::/64", "encap.red", "fc00:b::1"), etherIn + inner,
			etherOut + "6abcdef1 0038 29 3f" + tunsrc + segB + inner},
		{"H.Encaps.L2", encapRoute("2001:db8:99::/64", "l2encap", "fc00:b::1"), etherIn + inner,
			etherOut + "6abcdef1 005e 2b 3f" + tunsrc + segB + "8f 02 04 00 00 00 0000" + segB + etherIn + inner},
		{"H.Encaps.L2.Red", encapRoute("2001:db8:99::/64", "l2encap.red", "fc00:b::1"), etherIn + inner,
			etherOut + "6abcdef1 0046 8f 3f" + tunsrc + segB + etherIn + inner},
		{"H.Insert", encapRoute("2001:db8:99::/64", "inline", "fc00:b::1"), etherIn + inner,
			etherOut + "6abcdef1 0038 2b 3f" + host + segB + "11 04 04 01 01 00 0000" + far + segB + udp},
		// RFC 8986 section 4.1.
		{"End", localRoute("fc00:b::1/128", forwarder.Local{Action: "End"}),
			etherIn + "60000000 0060 2b 40" + host + segB + "29 04 04 01 01 00 0000" + segC + segB + inner,
			etherOut + "60000000 0060 2b 3f" + host + segC + "29 04 04 00 01 00 0000" + segC + segB + inner},
		{"End, segments left 0", localRoute("fc00:b::1/128", forwarder.Local{Action: "End"}),
			etherIn + "60000000 0060 2b 40" + host + segB + "29 04 04 00 01 00 0000" + segB + segC + inner, ""},
		{"End without SRH", localRoute("fc00:b::1/128", forwarder.Local{Action: "End"}),
			etherIn + "60000000 0038 29 40" + host + segB + inner, ""},
		// RFC 8986 section 4.16.1.
		{"End with PSP", localRoute("fc00:b::1/128", forwarder.Local{Action: "End", Flavors: []string{"psp"}}),
			etherIn + "60000000 0060 2b 40" + host + segB + "29 04 04 01 01 00 0000" + segC + segB + inner,
			etherOut + "60000000 0038 29 3f" + host + segC + inner},
		// RFC 9800 section 4.1: fc00:b / 0001 / 0002..., no SRH needed.
		{"End with NEXT-CSID", localRoute("fc00:b:1::/48", forwarder.Local{Action: "End", Flavors: []string{"next-csid"}}),
			etherIn + "60000000 0038 29 40" + host + "fc00000b0001000200030000 00000000" + inner,
			etherOut + "60000000 0038 29 3f" + host + "fc00000b0002000300000000 00000000" + inner},
		// RFC 8986 sections 4.4, 4.9; the inner hop limit is decremented when
		// the inner packet is forwarded.
		{"End.DX6", localRoute("fc00:b::1/128", forwarder.Local{Action: "End.DX6", NH6: addr("2001:db8:2::2")}),
			etherIn + "60000000 0038 29 40" + host + segB + inner,
			etherOut + "6abcdef1 0010 11 3f" + host + far + udp},
		{"End.DX2", localRoute("fc00:b::1/128", forwarder.Local{Action: "End.DX2", OIF: "r1"}),
			etherIn + "60000000 0046 8f 40" + host + segB + etherIn + inner, etherIn + inner},
		{"End.DX6, segments left 1", localRoute("fc00:b::1/128", forwarder.Local{Action: "End.DX6", NH6: addr("2001:db8:2::2")}),
			etherIn + "60000000 0060 2b 40" + host + segB + "29 04 04 01 01 00 0000" + segC + segB + inner, ""},
		// RFC 8986 section 4.13.
		{"End.B6.Encaps", localRoute("fc00:b::1/128", forwarder.Local{Action: "End.B6.Encaps", SRH: &forwarder.Encap{Segs: []netip.Addr{addr("fc00:d::1")}}}),
			etherIn + "60000000 0060 2b 40" + host + segB + "29 04 04 01 01 00 0000" + segC + segB + inner,
			etherOut + "60000000 00a0 2b 3f" + tunsrc + "fc00000d000000000000000000000001" + "29 02 04 00 00 00 0000" + "fc00000d000000000000000000000001" +
				"60000000 0060 2b 40" + host + segC + "29 04 04 00 01 00 0000" + segC + segB + inner},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := baseConfig()
			c.Routes = append(c.Routes, row.route)
			out := through(newRouter(t, c), 0, bytesOf(t, row.in))
			if row.want == "" {
				if len(out) > 0 {
					t.Errorf("sent %v, want nothing", out)
				}
				return
			}
			want := sent{Port: 1, Frame: bytesOf(t, row.want)}
			if len(out) != 1 || !out[0].Equal(want) {
				t.Errorf("sent\n%v\nwant\n%v", out, want)
			}
		})
	}
}

// With seg6_flowlabel 1 the outer label is a hash of the flow: the same for its
// packets, another one for another flow (of 16 flows two at most share one).
func TestFlowLabelHash(t *testing.T) {
	c := baseConfig()
	c.Sysctls["net.ipv6.seg6_flowlabel"] = "1"
	c.Routes = append(c.Routes, encapRoute("2001:db8:99::/64", "encap.red", "fc00:b::1"), encapRoute("10.99.0.0/24", "encap.red", "fc00:b::1"))
	f := newRouter(t, c)
	for _, in := range []string{etherIn + inner, etherIn4 + inner4} {
		labels := map[uint32]bool{}
		for flow := range 16 {
			frame := bytesOf(t, in)
			frame[len(frame)-15] = byte(flow) // The source port.
			one, two := through(f, 0, frame), through(f, 0, frame)
			if len(one) != 1 || len(two) != 1 || !one[0].Equal(two[0]) {
				t.Fatalf("sent %v, then %v", one, two)
			}
			labels[binary.BigEndian.Uint32(one[0].Frame[14:])&0xfffff] = true
		}
		if len(labels) < 15 {
			t.Errorf("16 flows have %d labels", len(labels))
		}
	}
}

// A dummy device has an address and takes routes, but no port number.
func TestDummy(t *testing.T) {
	c := baseConfig()
	c.Devices = append([]forwarder.Device{{Name: "dummy0", Dummy: true}}, c.Devices...)
	c.Addresses["dummy0"] = []netip.Prefix{prefix("fc00:a::1/64")}
	c.Neighbours = append(c.Neighbours, forwarder.Neighbour{To: addr("2001:db8:98::1"), Dev: "dummy0"})
	c.TunSrc = netip.Addr{}
	r := encapRoute("2001:db8:99::/64", "encap.red", "fc00:b::1")
	r.Dev = "dummy0"
	c.Routes = append(c.Routes, r, forwarder.Route{To: prefix("2001:db8:98::/64"), Dev: "dummy0"})
	f := newRouter(t, c)
	want := sent{Port: 1, Frame: bytesOf(t, etherOut, "6abcdef1 0038 29 3f", tunsrc, segB, inner)}
	if out := through(f, 0, bytesOf(t, etherIn, inner)); len(out) != 1 || !out[0].Equal(want) {
		t.Errorf("sent\n%v\nwant\n%v", out, want)
	}
	if out := through(f, 0, bytesOf(t, etherIn, "60000000 0010 11 40", host, "20010db8009800000000000000000001", udp)); len(out) != 0 {
		t.Errorf("a dummy device sent %v", out)
	}
}

func addrs(s ...string) (list []netip.Addr) {
	for _, a := range s {
		list = append(list, addr(a))
	}
	return list
}

func zeros(n int) string { return strings.Repeat("00", n) }

// hexLen is the length of hexadecimal text in bytes, as four digits.
func hexLen(t testing.TB, s string) string { return fmt.Sprintf("%04x ", len(bytesOf(t, s))) }

// wrongHMAC is an SRH with segments left 1 and an HMAC of zeros under key 7.
var wrongHMAC = "29 09 04 01 01 08 0000" + segC + segB + "0526 0000 00000007" + zeros(32)

func hmacKeys(c *forwarder.Config) {
	c.HMAC = []forwarder.HMACKey{{ID: 7, Algorithm: srh.SHA256, Secret: "seven"}, {ID: 8, Algorithm: srh.SHA1, Secret: "eight"}}
}
