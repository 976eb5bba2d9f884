package skb_test

import (
	"fmt"
	"slices"
	"testing"

	"seg6lab/forwarder/skb"
)

// Calls of pskb_expand_head per forwarded packet, counted with fentry on three
// kernels built from Debian's 6.12.117 source: one segment, Ethernet, warm
// cache. Each pair is {not cloned, header-cloned by a packet socket}.
func TestExpansionsPerPacket(t *testing.T) {
	type pair [2]int
	headrooms := [3][]int{{16, 64, 79}, {80, 93}, {94, 95, 206}}
	for _, row := range []struct {
		mode    skb.Mode
		profile skb.Profile
		want    [3]pair
	}{
		{skb.Encap, nil, [3]pair{{1, 1}, {0, 1}, {0, 1}}},
		{skb.Encap, skb.Profile{skb.L2CowMacLenOnly}, [3]pair{{1, 1}, {0, 1}, {0, 1}}},
		{skb.Encap, skb.Profile{skb.L2Cow}, [3]pair{{1, 1}, {0, 1}, {0, 1}}},
		{skb.L2Encap, nil, [3]pair{{2, 2}, {1, 1}, {1, 1}}},
		{skb.L2Encap, skb.Profile{skb.L2CowMacLenOnly}, [3]pair{{1, 2}, {1, 2}, {0, 1}}},
		{skb.L2Encap, skb.Profile{skb.L2Cow}, [3]pair{{1, 1}, {1, 1}, {0, 1}}},
	} {
		for group, list := range headrooms {
			for _, headroom := range list {
				for i, cloned := range []bool{false, true} {
					name := fmt.Sprintf("%s/%v/headroom %d/cloned %v", row.mode, row.profile, headroom, cloned)
					t.Run(name, func(t *testing.T) {
						r := run(t, row.profile, skb.Encapsulation{
							Frame: skb.Frame{Headroom: headroom, MacLen: 14, HeaderCloned: cloned},
							Mode:  row.mode, Segments: 1,
						})
						if got := len(r.Expansions); got != row.want[group][i] {
							t.Errorf("%d expansions, the kernel made %d: %+v", got, row.want[group][i], r.Expansions)
						}
					})
				}
			}
		}
	}
}

// The first kernel of the table above at headroom 16, as traced: nhead 14
// takes the headroom from 16 to 30, then nhead 64.
func TestExpansionsAreAttributed(t *testing.T) {
	r := run(t, nil, skb.Encapsulation{Frame: skb.Frame{Headroom: 16, MacLen: 14}, Mode: skb.L2Encap, Segments: 1})
	if len(r.Expansions) != 2 {
		t.Fatalf("expansions: %+v", r.Expansions)
	}
	first, second := r.Expansions[0], r.Expansions[1]
	if first.By != skb.SiteL2 || first.NHead != 14 || first.Headroom != 16 {
		t.Errorf("first expansion %+v, want 14 by the L2 call at headroom 16", first)
	}
	if second.By != skb.SiteHeader || second.NHead != 64 {
		t.Errorf("second expansion %+v, want 64 for the header", second)
	}
}

// l2encap behind VLAN devices on 6.12.117: the headroom and mac_len at seg6,
// and how far each call went.
func TestExpansionsBehindVLAN(t *testing.T) {
	for _, row := range []struct {
		name     string
		headroom int
		macLen   int
		nheads   []int
	}{
		{"reorder_hdr on", 20, 14, []int{14, 64}},
		{"reorder_hdr off, tag in the payload", 20, 18, []int{18, 64}},
		{"reorder_hdr off, accelerated tag", 80, 18, []int{18}},
	} {
		r := run(t, nil, skb.Encapsulation{Frame: skb.Frame{Headroom: row.headroom, MacLen: row.macLen}, Mode: skb.L2Encap, Segments: 1})
		var nheads []int
		for _, e := range r.Expansions {
			nheads = append(nheads, e.NHead)
		}
		if !slices.Equal(nheads, row.nheads) {
			t.Errorf("%s: nhead %v, the kernel has %v", row.name, nheads, row.nheads)
		}
	}
}

// With a VLAN device that leaves the tag in the frame (mac_len 18, headroom
// 32) 6.12.117 showed these (mac offset, network offset) at ip6_forward, for
// one to four segments.
func TestMacHeaderWraps(t *testing.T) {
	for mode, want := range map[skb.Mode][4][2]uint16{
		skb.Encap:    {{14, 32}, {65534, 16}, {46, 64}, {30, 48}},
		skb.EncapRed: {{38, 56}, {14, 32}, {65534, 16}, {46, 64}},
		skb.L2Encap:  {{14, 32}, {65534, 16}, {46, 64}, {30, 48}},
		skb.Inline:   {{38, 56}, {22, 40}, {6, 24}, {54, 72}},
	} {
		for i, offsets := range want {
			e := skb.Encapsulation{Frame: skb.Frame{Headroom: 32, MacLen: 18}, Mode: mode, Segments: i + 1}
			r := run(t, nil, e)
			if got := [2]uint16{r.Mac, r.Network}; got != offsets {
				t.Errorf("%s, %d segments: offsets %v, the kernel has %v", mode, i+1, got, offsets)
			}
			stray := 0
			if offsets[0] == 65534 {
				stray = 1
			}
			if r.Stray != stray {
				t.Errorf("%s, %d segments: %d stray copies, want %d", mode, i+1, r.Stray, stray)
			}
			r = run(t, skb.Profile{skb.MacHeaderRoom}, e)
			if r.Mac != r.Network-18 || r.Stray != 0 || r.Mac > r.Network {
				t.Errorf("%s, %d segments, %s: offsets %d %d, stray %d", mode, i+1, skb.MacHeaderRoom, r.Mac, r.Network, r.Stray)
			}
		}
	}
}

