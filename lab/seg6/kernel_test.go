package seg6

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// namespace is a network namespace of a test with the veth pair d0, d1, both
// up.
type namespace struct {
	t      *testing.T
	handle netns.NsHandle
	conn   *Conn
	d0     uint32
}

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	needRoot(t)
	n := &namespace{t: t, handle: netns.None()}
	onThread(func() {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("unshare: %v", err)
			return
		}
		var err error
		if n.handle, err = netns.Get(); err != nil {
			t.Errorf("get namespace: %v", err)
		}
	})
	if !n.handle.IsOpen() {
		t.FailNow()
	}
	t.Cleanup(func() { n.handle.Close() })
	conn, err := Open(n.handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n.conn = conn
	n.ip("link add d0 type veth peer name d1")
	n.ip("link set lo up")
	n.ip("link set d0 up")
	n.ip("link set d1 up")
	names, err := conn.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for index, name := range names {
		if name == "d0" {
			n.d0 = index
		}
	}
	return n
}

// onThread runs f on a thread that ends with it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}

// in runs f on a thread in the namespace.
func (n *namespace) in(f func()) {
	n.t.Helper()
	onThread(func() {
		if err := netns.Set(n.handle); err != nil {
			n.t.Errorf("set namespace: %v", err)
			return
		}
		f()
	})
}

// try runs iproute2 in the namespace.
func (n *namespace) try(args string) (string, error) {
	var out []byte
	var err error
	n.in(func() { out, err = exec.Command("ip", strings.Fields(args)...).CombinedOutput() })
	return string(out), err
}

func (n *namespace) ip(args string) string {
	n.t.Helper()
	out, err := n.try(args)
	if err != nil {
		n.t.Fatalf("ip %s: %v\n%s", args, err, out)
	}
	return out
}

// add installs a route with the netlink library.
func (n *namespace) add(dst string, e netlink.Encap) (err error) {
	_, ipnet, perr := net.ParseCIDR(dst)
	if perr != nil {
		n.t.Fatal(perr)
	}
	route := &netlink.Route{Dst: ipnet, LinkIndex: int(n.d0), Encap: e, Protocol: unix.RTPROT_BOOT}
	if ipnet.IP.To4() != nil {
		route.Scope = netlink.SCOPE_LINK // as ip does without a gateway
	}
	n.in(func() { err = netlink.RouteAdd(route) })
	return err
}

func (n *namespace) route(dst string) Route {
	n.t.Helper()
	routes, err := n.conn.Routes(unix.AF_UNSPEC)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, r := range routes {
		if r.Dst == netip.MustParsePrefix(dst) {
			return r
		}
	}
	n.t.Fatalf("no route to %s in %v", dst, routes)
	return Route{}
}

// lines are the routes as iproute2 shows them, in our spelling.
func lines(out string) []string {
	out = strings.ReplaceAll(out, "\n\tnexthop", " nexthop")
	hmac := regexp.MustCompile(`hmac ([0-9A-F]+)`)
	out = hmac.ReplaceAllStringFunc(out, func(s string) string {
		id, _ := strconv.ParseUint(strings.Fields(s)[1], 16, 32)
		return fmt.Sprintf("hmac %#x", id)
	})
	var all []string
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) > 0 {
			all = append(all, strings.Join(words, " "))
		}
	}
	return all
}

const (
	dst6 = "2001:db8:1::/64"
	dst4 = "198.51.100.0/24"
)

