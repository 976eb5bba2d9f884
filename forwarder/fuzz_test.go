package forwarder_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"seg6lab/forwarder"
)

// FuzzForwarder puts any bytes through routers with every behaviour: none
// panics, what comes out is whole, and nothing of it is read from beyond the
// packet. For the last point the same frame goes through two routers whose
// buffers hold different leftovers.
func FuzzForwarder(f *testing.F) {
	draw := frames{rand.New(rand.NewPCG(1, 1))}
	for range 50 {
		f.Add(draw.frame(f))
	}
	f.Add(bytesOf(f, nsToRouter))
	f.Add(bytesOf(f, "ffffffffffff 020000000101 0806 0001 0800 06 04 0001 020000000101 0a000101 000000000000 0a000102"))
	linux := randomConfig()
	linux.VRFs = []forwarder.VRF{{Name: "blue", Table: 100}}
	linux.Sysctls["net.ipv6.conf.all.seg6_enabled"] = "1"
	linux.Sysctls["net.ipv6.conf.r0.seg6_enabled"] = "1"
	linux.Routes = append(linux.Routes,
		localRoute("fc00:b::46/128", forwarder.Local{Action: "End.DT46", VRFTable: 100}),
		localRoute("fc00:b::4d/128", forwarder.Local{Action: "End", Flavors: []string{"usp", "usd"}}),
		forwarder.Route{To: prefix("2001:db8:99:8::/64"), VRF: "blue", Dev: "r1", Encap: &forwarder.Encap{Mode: "l2encap", Segs: addrs("fc00:f::1")}},
	)
	rfc := linux
	rfc.Quirks = &forwarder.Quirks{}
	f.Fuzz(func(t *testing.T, frame []byte) {
		for _, c := range []forwarder.Config{linux, rfc} {
			clean, used := newRouter(t, c), newRouter(t, c)
			junk := bytes.Repeat([]byte{0xff}, 4000)
			copy(junk, frame[:min(14, len(frame))])
			through(used, 0, junk)
			want, got := through(clean, 0, frame), through(used, 0, frame)
			if !slices.EqualFunc(want, got, equalSent) {
				t.Fatalf("sent %v, after other packets %v", want, got)
			}
			for _, s := range got {
				whole(t, s.frame)
			}
		}
	})
}

// whole: the lengths in the headers are those of the frame.
func whole(t *testing.T, b []byte) {
	t.Helper()
	if len(b) < 14 {
		t.Fatalf("a frame of %d bytes", len(b))
	}
	if b[0] == 2 && b[5] != 2 || b[6] != 2 || b[11] == 1 && b[10] == 1 {
		return // A frame that End.DX2 passed on.
	}
	switch binary.BigEndian.Uint16(b[12:]) {
	case 0x86dd:
		if len(b) < 54 || int(binary.BigEndian.Uint16(b[18:]))+54 != len(b) {
			t.Fatalf("IPv6 payload length of %x", b)
		}
	case 0x0800:
		if len(b) < 34 || int(binary.BigEndian.Uint16(b[16:]))+14 != len(b) {
			t.Fatalf("IPv4 total length of %x", b)
		}
	}
}
