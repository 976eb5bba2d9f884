package forwarder

import "net/netip"

// kind is what becomes of packets that a route without a tunnel matches.
type kind uint8

const (
	unicast kind = iota
	local
	blackhole
	unreachable
	prohibit
)

// dst is where a route leads. Routes that lead to the same place share one.
type dst struct {
	kind kind
	// anycast: a subnet-router anycast address, of the kind local.
	anycast bool
	dev     *device
	// via is the gateway, invalid on a connected route; next its neighbour
	// entry.
	via  netip.Addr
	next *neighbour
	mtu  int

	headend  *headend
	endpoint *endpoint
}

// dropped by seg6_lookup_nexthop when nothing else can be done with a packet.
var blackholeDst = &dst{kind: blackhole}

// isLoopback: the route leads to the node itself, outside of every VRF.
func (d *dst) isLoopback() bool { return d.kind == local && (d.dev == nil || d.dev.domain.index == 0) }

// lookup6 is the route of an IPv6 packet that came in on the packet's device.
func (w *Worker) lookup6(p *packet, to [16]byte) *dst {
	k := &w.key
	k.Dst, k.Src = netip.AddrFrom16(to), netip.AddrFrom16(*p.src6())
	return w.lookup(p, true)
}

func (w *Worker) lookup4(p *packet, to [4]byte) *dst {
	k := &w.key
	k.Dst, k.Src = netip.AddrFrom4(to), netip.AddrFrom4(*p.src4())
	return w.lookup(p, false)
}

func (w *Worker) lookup(p *packet, v6 bool) *dst {
	k := &w.key
	k.IIF = 0
	if p.in != nil && !p.own {
		k.IIF = p.in.index
	}
	k.L3Domain = p.domain.table4
	f := w.f.fib4
	if v6 {
		k.L3Domain, f = p.domain.table6, w.f.fib6
	}
	if d, ok := f.Lookup(k); ok {
		return d
	}
	return nil
}

// maxDepth bounds how often one packet may go through the routing table.
const maxDepth = 16

// input hands the packet to the route d, nil for none: dst_input. It is false
// when the kernel would count an error.
func (w *Worker) input(p *packet, d *dst) bool {
	if p.depth++; p.depth > maxDepth {
		return w.drop(dropLoop)
	}
	switch {
	case d == nil:
		w.unreachable(p, noRoute)
		w.drop(dropNoRoute)
		return true
	case d.endpoint != nil:
		return w.endpoint(p, d.endpoint)
	case d.headend != nil:
		return w.headend(p, d.headend)
	}
	switch d.kind {
	case local:
		return w.deliver(p, d)
	case blackhole:
		w.drop(dropBlackhole)
		return true
	case unreachable:
		w.unreachable(p, noRoute)
		w.drop(dropNoRoute)
		return true
	case prohibit:
		w.unreachable(p, adminProhibited)
		w.drop(dropNoRoute)
		return true
	}
	if p.v6 {
		return w.forward6(p, d)
	}
	return w.forward4(p, d)
}

// deliver gives the packet to the node itself.
func (w *Worker) deliver(p *packet, d *dst) bool {
	if p.v6 {
		return w.deliver6(p, d)
	}
	return w.deliver4(p)
}
