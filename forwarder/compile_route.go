package forwarder

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
)

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

// share is the one dst for a key.
func (c *compiler) share(k dstKey) *dst {
	d := c.shared[k]
	if d == nil {
		d = &dst{kind: k.kind, dev: k.dev, via: k.via, mtu: k.mtu, metric: k.metric}
		if k.via.IsValid() {
			d.next = c.neigh.get(neighKey{k.dev.index, k.via})
			d.next.pinned = true
		}
		c.shared[k] = d
	}
	return d
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
		if _, vrf := c.vrfs[r.Dev]; vrf {
			return nil, fmt.Errorf("it leads into VRF %s: the forwarder takes no packet from one table to another but by a rule or a segment", r.Dev)
		}
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
		d.endpoint, err = c.compileEndpoint(r.Local, r.To, dev)
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
