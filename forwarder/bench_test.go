package forwarder_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"seg6lab/forwarder"
)

// benchmarkFrame forwards a frame and fails when it is not sent.
func benchmarkFrame(b *testing.B, c forwarder.Config, frame []byte) {
	f := newRouter(b, c)
	count := 0
	out := func(int, []byte) { count++ }
	f.Input(0, frame, out)
	if count != 1 {
		b.Fatalf("the frame was not sent; drops %v", f.Drops())
	}
	b.ReportAllocs()
	for b.Loop() {
		f.Input(0, frame, out)
	}
}

// toSID is a packet to the segment that the endpoint behaviours are at.
const toSID = etherIn + "60000000 0060 2b 40" + host + segB + "29 04 04 01 01 00 0000" + segC + segB + inner

// hotPaths is every behaviour with a packet that it forwards.
func hotPaths() []hotPath {
	return []hotPath{
		{"IPv6", forwarder.Route{To: prefix("2001:db8:98::/48"), Via: addr("2001:db8:2::2"), Dev: "r1"}, etherIn + inner},
		{"IPv4", forwarder.Route{To: prefix("10.98.0.0/16"), Via: addr("10.0.2.2"), Dev: "r1"}, etherIn4 + inner4},
		{"H.Encaps", encapRoute("2001:db8:99::/64", "encap", "fc00:b::1"), etherIn + inner},
		{"H.Encaps.IPv4", encapRoute("10.99.0.0/24", "encap", "fc00:b::1"), etherIn4 + inner4},
		{"H.Encaps.HMAC", forwarder.Route{To: prefix("2001:db8:99::/64"), Dev: "r1",
			Encap: &forwarder.Encap{Mode: "encap", HMAC: 7, Segs: addrs("fc00:b::1")}}, etherIn + inner},
		{"H.Encaps.Red", encapRoute("2001:db8:99::/64", "encap.red", "fc00:b::1", "fc00:c::1"), etherIn + inner},
		{"H.Encaps.L2", encapRoute("2001:db8:99::/64", "l2encap", "fc00:b::1"), etherIn + inner},
		{"H.Encaps.L2.Red", encapRoute("2001:db8:99::/64", "l2encap.red", "fc00:b::1", "fc00:c::1"), etherIn + inner},
		{"H.Insert", encapRoute("2001:db8:99::/64", "inline", "fc00:b::1"), etherIn + inner},
		{"End", localRoute("fc00:b::1/128", forwarder.Local{Action: "End"}), toSID},
		{"End.PSP", localRoute("fc00:b::1/128", forwarder.Local{Action: "End", Flavors: []string{"psp"}}), toSID},
		{"End.NEXT-CSID", localRoute("fc00:b:1::/48", forwarder.Local{Action: "End", Flavors: []string{"next-csid"}}),
			etherIn + "60000000 0038 29 40" + host + "fc00000b0001000200030000 00000000" + inner},
		{"End.X", localRoute("fc00:b::1/128", forwarder.Local{Action: "End.X", NH6: addr("2001:db8:2::2")}), toSID},
		{"End.DX2", localRoute("fc00:b::1/128", forwarder.Local{Action: "End.DX2", OIF: "r1"}),
			etherIn + "60000000 0046 8f 40" + host + segB + etherIn + inner},
		{"End.DX6", localRoute("fc00:b::1/128", forwarder.Local{Action: "End.DX6", NH6: addr("2001:db8:2::2")}),
			etherIn + "60000000 0038 29 40" + host + segB + inner},
		{"End.DX4", localRoute("fc00:b::1/128", forwarder.Local{Action: "End.DX4", NH4: addr("0.0.0.0")}),
			etherIn + "60000000 0024 04 40" + host + segB + inner4},
		{"End.DT6", localRoute("fc00:b::1/128", forwarder.Local{Action: "End.DT6", Table: forwarder.TableMain}),
			etherIn + "60000000 0038 29 40" + host + segB + inner},
		{"End.B6", localRoute("fc00:b::1/128", forwarder.Local{Action: "End.B6", SRH: &forwarder.Encap{Segs: addrs("fc00:d::1")}}), toSID},
		{"End.B6.Encaps", localRoute("fc00:b::1/128", forwarder.Local{Action: "End.B6.Encaps", SRH: &forwarder.Encap{Segs: addrs("fc00:d::1")}}), toSID},
	}
}

type hotPath struct {
	name  string
	route forwarder.Route
	in    string
}

func (p hotPath) config() forwarder.Config {
	c := baseConfig()
	hmacKeys(&c)
	c.Routes = append(c.Routes, p.route)
	return c
}

func BenchmarkBehaviours(b *testing.B) {
	for _, path := range hotPaths() {
		b.Run(path.name, func(b *testing.B) { benchmarkFrame(b, path.config(), bytesOf(b, path.in)) })
	}
}

// TestNothingIsAllocated: no behaviour allocates for a packet.
func TestNothingIsAllocated(t *testing.T) {
	for _, path := range hotPaths() {
		f, frame, sent := newRouter(t, path.config()), bytesOf(t, path.in), 0
		out := func(int, []byte) { sent++ }
		if n := testing.AllocsPerRun(100, func() { f.Input(0, frame, out) }); n != 0 || sent != 101 {
			t.Errorf("%s: %v allocations a packet, %d of 101 sent", path.name, n, sent)
		}
	}
}

// BenchmarkRoutes is H.Encaps with a thousand and a million routes in the table:
// to as many destinations as a worker remembers at first, to as many as it
// remembers in the end, and to so many that most have to be looked up.
func BenchmarkRoutes(b *testing.B) {
	for _, row := range []struct {
		name                 string
		routes, destinations int
	}{
		{"1k/256 destinations", 1000, 256}, {"1M/256 destinations", 1_000_000, 256},
		{"64k/64k destinations", 1 << 16, 1 << 16}, {"1M/64k destinations", 1_000_000, 1 << 16},
		{"1M/1M destinations", 1_000_000, 1_000_000},
	} {
		b.Run(row.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			c := baseConfig()
			destinations := make([][16]byte, 0, row.destinations)
			encap := &forwarder.Encap{Mode: "encap", Segs: addrs("fc00:b::1")}
			for i := range row.routes {
				var a [16]byte
				a[0] = 0x20
				binary.BigEndian.PutUint64(a[1:], rng.Uint64())
				to := netip.AddrFrom16(a)
				p, _ := to.Prefix(33 + rng.IntN(32))
				r := forwarder.Route{To: p, Via: addr("2001:db8:2::2"), Dev: "r1"}
				if i < row.destinations {
					r = forwarder.Route{To: netip.PrefixFrom(to, 128), Dev: "r1", Encap: encap}
					destinations = append(destinations, a)
				}
				c.Routes = append(c.Routes, r)
			}
			f, frame, sent := newRouter(b, c), bytesOf(b, etherIn+inner), 0
			out := func(int, []byte) { sent++ }
			to := frame[14+24:]
			// Twice, so that the worker remembers what it can.
			for i := range 2 * len(destinations) {
				copy(to, destinations[i%len(destinations)][:])
				f.Input(0, frame, out)
			}
			if sent != 2*len(destinations) {
				b.Fatalf("%d of %d frames were sent; drops %v", sent, 2*len(destinations), f.Drops())
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); {
				copy(to, destinations[i][:])
				f.Input(0, frame, out)
				if i++; i == len(destinations) {
					i = 0
				}
			}
		})
	}
}
