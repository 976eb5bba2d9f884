package port

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Item is an address, a neighbour, a route or a queueing discipline of a device:
// the message by which the kernel tells of it, without the netlink header and
// without what the kernel alone decides, so that it can be sent back as it is.
// That way nothing of it is lost which we do not know of.
type Item struct {
	// Text is for readers.
	Text string
	// Message in the byte order of this machine.
	Message []byte
}

// indexAt is the place of the interface index in struct ifaddrmsg, struct ndmsg and
// struct tcmsg.
const indexAt = 4

const sizeofTcMsg = 20

// withIndex is the message for a device of another index.
func withIndex(message []byte, was, now int) []byte {
	m := slices.Clone(message)
	if int(native.Uint32(m[indexAt:])) == was {
		native.PutUint32(m[indexAt:], uint32(now))
	}
	return m
}

// rebuild makes a message of its fixed part and of the attributes that keep gives
// back.
func rebuild(m []byte, fixed int, keep func(attribute) (attribute, bool)) []byte {
	out := slices.Clone(m[:fixed])
	for _, a := range attributes(m[fixed:]) {
		if a, ok := keep(a); ok {
			out = appendAttribute(out, a)
		}
	}
	return out
}

// Addresses.

// addressFlags are those that a user sets (inet6_rtm_newaddr; IPv4 takes all).
const addressFlags = unix.IFA_F_NODAD | unix.IFA_F_HOMEADDRESS | unix.IFA_F_MANAGETEMPADDR |
	unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_MCAUTOJOIN | unix.IFA_F_OPTIMISTIC

func addressOf(m []byte) (netip.Addr, bool) {
	attrs := attributes(m[unix.SizeofIfAddrmsg:])
	b := find(attrs, unix.IFA_LOCAL)
	if b == nil {
		b = find(attrs, unix.IFA_ADDRESS)
	}
	return netip.AddrFromSlice(b)
}

// readAddresses lists the addresses of a device, in the order in which they are to
// be added so that the kernel has them in the order that it has them in now, by which
// it chooses source addresses. Temporary IPv6 addresses are not among them: only the
// kernel makes those, of others.
func readAddresses(index int) ([]Item, error) {
	messages, err := dump(unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg))
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, m := range messages {
		const family, length, flags = 0, 1, 2
		if int(native.Uint32(m[indexAt:])) != index || m[family] == unix.AF_INET6 && m[flags]&unix.IFA_F_TEMPORARY != 0 {
			continue
		}
		a, ok := addressOf(m)
		if !ok {
			continue
		}
		m = rebuild(m, unix.SizeofIfAddrmsg, func(a attribute) (attribute, bool) {
			switch a.kind {
			case unix.IFA_FLAGS:
				a = uint32Attribute(a.kind, native.Uint32(a.value)&addressFlags)
			case unix.IFA_CACHEINFO:
				a.value = slices.Clone(a.value)
				clear(a.value[8:]) // struct ifa_cacheinfo: when it was made and changed
			}
			return a, true
		})
		m[flags] &= addressFlags & 0xff
		item := Item{fmt.Sprintf("%s/%d", a, m[length]), m}
		if m[family] == unix.AF_INET6 {
			items = slices.Insert(items, 0, item) // a new one goes before those of its scope
		} else {
			items = append(items, item)
		}
	}
	return items, nil
}

// aged is an address some seconds later. It is gone when its lifetime is over.
func aged(message []byte, seconds uint32) (_ []byte, alive bool) {
	alive = true
	const forever = ^uint32(0)
	out := rebuild(message, unix.SizeofIfAddrmsg, func(a attribute) (attribute, bool) {
		if a.kind == unix.IFA_CACHEINFO {
			a.value = slices.Clone(a.value)
			for i := range 2 { // preferred, then valid
				if left := native.Uint32(a.value[4*i:]); left != forever {
					alive = alive && (i == 0 || left > seconds)
					native.PutUint32(a.value[4*i:], left-min(left, seconds))
				}
			}
		}
		return a, true
	})
	return out, alive
}

// ageless is an address without its lifetimes, for comparison.
func ageless(message []byte) []byte {
	return rebuild(message, unix.SizeofIfAddrmsg, func(a attribute) (attribute, bool) { return a, a.kind != unix.IFA_CACHEINFO })
}

// Neighbours.

const sizeofNdMsg = 12

// readNeighbours lists the neighbours of a device that somebody set: the kernel
// finds the others again.
func readNeighbours(index int) ([]Item, error) {
	var items []Item
	const stateAt, flagsAt, proxy = 8, 10, 0x08 // in struct ndmsg; NTF_PROXY
	for _, flags := range []byte{0, proxy} {
		header := make([]byte, sizeofNdMsg)
		header[flagsAt] = flags
		messages, err := dump(unix.RTM_GETNEIGH, header)
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			state := native.Uint16(m[stateAt:])
			if int(native.Uint32(m[indexAt:])) != index || m[0] != unix.AF_INET && m[0] != unix.AF_INET6 ||
				m[flagsAt]&proxy == 0 && state&unix.NUD_PERMANENT == 0 {
				continue
			}
			m = rebuild(m, sizeofNdMsg, func(a attribute) (attribute, bool) {
				return a, a.kind != unix.NDA_CACHEINFO && a.kind != unix.NDA_PROBES
			})
			items = append(items, Item{"neighbour " + ipText(find(attributes(m[sizeofNdMsg:]), unix.NDA_DST)), m})
		}
	}
	return items, nil
}

