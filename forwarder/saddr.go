package forwarder

import (
	"math/bits"
	"net/netip"
)

// ownAddress is one address of the router.
type ownAddress struct {
	addr netip.Addr
	dev  *device // nil for lo
}

// ownAddresses are all addresses of the router, in the order of the devices.
type ownAddresses struct {
	list []ownAddress
	set  map[netip.Addr]bool
	// anycast are the subnet-router anycast addresses.
	anycast map[netip.Addr]bool
	// broadcast are the broadcast addresses of IPv4 prefixes.
	broadcast map[[4]byte]bool
}

func (o *ownAddresses) has(a netip.Addr) bool { return o.set[a] }

// inDomain tells an address of the router from one of another VRF
// (ipv6_chk_addr).
func (o *ownAddresses) inDomain(a netip.Addr, d *domain) bool {
	if !o.set[a] {
		return false
	}
	for _, c := range o.list {
		if c.addr == a && (c.dev == nil || c.dev.domain == d) {
			return true
		}
	}
	return false
}

// scope of an address: link 2, site 5, global 14 (RFC 4007 section 5; unique
// local addresses are global).
func scope(a netip.Addr) int {
	switch {
	case a.IsLoopback(), a.IsLinkLocalUnicast(), a.IsLinkLocalMulticast():
		return 2
	case a.IsMulticast() && a.Is6():
		return int(a.As16()[1] & 0xf)
	}
	return 14
}

// commonPrefix is the number of leading bits that two addresses share.
func commonPrefix(a, b netip.Addr) int {
	x, y := a.As16(), b.As16()
	for i := range x {
		if d := x[i] ^ y[i]; d != 0 {
			return 8*i + bits.LeadingZeros8(d)
		}
	}
	return 128
}

// label is the label of the default policy table (RFC 6724 section 2.1, as in
// the kernel's ip6addrlbl_init_table).
func label(a netip.Addr) int {
	for _, row := range labels {
		if row.prefix.Contains(a) {
			return row.label
		}
	}
	return 1
}

var labels = []struct {
	prefix netip.Prefix
	label  int
}{
	{netip.MustParsePrefix("::1/128"), 0},
	{netip.MustParsePrefix("::ffff:0:0/96"), 4},
	{netip.MustParsePrefix("::/96"), 3},
	{netip.MustParsePrefix("2001::/32"), 6},
	{netip.MustParsePrefix("2001:10::/28"), 7},
	{netip.MustParsePrefix("3ffe::/16"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
	{netip.MustParsePrefix("fec0::/10"), 11},
	{netip.MustParsePrefix("fc00::/7"), 5},
}

// source6 is ipv6_dev_get_saddr: the address of the router to use towards to
// on device dev (RFC 6724 section 5). Without an address of global scope there,
// one of another device of the same domain is used. The zero value when the
// router has none.
func (o *ownAddresses) source6(dev *device, to netip.Addr) netip.Addr {
	var best ownAddress
	for _, c := range o.list {
		if !c.addr.Is6() || !sameDomain(c.dev, dev) {
			continue
		}
		if c.dev != dev && scope(c.addr) < 5 {
			continue
		}
		if !best.addr.IsValid() || betterSource(c, best, dev, to) {
			best = c
		}
	}
	return best.addr
}

func sameDomain(a, b *device) bool {
	index := func(d *device) int {
		if d == nil {
			return 0
		}
		return d.domain.index
	}
	return index(a) == index(b)
}

// betterSource applies the rules of RFC 6724 section 5 that depend on anything
// here: 1, 2, 5, 6 and 8.
func betterSource(a, b ownAddress, dev *device, to netip.Addr) bool {
	if a.addr == to || b.addr == to {
		return a.addr == to
	}
	if sa, sb, st := scope(a.addr), scope(b.addr), scope(to); sa != sb {
		if sa < sb {
			return sa >= st
		}
		return sb < st
	}
	if on, other := a.dev == dev, b.dev == dev; on != other {
		return on
	}
	if la, lb, lt := label(a.addr), label(b.addr), label(to); (la == lt) != (lb == lt) {
		return la == lt
	}
	return commonPrefix(a.addr, to) > commonPrefix(b.addr, to)
}

// dummy4 is the source of who has no address (RFC 7600 section 4.8).
var dummy4 = netip.AddrFrom4([4]byte{192, 0, 0, 8})

// inVRF4 is the source address for a route that leads out of a VRF: the first
// of the VRF's devices (fib_select_path).
func (o *ownAddresses) inVRF4(vrf *domain) netip.Addr {
	for _, c := range o.list {
		if c.addr.Is4() && c.dev != nil && c.dev.domain == vrf {
			return c.addr
		}
	}
	return dummy4
}

// source4 is inet_select_addr: the first address of the device, or of any
// device of its domain.
func (o *ownAddresses) source4(dev *device) netip.Addr {
	var other netip.Addr
	for _, c := range o.list {
		if !c.addr.Is4() || !sameDomain(c.dev, dev) || c.addr.IsLoopback() {
			continue
		}
		if c.dev == dev {
			return c.addr
		}
		if !other.IsValid() {
			other = c.addr
		}
	}
	return other
}