// The same encapsulations, said to iproute2 and to us.
var kernelCases = []struct {
	dst   string
	args  string // after "ip route add DST encap"
	encap func(d0 uint32) netlink.Encap
}{
	{dst6, "seg6 mode inline segs fc00::1,fc00::2", policy(ModeInline, 0, "fc00::1", "fc00::2")},
	{dst6, "seg6 mode encap segs fc00::1,fc00::2,fc00::3", policy(ModeEncap, 0, "fc00::1", "fc00::2", "fc00::3")},
	{dst6, "seg6 mode encap.red segs fc00::1,fc00::2", policy(ModeEncapRed, 0, "fc00::1", "fc00::2")},
	{dst6, "seg6 mode encap.red segs fc00::1", policy(ModeEncapRed, 0, "fc00::1")},
	{dst6, "seg6 mode l2encap segs fc00::1,fc00::2", policy(ModeL2Encap, 0, "fc00::1", "fc00::2")},
	{dst6, "seg6 mode l2encap.red segs fc00::1,fc00::2", policy(ModeL2EncapRed, 0, "fc00::1", "fc00::2")},
	{dst6, "seg6 mode encap segs fc00::1 hmac 171", policy(ModeEncap, 171, "fc00::1")},
	{dst6, "seg6 mode inline segs fc00::1 hmac 4294967295", policy(ModeInline, 4294967295, "fc00::1")},
	{dst6, "seg6 mode l2encap.red segs fc00::1 hmac 16", policy(ModeL2EncapRed, 16, "fc00::1")},
	{dst6, "seg6 mode encap segs ::ffff:192.0.2.1", policy(ModeEncap, 0, "::ffff:192.0.2.1")},
	{dst4, "seg6 mode encap segs fc00::1,fc00::2", policy(ModeEncap, 0, "fc00::1", "fc00::2")},
	{dst4, "seg6 mode encap.red segs fc00::1", policy(ModeEncapRed, 0, "fc00::1")},
	{dst4, "seg6 mode l2encap segs fc00::1", policy(ModeL2Encap, 0, "fc00::1")},
	{dst4, "seg6 mode l2encap.red segs fc00::1", policy(ModeL2EncapRed, 0, "fc00::1")},
	{dst4, "seg6 mode inline segs fc00::1", policy(ModeInline, 0, "fc00::1")},

	{dst6, "seg6local action End", local(Local{Action: ActionEnd})},
	{dst6, "seg6local action End count", local(Local{Action: ActionEnd, Count: true})},
	{dst6, "seg6local action End flavors psp", local(Local{Action: ActionEnd, Flavors: FlavorPSP})},
	{dst6, "seg6local action End flavors usp", local(Local{Action: ActionEnd, Flavors: FlavorUSP})},
	{dst6, "seg6local action End flavors usd", local(Local{Action: ActionEnd, Flavors: FlavorUSD})},
	{dst6, "seg6local action End flavors next-csid", local(Local{Action: ActionEnd, Flavors: FlavorNextCSID})},
	{dst6, "seg6local action End flavors psp,next-csid lblen 48 nflen 24 count",
		local(Local{Action: ActionEnd, Flavors: FlavorPSP | FlavorNextCSID, LBLen: 48, NFLen: 24, Count: true})},
	{dst6, "seg6local action End flavors next-csid lblen 33",
		local(Local{Action: ActionEnd, Flavors: FlavorNextCSID, LBLen: 33})},
	{dst6, "seg6local action End.X nh6 fc00::9", local(Local{Action: ActionEndX, NH6: netip.MustParseAddr("fc00::9")})},
	{dst6, "seg6local action End.X nh6 fc00::9 oif d0", func(d0 uint32) netlink.Encap {
		return &Local{Action: ActionEndX, NH6: netip.MustParseAddr("fc00::9"), OIF: d0}
	}},
	{dst6, "seg6local action End.X nh6 fc00::9 flavors next-csid lblen 16 nflen 8 count",
		local(Local{Action: ActionEndX, NH6: netip.MustParseAddr("fc00::9"), Flavors: FlavorNextCSID, LBLen: 16, NFLen: 8, Count: true})},
	{dst6, "seg6local action End.T table 100", local(Local{Action: ActionEndT, Table: 100})},
	{dst6, "seg6local action End.T table main count", local(Local{Action: ActionEndT, Table: 254, Count: true})},
	{dst6, "seg6local action End.DX2 oif d0", func(d0 uint32) netlink.Encap { return &Local{Action: ActionEndDX2, OIF: d0} }},
	{dst6, "seg6local action End.DX4 nh4 10.0.0.1", local(Local{Action: ActionEndDX4, NH4: netip.MustParseAddr("10.0.0.1")})},
	{dst6, "seg6local action End.DX6 nh6 fc00::9 count", local(Local{Action: ActionEndDX6, NH6: netip.MustParseAddr("fc00::9"), Count: true})},
	{dst6, "seg6local action End.DX6 nh6 fc00::9 iif d0", func(d0 uint32) netlink.Encap {
		return &Local{Action: ActionEndDX6, NH6: netip.MustParseAddr("fc00::9"), IIF: d0}
	}},
	{dst6, "seg6local action End.DT4 vrftable 100", local(Local{Action: ActionEndDT4, VRFTable: 100})},
	{dst6, "seg6local action End.DT6 table 100", local(Local{Action: ActionEndDT6, Table: 100})},
	{dst6, "seg6local action End.DT6 vrftable 100", local(Local{Action: ActionEndDT6, VRFTable: 100})},
	{dst6, "seg6local action End.DT46 vrftable 100 count", local(Local{Action: ActionEndDT46, VRFTable: 100, Count: true})},
	{dst6, "seg6local action End.B6 srh segs fc00::1,fc00::2",
		local(Local{Action: ActionEndB6, SRH: &SRH{Segs: addrs("fc00::1", "fc00::2")}})},
	{dst6, "seg6local action End.B6.Encaps srh segs fc00::1,fc00::2 hmac 5 count",
		local(Local{Action: ActionEndB6Encaps, SRH: &SRH{Segs: addrs("fc00::1", "fc00::2"), HMACKeyID: 5}, Count: true})},
}

