package probe

import (
	"bytes"
	"strings"
)

// The kinds of records, as enum kind of the programs.
const (
	recReceive = 1 + iota
	recRoute
	recEnter
	recExpand
	recExpanded
	recAllocate
	recPull
	recTransmit
	recDrop
	recConsume
)

// attribution maps the function that called pskb_expand_head to the reason. They
// exist as symbols of their own on every kernel where calls can be attributed.
var attribution = map[string]Attribution{
	"seg6_do_srh":           DirectL2,
	"__seg6_do_srh_encap":   CowHeader,
	"seg6_do_srh_encap_red": CowHeader,
	"__seg6_do_srh_inline":  CowHeader,
	"seg6_input_core":       CowLinkLayer,
	"seg6_output_core":      CowLinkLayer,
}

// attributed are the functions without whose symbols nothing can be attributed.
var attributed = func() (names []string) {
	for n := range attribution {
		names = append(names, n)
	}
	return names
}()

// cowHelpers are inline in the kernel, though a compiler may decide otherwise.
var cowHelpers = map[string]bool{"skb_cow": true, "__skb_cow": true, "skb_cow_head": true}

// attribute names the reason for a call from the functions above it.
func attribute(callers []string) Attribution {
	direct := true
	for _, c := range callers {
		switch {
		case cowHelpers[c]:
			continue
		case direct && attribution[c] != "":
			return attribution[c]
		case strings.HasPrefix(c, "seg6_"), strings.HasPrefix(c, "__seg6_"), strings.HasPrefix(c, "input_action_"):
			return OtherSeg6
		case strings.HasPrefix(c, "ip6_"), strings.HasPrefix(c, "ip_"), strings.HasPrefix(c, "ipv6_"),
			strings.HasPrefix(c, "dev_"), strings.HasPrefix(c, "__dev_"), strings.HasPrefix(c, "__netif_"):
			// Everything below runs on behalf of this layer, although
			// seg6 may have called it to pass the packet on.
			return Outside
		}
		direct = false
	}
	return Outside
}

// An assembler turns records into packets.
type assembler struct {
	nodes   map[uint32]string
	resolve func(uint64) string // the function at an address
	caller  func(uint64) string // that of a stack's frame, empty for eBPF
	zeroes  func(*bpfRecord) (yes, known bool)
	trace   *Trace
	// open are the packets on their way, by the address of the sk_buff.
	open map[uint64]*Packet
	// begun are calls of pskb_expand_head that have not returned.
	begun map[uint64]bpfRecord
	// allocated are new heads whose sk_buff has not been seen since, by
	// address of the head.
	allocated map[uint64]bpfRecord
}

func (a *assembler) assemble(records []bpfRecord) *Trace {
	a.trace = &Trace{}
	a.open, a.begun, a.allocated = map[uint64]*Packet{}, map[uint64]bpfRecord{}, map[uint64]bpfRecord{}
	for i := range records {
		a.add(&records[i])
	}
	for _, r := range a.allocated {
		if attribute(a.callers(&r)) != Outside {
			a.trace.Unmatched++
		}
	}
	return a.trace
}

func (a *assembler) add(r *bpfRecord) {
	p := a.packet(r)
	// An sk_buff with a head that was allocated under pskb_expand_head
	// proves which sk_buff the call was for.
	if alloc, ok := a.allocated[r.State.Head]; ok {
		delete(a.allocated, r.State.Head)
		a.expandedTo(p, &alloc, r)
	}
	e := a.event(r)
	switch r.Kind {
	case recReceive:
		e.Kind, e.Function = Receive, "netif_receive_skb"
	case recRoute:
		e.Kind, e.Function = Route, "nf_hook"
	case recEnter:
		e.Kind, e.Function = Enter, a.resolve(r.Function)
	case recPull:
		e.Kind, e.Function, e.Delta = Pull, "__pskb_pull_tail", int(r.Ntail)
	case recTransmit:
		e.Kind, e.Function = Transmit, "net_dev_start_xmit"
	case recDrop:
		e.Kind, e.Function = Drop, "kfree_skb"
		e.Reason, e.Location = dropReason(r.Result), a.resolve(r.Address)
	case recExpand:
		a.begun[r.Skb] = *r
		return
	case recExpanded:
		before, ok := a.begun[r.Skb]
		delete(a.begun, r.Skb)
		if ok && r.Result == 0 {
			a.expansion(p, &before, int(before.Nhead), r)
		}
		return
	case recAllocate:
		a.allocated[r.Address] = *r
		return
	case recConsume:
		delete(a.open, r.Skb)
		return
	}
	p.Events = append(p.Events, e)
	if r.Kind == recDrop {
		delete(a.open, r.Skb)
	}
}

