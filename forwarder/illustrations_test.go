package forwarder_test

import (
	"fmt"
	"strings"
	"testing"

	"seg6lab/forwarder"
)

// TestIllustrations forwards the packets of RFC 8754 section 6 through the
// nodes that it sends them through: 8 and 9 are hosts of the SR domain, 1 and 2
// hosts outside of it, 3 and 4 its edges, 5 and 7 nodes within. A packet is
// written as there, outermost header first, (source,destination), and an SRH as
// (list;SL=n). Node k has the address Ak and the segment Sk.
func TestIllustrations(t *testing.T) {
	to := func(k int) string { return fmt.Sprintf("2001:db8:99:%d::/64", k) }
	sid := func(k int) string { return fmt.Sprintf("fc00:0:%d::1", k) }
	headend := func(source, dst int, mode string, segments ...int) forwarder.Config {
		c := baseConfig()
		c.TunSrc = addr(fmt.Sprintf("2001:db8:99:%d::1", source))
		var segs []string
		for _, s := range segments {
			segs = append(segs, sid(s))
		}
		c.Routes = append(c.Routes, encapRoute(to(dst), mode, segs...))
		return c
	}
	endpoint := func(k int, l forwarder.Local) forwarder.Config {
		c := baseConfig()
		c.Routes = append(c.Routes, localRoute(sid(k)+"/128", l))
		return c
	}
	end7 := endpoint(7, forwarder.Local{Action: "End"})
	end4 := endpoint(4, forwarder.Local{Action: "End.DT6", Table: forwarder.TableMain})
	for _, row := range []struct {
		section string
		node    forwarder.Config
		in, out string
	}{
		{"6.3.1: P1, of the SR policy <S7,A9>", headend(8, 9, "inline", 7), "(A8,A9)", "(A8,S7)(A9,S7;SL=1)"},
		{"6.3.2: P4, of the SR policy <S7,S4>", headend(3, 2, "encap", 7, 4), "(A1,A2)", "(A3,S7)(S4,S7;SL=1)(A1,A2)"},
		{"6.3.2: P5, of one segment", headend(3, 2, "encap.red", 4), "(A1,A2)", "(A3,S4)(A1,A2)"},
		{"6.3.2.1: P6, reduced", headend(3, 2, "encap.red", 7, 4), "(A1,A2)", "(A3,S7)(S4;SL=1)(A1,A2)"},
		{"6.3.3: P7, to an external host", headend(8, 1, "encap", 7, 3), "(A8,A1)", "(A8,S7)(S3,S7;SL=1)(A8,A1)"},
		{"6.3.3.1: P9, reduced", headend(8, 1, "encap.red", 7, 3), "(A8,A1)", "(A8,S7)(S3;SL=1)(A8,A1)"},
		{"6.4: P1 in transit at 5", baseConfig(), "(A8,S7)(A9,S7;SL=1)", "(A8,S7)(A9,S7;SL=1)"},
		{"6.5: P1 at 7", end7, "(A8,S7)(A9,S7;SL=1)", "(A8,A9)(A9,S7;SL=0)"},
		{"6.5: P2 at 7, reduced", end7, "(A8,S7)(A9;SL=1)", "(A8,A9)(A9;SL=0)"},
		{"6.5: P4 at 7", end7, "(A3,S7)(S4,S7;SL=1)(A1,A2)", "(A3,S4)(S4,S7;SL=0)(A1,A2)"},
		{"6.5: P6 at 7, reduced", end7, "(A3,S7)(S4;SL=1)(A1,A2)", "(A3,S4)(S4;SL=0)(A1,A2)"},
		{"P4 at 4, the end of the policy", end4, "(A3,S4)(S4,S7;SL=0)(A1,A2)", "(A1,A2)"},
		{"P5 at 4", end4, "(A3,S4)(A1,A2)", "(A1,A2)"},
	} {
		t.Run(row.section, func(t *testing.T) {
			// The outermost hop limit is decremented, or that of the packet that comes out.
			want := sent{Port: 1, Frame: bytesOf(t, etherOut, illustrated(t, row.out, 0x3f))}
			out := through(newRouter(t, row.node), 0, bytesOf(t, etherIn, illustrated(t, row.in, 0x40)))
			if len(out) != 1 || !out[0].Equal(want) {
				t.Errorf("sent\n%v\nwant\n%v", out, want)
			}
		})
	}
}

// illustrated is the packet of an illustration in hexadecimal, with that hop
// limit in its first header and 64 in others, and a datagram inside.
func illustrated(t *testing.T, packet string, hopLimit int) string {
	t.Helper()
	name := func(s string) string {
		switch s[0] {
		case 'A':
			return "20010db80099000" + s[1:] + "0000000000000001"
		case 'S':
			return "fc000000000" + s[1:] + "00000000000000000001"
		}
		t.Fatalf("%s names nothing", s)
		return ""
	}
	payload, next := strings.ReplaceAll(udp, " ", ""), 17
	headers := strings.Split(strings.Trim(packet, "()"), ")(")
	for i := len(headers) - 1; i >= 0; i-- {
		list, left, isSRH := strings.Cut(headers[i], ";SL=")
		addresses := strings.Split(list, ",")
		header := ""
		for _, a := range addresses {
			header += name(a)
		}
		if isSRH {
			payload = fmt.Sprintf("%02x%02x040%s%02x000000", next, 2*len(addresses), left, len(addresses)-1) + header + payload
			next = 43
			continue
		}
		limit := 0x40
		if i == 0 {
			limit = hopLimit
		}
		payload = fmt.Sprintf("60000000%04x%02x%02x", len(payload)/2, next, limit) + header + payload
		next = 41
	}
	return payload
}
