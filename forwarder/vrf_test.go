package forwarder_test

import (
	"testing"

	"seg6lab/forwarder"
)

// vpnConfig is a provider edge: r0 to the customer in VRF blue (table 100), r1
// to the core. 2001:db8:1::/64 and 10.0.1.0/24 are the customer's.
func vpnConfig() forwarder.Config {
	c := baseConfig()
	c.VRFs = []forwarder.VRF{{Name: "blue", Table: 100, Devices: []string{"r0"}}}
	c.Routes = append(c.Routes,
		forwarder.Route{To: prefix("2001:db8:99::/64"), VRF: "blue", Dev: "r1", Encap: &forwarder.Encap{Mode: "encap.red", Segs: addrs("fc00:b::1")}},
		forwarder.Route{To: prefix("10.99.0.0/24"), VRF: "blue", Dev: "r1", Encap: &forwarder.Encap{Mode: "encap.red", Segs: addrs("fc00:b::1")}},
		forwarder.Route{To: prefix("fc00:a::4/128"), Dev: "blue", Local: &forwarder.Local{Action: "End.DT4", VRFTable: 100}},
		forwarder.Route{To: prefix("fc00:a::6/128"), Dev: "blue", Local: &forwarder.Local{Action: "End.DT6", VRFTable: 100}},
		forwarder.Route{To: prefix("fc00:a::46/128"), Dev: "blue", Local: &forwarder.Local{Action: "End.DT46", VRFTable: 100}},
		forwarder.Route{To: prefix("fc00:a:1::/48"), Dev: "blue", Local: &forwarder.Local{Action: "End.DT46", VRFTable: 100, Flavors: []string{"next-csid"}}},
		forwarder.Route{To: prefix("fc00:a:2::/48"), Dev: "r1", Local: &forwarder.Local{Action: "End", Flavors: []string{"next-csid"}}},
	)
	return c
}

// The behaviours that decapsulate into a VRF (RFC 8986 sections 4.6 to 4.8),
// by hand: the inner hop limit is decremented once.
func TestVRF(t *testing.T) {
	const (
		fromCore = "020000000201 020000000202 86dd "
		toHost   = "020000000101 020000000102 86dd "
		toHost4  = "020000000101 020000000102 0800 "
		back     = "6abcdef1 0010 11 40 " + far + host + udp
		backSent = "6abcdef1 0010 11 3f " + far + host + udp
		// 10.99.0.1 > 10.0.1.1; with the TTL the checksum changes by 0x100.
		back4     = "4528 0024 1234 4000 40 11 1309 0a630001 0a000101 " + udp
		back4Sent = "4528 0024 1234 4000 3f 11 1409 0a630001 0a000101 " + udp
		peer      = "fc00000b000000000000000000000001 "
	)
	sid := func(last string) string { return "fc00000a0000000000000000000000" + last }
	for _, row := range []struct {
		name, in string
		port     int
		want     string
		out      int
	}{
		{"H.Encaps.Red in the VRF", etherIn + inner, 0, etherOut + "6abcdef1 0038 29 3f" + tunsrc + segB + inner, 1},
		{"H.Encaps.Red of IPv4 in the VRF", etherIn4 + inner4, 0, etherOut + "60000000 0024 04 3f" + tunsrc + segB + inner4, 1},
		{"End.DT6", fromCore + "60000000 0038 29 40" + peer + sid("06") + back, 1, toHost + backSent, 0},
		{"End.DT4", fromCore + "60000000 0024 04 40" + peer + sid("04") + back4, 1, toHost4 + back4Sent, 0},
		{"End.DT46 of IPv6", fromCore + "60000000 0038 29 40" + peer + sid("46") + back, 1, toHost + backSent, 0},
		{"End.DT46 of IPv4", fromCore + "60000000 0024 04 40" + peer + sid("46") + back4, 1, toHost4 + back4Sent, 0},
		{"End.DT46 with an SRH that is done", fromCore + "60000000 0050 2b 40" + peer + sid("46") + "29 02 04 00 00 00 0000" + sid("46") + back, 1, toHost + backSent, 0},
		{"End.DT46 with a segment left", fromCore + "60000000 0060 2b 40" + peer + sid("46") + "29 04 04 01 01 00 0000" + segC + sid("46") + back, 1, "", 0},
		{"End.DT46 of neither", fromCore + "60000000 0010 11 40" + peer + sid("46") + udp, 1, "", 0},
		{"End.DT4 of IPv6", fromCore + "60000000 0038 29 40" + peer + sid("04") + back, 1, "", 0},
		{"End.DT46 with NEXT-CSID, at the end", fromCore + "60000000 0038 29 40" + peer + "fc00000a000100000000000000000000" + back, 1, toHost + backSent, 0},
		{"NEXT-CSID, then End.DT46", fromCore + "60000000 0038 29 40" + peer + "fc00000a000200010000000000000000" + back, 1, toHost + backSent, 0},
		// The customer's prefix is not reachable outside of the VRF, nor the
		// node's own routes beyond what the VRF falls back to.
		{"the core to the customer", fromCore + "60000000 0010 3b 40" + far + host + udp, 1,
			"020000000202 020000000201 86dd 60000000 0040 3a 40" + "20010db8000200000000000000000001" + far +
				"0100 9618 00000000 60000000 0010 3b 40" + far + host + udp, 1},
		// The source of the error is an address of the device that received the
		// packet (IP6CB(skb)->iif outlives the decapsulation), its route the
		// VRF's; a packet of the node itself keeps its hop limit.
		{"hop limit 1 in the VRF", fromCore + "60000000 0038 29 40" + peer + sid("46") + "6abcdef1 0010 11 01 " + far + host + udp, 1,
			etherOut + "60000000 0068 29 40" + tunsrc + segB + "60000000 0040 3a 4020010db8000200000000000000000001" + far + "0300 d4a9 00000000 6abcdef1 0010 11 01" + far + host + udp, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newRouter(t, vpnConfig())
			out := through(f, row.port, bytesOf(t, row.in))
			if row.want == "" {
				if len(out) > 0 {
					t.Errorf("sent %v, want nothing", out)
				}
				return
			}
			want := sent{Port: row.out, Frame: bytesOf(t, row.want)}
			if len(out) != 1 || !out[0].Equal(want) {
				t.Errorf("sent\n%v\nwant\n%v\ndrops %v", out, want, f.Drops())
			}
		})
	}
}

// TestCounters: packets and bytes from the outer header on as they came,
// errors for what the behaviour drops (seg6_local_input_core).
func TestCounters(t *testing.T) {
	c := baseConfig()
	c.Routes = append(c.Routes, localRoute("fc00:b::1/128", forwarder.Local{Action: "End"}))
	f := newRouter(t, c)
	srhBytes := "29 04 04 01 01 00 0000" + segC + segB
	good := etherIn + "60000000 0060 2b 40" + host + segB + srhBytes + inner
	for range 3 {
		through(f, 0, bytesOf(t, good))
	}
	through(f, 0, bytesOf(t, etherIn, "60000000 0038 29 40", host, segB, inner))
	through(f, 0, bytesOf(t, etherIn, "60000000 0060 2b 01", host, segB, srhBytes, inner))
	got, ok := f.Counters("fc00:b::1/128")
	if want := (forwarder.Counters{Packets: 3, Bytes: 3 * (40 + 0x60), Errors: 2}); !ok || got != want {
		t.Errorf("counters %+v %v, want %+v", got, ok, want)
	}
	if _, ok := f.Counters("fc00:c::1/128"); ok {
		t.Error("counters of a route that is no SID")
	}
}
