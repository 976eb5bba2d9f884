package probe

// A Kind is what an event reports.
type Kind string

const (
	// Receive: a device handed the packet to the stack (tracepoint
	// netif_receive_skb).
	Receive Kind = "receive"
	// Route: the last state in front of routing, hence of seg6 (tracepoint
	// backend; netfilter's PRE_ROUTING or LOCAL_OUT).
	Route Kind = "route"
	// Enter: the function named in the event was entered (fentry backend).
	Enter Kind = "enter"
	// Expand: pskb_expand_head gave the packet a new head.
	Expand Kind = "expand"
	// Pull: __pskb_pull_tail was called (fentry backend).
	Pull Kind = "pull"
	// Transmit: the packet was handed to a driver (tracepoint
	// net_dev_start_xmit).
	Transmit Kind = "transmit"
	// Drop: the packet was dropped (tracepoint kfree_skb).
	Drop Kind = "drop"
)

// State is an sk_buff at one moment. Lengths are in bytes, header offsets count
// from head as in struct sk_buff.
type State struct {
	Head          uint64 // address, to tell one head from another
	Headroom      int    // data - head
	Tailroom      int    // as skb_tailroom: 0 when not linear
	Size          int    // end - head: what the head holds without skb_shared_info
	Len           int
	Linear        int // bytes in the head: len - data_len
	Frags         int
	MacLen        int
	MacHeader     int // 65535 when not set
	NetworkHeader int
	Cloned        bool // skb->cloned: the data was shared once; DataRef tells whether it still is
	HeaderCloned  bool // as skb_header_cloned
	DataRef       int  // sk_buffs that share the data: the lower half of dataref
	VLAN          bool // an accelerated tag is present
	VLANTCI       int
	Protocol      int      // skb->protocol as an EtherType
	L3            [40]byte // the bytes at the network header
}

// An Attribution says on whose behalf pskb_expand_head was called, by the
// functions above it on the stack.
type Attribution string

const (
	// DirectL2 is the call that seg6_do_srh makes itself for the L2 modes.
	DirectL2 Attribution = "direct-l2"
	// CowHeader is skb_cow_head for the outer header and the SRH.
	CowHeader Attribution = "cow-header"
	// CowLinkLayer is skb_cow_head for the outgoing link layer.
	CowLinkLayer Attribution = "cow-link-layer"
	// OtherSeg6 is any other call beneath a function of seg6.
	OtherSeg6 Attribution = "other-seg6"
	// Outside is everything else.
	Outside Attribution = "outside"
)

// Unknown is the value of a quantity that the backend could not observe.
const Unknown = -1

// An Expansion is one call of pskb_expand_head. All sizes are in bytes. The
// tracepoint backend leaves some Unknown where the driver handed over packets in
// lists, and Nhead where it cannot be told from the header offsets.
type Expansion struct {
	Attribution Attribution
	Callers     []string // functions above pskb_expand_head, nearest first
	Nhead       int      // how far the data moved from head
	OldSize     int      // end - head before
	NewSize     int      // end - head after
	Allocated   int      // by the slab for the new head and skb_shared_info
	OldHead     uint64
	NewHead     uint64
	Copied      int // of the head up to its tail, and of skb_shared_info
	Zeroed      int // by the allocator: all of the new head with init_on_alloc; Unknown if it cannot be told
}

// An Event is something that happened to a packet in a node. State is that of
// the sk_buff just before.
type Event struct {
	Kind      Kind
	Node      string
	Device    string // skb->dev: where the packet came in, or goes out
	CPU       int
	Function  string // the kernel function, or the tracepoint or hook
	State     State
	Expansion *Expansion // Expand
	Delta     int        // Pull: bytes asked for
	Reason    string     // Drop: skb_drop_reason without its prefix
	Location  string     // Drop: the function that dropped
}

// A Packet is the passage of one sk_buff through one node.
type Packet struct {
	Node   string
	Events []Event
}

