package forwarder

import (
	"net/netip"

	"seg6lab/forwarder/fib"
)

// device is a port or a VLAN device on top of one.
type device struct {
	name string
	// index counts from 1, as the rules' device numbers do.
	index int
	port  int
	mac   [6]byte
	mtu   int
	// vlan devices have a device below; for others below is nil.
	below *device
	vlan  uint16
	proto uint16
	// keepTag leaves the tag in the link-layer header (reorder_hdr off).
	keepTag bool
	// above are the VLAN devices on top.
	above  []*device
	domain *domain

	addrs []netip.Prefix
	// linkLocal is invalid without one.
	linkLocal netip.Addr

	hopLimit    uint8
	seg6Enabled bool
	requireHMAC int
}

// noPort is the port of a device that has none.
const noPort = -1

// domain is where lookups take place: a VRF, or the node itself, whose tables
// are nil.
type domain struct {
	index          int
	name           string
	id             uint32
	table4, table6 *fib.Table[*dst]
}

// has reports whether a is an address of the device.
func (d *device) has(a netip.Addr) bool {
	for _, p := range d.addrs {
		if p.Addr() == a {
			return true
		}
	}
	return a == d.linkLocal
}

// vlanDevice is the VLAN device on d for a tag, or nil.
func (d *device) vlanDevice(proto, vid uint16) *device {
	for _, v := range d.above {
		if v.vlan == vid && v.proto == proto {
			return v
		}
	}
	return nil
}

// linkLocalOf is fe80::/64 with the modified EUI-64 of a MAC address (RFC 4291
// appendix A).
func linkLocalOf(mac [6]byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80,
		8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]})
}
