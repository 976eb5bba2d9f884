package srh

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// linuxAccepts asks the running kernel: setting the socket option IPV6_RTHDR
// passes the header to seg6_validate_srh, not reduced. It needs no root.
func linuxAccepts(t *testing.T, fd int, b []byte) bool {
	t.Helper()
	err := unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_RTHDR, string(b))
	if err != nil && err != unix.EINVAL {
		t.Fatalf("IPV6_RTHDR: %v", err)
	}
	return err == nil
}

// TestLinuxAgrees compares Parse with the kernel on headers changed at random.
// Where the two may differ is said by LinuxTLVs, and by Parse taking reduced headers.
func TestLinuxAgrees(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Skipf("needs IPv6: %v", err)
	}
	defer unix.Close(fd)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	segment := netip.MustParseAddr("fc00::1")
	accepted := 0
	for range 20_000 {
		h := &Header{NextHeader: 17, Flags: uint8(random.Uint32())}
		for range random.IntN(4) + 1 {
			h.Segments = append(h.Segments, segment)
		}
		h.LastEntry = uint8(len(h.Segments) - 1)
		h.SegmentsLeft = h.LastEntry
		for range random.IntN(3) {
			h.TLVs = append(h.TLVs, TLV{Type: uint8(1 + random.IntN(10)), Value: make([]byte, random.IntN(20))})
		}
		b, err := h.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		for range random.IntN(3) { // a small change of the fixed part, or any change of the rest
			if i := random.IntN(len(b)); i < 8 || random.IntN(2) == 0 {
				b[i%8] += uint8(random.IntN(5)) - 2
			} else {
				b[i] = uint8(random.IntN(12))
			}
		}
		v, err := Parse(b)
		want := err == nil && len(v) == len(b) && v.LinuxTLVs() && v.SegmentsLeft() <= v.LastEntry()
		// A Pad1 that the kernel reads as a TLV with a length can make it accept what is
		// wrong: the RFC's reading decides then.
		if err != nil && len(b) == 8+8*int(b[1]) && hasPad1(b) {
			continue
		}
		if got := linuxAccepts(t, fd, b); got != want {
			t.Fatalf("seed %d: %x: Linux says %v, Parse %v, want %v", seed, b, got, err, want)
		}
		if want {
			accepted++
		}
	}
	if accepted < 1000 {
		t.Errorf("seed %d: only %d headers were right: the test does not test", seed, accepted)
	}
}

// hasPad1 reports whether a type 0 stands among the TLVs as RFC 8754 reads them.
func hasPad1(b []byte) bool {
	at := fixedLen + segLen*(int(b[4])+1)
	for at < len(b) {
		if b[at] == TLVPad1 {
			return true
		}
		at += tlvSize(b[at:])
	}
	return false
}