// 14 of Ethernet, 40 of IPv6, 24 of SRH and 16 for the outgoing link layer are
// 94; ixgbe leaves 206.
func TestNeededAndLeft(t *testing.T) {
	e := skb.Encapsulation{Frame: skb.Frame{Headroom: 206, MacLen: 14, Page: 1536}, Mode: skb.L2Encap, Segments: 1}
	r := run(t, skb.Profile{skb.L2Cow}, e)
	if r.Needed != 94 || r.Left != 206 || len(r.Expansions) != 0 {
		t.Errorf("needed %d, left %d, expansions %d; want 94, 206, 0", r.Needed, r.Left, len(r.Expansions))
	}
	e.Headroom = 94
	if r := run(t, skb.Profile{skb.L2Cow}, e); len(r.Expansions) != 0 {
		t.Errorf("a headroom of exactly what is needed was expanded: %+v", r.Expansions)
	}
	e.Headroom = 93
	if r := run(t, skb.Profile{skb.L2Cow}, e); len(r.Expansions) != 1 {
		t.Errorf("one byte too few made %d expansions", len(r.Expansions))
	}
}

// A cold cache reserves mac_len (14) before the route is known and asks for
// LL_RESERVED_SPACE (16) afterwards: between 78 and 80 the one reallocation
// moves from the header to the link layer.
func TestColdCacheMovesTheExpansion(t *testing.T) {
	for headroom, want := range map[int]skb.Site{77: skb.SiteHeader, 78: skb.SiteLinkLayer, 79: skb.SiteLinkLayer} {
		r := run(t, nil, skb.Encapsulation{Frame: skb.Frame{Headroom: headroom, MacLen: 14}, Mode: skb.Encap, Segments: 1, Cold: true})
		if len(r.Expansions) != 1 || r.Expansions[0].By != want {
			t.Errorf("headroom %d: %+v, want one by %s", headroom, r.Expansions, want)
		}
	}
	r := run(t, nil, skb.Encapsulation{Frame: skb.Frame{Headroom: 80, MacLen: 14}, Mode: skb.Encap, Segments: 1, Cold: true})
	if len(r.Expansions) != 0 {
		t.Errorf("headroom 80: %+v, want none", r.Expansions)
	}
}

// Headroom 16 and 64 bytes of packet: a head of 320 in the small-head cache.
// +14 is 334, in kmalloc-1024 (384 + 320 of shared info), so a head of 704;
// +64 is 768, in kmalloc-2048 (1088). Copied are the bytes up to the tail, 80
// and 94, and 48 of shared info each time.
func TestCost(t *testing.T) {
	e := skb.Encapsulation{Frame: skb.Frame{Headroom: 16, MacLen: 14, Len: 64}, Mode: skb.L2Encap, Segments: 1}
	r, err := e.Run(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if r.Zeroed != 1024+2048 || r.Copied != 80+48+94+48 {
		t.Errorf("zeroed %d, copied %d; want 3072, 270", r.Zeroed, r.Copied)
	}
	if r := run(t, nil, e); r.Zeroed != 0 {
		t.Errorf("zeroed %d without init_on_alloc", r.Zeroed)
	}
}

func TestOverhead(t *testing.T) {
	for _, row := range []struct {
		mode     skb.Mode
		segments int
		hmac     bool
		want     int
	}{
		{skb.Inline, 1, false, 40}, {skb.Inline, 2, true, 8 + 48 + 40},
		{skb.Encap, 1, false, 64}, {skb.Encap, 3, false, 96}, {skb.L2Encap, 1, true, 104},
		{skb.EncapRed, 1, false, 40}, {skb.EncapRed, 1, true, 104}, {skb.EncapRed, 3, false, 80},
		{skb.L2EncapRed, 2, true, 104}, {skb.Encap, 0, false, 0}, {"encap.blue", 1, false, 0},
	} {
		if got := row.mode.Overhead(row.segments, row.hmac); got != row.want {
			t.Errorf("%s, %d segments, hmac %v: overhead %d, want %d", row.mode, row.segments, row.hmac, got, row.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, e := range []skb.Encapsulation{
		{Frame: skb.Frame{Headroom: 13, MacLen: 14}, Mode: skb.Encap, Segments: 1},
		{Frame: skb.Frame{Headroom: 16, MacLen: 14, Len: 39}, Mode: skb.Encap, Segments: 1},
		{Frame: skb.Frame{Headroom: 16, MacLen: 14}, Mode: "encap.blue", Segments: 1},
		{Frame: skb.Frame{Headroom: 16, MacLen: 14, Page: 32}, Mode: skb.Encap, Segments: 1},
	} {
		if r, err := e.Run(nil, false); err == nil {
			t.Errorf("%+v was taken: %+v", e, r)
		}
	}
	if _, err := skb.ParseProfile("l2-cow, end-uncov"); err == nil {
		t.Error("an unknown fix was taken")
	}
	p, err := skb.ParseProfile("l2-cow,end-uncow")
	if err != nil || !p.Has(skb.L2Cow) || !p.Has(skb.EndUncow) || p.Has(skb.MacHeaderRoom) {
		t.Errorf("profile %v, %v", p, err)
	}
}

func run(t *testing.T, p skb.Profile, e skb.Encapsulation) *skb.Result {
	t.Helper()
	r, err := e.Run(p, false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
