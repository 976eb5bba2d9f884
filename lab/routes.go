package lab

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"seg6lab/lab/topology"
)

func (c *configurator) routes() error {
	for _, r := range c.topology.Routes {
		route, err := c.route(r)
		if err == nil {
			err = here.RouteAdd(route)
		}
		if err != nil {
			return fmt.Errorf("route %s: %w", r.To, err)
		}
	}
	return nil
}

var routeTypes = map[string]int{
	"":            unix.RTN_UNICAST,
	"unicast":     unix.RTN_UNICAST,
	"local":       unix.RTN_LOCAL,
	"blackhole":   unix.RTN_BLACKHOLE,
	"unreachable": unix.RTN_UNREACHABLE,
	"prohibit":    unix.RTN_PROHIBIT,
	"throw":       unix.RTN_THROW,
}

// route is a route of the topology as the netlink library takes it.
func (c *configurator) route(r *topology.Route) (*netlink.Route, error) {
	route := &netlink.Route{
		Family:   routeFamily(r),
		Type:     routeTypes[r.Type],
		Table:    int(r.Table),
		Priority: int(r.Metric),
		MTU:      int(r.MTU),
		Protocol: unix.RTPROT_STATIC,
		Dst:      ipNet(r.To.Prefix),
	}
	if r.To.Default {
		route.Dst = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
		if route.Family == unix.AF_INET {
			route.Dst = &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
		}
	}
	if r.VRF != "" {
		vrf, ok := c.topology.VRFs[r.VRF]
		if !ok {
			return nil, fmt.Errorf("there is no VRF %s", r.VRF)
		}
		route.Table = int(vrf.Table)
	}
	if r.Dev != "" {
		index, err := c.dev(r.Dev)
		if err != nil {
			return nil, err
		}
		route.LinkIndex = index
	}
	if r.Via.IsValid() {
		if r.Via.Is6() && route.Family == unix.AF_INET {
			route.Via = &netlink.Via{AddrFamily: unix.AF_INET6, Addr: r.Via.AsSlice()}
		} else {
			route.Gw = r.Via.AsSlice()
		}
	}
	// As ip does: an IPv4 destination without a gateway is on the link.
	if route.Family == unix.AF_INET && route.Type == unix.RTN_UNICAST && !r.Via.IsValid() && r.Dev != "" {
		route.Scope = unix.RT_SCOPE_LINK
	}
	if r.Source.IsValid() {
		route.Src = r.Source.AsSlice()
	}
	if r.OnLink {
		route.Flags |= unix.RTNH_F_ONLINK
	}
	if r.Encap != nil {
		encap, err := c.encap(r.Encap)
		if err != nil {
			return nil, err
		}
		route.Encap = encap
	}
	return route, nil
}

func routeFamily(r *topology.Route) int {
	addr := r.To.Prefix.Addr()
	if r.To.Default {
		addr = r.Via
	}
	switch {
	case r.Family == "inet", r.Family == "" && addr.Is4():
		return unix.AF_INET
	default:
		return unix.AF_INET6
	}
}

func ipNet(p netip.Prefix) *net.IPNet {
	if !p.IsValid() {
		return nil
	}
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func (c *configurator) rules() error {
	for _, r := range c.topology.Rules {
		rule := netlink.NewRule()
		rule.Family = ruleFamily(r)
		rule.Table = int(r.Table)
		rule.Src, rule.Dst = ipNet(r.From), ipNet(r.To)
		rule.IifName, rule.OifName = r.IIF, r.OIF
		rule.Mark = r.FWMark
		if r.Priority != 0 {
			rule.Priority = int(r.Priority)
		}
		if err := here.RuleAdd(rule); err != nil {
			return fmt.Errorf("rule to table %s: %w", r.Table, err)
		}
	}
	return nil
}

func ruleFamily(r *topology.Rule) int {
	if r.Family == "inet" || r.From.Addr().Is4() || r.To.Addr().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
