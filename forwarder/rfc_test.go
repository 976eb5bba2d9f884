package forwarder_test

import (
	"testing"

	"seg6lab/forwarder"
)

// TestRFC is what the RFCs say with every quirk of Linux turned off, by hand.
func TestRFC(t *testing.T) {
	const (
		back    = "020000000101 020000000102 86dd "
		srhOne  = "29 04 04 01 01 00 0000" + segC + segB
		srhDone = "29 04 04 00 01 00 0000" + segC + segB
		toEnd   = "60000000 0060 2b 40" + host + segB
		sid     = "fc00:b::1/128"
	)
	end := func(flavors ...string) forwarder.Route {
		return localRoute(sid, forwarder.Local{Action: "End", Flavors: flavors})
	}
	for _, row := range []struct {
		name  string
		route forwarder.Route
		in    string
		port  int
		want  string
	}{
		// RFC 8986 section 4.1, S05 to S07: before anything is changed.
		{"End, hop limit 1", end(), etherIn + "60000000 0060 2b 01" + host + segB + srhOne + inner, 0,
			back + "60000000 0090 3a 40" + routerAddr + host + "0300 f968 00000000 60000000 0060 2b 01" + host + segB + srhOne + inner},
		// S09 to S11: pointer to Segments Left, 40 + 3.
		{"End, segments left past the list", end(), etherIn + toEnd + "29 04 04 03 01 00 0000" + segC + segB + inner, 0,
			back + "60000000 0090 3a 40" + routerAddr + host + "0400 f7fc 0000002b" + toEnd + "29 04 04 03 01 00 0000" + segC + segB + inner},
		// Section 4.1.1: an upper layer that is not allowed.
		{"End, UDP to the SID", end(), etherIn + "60000000 0010 11 40" + host + segB + udp, 0,
			back + "60000000 0040 3a 40" + routerAddr + host + "0404 efca 00000028 60000000 0010 11 40" + host + segB + udp},
		{"End, echo request to the SID", end(), etherIn + "60000000 0008 3a 40" + host + segB + "8000 55f2 0001 0002", 0,
			back + "60000000 0008 3a 40" + segB + host + "8100 54f2 0001 0002"},
		{"End", end(), etherIn + toEnd + srhOne + inner, 1, etherOut + "60000000 0060 2b 3f" + host + segC + srhDone + inner},
		// Section 4.16.2: the SRH is gone before the upper layer is looked at.
		{"USP, echo request", end("usp"), etherIn + "60000000 0030 2b 40" + host + segB + "3a 04 04 00 01 00 0000" + segC + segB + "8000 55f2 0001 0002", 0,
			back + "60000000 0008 3a 40" + segB + host + "8100 54f2 0001 0002"},
		// Section 4.16.3.
		{"USD of IPv6", end("usd"), etherIn + toEnd + srhDone + inner, 1, etherOut + "6abcdef1 0010 11 3f" + host + far + udp},
		{"USD of IPv6 without SRH", end("usd"), etherIn + "60000000 0038 29 40" + host + segB + inner, 1, etherOut + "6abcdef1 0010 11 3f" + host + far + udp},
		{"USD, segment left", end("usd"), etherIn + toEnd + srhOne + inner, 1, etherOut + "60000000 0060 2b 3f" + host + segC + srhDone + inner},
		// RFC 9800 section 4.1 with PSP: the last CSID, then the SRH.
		{"NEXT-CSID with PSP", localRoute("fc00:b:1::/48", forwarder.Local{Action: "End", Flavors: []string{"next-csid", "psp"}}),
			etherIn + "60000000 0060 2b 40" + host + "fc00000b000100000000000000000000" + srhOne + inner, 1,
			etherOut + "60000000 0038 29 3f" + host + segC + inner},
		// RFC 8986 section 4.4, S02 to S04.
		{"End.DX6, segment left", localRoute(sid, forwarder.Local{Action: "End.DX6", NH6: addr("2001:db8:2::2")}), etherIn + toEnd + srhOne + inner, 0,
			back + "60000000 0090 3a 40" + routerAddr + host + "0400 f7fe 0000002b" + toEnd + srhOne + inner},
		// RFC 8754 section 2.1.1.1: Pad1 has no length.
		{"End, Pad1", end(), etherIn + "60000000 0068 2b 40" + host + segB + "29 05 04 01 01 00 0000" + segC + segB + "0000000000000000" + inner, 1,
			etherOut + "60000000 0068 2b 3f" + host + segC + "29 05 04 00 01 00 0000" + segC + segB + "0000000000000000" + inner},
		// RFC 2473 section 3.1: the entry point decrements the hop limit of the
		// packet and gives the outer header its own.
		{"H.Encaps.Red", encapRoute("2001:db8:99::/64", "encap.red", "fc00:b::1"), etherIn + inner, 1,
			etherOut + "6abcdef1 0038 29 40" + tunsrc + segB + "6abcdef1 0010 11 3f " + host + far + udp},
		{"H.Encaps.Red of IPv4", encapRoute("10.99.0.0/24", "encap.red", "fc00:b::1"), etherIn4 + inner4, 1,
			etherOut + "62800000 0024 04 40" + tunsrc + segB + "4528 0024 1234 4000 3f 11 1409 0a000101 0a630001 " + udp},
		// RFC 8986 section 4.9: any frame.
		{"End.DX2, LLC", localRoute(sid, forwarder.Local{Action: "End.DX2", OIF: "r1"}),
			etherIn + "60000000 0013 8f 40" + host + segB + "0180c2000000 020000000101 0026 4242030000", 1, "0180c2000000 020000000101 0026 4242030000"},
		// RFC 8986 section 4.5: the adjacency is that of the next hop.
		{"End.DX4", localRoute(sid, forwarder.Local{Action: "End.DX4", NH4: addr("10.0.2.2")}), etherIn + "60000000 0024 04 40" + host + segB + inner4, 1,
			"020000000202 020000000201 0800 4528 0024 1234 4000 3f 11 1409 0a000101 0a630001 " + udp},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := baseConfig()
			c.Quirks = &forwarder.Quirks{}
			c.Routes = append(c.Routes, row.route)
			f := newRouter(t, c)
			out := through(f, 0, bytesOf(t, row.in))
			want := sent{Port: row.port, Frame: bytesOf(t, row.want)}
			if len(out) != 1 || !out[0].Equal(want) {
				t.Errorf("sent\n%v\nwant\n%v\ndrops %v", out, want, f.Drops())
			}
		})
	}
}

