package fuzz

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"seg6lab/forwarder"
	"seg6lab/lab/topology"
	"seg6lab/specs/dataplane"
	"seg6lab/traffic"
)

// FuzzForwarder puts any bytes through routers with every behaviour: none
// panics, what comes out is whole, and nothing of it is read from beyond the
// packet. For the last point the same frame goes through two routers whose
// buffers hold different leftovers.
func FuzzForwarder(f *testing.F) {
	d := newDraw(1)
	for range 50 {
		port, frame := d.frame()
		f.Add(port, frame)
	}
	f.Add(0, append(ethernet(0, "", "86dd"), unhex("60000000 0020 3a ff", hostAddr, ownAddr, "8700 0000 00000000", ownAddr, "0101 020000000001")...))
	f.Add(0, append(ethernet(0, "", "0806"), unhex("0001 0800 06 04 0001 020000000001 0a000101 000000000000 0a000102")...))
	t := d.topology(needs{vrf: true, vlan: true, csid: true, psp: true})
	r := t.Nodes[router]
	r.Sysctls["net.ipv6.conf.all.seg6_enabled"] = "1"
	r.Sysctls["net.ipv6.conf.in.seg6_enabled"] = "1"
	r.Routes = append(r.Routes, &topology.Route{To: to("fc00:b::4d/128"), Dev: outDev,
		Encap: &topology.Encap{Seg6Local: &topology.Seg6Local{Action: "End", Flavors: []string{"usp", "usd"}}}})
	linux, err := dataplane.Config(t, router)
	if err != nil {
		f.Fatal(err)
	}
	rfc := linux
	rfc.Quirks = &forwarder.Quirks{}
	f.Fuzz(func(t *testing.T, port int, frame []byte) {
		for _, c := range []forwarder.Config{linux, rfc} {
			clean, used := newForwarder(t, c), newForwarder(t, c)
			junk := bytes.Repeat([]byte{0xff}, 4000)
			copy(junk, frame[:min(14, len(frame))])
			input(used, 0, junk)
			want, got := input(clean, port&1, frame), input(used, port&1, frame)
			if !slices.EqualFunc(want, got, traffic.Arrival.Equal) {
				t.Fatalf("sent %v, after other packets %v", want, got)
			}
			for _, s := range got {
				whole(t, s.Frame)
			}
		}
	})
}

func newForwarder(t *testing.T, c forwarder.Config) *forwarder.Forwarder {
	t.Helper()
	f, err := forwarder.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// whole: the lengths in the headers are those of the frame.
func whole(t *testing.T, b []byte) {
	t.Helper()
	if len(b) < 14 {
		t.Fatalf("a frame of %d bytes", len(b))
	}
	if in, out := topology.LinkMAC(0, 1), topology.LinkMAC(1, 0); [6]byte(b[6:]) != in && [6]byte(b[6:]) != out {
		return // A frame that End.DX2 passed on.
	}
	switch binary.BigEndian.Uint16(b[12:]) {
	case 0x86dd:
		// 0 before hop-by-hop options says no length (ip6_rcv_core).
		if len(b) >= 54 && b[18] == 0 && b[19] == 0 && b[20] == 0 {
			return
		}
		if len(b) < 54 || int(binary.BigEndian.Uint16(b[18:]))+54 != len(b) {
			t.Fatalf("IPv6 payload length of %x", b)
		}
	case 0x0800:
		if len(b) < 34 || int(binary.BigEndian.Uint16(b[16:]))+14 != len(b) {
			t.Fatalf("IPv4 total length of %x", b)
		}
	}
}
