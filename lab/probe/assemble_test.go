package probe

import (
	"reflect"
	"testing"
)

func TestAttribute(t *testing.T) {
	for _, c := range []struct {
		want    Attribution
		callers []string
	}{
		{DirectL2, []string{"seg6_do_srh", "seg6_input_core", "lwtunnel_input"}},
		{CowHeader, []string{"__seg6_do_srh_encap", "seg6_do_srh", "seg6_input_core"}},
		{CowHeader, []string{"seg6_do_srh_encap_red", "seg6_do_srh", "seg6_output_core"}},
		{CowHeader, []string{"__skb_cow", "__seg6_do_srh_inline", "seg6_do_srh"}},
		{CowLinkLayer, []string{"seg6_input_core", "lwtunnel_input"}},
		{CowLinkLayer, []string{"seg6_output_core", "lwtunnel_output"}},
		// Not a call of seg6_do_srh itself.
		{OtherSeg6, []string{"iptunnel_handle_offloads", "seg6_do_srh", "seg6_input_core"}},
		{CowHeader, []string{"__seg6_do_srh_encap", "input_action_end_b6_encap", "seg6_local_input_core"}},
		{OtherSeg6, []string{"input_action_end_dt6", "seg6_local_input_core"}},
		// seg6 has passed the packet on.
		{Outside, []string{"ip6_forward", "seg6_input_finish", "seg6_input_core"}},
		{Outside, []string{"skb_ensure_writable", "ip6_forward", "seg6_input_core"}},
		{Outside, []string{"veth_xmit", "dev_hard_start_xmit", "__dev_queue_xmit", "ip6_finish_output2", "seg6_output_core"}},
		{Outside, []string{"skb_ensure_writable", "bpf_skb_change_tail"}},
		{Outside, nil},
	} {
		if got := attribute(c.callers); got != c.want {
			t.Errorf("attribute(%q) = %s, want %s", c.callers, got, c.want)
		}
	}
}

const testSymbols = `ffffffff81000000 T _stext
ffffffff81000100 T pskb_expand_head
ffffffff81000200 t kmalloc_reserve.isra.0
ffffffff81000200 t alias
ffffffff81000300 t seg6_do_srh
ffffffff81000380 t seg6_do_srh.cold
ffffffff81000400 T ip6_forward
ffffffff82000000 T _etext
ffffffff82500000 d init_on_alloc
ffffffffc0000800 t veth_xmit	[veth]
ffffffffc0000000 t seg6_input_core	[ipv6]
`

func TestSymbols(t *testing.T) {
	s := parseSymbols([]byte(testSymbols))
	for name, want := range map[string]textRange{
		"pskb_expand_head": {0xffffffff81000100, 0xffffffff81000200},
		"kmalloc_reserve":  {0xffffffff81000200, 0xffffffff81000300}, // past the alias
		"seg6_do_srh":      {0xffffffff81000300, 0xffffffff81000380},
		"seg6_input_core":  {0xffffffffc0000000, 0xffffffffc0000800}, // sorted
	} {
		if got, ok := s.text(name); !ok || got != want {
			t.Errorf("text(%q) = %#x, %v, want %#x", name, got, ok, want)
		}
	}
	if _, ok := s.text("seg6_output_core"); ok {
		t.Error("text of a function that is not there")
	}
	for addr, want := range map[uint64][2]string{
		0xffffffff810001ff: {"pskb_expand_head", "pskb_expand_head"},
		0xffffffff81000210: {"alias", "alias"},
		0xffffffff81000390: {"seg6_do_srh", "seg6_do_srh"},
		0xffffffffc0000010: {"seg6_input_core", "seg6_input_core"},
		0xffffffffc0000810: {"veth_xmit", ""},
		0xffffffffc0100000: {"veth_xmit", ""}, // a program of eBPF
		0xffffffff80000000: {"", ""},
	} {
		if got := [2]string{s.name(addr), s.caller(addr)}; got != want {
			t.Errorf("%#x: name and caller %q, want %q", addr, got, want)
		}
	}
	if s.initOnAlloc != 0xffffffff82500000 {
		t.Errorf("init_on_alloc at %#x", s.initOnAlloc)
	}
}

