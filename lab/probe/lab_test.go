package probe_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/lab/seg6"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// A space is a network namespace without a name.
type space struct {
	t  *testing.T
	ns netns.NsHandle
	nl *netlink.Handle
}

func newSpace(t *testing.T) *space {
	t.Helper()
	s := &space{t: t}
	home := must(netns.Get())(t)
	defer home.Close()
	s.ns = must(netns.New())(t)
	check(t, netns.Set(home))
	s.nl = must(netlink.NewHandleAt(s.ns, unix.NETLINK_ROUTE))(t)
	t.Cleanup(func() { s.nl.Close(); s.ns.Close() })
	for name, value := range map[string]string{
		"net/ipv6/conf/all/forwarding":               "1",
		"net/ipv6/conf/default/accept_dad":           "0",
		"net/ipv6/conf/default/addr_gen_mode":        "1",
		"net/ipv6/conf/default/router_solicitations": "0",
	} {
		s.do(func() { check(t, os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0)) })
	}
	check(t, s.nl.LinkSetUp(s.link("lo")))
	return s
}

// do runs f in the namespace, on the calling thread: tests are pinned to it.
func (s *space) do(f func()) {
	s.t.Helper()
	home := must(netns.Get())(s.t)
	defer home.Close()
	check(s.t, netns.Set(s.ns))
	defer func() { check(s.t, netns.Set(home)) }()
	f()
}

func (s *space) link(name string) netlink.Link {
	s.t.Helper()
	return must(s.nl.LinkByName(name))(s.t)
}

func (s *space) address(dev, prefix string) {
	s.t.Helper()
	ip, n, err := net.ParseCIDR(prefix)
	check(s.t, err)
	n.IP = ip
	check(s.t, s.nl.AddrAdd(s.link(dev), &netlink.Addr{IPNet: n, Flags: unix.IFA_F_NODAD}))
}

func (s *space) neighbour(dev, ip string, mac net.HardwareAddr) {
	s.t.Helper()
	check(s.t, s.nl.NeighSet(&netlink.Neigh{LinkIndex: s.link(dev).Attrs().Index, IP: net.ParseIP(ip), HardwareAddr: mac, State: netlink.NUD_PERMANENT}))
}

func (s *space) route(prefix, via, dev string, encap netlink.Encap) {
	s.t.Helper()
	_, n, err := net.ParseCIDR(prefix)
	check(s.t, err)
	r := &netlink.Route{Dst: n, LinkIndex: s.link(dev).Attrs().Index, Encap: encap}
	if via != "" {
		r.Gw = net.ParseIP(via)
	}
	check(s.t, s.nl.RouteReplace(r))
}

// packetSocket opens an AF_PACKET socket on a device. With protocol 0 it only
// sends; with ETH_P_ALL the device clones to it what it receives.
func (s *space) packetSocket(dev string, protocol uint16) int {
	s.t.Helper()
	var fd int
	s.do(func() {
		fd = must(unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0))(s.t)
		check(s.t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: s.link(dev).Attrs().Index}))
	})
	s.t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// sendUDP sends datagrams from the namespace's own stack.
func (s *space) sendUDP(to string, count int) {
	s.t.Helper()
	var fd int
	s.do(func() { fd = must(unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))(s.t) })
	defer unix.Close(fd)
	for range count {
		check(s.t, unix.Sendto(fd, make([]byte, 16), 0, &unix.SockaddrInet6{Port: 9, Addr: netip.MustParseAddr(to).As16()}))
	}
}

// tap makes a TAP device and gives its descriptor.
func (s *space) tap(name string, flags uint16) int {
	s.t.Helper()
	var fd int
	s.do(func() {
		fd = must(unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0))(s.t)
		req := must(unix.NewIfreq(name))(s.t)
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | flags)
		check(s.t, unix.IoctlIfreq(fd, unix.TUNSETIFF, req))
	})
	s.t.Cleanup(func() { unix.Close(fd) })
	check(s.t, s.nl.LinkSetUp(s.link(name)))
	return fd
}

// A bench is sender, router and receiver in a row: frames are sent into s0 and
// leave the router by r1, whose neighbour is d0.
type bench struct {
	t                        *testing.T
	sender, router, receiver *space
	in, out                  int    // packet sockets at s0 and d0
	last                     []byte // the frame that last came out
}

var (
	macS0 = net.HardwareAddr{2, 0, 0, 0, 1, 1}
	macR0 = net.HardwareAddr{2, 0, 0, 0, 1, 2}
	macR1 = net.HardwareAddr{2, 0, 0, 0, 2, 1}
	macD0 = net.HardwareAddr{2, 0, 0, 0, 2, 2}
)