// A Trace is what was observed, in the order in which packets appeared.
type Trace struct {
	Backend Backend
	Packets []*Packet
	// Unmatched counts reallocations under seg6 that the tracepoint backend
	// could not give to a packet of the lab.
	Unmatched int
}

// Within selects reallocations by attribution.
type Within string

const (
	Anywhere Within = ""     // every attribution
	Seg6     Within = "seg6" // every attribution but Outside
)

// Holds tells whether an attribution is selected.
func (w Within) Holds(a Attribution) bool {
	switch w {
	case Anywhere:
		return true
	case Seg6:
		return a != Outside
	}
	return Attribution(w) == a
}

// entries are the functions by which a packet enters seg6, in every mode of an
// encap route, and in every action of a seg6local route.
var entries = map[string]bool{"seg6_do_srh": true, "seg6_local_input": true}

// Entry is the state in which the packet first reached seg6, or for the
// tracepoint backend routing, and whether it did.
func (p *Packet) Entry() (entry Event, ok bool) {
	for _, e := range p.Events {
		switch {
		case e.Kind == Enter && entries[e.Function]:
			return e, true
		case e.Kind == Route: // again behind a VRF
			entry, ok = e, true
		case e.Kind == Expand && e.Expansion.Attribution != Outside, e.Kind == Transmit:
			return entry, ok
		}
	}
	return entry, ok
}

// Seg6 tells whether seg6 worked on the packet: it was seen to enter seg6, or,
// where that cannot be seen, it left with another network header than the one
// it came with, the hop limit and checksum aside. The latter does not know seg6
// from other tunnels.
func (p *Packet) Seg6() bool {
	entry, ok := p.Entry()
	if !ok {
		return false
	}
	if entry.Kind == Enter {
		return true
	}
	for _, e := range p.Events {
		if e.Kind == Expand && e.Expansion.Attribution != Outside {
			return true
		}
		if e.Kind == Transmit && !sameFlow(entry.State.L3, e.State.L3) {
			return true
		}
	}
	return false
}

// sameFlow compares IPv6 or IPv4 headers without what forwarding changes.
func sameFlow(a, b [40]byte) bool {
	for _, h := range []*[40]byte{&a, &b} {
		if h[0]>>4 == 6 {
			h[7] = 0 // hop limit
		} else {
			h[8], h[10], h[11] = 0, 0, 0 // TTL, checksum
			clear(h[20:])
		}
	}
	return a == b
}

// Expansions are the packet's reallocations with the wanted attribution.
func (p *Packet) Expansions(w Within) []*Expansion {
	var out []*Expansion
	for _, e := range p.Events {
		if e.Kind == Expand && w.Holds(e.Expansion.Attribution) {
			out = append(out, e.Expansion)
		}
	}
	return out
}

// Dropped gives the packet's drop, if it was dropped.
func (p *Packet) Dropped() (Event, bool) {
	for _, e := range p.Events {
		if e.Kind == Drop {
			return e, true
		}
	}
	return Event{}, false
}

// Calls counts the calls of a kernel function for the packet. The attribution
// counts for pskb_expand_head alone.
func (p *Packet) Calls(function string, w Within) int {
	n := 0
	for _, e := range p.Events {
		if e.Function == function && (e.Expansion == nil || w.Holds(e.Expansion.Attribution)) {
			n++
		}
	}
	return n
}

// Observes tells whether the trace would hold calls of a kernel function.
func (t *Trace) Observes(function string) bool {
	switch function {
	case "pskb_expand_head":
		return true
	case "__pskb_pull_tail", "seg6_do_srh", "seg6_local_input", "ip6_forward":
		return t.Backend == Fentry
	}
	return false
}

// Seg6Packets are the packets that seg6 worked on in a node.
func (t *Trace) Seg6Packets(node string) []*Packet {
	var out []*Packet
	for _, p := range t.Packets {
		if p.Node == node && p.Seg6() {
			out = append(out, p)
		}
	}
	return out
}
