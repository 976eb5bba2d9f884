package srh

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func path(addrs ...string) []netip.Addr {
	var p []netip.Addr
	for _, a := range addrs {
		p = append(p, netip.MustParseAddr(a))
	}
	return p
}

// The layouts are written by hand from the figure of RFC 8754 section 2.
func TestEncode(t *testing.T) {
	hmac := NewHMAC(0x01020304)
	tests := []struct {
		name string
		h    *Header
		want string
	}{
		{"H.Encaps, 1 segment", New(IPv6, path("fc00::1")...),
			"29 02 04 00 00 00 0000 fc000000000000000000000000000001"},
		{"H.Encaps, 2 segments: reversed", New(Ethernet, path("fc00::1", "fc00::2")...),
			"8f 04 04 01 01 00 0000 fc000000000000000000000000000002 fc000000000000000000000000000001"},
		{"H.Encaps.Red, 2 segments", NewReduced(IPv4, path("fc00::1", "fc00::2")...),
			"04 02 04 01 00 00 0000 fc000000000000000000000000000002"},
		{"flags and tag", &Header{NextHeader: 17, Flags: FlagOAM, Tag: 0xabcd, Segments: path("::1")},
			"11 02 04 00 00 20 abcd 00000000000000000000000000000001"},
		{"Pad1 fills one byte", &Header{NextHeader: 59, Segments: path("::1"), TLVs: []TLV{{Type: 124, Value: []byte{1, 2, 3, 4, 5}}}},
			"3b 03 04 00 00 00 0000 00000000000000000000000000000001 7c050102030405 00"},
		{"PadN fills more", &Header{NextHeader: 59, Segments: path("::1"), TLVs: []TLV{{Type: 124, Value: []byte{9}}}},
			"3b 03 04 00 00 00 0000 00000000000000000000000000000001 7c0109 0403000000"},
		{"padding comes before the HMAC TLV", &Header{NextHeader: 59, Flags: FlagHMAC, Segments: path("::1"), TLVs: []TLV{{Type: 124, Value: []byte{9}}, hmac}},
			"3b 08 04 00 00 08 0000 00000000000000000000000000000001 7c0109 0403000000" +
				"0526 0000 01020304" + strings.Repeat("00", 32)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.h.AppendBinary([]byte{0xee})
			if err != nil {
				t.Fatal(err)
			}
			want := unhex(t, "ee"+tt.want)
			if !bytes.Equal(got, want) {
				t.Fatalf("encoded\n%x, want\n%x", got, want)
			}
			back, n, err := Decode(append(want[1:], 0xff))
			if err != nil || n != len(want)-1 || back.SegmentsLeft != tt.h.SegmentsLeft || back.Segments[0] != tt.h.Segments[0] {
				t.Fatalf("decoded %+v, %d bytes, %v", back, n, err)
			}
			if again, err := back.AppendBinary(nil); err != nil || !bytes.Equal(again, want[1:]) {
				t.Fatalf("encoded again %x, %v", again, err)
			}
		})
	}
}

func TestNewReducedOneSegment(t *testing.T) {
	if h := NewReduced(IPv6, path("fc00::1")...); h != nil {
		t.Errorf("one segment gave %+v, want no SRH", h)
	}
}

func TestEncodeErrors(t *testing.T) {
	tests := []struct {
		name, want string
		h          Header
	}{
		{"IPv4 segment", "192.0.2.1 is not an IPv6 address", Header{Segments: path("192.0.2.1")}},
		{"128 segments", "2056 bytes: at most 2048", Header{Segments: make([]netip.Addr, 128)}},
		{"long TLV", "256 bytes: at most 255", Header{Segments: path("::1"), TLVs: []TLV{{Type: 9, Value: make([]byte, 256)}}}},
		{"Pad1 with a value", "Pad1 TLV with a value", Header{Segments: path("::1"), TLVs: []TLV{{Type: TLVPad1, Value: []byte{0}}}}},
	}
	for _, tt := range tests {
		if _, err := tt.h.AppendBinary(nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

// The rules are those of RFC 8754 sections 2 and 4.3.1.1 and of Linux' seg6_validate_srh.
func TestParseErrors(t *testing.T) {
	const seg = "fc000000000000000000000000000001"
	tests := []struct{ name, in, want string }{
		{"empty", "", "truncated"},
		{"7 bytes", "29020400000000", "truncated"},
		{"header past the buffer", "29 04 04 00 00 00 0000" + seg, "truncated"},
		{"routing type 0", "29 02 00 00 00 00 0000" + seg, "routing type is 0"},
		{"no room for a segment", "29 00 04 00 00 00 0000", "last entry 0 is past the header"},
		{"half a segment", "29 01 04 00 00 00 0000 fc00000000000000", "last entry 0 is past the header"},
		{"last entry past the header", "29 02 04 00 01 00 0000" + seg, "last entry 1 is past the header"},
		{"segments left", "29 02 04 02 00 00 0000" + seg, "segments left 2 is more than last entry 0 + 1"},
		{"TLV past the header", "29 03 04 00 00 00 0000" + seg + "7c07010203040506", "TLV of type 124 at offset 24"},
		{"TLV without length", "29 03 04 00 00 00 0000" + seg + "040500000000007c", "TLV of type 124 at offset 31"},
	}
	for _, tt := range tests {
		_, err := Parse(unhex(t, tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
		if errors.Is(err, ErrTruncated) != (tt.want == "truncated") {
			t.Errorf("%s: %v: wrong about being truncated", tt.name, err)
		}
	}
	if _, err := Parse(unhex(t, "29 02 04 01 00 00 0000"+seg)); err != nil {
		t.Errorf("segments left = last entry + 1 is a reduced SRH: %v", err)
	}
}

// seg6_validate_srh steps over a Pad1 by the byte that follows it.
func TestLinuxTLVs(t *testing.T) {
	const head = "3b 03 04 00 00 00 0000 00000000000000000000000000000001"
	for tlvs, want := range map[string]bool{
		"0406000000000000": true,
		"7c05010203040500": false, // Pad1 as the last byte
		"0006000000000000": true,  // read as type 0, length 6
		"0007000000000000": false, // type 0, length 7: one byte too many
	} {
		v, err := Parse(unhex(t, head+tlvs))
		if err != nil {
			t.Errorf("%s: %v", tlvs, err)
		}
		if got := v.LinuxTLVs(); got != want {
			t.Errorf("%s: %v, want %v", tlvs, got, want)
		}
	}
}

func TestViewAllocatesNothing(t *testing.T) {
	b, _ := New(IPv6, path("fc00::1", "fc00::2", "fc00::3")...).AppendBinary(nil)
	var dst [16]byte
	n := testing.AllocsPerRun(100, func() {
		v, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		v.SetSegmentsLeft(1)
		dst = *v.Segment(int(v.SegmentsLeft()))
		DefaultCSID.Advance(&dst)
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func FuzzDecode(f *testing.F) {
	b, _ := (&Header{Flags: FlagHMAC, Segments: path("::1"), TLVs: []TLV{{Type: 1, Value: []byte{1}}, NewHMAC(7)}}).AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := Decode(b)
		if err != nil {
			return
		}
		again, err := h.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, b[:n]) {
			t.Fatalf("decoded %x, encoded %x", b[:n], again)
		}
		View(b[:n]).HMAC()
		View(b[:n]).LinuxTLVs()
	})
}
