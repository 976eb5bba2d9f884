package skb_test

import (
	"bytes"
	"errors"
	"testing"

	"seg6lab/forwarder/skb"
)

// A packet socket on the ingress device reads what an endpoint wrote
// afterwards, unless the kernel makes the head private first.
func TestPacketSocketSeesTheEdit(t *testing.T) {
	for _, row := range []struct {
		profile skb.Profile
		want    byte
		calls   int
	}{
		{nil, 0xee, 0},
		{skb.Profile{skb.EndUncow}, 0, 1},
	} {
		k := &skb.Kernel{Profile: row.profile}
		s, tap, err := skb.Frame{Headroom: 16, MacLen: 14, HeaderCloned: true}.Buffer(k)
		if err != nil {
			t.Fatal(err)
		}
		if err := skb.Edit(s, 64); err != nil {
			t.Fatal(err)
		}
		s.Data()[39] = 0xee
		if got := tap.Data()[39]; got != row.want {
			t.Errorf("%v: the socket reads %#x, want %#x", row.profile, got, row.want)
		}
		if len(k.Expansions) != row.calls {
			t.Errorf("%v: %d expansions, want %d", row.profile, len(k.Expansions), row.calls)
		}
	}
}

// The two halves of dataref: a payload-only reference leaves the header of the
// clone its own, a full one does not, and a freed one counts no more.
func TestReferences(t *testing.T) {
	k := &skb.Kernel{}
	build := func(f skb.Frame) (*skb.SKB, *skb.SKB) {
		f.Headroom, f.MacLen = 16, 14
		s, other, err := f.Buffer(k)
		if err != nil {
			t.Fatal(err)
		}
		return s, other
	}
	check := func(what string, s *skb.SKB, cloned, headerCloned bool) {
		t.Helper()
		if s.Cloned() != cloned || s.HeaderCloned() != headerCloned {
			t.Errorf("%s: cloned %v, header-cloned %v; want %v, %v", what, s.Cloned(), s.HeaderCloned(), cloned, headerCloned)
		}
	}
	s, _ := build(skb.Frame{})
	check("alone", s, false, false)
	s, _ = build(skb.Frame{Cloned: true})
	check("payload-only reference", s, true, false)
	s, other := build(skb.Frame{HeaderCloned: true})
	check("packet socket", s, true, true)
	check("the socket's own", other, true, true)
	other.Free()
	check("socket closed", s, false, false)
	s, _ = build(skb.Frame{HeaderCloned: true})
	if err := s.Cow(0, skb.SiteHeader); err != nil {
		t.Fatal(err)
	}
	check("after cow", s, false, false)
}

// Fragments are shared, not copied, and leave no tailroom.
func TestFragments(t *testing.T) {
	k := &skb.Kernel{}
	s, _, err := skb.Frame{Headroom: 16, MacLen: 14, Len: 40}.Buffer(k)
	if err != nil {
		t.Fatal(err)
	}
	s.AddFrag([]byte("payload"))
	if s.Len() != 47 || s.HeadLen() != 40 || s.Tailroom() != 0 {
		t.Errorf("len %d, headlen %d, tailroom %d; want 47, 40, 0", s.Len(), s.HeadLen(), s.Tailroom())
	}
	if _, err := s.Put(1); !errors.Is(err, skb.ErrNoRoom) {
		t.Errorf("put behind a fragment: %v", err)
	}
	if err := s.ExpandHead(64, 0, skb.SiteHeader); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(s.Bytes(), []byte("payload")) || s.Headroom() != 80 {
		t.Errorf("after the expansion: headroom %d, %q", s.Headroom(), s.Bytes())
	}
	// 56 bytes up to the tail, 48 of shared info and 16 for the fragment.
	if k.Copied != 56+48+16 {
		t.Errorf("copied %d, want 120", k.Copied)
	}
}

// FuzzSKB runs operations in any order: no panic, and the invariants of an
// sk_buff hold after each.
func FuzzSKB(f *testing.F) {
	f.Add([]byte{0, 20, 1, 30, 2, 5, 3, 7, 4, 0, 5, 90, 6, 14, 7, 3})
	f.Add([]byte{0, 255, 1, 255, 8, 0, 2, 255, 9, 0, 10, 0, 5, 255})
	f.Add(bytes.Repeat([]byte{6, 4}, 100)) // A head doubles with every expansion.
	f.Fuzz(func(t *testing.T, program []byte) {
		k := &skb.Kernel{InitOnAlloc: true}
		s := k.Alloc(200)
		program = program[:min(len(program), 64)] // Large heads take time.
		for i := 0; i+1 < len(program); i += 2 {
			n := int(program[i+1])
			before := s.Bytes()
			keeps := false
			switch program[i] % 12 {
			case 0:
				_ = s.Reserve(n)
			case 1:
				_, _ = s.Put(n)
			case 2:
				_ = s.Push(n)
			case 3:
				_ = s.Pull(n)
			case 4:
				s = s.Clone()
				keeps = true
			case 5:
				keeps = s.CowHead(n, skb.SiteHeader) == nil
				if keeps && s.Headroom() < n {
					t.Fatalf("cow_head %d left %d", n, s.Headroom())
				}
			case 6:
				keeps = s.ExpandHead(n, n, skb.SiteL2) == nil
			case 7:
				s.ResetMac()
			case 8:
				s.ResetNetwork()
				s.ResetMacLen()
			case 9:
				s.RebuildMac()
			case 10:
				s.AddFrag(make([]byte, n))
			case 11:
				keeps = s.EnsureWritable(n, skb.SiteEndpoint) == nil
			}
			if keeps && !bytes.Equal(before, s.Bytes()) {
				t.Fatalf("operation %d changed the packet", program[i]%12)
			}
			if s.Headroom() < 0 || s.Tailroom() < 0 || s.HeadLen() < 0 {
				t.Fatalf("headroom %d, tailroom %d, headlen %d", s.Headroom(), s.Tailroom(), s.HeadLen())
			}
		}
	})
}
