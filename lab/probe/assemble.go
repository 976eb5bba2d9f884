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
	// allocated are new heads whose sk_buff has not been seen since.
	allocated []bpfRecord
	// last is what was last seen of each sk_buff on its way.
	last map[uint64]bpfRecord
}

func (a *assembler) assemble(records []bpfRecord) *Trace {
	a.trace = &Trace{}
	a.open, a.begun, a.last = map[uint64]*Packet{}, map[uint64]bpfRecord{}, map[uint64]bpfRecord{}
	for i := range records {
		a.add(&records[i])
	}
	for i := range a.allocated {
		if a.underSeg6(&a.allocated[i]) {
			a.trace.Unmatched++
		}
	}
	return a.trace
}

func (a *assembler) add(r *bpfRecord) {
	p := a.packet(r)
	a.match(p, r)
	if r.Kind != recAllocate {
		a.last[r.Skb] = *r
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
			e := a.expansion(p, &before, int(before.Nhead))
			e.NewHead, e.NewSize = r.State.Head, int(r.State.End)
			e.Allocated = e.NewSize + infoRoom(&r.State)
			a.zeroed(e, r)
		}
		return
	case recAllocate:
		a.allocated = append(a.allocated, *r)
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
// sk_buff comes in, or on its way out reaches routing, after it has been
// transmitted: the memory of sk_buffs is used again. The output of a VRF, which
// is routed a second time, counts as two.
func (a *assembler) packet(r *bpfRecord) *Packet {
	node := a.nodes[r.Netns]
	p := a.open[r.Skb]
	if p != nil && p.Node == node {
		last := len(p.Events) - 1
		if last < 0 || p.Events[last].Kind != Transmit {
			return p
		}
		switch r.Kind {
		case recReceive, recRoute, recEnter:
		case recPull: // by the driver that receives, or the one that sends
			if deviceName(r.Dev) == p.Events[last].Device {
				return p
			}
		default:
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

// match gives allocations to their packet. The programs only guess which
// sk_buff an allocation is for, from what the CPU last worked on, and guess wrong
// where a driver hands over packets in lists. An sk_buff seen with the new head
// is the proof. seg6 finishes one packet before a CPU begins the next, so that
// what was allocated under seg6 earlier on the same CPU and was never seen on an
// sk_buff is of the same packet: its heads in between.
func (a *assembler) match(p *Packet, r *bpfRecord) {
	at := len(a.allocated) - 1
	for at >= 0 && a.allocated[at].Address != r.State.Head {
		at--
	}
	if at < 0 {
		return
	}
	var chain, rest []bpfRecord
	for i, alloc := range a.allocated {
		if i == at || i < at && alloc.Cpu == a.allocated[at].Cpu && a.underSeg6(&alloc) {
			chain = append(chain, alloc)
		} else {
			rest = append(rest, alloc)
		}
	}
	a.allocated = rest
	last, seen := a.last[r.Skb]
	for i := range chain {
		before := &chain[i]
		known := before.Skb == r.Skb
		if !known && i == 0 && seen {
			// Between the last sight and the call only headers were
			// pushed or pulled.
			before.Skb, before.Netns, before.Dev, before.State = r.Skb, last.Netns, last.Dev, last.State
			known = true
		}
		nhead := Unknown
		if known && len(chain) == 1 && before.State.Encapsulation == r.State.Encapsulation {
			// pskb_expand_head moves every header offset by nhead.
			// Nothing else moves this one, but for
			// skb_reset_inner_headers, which sets encapsulation.
			nhead = int(int16(r.State.InnerNetworkHeader - before.State.InnerNetworkHeader))
		}
		e := a.expansion(p, before, nhead)
		if i+1 < len(chain) {
			e.NewHead, e.NewSize = before.Address, int(before.Size)-infoRoom(&r.State)
		} else {
			e.NewHead, e.NewSize = r.State.Head, int(r.State.End)
		}
		if !known {
			e.OldHead, e.OldSize, e.Copied = 0, Unknown, Unknown
			if i > 0 {
				e.OldHead, e.OldSize = chain[i-1].Address, int(chain[i-1].Size)-infoRoom(&r.State)
			}
		}
		a.zeroed(e, before)
	}
}

func (a *assembler) underSeg6(r *bpfRecord) bool { return attribute(a.callers(r)) != Outside }

// infoRoom is what the kernel keeps behind end for skb_shared_info: the
// difference that SKB_WITH_OVERHEAD takes away. Cache lines have 64 bytes on
// x86-64 and arm64.
func infoRoom(s *bpfState) int { return (int(s.InfoRoom) + 63) / 64 * 64 }

// expansion adds a call of pskb_expand_head to a packet. The new head is left to
// be filled in.
func (a *assembler) expansion(p *Packet, before *bpfRecord, nhead int) *Expansion {
	callers := a.callers(before)
	e := a.event(before)
	e.Kind, e.Function = Expand, "pskb_expand_head"
	e.Expansion = &Expansion{
		Attribution: attribute(callers), Callers: callers, Nhead: nhead,
		OldHead: before.State.Head, OldSize: int(before.State.End),
		Allocated: int(before.Size), Copied: int(before.State.Tail + before.State.InfoSize), Zeroed: Unknown,
	}
	p.Events = append(p.Events, e)
	return e.Expansion
}

func (a *assembler) zeroed(e *Expansion, r *bpfRecord) {
	if yes, known := a.zeroes(r); yes {
		e.Zeroed = e.Allocated
	} else if known {
		e.Zeroed = 0
	}
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