// packet gives the passage that a record belongs to. One begins where an
// sk_buff is received after having been transmitted, in whatever node.
func (a *assembler) packet(r *bpfRecord) *Packet {
	node := a.nodes[r.Netns]
	p := a.open[r.Skb]
	if p != nil && p.Node == node {
		last := len(p.Events) - 1
		if r.Kind != recReceive || last < 0 || p.Events[last].Kind != Transmit {
			return p
		}
	}
	if p == nil && r.Kind == recConsume {
		return &Packet{}
	}
	p = &Packet{Node: node}
	a.open[r.Skb] = p
	a.trace.Packets = append(a.trace.Packets, p)
	return p
}

func (a *assembler) event(r *bpfRecord) Event {
	return Event{
		Node: a.nodes[r.Netns], Device: deviceName(r.Dev), CPU: int(r.Cpu), State: state(&r.State),
	}
}

// expandedTo adds a reallocation that was seen as an allocation, and the next
// sight of the sk_buff.
func (a *assembler) expandedTo(p *Packet, alloc, next *bpfRecord) {
	nhead := Unknown
	if alloc.Skb == next.Skb && alloc.State.Encapsulation == next.State.Encapsulation {
		// pskb_expand_head moves every header offset by nhead. Nothing
		// else moves this one, but for skb_reset_inner_headers, which
		// comes with the encapsulation bit.
		nhead = int(int16(next.State.InnerNetworkHeader - alloc.State.InnerNetworkHeader))
	}
	a.expansion(p, alloc, nhead, next)
}

// cacheLine is SMP_CACHE_BYTES of x86-64 and arm64.
const cacheLine = 64

func (a *assembler) expansion(p *Packet, before *bpfRecord, nhead int, after *bpfRecord) {
	callers := a.callers(before)
	e := a.event(before)
	e.Kind, e.Function = Expand, "pskb_expand_head"
	e.Expansion = &Expansion{
		Attribution: attribute(callers), Callers: callers, Nhead: nhead,
		OldSize: int(before.State.End), NewSize: int(after.State.End),
		OldHead: before.State.Head, NewHead: after.State.Head,
		Copied: int(before.State.Tail + before.State.InfoSize),
		Zeroed: Unknown,
	}
	e.Expansion.Allocated = int(before.Size)
	if before.Kind != recAllocate {
		// The inverse of SKB_WITH_OVERHEAD.
		e.Expansion.Allocated = e.Expansion.NewSize + (int(after.State.InfoRoom)+cacheLine-1)/cacheLine*cacheLine
	}
	if yes, known := a.zeroes(before); known {
		e.Expansion.Zeroed = 0
		if yes {
			e.Expansion.Zeroed = e.Expansion.Allocated
		}
	}
	p.Events = append(p.Events, e)
}

// callers names the functions above pskb_expand_head, nearest first.
func (a *assembler) callers(r *bpfRecord) (names []string) {
	for _, ip := range r.Stack[:min(int(r.Depth), len(r.Stack))] {
		switch n := a.caller(ip); n {
		case "":
		case "pskb_expand_head":
			names = nil
		default:
			names = append(names, n)
		}
	}
	return names
}

func state(s *bpfState) State {
	// The lower half of dataref counts all references, the upper half those
	// that have given up the header.
	refs, released := int(s.Dataref&0xffff), int(s.Dataref>>16)
	out := State{
		Head: s.Head, Headroom: int(s.Data), Size: int(s.End), Len: int(s.Len), Linear: int(s.Len - s.DataLen),
		Frags: int(s.NrFrags), MacLen: int(s.MacLen), MacHeader: int(s.MacHeader), NetworkHeader: int(s.NetworkHeader),
		Cloned: s.Cloned != 0, HeaderCloned: s.Cloned != 0 && refs-released != 1, DataRef: refs,
		VLAN: s.VlanProto != 0, VLANTCI: int(s.VlanTci), Protocol: int(s.Protocol), L3: s.L3,
	}
	if s.DataLen == 0 {
		out.Tailroom = int(s.End) - int(s.Tail)
	}
	return out
}

func deviceName(dev [16]int8) string {
	b := make([]byte, 0, len(dev))
	for _, c := range dev {
		b = append(b, byte(c))
	}
	name, _, _ := bytes.Cut(b, []byte{0})
	return string(name)
}
