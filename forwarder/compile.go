package forwarder

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"seg6lab/forwarder/fib"
)

// compiler turns a Config into a Forwarder.
type compiler struct {
	*Forwarder
	c       *Config
	sysctl  sysctlReader
	byName  map[string]*device
	vrfs    map[string]*domain
	shared  map[dstKey]*dst
	tunnels map[tunnelKey]*dst
	errs    []error
}

// dstKey tells apart what routes without a tunnel lead to.
type dstKey struct {
	kind kind
	dev  *device
	via  netip.Addr
	mtu  int
	// metric of the route: routes that share a dst share it too.
	metric uint32
}

// tunnelKey tells apart what routes with encap seg6 do.
type tunnelKey struct {
	mode, segs string
	hmac       uint32
	dev        *device
	v6         bool
	metric     uint32
}

func (c *compiler) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func compile(config *Config) (*Forwarder, error) {
	c := &compiler{
		Forwarder: &Forwarder{
			quirks: LinuxQuirks(), now: time.Now, model: config.Model, seed: rand.Uint32(),
			fib4: fib.New[*dst](), fib6: fib.New[*dst](),
			hmac: map[uint32]*hmacKey{}, own: ownAddresses{set: map[netip.Addr]bool{}, anycast: map[netip.Addr]bool{}},
		},
		c: config, byName: map[string]*device{}, vrfs: map[string]*domain{},
		shared: map[dstKey]*dst{}, tunnels: map[tunnelKey]*dst{},
		sysctl: sysctlReader{values: config.Sysctls},
	}
	if config.Quirks != nil {
		c.quirks = *config.Quirks
	}
	if config.Now != nil {
		c.now = config.Now
	}
	c.sys = c.sysctl.read()
	c.limit.init(c.now, &c.sys)
	c.neigh.init()
	c.compileDevices()
	c.compileVRFs()
	c.compileAddresses()
	c.compileSeg6()
	if config.Host != "" {
		if c.host = c.device(config.Host, "host"); c.host != nil {
			c.hostLink = linkOf(c.host.mac)
			c.host.mac = routerSide(c.host.mac)
		}
	}
	for _, n := range config.Neighbours {
		if d := c.device(n.Dev, "neighbour "+n.To.String()); d != nil {
			c.neigh.get(neighKey{d.index, n.To}).setPermanent(n.LLAddr)
		}
	}
	c.compileRules()
	for i := range config.Routes {
		if err := c.compileRoute(&config.Routes[i]); err != nil {
			c.fail("route %s: %w", config.Routes[i].To, err)
		}
	}
	c.resolveTables()
	c.byDestination = c.fib4.ByDestination() && c.fib6.ByDestination()
	if err := errors.Join(append(c.sysctl.errs, c.errs...)...); err != nil {
		return nil, err
	}
	return c.Forwarder, nil
}

