package forwarder

import (
	"encoding/binary"
	"net/netip"

	"seg6lab/forwarder/fib"
)

// kind is what becomes of packets that a route without a tunnel matches.
type kind uint8

const (
	unicast kind = iota
	local
	blackhole
	unreachable
	prohibit
	// toAll is the broadcast address of an IPv4 prefix.
	toAll
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
	// metric of the route.
	metric uint32

	headend  *headend
	endpoint *endpoint
}

// dropped by seg6_lookup_nexthop when nothing else can be done with a packet.
var blackholeDst = &dst{kind: blackhole}

// isLoopback: the route leads to the node itself, outside of every VRF.
func (d *dst) isLoopback() bool { return d.kind == local && (d.dev == nil || d.dev.domain.index == 0) }

// lookup6 is the route of an IPv6 packet that came in on the packet's device.
func (w *Worker) lookup6(p *packet, to [16]byte) *dst {
	e, hit := w.cache.entry(p.domain, binary.BigEndian.Uint64(to[:]), binary.BigEndian.Uint64(to[8:]))
	if hit {
		return e.dst
	}
	k := &w.key
	k.Dst, k.Src, k.L3Domain = netip.AddrFrom16(to), netip.AddrFrom16(*p.src6()), p.domain.table6
	return w.lookup(p, w.f.fib6, e)
}

// lookup4 is lookup6 for IPv4.
func (w *Worker) lookup4(p *packet, to [4]byte) *dst {
	e, hit := w.cache.entry(p.domain, allOnes, uint64(binary.BigEndian.Uint32(to[:])))
	if hit {
		return e.dst
	}
	k := &w.key
	k.Dst, k.Src, k.L3Domain = netip.AddrFrom4(to), netip.AddrFrom4(*p.src4()), p.domain.table4
	return w.lookup(p, w.f.fib4, e)
}

func (w *Worker) lookup(p *packet, f *fib.FIB[*dst], e *cached) *dst {
	w.key.IIF = 0
	if p.in != nil && !p.own {
		w.key.IIF = p.in.index
	}
	d, _ := f.Lookup(&w.key)
	e.dst = d
	if !w.f.byDestination {
		e.domain = nil // Do not remember it.
	}
	return d
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
	case d.endpoint != nil && !p.own:
		return w.endpoint(p, d.endpoint)
	case d.endpoint != nil && d.dev == nil:
		// The router's own packet to a SID on a VRF device or lo, which no
		// link leads to.
		w.drop(dropBlackhole)
		return true
	case d.headend != nil:
		return w.headend(p, d.headend)
	}
	switch d.kind {
	case local:
		return w.deliver(p, d)
	case blackhole, toAll:
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

// deliver gives the packet to the node itself. Whatever becomes of it there is
// no error to a SID that exposed it (ip6_input_finish, ip_local_deliver_finish).
func (w *Worker) deliver(p *packet, d *dst) bool {
	if p.v6 {
		w.deliver6(p, d)
	} else {
		w.deliver4(p)
	}
	return true
}
