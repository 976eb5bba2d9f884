package srh

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

// The digests were computed with Python's hmac over the text of RFC 8754
// section 2.1.2.1 written out by hand: source, 01, 08, 0000002a, both segments.
func TestHMAC(t *testing.T) {
	source := netip.MustParseAddr("fc00::100").As16()
	secret := []byte("secret")
	tests := []struct {
		alg  Algorithm
		want string
	}{
		{SHA1, "9fca76406f5ce0cddf7144dd4cceb525db852c86" + strings.Repeat("00", 12)},
		{SHA256, "8f79040dc354db7a6833f0e147c1016f8055b537a9cbe1ce2c891d5e5a2eddf5"},
	}
	for _, tt := range tests {
		h := New(IPv6, path("fc00::1", "fc00::2")...)
		h.Flags, h.TLVs = FlagHMAC, []TLV{NewHMAC(42)}
		b, err := h.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		v, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if v.VerifyHMAC(tt.alg, secret, source) {
			t.Error("a zero HMAC passed")
		}
		if err := v.SetHMAC(tt.alg, secret, source); err != nil {
			t.Fatal(err)
		}
		if got := v.HMAC(); got.KeyID() != 42 || !bytes.Equal(got.Digest(), unhex(t, tt.want)) {
			t.Errorf("key id %d, HMAC %x, want 42, %s", got.KeyID(), got.Digest(), tt.want)
		}
		if !v.VerifyHMAC(tt.alg, secret, source) {
			t.Error("the right HMAC did not pass")
		}
		// Segments left is not in the text, the tag neither; a segment is.
		v.SetSegmentsLeft(0)
		if !v.VerifyHMAC(tt.alg, secret, source) {
			t.Error("segments left changed the HMAC")
		}
		v.Segment(0)[15]++
		if v.VerifyHMAC(tt.alg, secret, source) {
			t.Error("a changed segment passed")
		}
	}
}

func TestHMACLimits(t *testing.T) {
	for n, ok := range map[int]bool{14: true, 15: false} {
		h := New(IPv6, make([]netip.Addr, n)...)
		for i := range h.Segments {
			h.Segments[i] = netip.IPv6LinkLocalAllNodes()
		}
		h.Flags, h.TLVs = FlagHMAC, []TLV{NewHMAC(1)}
		b, err := h.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := View(b).SetHMAC(SHA256, []byte("k"), [16]byte{}); (err == nil) != ok {
			t.Errorf("%d segments: %v", n, err)
		}
	}
	b, _ := New(IPv6, path("::1")...).AppendBinary(nil)
	if View(b).SetHMAC(SHA256, nil, [16]byte{}) == nil {
		t.Error("an SRH without HMAC TLV was signed")
	}
	if _, err := View(b).ComputeHMAC(3, 1, nil, [16]byte{}); err == nil {
		t.Error("algorithm 3 was accepted")
	}
}