func (c *compiler) device(name, whose string) *device {
	d := c.byName[name]
	if d == nil {
		c.fail("%s: no device is called %q", whose, name)
	}
	return d
}

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
			d.below.above = append(d.below.above, d)
			if d.mac == [6]byte{} {
				d.mac = d.below.mac
			}
			if d.below.below != nil {
				c.fail("device %s: %s is a VLAN device itself", in.Name, in.Link)
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
			m.devices = append(m.devices, d)
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
		f.Table(localTable).Insert(netip.PrefixFrom(broadcastOf(p), 32), c.share(dstKey{kind: blackhole}))
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

// share is the one dst for a key.
func (c *compiler) share(k dstKey) *dst {
	d := c.shared[k]
	if d == nil {
		d = &dst{kind: k.kind, dev: k.dev, via: k.via, mtu: k.mtu, metric: k.metric}
		if k.via.IsValid() {
			d.next = c.neigh.get(neighKey{k.dev.index, k.via})
		}
		c.shared[k] = d
	}
	return d
}

// compileRules adds the kernel's own rules and the configured ones.
func (c *compiler) compileRules() {
	for _, f := range []*fib.FIB[*dst]{c.fib4, c.fib6} {
		f.AddRule(fib.Rule{Priority: 0, Table: TableLocal})
		if len(c.c.VRFs) > 0 {
			f.AddRule(fib.Rule{Priority: 1000, L3Domain: true})
		}
		f.AddRule(fib.Rule{Priority: 32766, Table: TableMain})
	}
	c.fib4.AddRule(fib.Rule{Priority: 32767, Table: TableDefault})
	for i, r := range c.c.Rules {
		if r.Table == 0 {
			c.fail("rule %d: it names no table", i)
			continue
		}
		n := fib.Rule{Priority: r.Priority, From: r.From, To: r.To, Table: r.Table}
		if r.IIF != "" {
			d := c.device(r.IIF, fmt.Sprintf("rule %d", i))
			if d == nil {
				continue
			}
			n.IIF = d.index
		}
		f := c.fib6
		if r.Family == "inet" || r.From.Addr().Is4() || r.To.Addr().Is4() {
			f = c.fib4
		}
		f.AddRule(n)
	}
}

var kinds = map[string]kind{
	"": unicast, "unicast": unicast, "local": local, "blackhole": blackhole,
	"unreachable": unreachable, "prohibit": prohibit,
}

func (c *compiler) compileRoute(r *Route) error {
	if !r.To.IsValid() || r.To != r.To.Masked() {
		return fmt.Errorf("not a prefix without bits beyond its length")
	}
	f, table := c.fib4, cmp.Or(r.Table, TableMain)
	if r.To.Addr().Is6() {
		f = c.fib6
	}
	if r.VRF != "" {
		vrf := c.vrfs[r.VRF]
		if vrf == nil {
			return fmt.Errorf("no VRF is called %q", r.VRF)
		}
		table = vrf.id
	}
	d, err := c.compileDst(r)
	if err != nil {
		return err
	}
	if have, taken := f.Table(table).Get(r.To); taken && (have == nil || d == nil || have.metric <= d.metric) {
		return nil
	}
	f.Table(table).Insert(r.To, d)
	return nil
}

// metric6 is what an IPv6 route without a metric has (IP6_RT_PRIO_USER),
// metric6Connected what the route of an address has (IP6_RT_PRIO_ADDRCONF). For
// IPv4 both are 0.
const (
	metric6          = 1024
	metric6Connected = 256
)

func (r *Route) metric() uint32 {
	if r.Metric == 0 && r.To.Addr().Is6() {
		return metric6
	}
	return r.Metric
}

// compileDst is nil for a route of type throw.
func (c *compiler) compileDst(r *Route) (*dst, error) {
	if r.Type == "throw" {
		return nil, nil
	}
	k, ok := kinds[r.Type]
	if !ok {
		return nil, fmt.Errorf("type %q is none of unicast, local, blackhole, unreachable, prohibit, throw", r.Type)
	}
	if k != unicast {
		return c.share(dstKey{kind: k, metric: r.metric()}), nil
	}
	dev, err := c.routeDevice(r)
	if err != nil {
		return nil, err
	}
	if r.Encap == nil && r.Local == nil {
		if dev == nil {
			return nil, errors.New("it leads to no device")
		}
		if r.Via.IsValid() && r.Via.Is4() != r.To.Addr().Is4() {
			return nil, fmt.Errorf("the gateway %s is of another family", r.Via)
		}
		return c.share(dstKey{dev: dev, via: r.Via, mtu: cmp.Or(r.MTU, dev.mtu), metric: r.metric()}), nil
	}
	if r.Encap != nil && r.Local != nil {
		return nil, errors.New("it has both encap seg6 and encap seg6local")
	}
	d := &dst{dev: dev, metric: r.metric()}
	if dev != nil {
		d.mtu = dev.mtu
	}
	if r.Local != nil {
		d.endpoint, err = c.compileEndpoint(r.Local, r.To)
		return d, err
	}
	segs := make([]byte, 0, 16*len(r.Encap.Segs))
	for _, s := range r.Encap.Segs {
		segs = append(segs, s.AsSlice()...)
	}
	key := tunnelKey{r.Encap.Mode, string(segs), r.Encap.HMAC, dev, r.To.Addr().Is6(), d.metric}
	if have := c.tunnels[key]; have != nil {
		return have, nil
	}
	if d.headend, err = c.compileHeadend(r.Encap, dev, key.v6); err == nil {
		c.tunnels[key] = d
	}
	return d, err
}

// routeDevice is the device of a route: the named one, or where the gateway is
// connected. A VRF's name stands for none.
func (c *compiler) routeDevice(r *Route) (*device, error) {
	if r.Dev != "" {
		if _, vrf := c.vrfs[r.Dev]; vrf || r.Dev == "lo" {
			return nil, nil
		}
		d := c.byName[r.Dev]
		if d == nil {
			return nil, fmt.Errorf("no device is called %q", r.Dev)
		}
		return d, nil
	}
	if !r.Via.IsValid() {
		return nil, nil
	}
	for _, d := range c.devices {
		for _, p := range d.addrs {
			if p.Contains(r.Via) {
				return d, nil
			}
		}
	}
	return nil, fmt.Errorf("the gateway %s is in no connected prefix", r.Via)
}
