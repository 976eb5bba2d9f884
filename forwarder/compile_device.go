package forwarder

import (
	"cmp"
	"net/netip"
	"slices"
)

func (c *compiler) compileDevices() {
	c.domains = []*domain{{}}
	for i := range c.c.Devices {
		in := &c.c.Devices[i]
		d := &device{name: in.Name, index: i + 1, mac: in.MAC, mtu: cmp.Or(in.MTU, 1500), domain: c.domains[0]}
		if in.Name == "" || in.Name == "lo" || c.byName[in.Name] != nil {
			c.fail("device %d: the name %q is empty or taken", i, in.Name)
			continue
		}
		if in.Dummy {
			d.port = noPort
		} else if in.Link == "" {
			d.port = len(c.ports)
			c.ports = append(c.ports, d)
		} else if d.below = c.device(in.Link, "device "+in.Name); d.below != nil {
			d.port, d.vlan, d.proto = d.below.port, in.VLAN, cmp.Or(in.Protocol, etherVLAN)
			d.keepTag = in.KeepTag
			d.below.above = append(d.below.above, d)
			if d.mac == [6]byte{} {
				d.mac = d.below.mac
			}
			if d.below.below != nil && d.below.below.below != nil {
				c.fail("device %s: more than %d VLAN tags", in.Name, maxTags)
			}
		}
		d.hopLimit = uint8(c.sysctl.conf(d.name, "hop_limit", 64))
		all := c.sysctl.get("net.ipv6.conf.all.seg6_enabled", 0)
		d.seg6Enabled = min(all, c.sysctl.conf(d.name, "seg6_enabled", 0)) > 0
		d.requireHMAC = c.sysctl.conf(d.name, "seg6_require_hmac", 0)
		mode := c.sysctl.get("net.ipv6.conf.all.addr_gen_mode", 0)
		if c.sysctl.conf(d.name, "addr_gen_mode", mode) == 0 {
			d.linkLocal = linkLocalOf(d.mac)
		}
		c.devices = append(c.devices, d)
		c.byName[d.name] = d
	}
}

func (c *compiler) compileVRFs() {
	for i, v := range c.c.VRFs {
		if v.Table == 0 || c.vrfs[v.Name] != nil {
			c.fail("VRF %s: it needs a table, and a name of its own", v.Name)
			continue
		}
		m := &domain{index: i + 1, name: v.Name, id: v.Table, table4: c.fib4.Table(v.Table), table6: c.fib6.Table(v.Table)}
		for _, name := range v.Devices {
			d := c.device(name, "VRF "+v.Name)
			if d == nil {
				continue
			}
			if d.domain.index != 0 {
				c.fail("VRF %s: %s is in VRF %s already", v.Name, name, d.domain.name)
			}
			d.domain = m
		}
		c.vrfs[v.Name] = m
		c.domains = append(c.domains, m)
	}
}

// compileAddresses enters own addresses and the prefixes that they connect.
func (c *compiler) compileAddresses() {
	names := make([]string, 0, len(c.c.Addresses))
	for name := range c.c.Addresses {
		if _, vrf := c.vrfs[name]; name != "lo" && !vrf && c.byName[name] == nil {
			c.fail("addresses: no device is called %q", name)
		}
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(c.order(a), c.order(b)) })
	for _, name := range names {
		d := c.byName[name]
		for _, p := range c.c.Addresses[name] {
			c.addAddress(d, c.vrfs[name], p)
		}
	}
	for _, d := range c.devices {
		if d.linkLocal.IsValid() {
			c.own.list = append(c.own.list, ownAddress{d.linkLocal, d})
			c.own.set[d.linkLocal] = true
		}
	}
}

// order of a name in the list of devices; lo comes first.
func (c *compiler) order(name string) int {
	if d := c.byName[name]; d != nil {
		return d.index
	}
	return 0
}

func (c *compiler) addAddress(d *device, vrf *domain, p netip.Prefix) {
	if !p.IsValid() {
		c.fail("addresses: an invalid prefix")
		return
	}
	a := p.Addr()
	c.own.list = append(c.own.list, ownAddress{a, d})
	c.own.set[a] = true
	localTable, mainTable := TableLocal, TableMain
	if d != nil {
		d.addrs = append(d.addrs, p)
		if d.domain.index != 0 {
			vrf = d.domain
		}
	}
	if vrf != nil {
		localTable, mainTable = vrf.id, vrf.id
	}
	f := c.fib4
	if a.Is6() {
		f = c.fib6
	}
	f.Table(localTable).Insert(netip.PrefixFrom(a, a.BitLen()), c.share(dstKey{kind: local, dev: d}))
	if d == nil || p.IsSingleIP() {
		return
	}
	main := f.Table(mainTable)
	if _, taken := main.Get(p.Masked()); !taken {
		metric := uint32(0)
		if a.Is6() {
			metric = metric6Connected
		}
		main.Insert(p.Masked(), c.share(dstKey{dev: d, mtu: d.mtu, metric: metric}))
	}
	// The subnet-router anycast address (RFC 4291 section 2.6.1), which the
	// kernel joins where it forwards.
	if a.Is6() && c.sys.forwarding6 && p.Bits() < 127 {
		any := *c.share(dstKey{kind: local, dev: d})
		any.anycast = true
		c.own.anycast[p.Masked().Addr()] = true
		f.Table(localTable).Insert(netip.PrefixFrom(p.Masked().Addr(), 128), &any)
	}
	if a.Is4() && p.Bits() < 31 {
		c.own.broadcast[broadcastOf(p).As4()] = true
		f.Table(localTable).Insert(netip.PrefixFrom(broadcastOf(p), 32), c.share(dstKey{kind: toAll}))
	}
}

// broadcastOf is the last address of an IPv4 prefix.
func broadcastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}
