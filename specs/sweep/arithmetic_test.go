package sweep

import (
	"strings"
	"testing"

	"seg6lab/forwarder/skb"
)

// 14 of MAC header, 40 of IPv6, 24 of SRH and 16 of link layer are 94, and ixgbe
// leaves 206. Unfixed kernels reallocate all the same, fixed ones do not.
func TestAccountOfTheReport(t *testing.T) {
	a := account(t, skb.Encapsulation{Frame: skb.Frame{Headroom: 206, MacLen: 14}, Mode: skb.L2Encap, Segments: 1, Reserved: 16})
	checkParts(t, a, 14, 40, 24, 16)
	if a.Needed != 94 || a.Left != 206 {
		t.Errorf("needed %d, left %d; want 94, 206", a.Needed, a.Left)
	}
	checkCalls(t, a, 1, 0, 0)
	var b strings.Builder
	if err := a.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"    94  needed\n", "   206  left in front of the packet: enough, with 112 to spare\n",
		"     1  kernel without fixes: for the MAC header, 14 bytes more\n", "     0  with l2-cow\n",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("the account lacks %q:\n%s", line, b.String())
		}
	}
}

// The numbers of calls are those counted on three kernels with one segment.
func TestAccounts(t *testing.T) {
	for _, row := range []struct {
		name  string
		e     skb.Encapsulation
		parts []int
		calls [3]int // unfixed, mac_len alone, whole
	}{
		{"l2encap on veth", skb.Encapsulation{Frame: skb.Frame{Headroom: 16, MacLen: 14}, Mode: skb.L2Encap, Segments: 1}, []int{14, 40, 24, 16}, [3]int{2, 1, 1}},
		{"l2encap, header-cloned", skb.Encapsulation{Frame: skb.Frame{Headroom: 80, MacLen: 14, HeaderCloned: true}, Mode: skb.L2Encap, Segments: 1}, []int{14, 40, 24, 16}, [3]int{1, 2, 1}},
		{"encap", skb.Encapsulation{Frame: skb.Frame{Headroom: 80, MacLen: 14}, Mode: skb.Encap, Segments: 1}, []int{40, 24, 16}, [3]int{0, 0, 0}},
		{"encap.red without an SRH", skb.Encapsulation{Frame: skb.Frame{Headroom: 16, MacLen: 14}, Mode: skb.EncapRed, Segments: 1}, []int{40, 16}, [3]int{1, 1, 1}},
		// Inline has the original destination as an entry: 8 + 2 * 16.
		{"inline", skb.Encapsulation{Frame: skb.Frame{Headroom: 16, MacLen: 14}, Mode: skb.Inline, Segments: 1}, []int{40, 16}, [3]int{1, 1, 1}},
		{"encap.red of three with HMAC", skb.Encapsulation{Frame: skb.Frame{Headroom: 206, MacLen: 14}, Mode: skb.EncapRed, Segments: 3, HMAC: true}, []int{40, 8 + 2*16 + 40, 16}, [3]int{0, 0, 0}},
		{"out of a VLAN device", skb.Encapsulation{Frame: skb.Frame{Headroom: 206, MacLen: 14}, Mode: skb.Encap, Segments: 1, Reserved: 32}, []int{40, 24, 32}, [3]int{0, 0, 0}},
		{"cold", skb.Encapsulation{Frame: skb.Frame{Headroom: 79, MacLen: 14}, Mode: skb.Encap, Segments: 1, Cold: true}, []int{40, 24, 14}, [3]int{1, 1, 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := account(t, row.e)
			checkParts(t, a, row.parts...)
			checkCalls(t, a, row.calls[:]...)
		})
	}
}

// Of a VLAN frame that meets a headroom of exactly 40 + 24 + 16, 18 bytes of MAC
// header go to the 16 in front.
func TestAccountOfAWrap(t *testing.T) {
	a := account(t, skb.Encapsulation{Frame: skb.Frame{Headroom: 80, MacLen: 18}, Mode: skb.Encap, Segments: 1})
	var b strings.Builder
	if err := a.Write(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "outside of the buffer") {
		t.Errorf("nothing is said of the MAC header:\n%s", b.String())
	}
	if last := a.Kernels[len(a.Kernels)-1]; !last.Profile.Has(skb.MacHeaderRoom) || last.State.Outside() || len(last.State.Calls) != 1 {
		t.Errorf("the last kernel is %+v, want one that makes room for the MAC header", last)
	}
}

func TestReserved(t *testing.T) {
	for name, want := range map[string]int{"ethernet": 16, "vlan": 32, "tun": 16} {
		if got, err := Reserved(name); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, want)
		}
	}
	if _, err := Reserved("token-ring"); err == nil {
		t.Error("token-ring was taken")
	}
}

func account(t *testing.T, e skb.Encapsulation) *Arithmetic {
	t.Helper()
	a, err := Account(e)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func checkParts(t *testing.T, a *Arithmetic, want ...int) {
	t.Helper()
	sum := 0
	for i, p := range a.Parts {
		if i >= len(want) || p.Bytes != want[i] {
			t.Fatalf("parts %+v, want %v", a.Parts, want)
		}
		sum += p.Bytes
	}
	if len(a.Parts) != len(want) || sum != a.Needed {
		t.Errorf("parts %+v, sum %d; want %v, sum %d", a.Parts, sum, want, a.Needed)
	}
}

func checkCalls(t *testing.T, a *Arithmetic, want ...int) {
	t.Helper()
	for i, k := range a.Kernels {
		if len(k.State.Calls) != want[i] {
			t.Errorf("%v: %+v, want %d calls", k.Profile, k.State.Calls, want[i])
		}
	}
}