func policy(mode Mode, hmac uint32, segs ...string) func(uint32) netlink.Encap {
	return func(uint32) netlink.Encap { return &Encap{Mode: mode, Segs: addrs(segs...), HMACKeyID: hmac} }
}

func local(l Local) func(uint32) netlink.Encap {
	return func(uint32) netlink.Encap { l := l; return &l }
}

// TestAgainstIPRoute installs each route with the real ip and with us: the
// kernel takes both or refuses both with the same error; we read what ip
// installed; ip shows what we installed as what it installed itself; and Text is
// ip's own line.
func TestAgainstIPRoute(t *testing.T) {
	n := newNamespace(t)
	// What lookups and decapsulation into a VRF need, where there are VRFs.
	if _, err := n.try("link add blue type vrf table 100"); err == nil {
		n.ip("link set blue up")
		n.in(func() {
			if err := os.WriteFile("/proc/sys/net/vrf/strict_mode", []byte("1"), 0o644); err != nil {
				t.Error(err)
			}
		})
	}
	names, err := n.conn.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var refused []string
	for _, c := range kernelCases {
		t.Run(c.dst+" "+c.args, func(t *testing.T) {
			family := "-6"
			if c.dst == dst4 {
				family = "-4"
			}
			show := family + " route show " + c.dst
			encap := c.encap(n.d0)
			said, err := n.try("route add " + c.dst + " encap " + c.args + " dev d0")
			if err != nil {
				refused = append(refused, c.args)
				ours := n.add(c.dst, encap)
				var errno unix.Errno
				if !errors.As(ours, &errno) {
					t.Fatalf("ip was refused with %q, we with %v", said, ours)
				}
				// "RTNETLINK answers: Invalid argument", or only extack's words.
				same := strings.Contains(strings.ToLower(said), errno.Error())
				if _, extack, ok := strings.Cut(ours.Error(), ": "); ok {
					same = strings.Contains(said, extack)
				}
				if !same {
					t.Fatalf("ip was refused with %q, we with %v", said, ours)
				}
				return
			}
			byIP := n.route(c.dst)
			text, details := n.ip("-s "+show), n.ip("-j -d -s "+show)
			if got, want := []string{byIP.Text(names.Name)}, lines(text); !reflect.DeepEqual(got, want) {
				t.Errorf("Text\n%q, ip shows\n%q", got, want)
			}
			n.ip("route del " + c.dst)

			if err := n.add(c.dst, encap); err != nil {
				t.Fatal(err)
			}
			defer n.ip("route del " + c.dst)
			byUs := n.route(c.dst)
			if !sameJSON(t, n.ip("-j -d -s "+show), details) {
				t.Errorf("ip shows ours as\n%s, its own as\n%s", n.ip("-j -d -s "+show), details)
			}
			if !reflect.DeepEqual(byUs, byIP) {
				t.Errorf("we read ours as\n%v, ip's as\n%v", byUs, byIP)
			}
			if l, ok := encap.(*Local); ok {
				if ignored := l.Ignored(byUs.Encap.(*Local)); len(ignored) > 0 {
					t.Logf("the kernel ignores %q", ignored)
					return
				}
			}
			if !encap.Equal(byUs.Encap) {
				t.Errorf("read back %s, want %s", byUs.Encap, encap)
			}
		})
	}
	t.Logf("refused by this kernel: %q", refused)
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var va, vb any
	for _, x := range []struct {
		s string
		v *any
	}{{a, &va}, {b, &vb}} {
		if err := json.Unmarshal([]byte(x.s), x.v); err != nil {
			t.Fatalf("ip -j: %v: %s", err, x.s)
		}
	}
	return reflect.DeepEqual(va, vb)
}