func TestZeroesBy(t *testing.T) {
	const off, on = "# CONFIG_INIT_ON_ALLOC_DEFAULT_ON is not set\n", "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y\n"
	for _, c := range []struct {
		cmdline, config string
		yes, known      bool
	}{
		{"quiet", off, false, true},
		{"quiet", on, true, true},
		{"init_on_alloc=1", off, true, true},
		{"init_on_alloc=on", "", true, true},
		{"init_on_alloc=0 quiet", on, false, true},
		{"init_on_alloc=1 init_on_alloc=off", on, false, true},
		{"init_on_alloc=", on, false, true},
		{"quiet", "", false, false},
	} {
		if yes, known := zeroesBy(c.cmdline, c.config); yes != c.yes || known != c.known {
			t.Errorf("zeroesBy(%q, %q) = %v, %v, want %v, %v", c.cmdline, c.config, yes, known, c.yes, c.known)
		}
	}
}

const (
	router, other     = 1, 2
	addrExpand        = 0xffffffff81000110
	addrSeg6          = 0xffffffff81000310
	addrForward       = 0xffffffff81000410
	room              = 320
	skbA, skbB        = 0xa0, 0xb0
	headA, headB      = 0x1000, 0x2000
	newHead, newHead2 = 0x5000, 0x6000
)

func testAssemble(records ...bpfRecord) *Trace {
	s := parseSymbols([]byte(testSymbols))
	a := assembler{
		nodes: map[uint32]string{router: "router", other: "other"}, resolve: s.name, caller: s.caller,
		zeroes: func(*bpfRecord) (yes, known bool) { return true, true },
	}
	return a.assemble(records)
}

func rec(kind, netns uint32, skb, head uint64) bpfRecord {
	return bpfRecord{Kind: kind, Netns: netns, Skb: skb, State: bpfState{Head: head, Data: 16, Tail: 100, End: 256, InfoSize: 48, InfoRoom: room, L3: [40]uint8{0x60}}}
}

func (r bpfRecord) allocating(address uint64, size uint32, caller uint64) bpfRecord {
	r.Kind, r.Address, r.Size, r.Depth = recAllocate, address, size, 2
	r.Stack[0], r.Stack[1] = addrExpand, caller
	return r
}

func (r bpfRecord) moved(by uint16) bpfRecord {
	r.State.InnerNetworkHeader += by
	return r
}

func (r bpfRecord) ending(end uint32) bpfRecord {
	r.State.End = end
	return r
}

func TestAllocationsBecomeExpansions(t *testing.T) {
	trace := testAssemble(
		rec(recReceive, router, skbA, headA),
		rec(recRoute, router, skbA, headA),
		rec(recAllocate, router, skbA, headA).allocating(newHead, 1024, addrSeg6),
		rec(recAllocate, router, skbA, newHead).moved(14).ending(704).allocating(newHead2, 2048, addrForward),
		rec(recTransmit, router, skbA, newHead2).moved(14+64).ending(1728),
	)
	if len(trace.Packets) != 1 {
		t.Fatalf("%d packets", len(trace.Packets))
	}
	got := trace.Packets[0].Expansions(Anywhere)
	want := []*Expansion{
		{Attribution: DirectL2, Callers: []string{"seg6_do_srh"}, Nhead: 14, OldSize: 256, NewSize: 704, Allocated: 1024,
			OldHead: headA, NewHead: newHead, Copied: 148, Zeroed: 1024},
		{Attribution: Outside, Callers: []string{"ip6_forward"}, Nhead: 64, OldSize: 704, NewSize: 1728, Allocated: 2048,
			OldHead: newHead, NewHead: newHead2, Copied: 148, Zeroed: 2048},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("expansions %+v %+v", got[0], got[1])
	}
	if n := len(trace.Packets[0].Expansions(Seg6)); n != 1 {
		t.Errorf("%d expansions within seg6, want 1", n)
	}
}

// The guess of the programs is wrong, the new head tells.
func TestAllocationOfAnotherPacket(t *testing.T) {
	trace := testAssemble(
		rec(recRoute, router, skbA, headA),
		rec(recRoute, router, skbB, headB),
		rec(recAllocate, router, skbB, headB).allocating(newHead, 1024, addrSeg6),
		rec(recTransmit, router, skbA, newHead).moved(64).ending(704),
		rec(recTransmit, router, skbB, headB),
	)
	a, b := trace.Packets[0].Expansions(Anywhere), trace.Packets[1].Expansions(Anywhere)
	if len(a) != 1 || len(b) != 0 || trace.Unmatched != 0 {
		t.Fatalf("%d, %d expansions, %d unmatched, want 1, 0, 0", len(a), len(b), trace.Unmatched)
	}
	if a[0].OldHead != headA || a[0].Nhead != 64 {
		t.Errorf("expansion %+v", a[0])
	}
}