// newBench pins the test to its thread and to one CPU, because the route's dst
// cache is per CPU and a warm one needs less headroom than a cold one.
func newBench(t *testing.T) *bench {
	t.Helper()
	needRoot(t)
	pin(t)
	b := &bench{t: t, sender: newSpace(t), router: newSpace(t), receiver: newSpace(t)}
	veth(t, b.sender, "s0", macS0, b.router, "r0", macR0)
	veth(t, b.router, "r1", macR1, b.receiver, "d0", macD0)
	b.router.address("r0", "fd00:1::2/64")
	b.router.address("r1", "fd00:2::1/64")
	b.router.neighbour("r1", "fd00:2::2", macD0)
	b.router.route("fc00::/16", "fd00:2::2", "r1", nil)
	b.in = b.sender.packetSocket("s0", 0)
	b.out = b.receiver.packetSocket("d0", unix.ETH_P_IPV6)
	return b
}

func pin(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	var old, one unix.CPUSet
	check(t, unix.SchedGetaffinity(0, &old))
	for cpu := range 1024 {
		if old.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	check(t, unix.SchedSetaffinity(0, &one))
	t.Cleanup(func() {
		check(t, unix.SchedSetaffinity(0, &old))
		runtime.UnlockOSThread()
	})
}

func veth(t *testing.T, a *space, aName string, aMAC net.HardwareAddr, b *space, bName string, bMAC net.HardwareAddr) {
	t.Helper()
	v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: bName, PeerHardwareAddr: bMAC, PeerNamespace: netlink.NsFd(b.ns)}
	v.Name, v.HardwareAddr = aName, aMAC
	check(t, a.nl.LinkAdd(v))
	check(t, a.nl.LinkSetUp(a.link(aName)))
	check(t, b.nl.LinkSetUp(b.link(bName)))
}

// encapsulate routes fd99::/64 through segments.
func (b *bench) encapsulate(mode seg6.Mode, segments int) {
	b.t.Helper()
	var segs []netip.Addr
	for i := range segments {
		segs = append(segs, netip.AddrFrom16([16]byte{0: 0xfc, 15: byte(i + 1)}))
	}
	b.router.route("fd99::/64", "", "r1", &seg6.Encap{Mode: mode, Segs: segs})
	// A dst cache takes nothing in the jiffy in which its route was made:
	// dst_cache_per_cpu_get wants refresh_ts after reset_ts.
	nextJiffy(b.t)
}

// nextJiffy returns in the next jiffy, which the coarse clock counts.
func nextJiffy(t *testing.T) {
	t.Helper()
	var start, now unix.Timespec
	check(t, unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &start))
	for now = start; now == start; {
		runtime.Gosched()
		check(t, unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &now))
	}
}

// frame is an Ethernet frame with IPv6 and UDP, for a destination that the
// router encapsulates.
func frame(t *testing.T, payload int) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: macS0, DstMAC: macR0, EthernetType: layers.EthernetTypeIPv6}
	ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: net.ParseIP("fd00:1::1"), DstIP: net.ParseIP("fd99::1")}
	udp := &layers.UDP{SrcPort: 1, DstPort: 9}
	check(t, udp.SetNetworkLayerForChecksum(ip))
	buf := gopacket.NewSerializeBuffer()
	check(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		eth, ip, udp, gopacket.Payload(make([]byte, payload))))
	return buf.Bytes()
}

// send sends frames one at a time, and waits until each has come out.
func (b *bench) send(frame []byte, count int) {
	b.t.Helper()
	for range count {
		must(unix.Write(b.in, frame))(b.t)
		b.await(1)
	}
}

// await waits until packets have come out of the router, and keeps the last.
func (b *bench) await(count int) {
	b.t.Helper()
	buf := make([]byte, 2048)
	deadline := time.Now().Add(2 * time.Second)
	for count > 0 {
		fds := []unix.PollFd{{Fd: int32(b.out), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(time.Until(deadline).Milliseconds())+1)
		if err == unix.EINTR {
			continue
		}
		check(b.t, err)
		if n == 0 {
			b.t.Fatalf("%d packets did not come out of the router within 2 s", count)
		}
		n = must(unix.Read(b.out, buf))(b.t)
		// Others, such as multicast listener reports, are neither for a
		// segment nor for a destination that inline mode leaves.
		if n >= 54 && binary.BigEndian.Uint16(buf[12:]) == unix.ETH_P_IPV6 && (buf[38] == 0xfc || buf[38] == 0xfd && buf[39] == 0x99) {
			b.last = append(b.last[:0], buf[:n]...)
			count--
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}