// Routes.

// rtaNhID is RTA_NH_ID; rtaCacheinfo and rtaExpires are RTA_CACHEINFO, which the
// kernel tells, and RTA_EXPIRES, which it takes.
const (
	rtaCacheinfo = 12
	rtaExpires   = 23
	rtaNhID      = 30
)

// routeDevices are the indexes of the devices that a route leads through.
func routeDevices(m []byte) []int {
	var indexes []int
	attrs := attributes(m[unix.SizeofRtMsg:])
	if oif := find(attrs, unix.RTA_OIF); len(oif) == 4 {
		indexes = append(indexes, int(native.Uint32(oif)))
	}
	for hop := range nexthops(find(attrs, unix.RTA_MULTIPATH)) {
		indexes = append(indexes, int(native.Uint32(hop[4:])))
	}
	return indexes
}

// nexthops iterates over the struct rtnexthop of RTA_MULTIPATH: length (2 bytes),
// flags, hops, interface index (4), attributes.
func nexthops(b []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) >= unix.SizeofRtNexthop {
			n := int(native.Uint16(b))
			if n < unix.SizeofRtNexthop || n > len(b) || !yield(b[:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

// readRoutes lists the routes that go with a device: those through it, and those
// whose source address it has. Routes that the kernel makes on its own are left
// out, as it makes them again.
func readRoutes(index int) ([]Item, error) {
	addresses, err := readAddresses(index)
	if err != nil {
		return nil, err
	}
	own := make(map[netip.Addr]bool)
	for _, i := range addresses {
		if a, ok := addressOf(i.Message); ok {
			own[a] = true
		}
	}
	messages, err := dump(unix.RTM_GETROUTE, make([]byte, unix.SizeofRtMsg))
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, m := range messages {
		const protocol, flags = 5, 8 // in struct rtmsg
		source, _ := netip.AddrFromSlice(find(attributes(m[unix.SizeofRtMsg:]), unix.RTA_PREFSRC))
		if m[protocol] == unix.RTPROT_KERNEL || native.Uint32(m[flags:])&unix.RTM_F_CLONED != 0 ||
			!slices.Contains(routeDevices(m), index) && !own[source] {
			continue
		}
		items = append(items, Item{routeText(m), cleanRoute(m)})
	}
	return items, nil
}

// cleanRoute leaves of a route what a user can set.
func cleanRoute(m []byte) []byte {
	const flags = 8
	byID := find(attributes(m[unix.SizeofRtMsg:]), rtaNhID) != nil
	var expires attribute
	m = rebuild(m, unix.SizeofRtMsg, func(a attribute) (attribute, bool) {
		switch a.kind & nl.NLA_TYPE_MASK {
		case rtaCacheinfo:
			// struct rta_cacheinfo: clntref, lastuse, expires in ticks of a hundredth second.
			if ticks := int32(native.Uint32(a.value[8:])); ticks > 0 {
				expires = uint32Attribute(rtaExpires, uint32(ticks/100))
			}
			return a, false
		case unix.RTA_OIF, unix.RTA_GATEWAY, unix.RTA_VIA:
			return a, !byID // the kernel says where a nexthop object leads, and takes only the one
		case unix.RTA_MULTIPATH:
			a.value = slices.Clone(a.value)
			for hop := range nexthops(a.value) {
				hop[2] &= unix.RTNH_F_ONLINK | unix.RTNH_F_PERVASIVE
			}
			return a, !byID
		}
		return a, true
	})
	native.PutUint32(m[flags:], native.Uint32(m[flags:])&(unix.RTNH_F_ONLINK|unix.RTNH_F_PERVASIVE))
	if expires.kind != 0 {
		m = appendAttribute(m, expires)
	}
	return m
}

// routeWithIndex is a route for a device of another index.
func routeWithIndex(m []byte, was, now int) []byte {
	return rebuild(m, unix.SizeofRtMsg, func(a attribute) (attribute, bool) {
		switch {
		case a.kind == unix.RTA_OIF && int(native.Uint32(a.value)) == was:
			a = uint32Attribute(a.kind, uint32(now))
		case a.kind&nl.NLA_TYPE_MASK == unix.RTA_MULTIPATH:
			a.value = slices.Clone(a.value)
			for hop := range nexthops(a.value) {
				if int(native.Uint32(hop[4:])) == was {
					native.PutUint32(hop[4:], uint32(now))
				}
			}
		}
		return a, true
	})
}

// agedRoute is a route some seconds later. It is gone when its time is over.
func agedRoute(m []byte, seconds uint32) (_ []byte, alive bool) {
	alive = true
	m = rebuild(m, unix.SizeofRtMsg, func(a attribute) (attribute, bool) {
		if a.kind == rtaExpires {
			left := native.Uint32(a.value)
			alive = left > seconds
			a = uint32Attribute(a.kind, left-min(left, seconds))
		}
		return a, true
	})
	return m, alive
}

// timelessRoute is a route without the time at which it ends.
func timelessRoute(m []byte) []byte {
	return rebuild(m, unix.SizeofRtMsg, func(a attribute) (attribute, bool) { return a, a.kind != rtaExpires })
}

func routeText(m []byte) string {
	const length, table = 1, 4
	attrs := attributes(m[unix.SizeofRtMsg:])
	to := "default"
	if m[length] != 0 {
		to = fmt.Sprintf("%s/%d", ipText(find(attrs, unix.RTA_DST)), m[length])
	}
	text := "route " + to
	if via := find(attrs, unix.RTA_GATEWAY); via != nil {
		text += " via " + ipText(via)
	}
	t := uint32(m[table])
	if b := find(attrs, unix.RTA_TABLE); len(b) == 4 {
		t = native.Uint32(b)
	}
	if t != unix.RT_TABLE_MAIN {
		text += fmt.Sprintf(" table %d", t)
	}
	return text
}

// Queueing disciplines.

// readQdiscs lists the queueing disciplines of a device, its root first. Ingress
// and clsact are not among them, nor are classes and filters: a port that has such
// is not taken unasked.
func readQdiscs(index int) ([]Item, error) {
	messages, err := dumpTraffic(unix.RTM_GETQDISC, index, 0)
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, m := range messages {
		if qdiscParent(m) == netlink.HANDLE_INGRESS {
			continue
		}
		m = rebuild(m, sizeofTcMsg, func(a attribute) (attribute, bool) {
			return a, slices.Contains([]uint16{unix.TCA_KIND, unix.TCA_OPTIONS, unix.TCA_STAB}, a.kind&nl.NLA_TYPE_MASK)
		})
		native.PutUint32(m[16:], 0) // how many hold it
		items = append(items, Item{qdiscText(m), m})
	}
	return items, nil
}

// dumpTraffic lists qdiscs, classes or filters of a device.
func dumpTraffic(kind, index int, parent uint32) ([][]byte, error) {
	header := make([]byte, sizeofTcMsg)
	native.PutUint32(header[indexAt:], uint32(index))
	native.PutUint32(header[12:], parent)
	messages, err := dump(kind, header)
	return slices.DeleteFunc(messages, func(m []byte) bool { return int(native.Uint32(m[indexAt:])) != index }), err
}

// trafficControl names what of a device's traffic control could not be brought
// back.
func trafficControl(index int) (lost []string, err error) {
	qdiscs, err := dumpTraffic(unix.RTM_GETQDISC, index, 0)
	if err != nil {
		return nil, fmt.Errorf("list qdiscs: %w", err)
	}
	parents := []uint32{netlink.HANDLE_ROOT}
	for _, m := range qdiscs {
		if qdiscParent(m) == netlink.HANDLE_INGRESS {
			lost = append(lost, "the qdisc "+qdiscKind(m))
		} else if h := qdiscHandle(m); h != 0 {
			parents = append(parents, h)
		}
	}
	classes, err := dumpTraffic(unix.RTM_GETTCLASS, index, 0)
	if err != nil {
		return nil, fmt.Errorf("list classes: %w", err)
	}
	// Other disciplines make their classes themselves.
	if slices.ContainsFunc(classes, func(m []byte) bool {
		return slices.Contains([]string{"htb", "hfsc", "drr", "qfq", "cbq", "ets"}, qdiscKind(m))
	}) {
		lost = append(lost, "tc classes")
	}
	for _, parent := range parents {
		if filters, err := dumpTraffic(unix.RTM_GETTFILTER, index, parent); err == nil && len(filters) > 0 {
			return append(lost, "tc filters"), nil
		}
	}
	return lost, nil
}

func qdiscHandle(m []byte) uint32 { return native.Uint32(m[8:]) }
func qdiscParent(m []byte) uint32 { return native.Uint32(m[12:]) }
func qdiscKind(m []byte) string {
	return string(bytes.TrimRight(find(attributes(m[sizeofTcMsg:]), unix.TCA_KIND), "\x00"))
}

func qdiscText(m []byte) string {
	h, p := qdiscHandle(m), qdiscParent(m)
	if p == netlink.HANDLE_ROOT {
		return fmt.Sprintf("%s %x: root", qdiscKind(m), h>>16)
	}
	return fmt.Sprintf("%s %x:%x parent %x:%x", qdiscKind(m), h>>16, h&0xffff, p>>16, p&0xffff)
}