func TestAllocationOfNobody(t *testing.T) {
	trace := testAssemble(
		rec(recRoute, router, skbA, headA),
		rec(recAllocate, router, skbA, headA).allocating(newHead, 1024, addrSeg6),
		rec(recAllocate, router, skbA, headA).allocating(newHead2, 1024, addrForward),
		rec(recTransmit, router, skbA, headA),
	)
	if n := len(trace.Packets[0].Expansions(Anywhere)); n != 0 || trace.Unmatched != 1 {
		t.Errorf("%d expansions, %d unmatched, want 0 and 1: only seg6 counts", n, trace.Unmatched)
	}
}

// A call that failed has not reallocated anything.
func TestFailedExpansion(t *testing.T) {
	failed := rec(recExpanded, router, skbA, headA)
	failed.Result = -12
	trace := testAssemble(rec(recEnter, router, skbA, headA), rec(recExpand, router, skbA, headA), failed)
	if n := len(trace.Packets[0].Expansions(Anywhere)); n != 0 {
		t.Errorf("%d expansions, want 0", n)
	}
}

// One sk_buff passes two nodes, and its memory is used again.
func TestPassages(t *testing.T) {
	drop := rec(recDrop, router, skbA, headA)
	drop.Result = 2
	trace := testAssemble(
		rec(recReceive, router, skbA, headA), rec(recRoute, router, skbA, headA), rec(recTransmit, router, skbA, headA),
		rec(recReceive, other, skbA, headA), rec(recConsume, other, skbA, headA),
		rec(recReceive, router, skbA, headA), drop,
		rec(recRoute, router, skbA, headA), rec(recTransmit, router, skbA, headA),
		rec(recRoute, router, skbA, headA), rec(recTransmit, router, skbA, headA), rec(recTransmit, router, skbA, headA),
	)
	var got [][]Kind
	for _, p := range trace.Packets {
		var kinds []Kind
		for _, e := range p.Events {
			kinds = append(kinds, e.Kind)
		}
		got = append(got, kinds)
	}
	want := [][]Kind{{Receive, Route, Transmit}, {Receive}, {Receive, Drop}, {Route, Transmit}, {Route, Transmit, Transmit}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("passages %v, want %v", got, want)
	}
	for i, node := range []string{"router", "other", "router", "router", "router"} {
		if trace.Packets[i].Node != node {
			t.Errorf("packet %d in %s, want %s", i, trace.Packets[i].Node, node)
		}
	}
}

func TestState(t *testing.T) {
	for _, c := range []struct {
		name string
		in   bpfState
		want State
	}{
		{"linear", bpfState{Data: 16, Tail: 100, End: 256, Len: 84, Dataref: 1},
			State{Headroom: 16, Tailroom: 156, Size: 256, Len: 84, Linear: 84, DataRef: 1}},
		{"in fragments", bpfState{Data: 16, Tail: 30, End: 256, Len: 84, DataLen: 70, NrFrags: 1, Dataref: 1},
			State{Headroom: 16, Size: 256, Len: 84, Linear: 14, Frags: 1, DataRef: 1}},
		{"shared with its header", bpfState{Cloned: 1, Dataref: 2}, State{Cloned: true, HeaderCloned: true, DataRef: 2}},
		{"shared without its header", bpfState{Cloned: 1, Dataref: 1<<16 | 2}, State{Cloned: true, DataRef: 2}},
		{"clone alone", bpfState{Cloned: 1, Dataref: 1}, State{Cloned: true, DataRef: 1}},
		{"tagged", bpfState{VlanProto: 0x8100, VlanTci: 100, Dataref: 1}, State{VLAN: true, VLANTCI: 100, DataRef: 1}},
	} {
		if got := state(&c.in); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Only an encapsulation changes more than the hop limit.
func TestSeg6(t *testing.T) {
	out := func(change func(*bpfState)) bool {
		r := rec(recTransmit, router, skbA, headA)
		change(&r.State)
		return testAssemble(rec(recRoute, router, skbA, headA), r).Packets[0].Seg6()
	}
	if out(func(s *bpfState) { s.L3[7]-- }) {
		t.Error("a forwarded packet counts as encapsulated")
	}
	if !out(func(s *bpfState) { s.L3[39]++ }) {
		t.Error("a packet with another destination does not count as encapsulated")
	}
}