// The other side of the quirks that need more than a route. What Linux does
// with the same frames is compared with the kernel's own bytes elsewhere.
func TestRFCWithConfiguration(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*forwarder.Config)
		in     string
		// want is empty for a packet that is dropped.
		want string
	}{
		// RFC 8754 section 2.1.2: an HMAC that is wrong, whatever the packet's
		// other headers and the argument of its destination.
		{"NEXT-CSID and a wrong HMAC", func(c *forwarder.Config) {
			hmacKeys(c)
			c.Routes = append(c.Routes, localRoute("fc00:b:1::/48", forwarder.Local{Action: "End", Flavors: []string{"next-csid"}}))
		}, etherIn + "60000000 0088 2b 40" + host + "fc00000b000100050006000000000000" + wrongHMAC + inner, ""},
		{"options in front of a wrong HMAC", func(c *forwarder.Config) {
			hmacKeys(c)
			c.Routes = append(c.Routes, localRoute("fc00:b::1/128", forwarder.Local{Action: "End"}))
		}, etherIn + "60000000 0090 3c 40" + host + segB + "2b 00 0104 00000000" + wrongHMAC + inner, ""},
		// RFC 8986 section 5.3: the received frame, not the headers around it.
		{"L2 encapsulation of what was inside", func(c *forwarder.Config) {
			c.Sysctls["net.ipv6.conf.all.seg6_enabled"] = "1"
			c.Sysctls["net.ipv6.conf.r0.seg6_enabled"] = "1"
			c.Routes = append(c.Routes, encapRoute("2001:db8:99::/64", "l2encap.red", "fc00:b::1"))
		}, etherIn + "60000000 0050 2b 40" + host + routerAddr + "29 02 04 00 00 00 0000" + segC + inner,
			etherOut + "6abcdef1 0046 8f 40" + tunsrc + segB + etherIn + "6abcdef1 0010 11 3f" + host + far + udp},
		// RFC 4861 section 7.2.2: any address of the device will do.
		{"solicitation without a link-local address", func(c *forwarder.Config) { c.Neighbours = c.Neighbours[:1] }, etherIn + inner,
			"3333ff000002 020000000201 86dd 60000000 0020 3a ff" + "20010db8000200000000000000000001" + routerGroup +
				"8700 1a23 00000000 20010db8000200000000000000000002 0101 020000000201"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := baseConfig()
			c.Quirks = &forwarder.Quirks{}
			row.change(&c)
			f := newRouter(t, c)
			out := through(f, 0, bytesOf(t, row.in))
			if row.want == "" && len(out) == 0 {
				return
			}
			want := sent{Port: 1, Frame: bytesOf(t, row.want)}
			if len(out) != 1 || !out[0].Equal(want) {
				t.Errorf("sent\n%v\nwant\n%v\ndrops %v", out, want, f.Drops())
			}
		})
	}
}
