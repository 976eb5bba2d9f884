package forwarder_test

import (
	"testing"

	"seg6lab/forwarder"
)

// TestKernelAgrees sends frames through the kernel and the forwarder, both with
// the same configuration, and compares every byte that comes out.
func TestKernelAgrees(t *testing.T) {
	withSRH := func(dst, next, srh, rest string) string {
		return etherIn + "60000000 " + hexLen(t, srh+rest) + next + "40" + host + dst + srh + rest
	}
	end := func(left, last string) string { return "29 04 04 " + left + last + "00 0000" + segC + segB }
	plain := func(hop string) string { return etherIn + "6abcdef1 0010 11 " + hop + host + far + udp }
	toRouter := "20010db8000100000000000000000002 "
	for _, row := range []struct {
		name   string
		routes []forwarder.Route
		change func(*forwarder.Config)
		frames []string
	}{
		{name: "plain", frames: []string{
			plain("40"), plain("02"), plain("01"), plain("00"),
			etherIn4 + inner4,
			etherIn4 + "4500 0024 1234 4000 01 11 5231 0a000101 0a630001 " + udp,
			etherIn4 + "4500 0024 1234 4000 01 11 5232 0a000101 0a630001 " + udp,
			// No route, own address, unknown protocol, wrong source.
			etherIn + "60000000 0010 11 40" + host + "30010db8000000000000000000000001" + udp,
			etherIn + "60000000 0000 3b 40" + host + toRouter,
			etherIn + "60000000 0010 c8 40" + host + toRouter + udp,
			etherIn + "60000000 0010 11 40" + "00000000000000000000000000000001" + far + udp,
			etherIn + "60000000 0010 11 40" + "00000000000000000000000000000000" + far + udp,
			etherIn + "60000000 0010 11 40" + "ff020000000000000000000000000001" + far + udp,
			etherIn + "60000000 0020 11 40" + host + far + udp,
			etherIn + "50000000 0010 11 40" + host + far + udp,
			etherIn + "60000000 0010 11 40" + host + far + udp + "0000 0000 0000",
			// Another host's frame.
			"020000000109 020000000101 86dd" + inner,
			"333300000001 020000000101 86dd" + inner,
			// Echo requests to the router and to its anycast address.
			etherIn + "60000000 0008 3a 40" + host + toRouter + "8000 2443 0001 0002",
			etherIn + "6ab00000 0008 3a 01" + host + toRouter + "8000 2443 0001 0002",
			etherIn + "60000000 0008 3a 40" + host + "20010db8000100000000000000000000" + "8000 2445 0001 0002",
			etherIn + "60000000 0008 3a 40" + host + toRouter + "8000 1234 0001 0002",
			// Fragments are passed on.
			etherIn + "60000000 0018 2c 40" + host + far + "1100 0001 00000007" + udp,
		}},
		{name: "hop-by-hop", frames: []string{
			etherIn + "60000000 0018 00 40" + host + far + "11 00 0502 0000 0100" + udp,
			etherIn + "60000000 0018 00 40" + host + far + "11 00 0104 00000000" + udp,
			etherIn + "60000000 0018 00 40" + host + far + "11 00 0104 00000001" + udp,
			etherIn + "60000000 0018 00 40" + host + far + "11 00 1e04 00000001" + udp,
			etherIn + "60000000 0018 00 40" + host + far + "11 00 5e04 00000001" + udp,
			etherIn + "60000000 0018 00 40" + host + far + "11 00 9e04 00000001" + udp,
			etherIn + "60000000 0018 00 40" + host + far + "11 00 de04 00000001" + udp,
			etherIn + "60000000 0018 00 40" + host + far + "11 00 1e05 00000001" + udp,
		}},
		{name: "reject", routes: []forwarder.Route{
			{To: prefix("2001:db8:99::/64"), Type: "unreachable"}, {To: prefix("2001:db8:99:1::/64"), Type: "prohibit"},
			{To: prefix("2001:db8:99:2::/64"), Type: "blackhole"}, {To: prefix("2001:db8:99:3::/64"), Type: "throw"},
			{To: prefix("10.99.0.0/24"), Type: "unreachable"}, {To: prefix("10.99.1.0/24"), Type: "prohibit"},
			{To: prefix("10.99.2.0/24"), Type: "blackhole"},
		}, frames: []string{
			plain("40"),
			etherIn + "60000000 0010 11 40" + host + "20010db8009900010000000000000001" + udp,
			etherIn + "60000000 0010 11 40" + host + "20010db8009900020000000000000001" + udp,
			etherIn + "60000000 0010 11 40" + host + "20010db8009900030000000000000001" + udp,
			etherIn4 + inner4,
			etherIn4 + "4500 0024 1234 4000 40 11 1230 0a000101 0a630101 " + udp,
			etherIn4 + "4500 0024 1234 4000 40 11 1130 0a000101 0a630201 " + udp,
			etherIn4 + "4500 0024 1234 4000 40 11 3c94 0a000101 e0000001 " + udp,
		}},
		{name: "encap", routes: []forwarder.Route{
			encapRoute("2001:db8:99::/64", "encap", "fc00:b::1", "fc00:c::1"), encapRoute("10.99.0.0/24", "encap", "fc00:b::1"),
		}, frames: []string{plain("40"), plain("01"), plain("00"), etherIn4 + inner4, etherIn4 + "4500 0024 1234 4000 01 11 5231 0a000101 0a630001 " + udp}},
		{name: "encap.red", routes: []forwarder.Route{
			encapRoute("2001:db8:99::/64", "encap.red", "fc00:b::1", "fc00:c::1"), encapRoute("10.99.0.0/24", "encap.red", "fc00:b::1"),
		}, frames: []string{plain("40"), plain("01"), etherIn4 + inner4}},
		{name: "l2encap", routes: []forwarder.Route{
			encapRoute("2001:db8:99::/64", "l2encap", "fc00:b::1", "fc00:c::1"), encapRoute("10.99.0.0/24", "l2encap", "fc00:b::1"),
		}, frames: []string{plain("40"), plain("01"), etherIn4 + inner4}},
		{name: "l2encap.red", routes: []forwarder.Route{
			encapRoute("2001:db8:99::/64", "l2encap.red", "fc00:b::1", "fc00:c::1"), encapRoute("10.99.0.0/24", "l2encap.red", "fc00:b::1"),
		}, frames: []string{plain("40"), plain("01"), etherIn4 + inner4}},
		{name: "inline", routes: []forwarder.Route{encapRoute("2001:db8:99::/64", "inline", "fc00:b::1", "fc00:c::1")},
			frames: []string{plain("40"), plain("01")}},
		{name: "flow label off", routes: []forwarder.Route{encapRoute("2001:db8:99::/64", "encap", "fc00:b::1")},
			change: func(c *forwarder.Config) { c.Sysctls["net.ipv6.seg6_flowlabel"] = "-1" }, frames: []string{plain("40")}},
		{name: "no tunsrc", routes: []forwarder.Route{encapRoute("2001:db8:99::/64", "encap", "fc00:b::1")},
			change: func(c *forwarder.Config) { c.TunSrc = addr("::") }, frames: []string{plain("40")}},
		{name: "End.B6.Encaps without tunsrc", routes: []forwarder.Route{
			localRoute("fc00:b::1/128", forwarder.Local{Action: "End.B6.Encaps", SRH: &forwarder.Encap{Segs: addrs("fc00:d::1")}}),
		}, change: func(c *forwarder.Config) { c.TunSrc = addr("::") }, frames: []string{withSRH(segB, "2b", end("01", "01"), inner)}},
		{name: "HMAC", routes: []forwarder.Route{
			{To: prefix("2001:db8:99::/64"), Dev: "r1", Encap: &forwarder.Encap{Mode: "encap", HMAC: 7, Segs: addrs("fc00:b::1", "fc00:c::1")}},
			{To: prefix("2001:db8:99:1::/64"), Dev: "r1", Encap: &forwarder.Encap{Mode: "encap.red", HMAC: 8, Segs: addrs("fc00:b::1")}},
			{To: prefix("2001:db8:99:2::/64"), Dev: "r1", Encap: &forwarder.Encap{Mode: "inline", HMAC: 7, Segs: addrs("fc00:b::1")}},
		}, change: hmacKeys, frames: []string{plain("40"),
			etherIn + "60000000 0010 11 40" + host + "20010db8009900010000000000000001" + udp,
			etherIn + "60000000 0010 11 40" + host + "20010db8009900020000000000000001" + udp,
		}},
		{name: "End", routes: []forwarder.Route{localRoute("fc00:b::1/128", forwarder.Local{Action: "End"})}, frames: []string{
			withSRH(segB, "2b", end("01", "01"), inner),
			withSRH(segB, "2b", end("00", "01"), inner),
			withSRH(segB, "2b", end("02", "01"), inner),
			withSRH(segB, "2b", end("03", "01"), inner),
			withSRH(segB, "2b", end("01", "02"), inner),
			withSRH(segB, "29", "", inner),
			// Hop limit 1, a destination option in front, padding TLVs, an own
			// address and one without a route as the next segment.
			etherIn + "60000000 0060 2b 01" + host + segB + end("01", "01") + inner,
			withSRH(segB, "3c", "2b 00 0104 00000000"+end("01", "01"), inner),
			withSRH(segB, "2b", "29 05 04 01 01 00 0000"+segC+segB+"0406 000000000000", inner),
			withSRH(segB, "2b", "29 05 04 01 01 00 0000"+segC+segB+"0000000000000000", inner),
			withSRH(segB, "2b", "29 05 04 01 01 00 0000"+segC+segB+"0407 000000000000", inner),
			withSRH(segB, "2b", "29 02 04 01 00 00 0000"+toRouter, inner),
			withSRH(segB, "2b", "29 04 04 01 01 00 0000"+"30010db8000000000000000000000001"+segB, inner),
			// Reduced SRH, other routing types, truncation.
			withSRH(segB, "2b", "29 02 04 01 00 00 0000"+segC, inner),
			withSRH(segB, "2b", "29 04 00 01 01 00 0000"+segC+segB, inner),
			etherIn + "60000000 0010 2b 40" + host + segB + "29 04 04 01 01 00 0000" + "0000000000000000",
			etherIn + "60000000 0004 2b 40" + host + segB + "29 04 04 01",
			// A routing header that is done, then one that is not.
			withSRH(segB, "2b", "2b 02 04 00 00 00 0000"+segC+end("01", "01"), inner),
			// A fragment, an inner fragment.
			withSRH(segB, "2c", "2b 00 0000 00000007"+end("01", "01"), inner),
			withSRH(segB, "2c", "2b 00 0009 00000007"+end("01", "01"), inner),
			withSRH(segB, "2b", "2c 04 04 01 01 00 0000"+segC+segB, "11 00 0009 00000007"+udp),
		}},
		{name: "End with PSP", routes: []forwarder.Route{localRoute("fc00:b::1/128", forwarder.Local{Action: "End", Flavors: []string{"psp"}})}, frames: []string{
			withSRH(segB, "2b", end("01", "01"), inner),
			withSRH(segB, "2b", end("00", "01"), inner),
			withSRH(segB, "29", "", inner),
			withSRH(segB, "2b", "29 06 04 02 02 00 0000"+segC+segC+segB, inner),
			withSRH(segB, "3c", "2b 00 0104 00000000"+end("01", "01"), inner),
			withSRH(segB, "2c", "2b 00 0000 00000007"+end("01", "01"), inner),
			withSRH(segB, "00", "2b 00 0104 00000000"+end("01", "01"), inner),
		}},
		{name: "NEXT-CSID", routes: []forwarder.Route{
			localRoute("fc00:b:1::/48", forwarder.Local{Action: "End", Flavors: []string{"next-csid"}}),
			localRoute("fc00:b:2::/48", forwarder.Local{Action: "End.X", NH6: addr("2001:db8:2::2"), Flavors: []string{"next-csid"}}),
			localRoute("fc00:b:3::/48", forwarder.Local{Action: "End", Flavors: []string{"next-csid", "psp"}}),
			localRoute("fc00:b:400::/40", forwarder.Local{Action: "End", Flavors: []string{"next-csid"}, LBLen: 32, NFLen: 8}),
		}, frames: []string{
			withSRH("fc00000b000100050006000000000000", "29", "", inner),
			withSRH("fc00000b000100050006000000000000", "2b", end("05", "01"), inner),
			withSRH("fc00000b000100000000000000000000", "2b", end("01", "01"), inner),
			withSRH("fc00000b000100000000000000000000", "29", "", inner),
			withSRH("fc00000b000200050006000000000000", "29", "", inner),
			withSRH("fc00000b000200000000000000000000", "2b", end("01", "01"), inner),
			withSRH("fc00000b000300050006000000000000", "29", "", inner),
			withSRH("fc00000b000300000000000000000000", "2b", end("01", "01"), inner),
			withSRH("fc00000b040500060007000000000000", "29", "", inner),
			etherIn + "60000000 0038 29 01" + host + "fc00000b000100050006000000000000" + inner,
		}},
		{name: "End.X, End.T", routes: []forwarder.Route{
			localRoute("fc00:b::1/128", forwarder.Local{Action: "End.X", NH6: addr("2001:db8:2::2")}),
			localRoute("fc00:b::2/128", forwarder.Local{Action: "End.T", Table: 77}),
			localRoute("fc00:b::3/128", forwarder.Local{Action: "End.X", NH6: addr("2001:db8:1::1")}),
			localRoute("fc00:b::4/128", forwarder.Local{Action: "End.X", NH6: addr("3001:db8:1::1")}),
			localRoute("fc00:b::5/128", forwarder.Local{Action: "End.T", Table: 78}),
			localRoute("fc00:b::6/128", forwarder.Local{Action: "End.X", NH6: addr("2001:db8:1::2")}),
			{To: prefix("fc00:c::/32"), Via: addr("2001:db8:1::1"), Dev: "r0", Table: 77},
		}, frames: []string{
			withSRH(segB, "2b", end("01", "01"), inner),
			withSRH("fc00000b000000000000000000000002", "2b", end("01", "01"), inner),
			withSRH("fc00000b000000000000000000000002", "2b", "29 04 04 01 01 00 0000"+far+segB, inner),
			withSRH("fc00000b000000000000000000000003", "2b", end("01", "01"), inner),
			withSRH("fc00000b000000000000000000000004", "2b", end("01", "01"), inner),
			withSRH("fc00000b000000000000000000000005", "2b", end("01", "01"), inner),
			withSRH("fc00000b000000000000000000000006", "2b", end("01", "01"), inner),
		}},
		{name: "decapsulation", routes: []forwarder.Route{
			localRoute("fc00:b::1/128", forwarder.Local{Action: "End.DX6", NH6: addr("2001:db8:2::2")}),
			localRoute("fc00:b::2/128", forwarder.Local{Action: "End.DX6", NH6: addr("::")}),
			localRoute("fc00:b::3/128", forwarder.Local{Action: "End.DX4", NH4: addr("10.0.2.2")}),
			localRoute("fc00:b::4/128", forwarder.Local{Action: "End.DX4", NH4: addr("0.0.0.0")}),
			localRoute("fc00:b::5/128", forwarder.Local{Action: "End.DX2", OIF: "r1"}),
			localRoute("fc00:b::6/128", forwarder.Local{Action: "End.DT6", Table: forwarder.TableMain}),
			localRoute("fc00:b::7/128", forwarder.Local{Action: "End.DT6", Table: 77}),
			localRoute("fc00:b::8/128", forwarder.Local{Action: "End.DX6", NH6: addr("2001:db8:2::9")}),
			{To: prefix("2001:db8:99::/64"), Via: addr("2001:db8:1::1"), Dev: "r0", Table: 77},
		}, change: func(c *forwarder.Config) {
			c.Neighbours = append(c.Neighbours,
				forwarder.Neighbour{To: addr("10.99.0.1"), Dev: "r1", LLAddr: [6]byte{2, 0, 0, 0, 9, 9}},
				forwarder.Neighbour{To: addr("2001:db8:2::9"), Dev: "r1", LLAddr: [6]byte{2, 0, 0, 0, 9, 8}})
		}, frames: []string{
			withSRH(segB, "29", "", inner),
			withSRH(segB, "2b", end("00", "01"), inner),
			withSRH(segB, "2b", end("01", "01"), inner),
			withSRH(segB, "04", "", inner4),
			withSRH(segB, "29", "", "6abcdef1 0010 11 01 "+host+far+udp),
			withSRH(segB, "29", "", "6abcdef1 0010 11 40 "+host+toRouter+udp),
			withSRH(segB, "29", "", "6abcdef1 0010"),
			withSRH("fc00000b000000000000000000000002", "29", "", inner),
			withSRH("fc00000b000000000000000000000002", "29", "", "6abcdef1 0010 3b 40 "+host+toRouter+udp),
			withSRH("fc00000b000000000000000000000002", "29", "", "6abcdef1 0010 11 40 "+host+"30010db8000000000000000000000001"+udp),
			withSRH("fc00000b000000000000000000000003", "04", "", inner4),
			withSRH("fc00000b000000000000000000000003", "2b", "04 02 04 00 00 00 0000"+segB, inner4),
			withSRH("fc00000b000000000000000000000004", "04", "", inner4),
			withSRH("fc00000b000000000000000000000004", "04", "", "4500 0024 1234 4000 01 11 5231 0a000101 0a630001 "+udp),
			withSRH("fc00000b000000000000000000000005", "8f", "", etherIn+inner),
			withSRH("fc00000b000000000000000000000005", "8f", "", "ffffffffffff 020000000101 0806 0001"),
			withSRH("fc00000b000000000000000000000005", "8f", "", "020000000102 020000000101 8100 0064 86dd"+inner),
			withSRH("fc00000b000000000000000000000005", "8f", "", "0180c2000000 020000000101 0026 4242030000"),
			withSRH("fc00000b000000000000000000000005", "8f", "", "0180c2000000 0200"),
			withSRH("fc00000b000000000000000000000006", "29", "", inner),
			withSRH("fc00000b000000000000000000000007", "29", "", inner),
			withSRH("fc00000b000000000000000000000007", "29", "", "6abcdef1 0010 11 40 "+host+"30010db8000000000000000000000001"+udp),
			withSRH("fc00000b000000000000000000000008", "29", "", inner),
		}},
		{name: "binding", routes: []forwarder.Route{
			localRoute("fc00:b::1/128", forwarder.Local{Action: "End.B6", SRH: &forwarder.Encap{Segs: addrs("fc00:d::1", "fc00:e::1")}}),
			localRoute("fc00:b::2/128", forwarder.Local{Action: "End.B6.Encaps", SRH: &forwarder.Encap{Segs: addrs("fc00:d::1", "fc00:e::1")}}),
		}, frames: []string{
			withSRH(segB, "2b", end("01", "01"), inner),
			withSRH(segB, "2b", end("00", "01"), inner),
			withSRH(segB, "29", "", inner),
			withSRH("fc00000b000000000000000000000002", "2b", end("01", "01"), inner),
			withSRH("fc00000b000000000000000000000002", "2b", end("00", "01"), inner),
			etherIn + "6abcdef1 0060 2b 01" + host + "fc00000b000000000000000000000002" + end("01", "01") + inner,
			etherIn + "6abcdef1 0060 2b 02" + host + "fc00000b000000000000000000000002" + end("01", "01") + inner,
		}},
		{name: "local SRH", change: func(c *forwarder.Config) {
			c.Sysctls["net.ipv6.conf.all.seg6_enabled"] = "1"
			c.Sysctls["net.ipv6.conf.r0.seg6_enabled"] = "1"
		}, frames: []string{
			withSRH(toRouter, "2b", end("01", "01"), inner),
			withSRH(toRouter, "2b", end("00", "01"), inner),
			withSRH(toRouter, "2b", end("02", "01"), inner),
			withSRH(toRouter, "2b", "29 04 04 01 01 00 0000"+toRouter+segB, inner),
			withSRH(toRouter, "2b", "3a 02 04 00 00 00 0000"+toRouter, "8000 2443 0001 0002"),
			withSRH(toRouter, "2b", "29 04 02 01 01 00 0000"+segC+segB, inner),
			withSRH(toRouter, "3c", "2b 00 9e04 00000000"+end("01", "01"), inner),
		}},
		{name: "fragments to the router, and errors about some", frames: []string{
			etherIn + "60000000 0018 2c 40" + host + toRouter + "1100 0000 00000007" + udp,
			etherIn + "60000000 000c 2c 40" + host + toRouter + "1100 0001 00000007" + "04d2 0009", // the UDP header cut
			etherIn + "60000000 000f 2c 40" + host + toRouter + "3a00 0001 00000007" + "80000000000000",
			etherIn + "60000000 0008 2c 40" + host + toRouter + "8f00 0001 00000007",
			etherIn + "60000000 0004 2c 40" + host + toRouter + "1100 0000",
			etherIn + "60000000 0000 00 40" + host + toRouter + "2c00 0104 00000000 1100 0000 00000007" + udp,
			etherIn + "60000000 0008 2c 40" + host + "30010db8000000000000000000000001" + "3a00 0009 00000007",
			etherIn + "60000000 0009 2c 40" + host + "30010db8000000000000000000000001" + "3a00 0009 00000007 01",
			etherIn + "60000000 0008 2c 40" + host + "30010db8000000000000000000000001" + "3a00 0001 00000007",
			etherIn + "60000000 0009 2c 40" + host + "30010db8000000000000000000000001" + "3a00 0001 00000007 01",
			etherIn + "60000000 0008 3a 40" + host + "30010db8000000000000000000000001" + "0100 0000 00000000",
		}},
		{name: "HMAC that is wrong", routes: []forwarder.Route{
			localRoute("fc00:b:1::/48", forwarder.Local{Action: "End", Flavors: []string{"next-csid"}}),
			localRoute("fc00:b::1/128", forwarder.Local{Action: "End"}),
		}, change: hmacKeys, frames: []string{
			withSRH("fc00000b000100050006000000000000", "2b", wrongHMAC, inner),
			withSRH(segB, "3c", "2b 00 0104 00000000"+wrongHMAC, inner),
			withSRH(segB, "2b", wrongHMAC, inner),
		}},
		{name: "L2 encapsulation of what was inside", change: func(c *forwarder.Config) {
			c.Sysctls["net.ipv6.conf.all.seg6_enabled"] = "1"
			c.Sysctls["net.ipv6.conf.r0.seg6_enabled"] = "1"
		}, routes: []forwarder.Route{encapRoute("2001:db8:99::/64", "l2encap.red", "fc00:b::1")},
			frames: []string{withSRH(toRouter, "2b", end("00", "01"), inner)}},
		{name: "metrics", routes: []forwarder.Route{
			{To: prefix("2001:db8:99::/64"), Via: addr("2001:db8:1::1"), Dev: "r0", Metric: 500},
			{To: prefix("2001:db8:99::/64"), Via: addr("2001:db8:2::2"), Dev: "r1", Metric: 400},
			{To: prefix("2001:db8:99::/64"), Type: "unreachable"},
			{To: prefix("2001:db8:2::/64"), Type: "prohibit"},
			{To: prefix("10.99.0.0/24"), Via: addr("10.0.1.1"), Dev: "r0", Metric: 20},
			{To: prefix("10.99.0.0/24"), Via: addr("10.0.2.2"), Dev: "r1", Metric: 10},
		}, frames: []string{plain("40"), etherIn4 + inner4, etherIn + "60000000 0010 11 40" + host + "20010db8000200000000000000000002" + udp}},
		{name: "rules", routes: []forwarder.Route{
			{To: prefix("2001:db8:99::/64"), Via: addr("2001:db8:1::1"), Dev: "r0", Table: 77},
			{To: prefix("::/0"), Type: "prohibit", Table: 78},
			{To: prefix("2001:db8:99:2::/64"), Type: "throw", Table: 78},
			{To: prefix("10.99.0.0/24"), Via: addr("10.0.1.1"), Dev: "r0", Table: 77},
		}, change: func(c *forwarder.Config) {
			c.Rules = []forwarder.Rule{
				{Priority: 100, From: prefix("2001:db8:1::1/128"), To: prefix("2001:db8:99::/56"), Table: 77},
				{Priority: 200, IIF: "r0", To: prefix("2001:db8:99:2::/63"), Family: "inet6", Table: 78},
				{Priority: 300, From: prefix("10.0.1.0/24"), Table: 77},
			}
		}, frames: []string{
			plain("40"), etherIn4 + inner4,
			etherIn + "60000000 0010 11 40" + far + far + udp,
			etherIn + "60000000 0010 11 40" + host + "20010db8009900020000000000000001" + udp,
			etherIn + "60000000 0010 11 40" + host + "20010db8009900030000000000000001" + udp,
			etherIn4 + "4500 0024 1234 4000 40 11 1130 0a000101 0a630201 " + udp,
			etherIn4 + "4500 0024 1234 4000 40 11 1231 0b000101 0a630001 " + udp,
		}},
		{name: "MTU", change: func(c *forwarder.Config) { c.Devices[1].MTU = 1400 }, routes: []forwarder.Route{
			encapRoute("2001:db8:99:1::/64", "encap", "fc00:b::1"),
		}, frames: []string{
			etherIn + "60000000 0550 11 40" + host + far + zeros(0x550),
			etherIn + "60000000 0551 11 40" + host + far + zeros(0x551),
			etherIn + "60000000 0510 11 40" + host + "20010db8009900010000000000000001" + zeros(0x510),
			etherIn + "60000000 0511 11 40" + host + "20010db8009900010000000000000001" + zeros(0x511),
			etherIn4 + "4500 0579 1234 4000 40 11 0cdc 0a000101 0a630001 " + zeros(0x579-20),
			etherIn4 + "4500 0579 1234 0000 40 11 4cdc 0a000101 0a630001 " + zeros(0x579-20),
			etherIn4 + "4500 05dc 1234 2003 40 11 2c76 0a000101 0a630001 " + zeros(0x5dc-20),
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := baseConfig()
			c.Routes = append(c.Routes, row.routes...)
			if row.change != nil {
				row.change(&c)
			}
			k, f := newKernelRouter(t, c), newRouter(t, c)
			for _, frame := range row.frames {
				compare(t, k, f, 0, bytesOf(t, frame))
			}
		})
	}
}
