package forwarder_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/forwarder"
	"seg6lab/forwarder/srh"
	"seg6lab/traffic"
)

// kernelRouter is the kernel with the configuration of a forwarder: a router
// namespace, and one around it where packet sockets stand for the neighbours.
//
//	around: p0 --- r0 router r1 --- p1
type kernelRouter struct {
	t        testing.TB
	router   *namespace
	around   *namespace
	exchange *traffic.Exchange
}

// newSurrounded is a router namespace and one around it, without devices.
func newSurrounded(t testing.TB) *kernelRouter {
	t.Helper()
	// Every router of these tests forwards the marker to r1.
	marker := bytesOf(t, etherIn, "60000000 000c 3b 40", host, "fc000000000000000000000000ffffff", "6d61726b 6d61726b 00000000")
	k := &kernelRouter{t: t, router: newNamespace(t), around: newNamespace(t), exchange: traffic.NewExchange(marker)}
	t.Cleanup(func() { k.exchange.Close() })
	return k
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// namespace is an anonymous network namespace.
type namespace struct {
	t testing.TB
	h netns.NsHandle
	*netlink.Handle
}

func newNamespace(t testing.TB) *namespace {
	t.Helper()
	n := &namespace{t: t}
	onThread(t, func() error {
		h, err := netns.New()
		n.h = h
		return err
	})
	handle, err := netlink.NewHandleAt(n.h, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatalf("netlink in a new namespace: %v", err)
	}
	n.Handle = handle
	t.Cleanup(func() {
		n.Close()
		n.h.Close()
	})
	n.check(n.LinkSetUp(n.link("lo")), "raise lo")
	return n
}

// onThread runs f on a thread that ends with it, so that it may change the
// thread's namespace.
func onThread(t testing.TB, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		defer close(done) // A failed test leaves in the middle.
		runtime.LockOSThread()
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func (n *namespace) do(f func() error) {
	n.t.Helper()
	onThread(n.t, func() error {
		if err := netns.Set(n.h); err != nil {
			return fmt.Errorf("enter namespace: %w", err)
		}
		return f()
	})
}

func (n *namespace) check(err error, format string, args ...any) {
	n.t.Helper()
	if err != nil {
		n.t.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

func (n *namespace) link(name string) netlink.Link {
	n.t.Helper()
	l, err := n.LinkByName(name)
	n.check(err, "link %s", name)
	return l
}

func (n *namespace) sysctl(name, value string) {
	n.t.Helper()
	n.do(func() error {
		return os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0)
	})
}

// newKernelRouter installs the configuration in the kernel. Its devices must be
// called r0, r1 and so on.
func newKernelRouter(t testing.TB, c forwarder.Config) *kernelRouter {
	t.Helper()
	needRoot(t)
	k := newSurrounded(t)
	n := k.router
	for name, value := range map[string]string{
		"net.ipv6.conf.default.addr_gen_mode": "1", "net.ipv6.conf.default.accept_dad": "0",
		"net.ipv6.conf.default.accept_ra": "0", "net.ipv6.auto_flowlabels": "0",
		"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0",
		"net.ipv4.conf.all.send_redirects": "0", "net.ipv4.conf.default.send_redirects": "0",
	} {
		n.sysctl(name, value)
	}
	k.around.sysctl("net.ipv6.conf.default.disable_ipv6", "1")
	for i, d := range c.Devices {
		k.addDevice(i, d)
	}
	for name, value := range c.Sysctls {
		n.sysctl(name, value)
	}
	for dev, prefixes := range c.Addresses {
		for _, p := range prefixes {
			n.check(n.AddrAdd(n.link(dev), &netlink.Addr{IPNet: ipNet(p), Flags: unix.IFA_F_NODAD}), "address %s", p)
		}
	}
	for _, prefixes := range c.Addresses {
		for _, p := range prefixes {
			n.awaitLocal(p.Addr())
		}
	}
	for _, e := range c.Neighbours {
		n.check(n.NeighSet(&netlink.Neigh{LinkIndex: n.link(e.Dev).Attrs().Index, IP: e.To.AsSlice(),
			HardwareAddr: e.LLAddr[:], State: netlink.NUD_PERMANENT}), "neighbour %s", e.To)
	}
	if c.TunSrc.IsValid() {
		n.seg6Genl(3, nl.NewRtAttr(1, c.TunSrc.AsSlice()))
	}
	for _, key := range c.HMAC {
		n.seg6Genl(1, nl.NewRtAttr(3, native32(key.ID)), nl.NewRtAttr(4, []byte(key.Secret)),
			nl.NewRtAttr(5, []byte{byte(len(key.Secret))}), nl.NewRtAttr(6, []byte{byte(key.Algorithm)}))
	}
	for _, r := range c.Rules {
		n.addRule(r)
	}
	for _, r := range c.Routes {
		n.addRoute(r)
	}
	return k
}

// awaitLocal waits until the kernel takes packets to an address that was added,
// which it does once a work queue has entered the local route
// (addrconf_dad_completed).
func (n *namespace) awaitLocal(a netip.Addr) {
	n.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if r, err := n.RouteGet(a.AsSlice()); err == nil && len(r) == 1 && r[0].Type == unix.RTN_LOCAL {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%s has no local route 10 s after it was added", a)
		}
	}
}

func (k *kernelRouter) addDevice(i int, d forwarder.Device) {
	k.t.Helper()
	n := k.router
	peer := fmt.Sprintf("p%d", i)
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: peer, PeerNamespace: netlink.NsFd(k.around.h)}
	veth.Name, veth.HardwareAddr, veth.MTU = d.Name, d.MAC[:], 1500
	n.check(n.LinkAdd(veth), "device %s", d.Name)
	n.check(n.LinkSetUp(n.link(d.Name)), "raise %s", d.Name)
	k.around.check(k.around.LinkSetUp(k.around.link(peer)), "raise %s", peer)
	if d.MTU != 0 {
		n.check(n.LinkSetMTU(n.link(d.Name), d.MTU), "MTU of %s", d.Name)
	}
	k.around.do(func() error { return k.exchange.Add(peer) })
}

func native32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// seg6Genl sends a command of the generic netlink family SEG6.
func (n *namespace) seg6Genl(command uint8, attrs ...*nl.RtAttr) {
	n.t.Helper()
	n.do(func() error {
		family, err := netlink.GenlFamilyGet("SEG6")
		if err != nil {
			return fmt.Errorf("generic netlink family SEG6: %w", err)
		}
		r := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
		r.AddData(&nl.Genlmsg{Command: command, Version: 1})
		for _, a := range attrs {
			r.AddData(a)
		}
		_, err = r.Execute(unix.NETLINK_GENERIC, 0)
		return err
	})
}

// rawEncap is a lightweight tunnel as the kernel reads it.
type rawEncap struct {
	kind int
	body []byte
}

func (e *rawEncap) Type() int                { return e.kind }
func (e *rawEncap) Decode([]byte) error      { return errors.ErrUnsupported }
func (e *rawEncap) Encode() ([]byte, error)  { return e.body, nil }
func (e *rawEncap) String() string           { return fmt.Sprintf("%x", e.body) }
func (e *rawEncap) Equal(netlink.Encap) bool { return false }

func (n *namespace) addRoute(r forwarder.Route) {
	n.t.Helper()
	route := &netlink.Route{Dst: ipNet(r.To), Gw: r.Via.AsSlice(), MTU: r.MTU, Table: int(r.Table), Priority: int(r.Metric)}
	types := map[string]int{"blackhole": unix.RTN_BLACKHOLE, "unreachable": unix.RTN_UNREACHABLE,
		"prohibit": unix.RTN_PROHIBIT, "throw": unix.RTN_THROW}
	route.Type = types[r.Type]
	if r.Dev != "" {
		route.LinkIndex = n.link(r.Dev).Attrs().Index
	}
	switch {
	case r.Encap != nil:
		modes := []string{"inline", "encap", "l2encap", "encap.red", "l2encap.red"}
		mode := slices.Index(modes, r.Encap.Mode)
		body := append(native32(uint32(mode)), n.srh(r.Encap, mode == 0)...)
		route.Encap = &rawEncap{5, nl.NewRtAttr(1, body).Serialize()}
	case r.Local != nil:
		route.Encap = &rawEncap{7, n.seg6local(r.Local)}
	}
	n.check(n.RouteAdd(route), "route %s", r.To)
}

func (n *namespace) addRule(r forwarder.Rule) {
	n.t.Helper()
	rule := netlink.NewRule()
	rule.Priority, rule.Table, rule.IifName, rule.Family = int(r.Priority), int(r.Table), r.IIF, unix.AF_INET6
	if r.Family == "inet" || r.From.Addr().Is4() || r.To.Addr().Is4() {
		rule.Family = unix.AF_INET
	}
	if r.From.IsValid() {
		rule.Src = ipNet(r.From)
	}
	if r.To.IsValid() {
		rule.Dst = ipNet(r.To)
	}
	n.check(n.RuleAdd(rule), "rule %d", r.Priority)
}

// srh is the SRH of a route as iproute2 sends it.
func (n *namespace) srh(e *forwarder.Encap, inline bool) []byte {
	n.t.Helper()
	path := slices.Clone(e.Segs)
	if inline {
		path = append(path, netip.IPv6Unspecified())
	}
	h := srh.New(0, path...)
	if e.HMAC != 0 {
		h.Flags, h.TLVs = srh.FlagHMAC, []srh.TLV{srh.NewHMAC(e.HMAC)}
	}
	b, err := h.AppendBinary(nil)
	n.check(err, "encode SRH")
	return b
}

func (n *namespace) seg6local(l *forwarder.Local) []byte {
	n.t.Helper()
	actions := map[string]uint32{"End": 1, "End.X": 2, "End.T": 3, "End.DX2": 4, "End.DX6": 5, "End.DX4": 6,
		"End.DT6": 7, "End.DT4": 8, "End.B6": 9, "End.B6.Encaps": 10, "End.DT46": 16}
	b := nl.NewRtAttr(1, native32(actions[l.Action])).Serialize()
	add := func(kind int, value []byte) { b = append(b, nl.NewRtAttr(kind, value).Serialize()...) }
	if l.SRH != nil {
		add(2, n.srh(l.SRH, l.Action == "End.B6"))
	}
	if l.Table != 0 {
		add(3, native32(l.Table))
	}
	if l.NH4.IsValid() {
		add(4, l.NH4.AsSlice())
	}
	if l.NH6.IsValid() {
		add(5, l.NH6.AsSlice())
	}
	if l.OIF != "" {
		add(7, native32(uint32(n.link(l.OIF).Attrs().Index)))
	}
	// Counters are on, which takes one attribute of eight bytes for each.
	var counters []byte
	for kind := 2; kind <= 4; kind++ {
		counters = append(counters, nl.NewRtAttr(kind, make([]byte, 8)).Serialize()...)
	}
	add(10|unix.NLA_F_NESTED, counters)
	if len(l.Flavors) > 0 {
		bits := map[string]uint32{"psp": 1 << 1, "usp": 1 << 2, "usd": 1 << 3, "next-csid": 1 << 4}
		var operation uint32
		for _, f := range l.Flavors {
			operation |= bits[f]
		}
		nested := nl.NewRtAttr(1, native32(operation)).Serialize()
		if l.LBLen != 0 {
			nested = append(nested, nl.NewRtAttr(2, []byte{l.LBLen}).Serialize()...)
		}
		if l.NFLen != 0 {
			nested = append(nested, nl.NewRtAttr(3, []byte{l.NFLen}).Serialize()...)
		}
		add(11|unix.NLA_F_NESTED, nested)
	}
	return b
}

// through gives what the kernel sends for a frame.
func (k *kernelRouter) through(port int, frame []byte) []sent {
	k.t.Helper()
	out, err := k.exchange.Through(port, frame)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// normal leaves out what the routers of these tests send in their own time, and
// hides what the kernel draws at random.
func normal(s []sent) []sent {
	return traffic.Comparable(s, [6]byte{2, 0, 0, 0, 1, 2}, [6]byte{2, 0, 0, 0, 2, 1})
}

// compare sends the frame through both and reports a difference.
func compare(t testing.TB, k *kernelRouter, f *forwarder.Forwarder, port int, frame []byte) (equal bool) {
	t.Helper()
	want, got := normal(k.through(port, frame)), normal(through(f, port, frame))
	equal = slices.EqualFunc(want, got, sent.Equal)
	if !equal {
		t.Errorf("frame on port %d: %x\nkernel\n%v\nforwarder\n%v\ndrops %v", port, frame, want, got, f.Drops())
	}
	return equal
}