// TestRoutesAgainstIPRoute compares every line of every table with the real ip.
func TestRoutesAgainstIPRoute(t *testing.T) {
	n := newNamespace(t)
	for _, args := range []string{
		"address add 192.0.2.1/24 dev d0",
		"address add 2001:db8::1/64 dev d0 nodad",
		"route add default via 192.0.2.2",
		"-6 route add default via 2001:db8::2 metric 7",
		"route add 10.1.0.0/16 via 192.0.2.2 metric 5 mtu 1400 proto static src 192.0.2.1",
		"route add 10.2.0.0/16 dev d0 table 100",
		"route add 10.3.0.0/16 via inet6 2001:db8::2 dev d0",
		"route add 10.4.0.0/16 nexthop via 192.0.2.3 weight 2 nexthop via 192.0.2.4",
		"route add 10.5.0.0/16 via 203.0.113.1 dev d0 onlink",
		"route add 10.6.0.0/16 encap ip id 9 dst 192.0.2.9 dev d0",
		"route add blackhole 10.7.0.0/16",
		"-6 route add 2001:db8:1::/64 via 2001:db8::2 proto static table 70000",
		"-6 route add 2001:db8:2::1 dev d0 mtu 1300",
		"-6 route add 2001:db8:3::/64 nexthop via 2001:db8::3 nexthop encap seg6 mode encap segs fc00::1 via 2001:db8::4 weight 3",
		"-6 route add unreachable 2001:db8:4::/64",
		"-6 route add prohibit 2001:db8:5::/64 table 100",
		"-6 route add throw 2001:db8:6::/64 proto bird",
	} {
		n.ip(args)
	}
	names, err := n.conn.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	// Addresses become usable, and routes appear, after the links are up.
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		flag := map[int]string{unix.AF_INET: "-4", unix.AF_INET6: "-6"}[family]
		deadline := time.Now().Add(5 * time.Second)
		for {
			before := n.ip(flag + " -s route show table all")
			routes, err := n.conn.Routes(family)
			if err != nil {
				t.Fatal(err)
			}
			if n.ip(flag+" -s route show table all") != before {
				if time.Now().After(deadline) {
					t.Fatal("the routes do not settle")
				}
				continue
			}
			var got []string
			for _, r := range routes {
				got = append(got, r.Text(names.Name))
			}
			want := lines(before)
			// The one thing that Text leaves out: what another encapsulation holds.
			for i, line := range want {
				want[i] = regexp.MustCompile(`encap ip .* dev`).ReplaceAllString(line, "encap ip dev")
			}
			if len(got) != len(want) {
				t.Errorf("%d routes, ip shows %d", len(got), len(want))
			}
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Errorf("route %d is\n%s, ip shows\n%s", i, got[i], want[i])
				}
			}
			break
		}
	}
}

// TestRoutesWhileTheyChange reads a table that takes several messages while
// another socket changes it.
func TestRoutesWhileTheyChange(t *testing.T) {
	n := newNamespace(t)
	const stable = 2000
	var batch strings.Builder
	for i := range stable {
		fmt.Fprintf(&batch, "route add 2001:db8:%x::/48 encap seg6 mode encap segs fc00::1,fc00::2 dev d0\n", i+0x1000)
	}
	n.in(func() {
		cmd := exec.Command("ip", "-6", "-batch", "-")
		cmd.Stdin = strings.NewReader(batch.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("ip -batch: %v: %s", err, out)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var changer, readers sync.WaitGroup
	changer.Go(func() {
		h, err := netlink.NewHandleAt(n.handle, unix.NETLINK_ROUTE)
		if err != nil {
			t.Error(err)
			return
		}
		defer h.Close()
		_, dst, _ := net.ParseCIDR("2001:db9::/32")
		r := &netlink.Route{Dst: dst, LinkIndex: int(n.d0)}
		for ctx.Err() == nil {
			if err := errors.Join(h.RouteAdd(r), h.RouteDel(r)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	// Two readers of one Conn: it is safe for several goroutines.
	for range 2 {
		readers.Go(func() {
			for range 5 {
				routes, err := n.conn.Routes(unix.AF_INET6)
				if errors.Is(err, nl.ErrDumpInterrupted) {
					continue // said, not passed off as whole
				}
				if err != nil {
					t.Error(err)
					return
				}
				count := 0
				for _, r := range routes {
					if _, ok := r.Encap.(*Encap); ok {
						count++
					}
				}
				if count != stable {
					t.Errorf("%d routes, want %d", count, stable)
				}
			}
		})
	}
	readers.Wait()
	cancel()
	changer.Wait()
}

func TestTunSrc(t *testing.T) {
	n := newNamespace(t)
	for _, src := range []string{"::", "fc00::1", "::"} {
		if err := n.conn.SetTunSrc(netip.MustParseAddr(src)); err != nil {
			t.Fatal(err)
		}
		got, err := n.conn.TunSrc()
		if err != nil || got != netip.MustParseAddr(src) {
			t.Errorf("TunSrc() = %v, %v, want %s", got, err, src)
		}
		if said := n.ip("sr tunsrc show"); said != "tunsrc addr "+src+"\n" {
			t.Errorf("ip shows %q, want %s", said, src)
		}
	}
	if err := n.conn.SetTunSrc(netip.MustParseAddr("192.0.2.1")); err == nil {
		t.Error("an IPv4 address was taken")
	}
	// ip to us.
	n.ip("sr tunsrc set fc00::2")
	if got, err := n.conn.TunSrc(); err != nil || got != netip.MustParseAddr("fc00::2") {
		t.Errorf("TunSrc() = %v, %v, want what ip set", got, err)
	}
}

func TestHMACKeys(t *testing.T) {
	n := newNamespace(t)
	if keys, err := n.conn.HMACKeys(); errors.Is(err, errors.ErrUnsupported) {
		out, iperr := n.try("sr hmac show")
		if iperr == nil {
			t.Fatalf("we say %v, ip shows %q", err, out)
		}
		t.Logf("nothing to set: %v", err)
		return
	} else if err != nil || len(keys) != 0 {
		t.Fatalf("HMACKeys() = %v, %v", keys, err)
	}
	// ip shows at most 63 bytes of a secret.
	long := HMACKey{ID: 4294967295, Algorithm: HMACSHA1, Secret: []byte(strings.Repeat("s", MaxSecret-1))}
	short := HMACKey{ID: 17, Algorithm: HMACSHA256, Secret: []byte("hello")}
	for _, k := range []HMACKey{long, {ID: 17, Algorithm: HMACSHA1, Secret: []byte("other")}, short} {
		if err := n.conn.SetHMACKey(k); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := n.conn.HMACKeys()
	if want := []HMACKey{short, long}; err != nil || !reflect.DeepEqual(keys, want) {
		t.Errorf("HMACKeys() = %v, %v, want %v", keys, err, want)
	}
	said := n.ip("sr hmac show")
	for _, k := range []HMACKey{short, long} {
		if !strings.Contains(said, k.String()+"\n") {
			t.Errorf("ip shows %q, want the line %q", said, k)
		}
	}
	if err := n.conn.DelHMACKey(17); err != nil {
		t.Fatal(err)
	}
	if err := n.conn.DelHMACKey(17); !errors.Is(err, unix.ENOENT) {
		t.Errorf("deleting a key twice: %v, want ENOENT", err)
	}
	if said := n.ip("sr hmac show"); said != long.String()+"\n" {
		t.Errorf("ip shows %q after the key was deleted", said)
	}
	longest := HMACKey{ID: 1, Algorithm: HMACSHA256, Secret: []byte(strings.Repeat("s", MaxSecret))}
	if err := n.conn.SetHMACKey(longest); err != nil {
		t.Fatal(err)
	}
	if keys, err := n.conn.HMACKeys(); err != nil || !reflect.DeepEqual(keys, []HMACKey{longest, long}) {
		t.Errorf("HMACKeys() = %v, %v, want %v", keys, err, []HMACKey{longest, long})
	}
	for _, k := range []HMACKey{
		{ID: 0, Algorithm: HMACSHA1, Secret: []byte("x")},
		{ID: 1, Algorithm: HMACSHA1},
		{ID: 1, Algorithm: HMACSHA1, Secret: make([]byte, MaxSecret+1)},
		{ID: 1, Algorithm: 77, Secret: []byte("x")},
	} {
		if err := n.conn.SetHMACKey(k); err == nil {
			t.Errorf("%v was taken", k)
		}
	}
}

// TestExtack: the kernel's own words are in the error, and the errno too.
func TestExtack(t *testing.T) {
	n := newNamespace(t)
	// nla_policy of seg6_genl.c: the id has 4 bytes.
	_, err := n.conn.genl(cmdSetHMAC, 0, appendAttr(nil, attrHMACKeyID, []byte{1, 2}))
	if !errors.Is(err, unix.ERANGE) || !strings.HasPrefix(err.Error(), unix.ERANGE.Error()+": ") {
		t.Errorf("error %v, want ERANGE with the kernel's text", err)
	}

	err = n.add(dst6, &Local{Action: ActionEnd, Flavors: FlavorUSP})
	// parse_nla_flavors
	if !errors.Is(err, unix.EOPNOTSUPP) || !strings.Contains(err.Error(), "Unsupported Flavor operation(s)") {
		t.Errorf("error %v, want EOPNOTSUPP with the kernel's text", err)
	}
}

// TestManySegments: the longest lists that Encode lets pass are taken by the
// kernel.
func TestManySegments(t *testing.T) {
	n := newNamespace(t)
	for _, c := range []struct {
		segments int
		encap    Encap
	}{
		{127, Encap{Mode: ModeEncap}},
		{126, Encap{Mode: ModeInline}},
		{125, Encap{Mode: ModeEncapRed, HMACKeyID: 1}},
	} {
		for i := range c.segments {
			c.encap.Segs = append(c.encap.Segs, netip.MustParseAddr(fmt.Sprintf("fc00::%x", i+1)))
		}
		if err := n.add(dst6, &c.encap); err != nil {
			t.Errorf("%d segments, mode %s: %v", c.segments, c.encap.Mode, err)
			continue
		}
		if got := n.route(dst6); !c.encap.Equal(got.Encap) {
			t.Errorf("read back %s, want %s", got.Encap, &c.encap)
		}
		n.ip("route del " + dst6)
	}
}

// TestCounters: the counters of an End that drops a packet without an SRH
// (get_and_validate_srh).
func TestCounters(t *testing.T) {
	n := newNamespace(t)
	n.in(func() {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o644); err != nil {
			t.Error(err)
		}
	})
	if err := n.add(dst6, &Local{Action: ActionEnd, Count: true}); err != nil {
		t.Fatal(err)
	}
	// Ethernet and IPv6 with next header 59 (none) and no payload, from d0 to
	// its peer.
	n.in(func() {
		peer, err := net.InterfaceByName("d1")
		if err != nil {
			t.Error(err)
			return
		}
		frame := append([]byte{}, peer.HardwareAddr...)
		frame = append(frame, 2, 0, 0, 0, 0, 1, 0x86, 0xdd)
		frame = append(frame, 0x60, 0, 0, 0, 0, 0, 59, 64)
		for _, a := range addrs("2001:db8::9", "2001:db8:1::1") {
			frame = append(frame, a.AsSlice()...)
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		// The device's queue drops until the kernel has looked at the link.
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
			t.Error(err)
		}
		if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: int(n.d0)}); err != nil {
			t.Error(err)
		}
	})
	deadline := time.Now().Add(5 * time.Second)
	for {
		got := n.route(dst6).Encap.(*Local).Counters
		if got == nil {
			t.Fatal("no counters")
		}
		if *got == (Counters{Errors: 1}) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("counters %+v, want one error", *got)
		}
	}
	if said := n.ip("-s -6 route show " + dst6); !strings.Contains(said, "packets 0 bytes 0 errors 1 ") {
		t.Errorf("ip shows %q", said)
	}
}

// TestClosed: a closed Conn does not speak to the caller's namespace.
func TestClosed(t *testing.T) {
	n := newNamespace(t)
	c, err := Open(n.handle)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := c.Routes(unix.AF_INET6); !errors.Is(err, errClosed) {
		t.Errorf("Routes on a closed Conn: %v", err)
	}
	if _, err := c.TunSrc(); !errors.Is(err, errClosed) {
		t.Errorf("TunSrc on a closed Conn: %v", err)
	}
}
