package port

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/lab/topology"
)

// apart says to a test process that it has namespaces of its own.
const apart = "SEG6LAB_TEST_APART"

// TestMain runs the tests in a network namespace of their own, which stands for that
// of the machine, so that no device of the machine is ever touched, and in a mount
// namespace with an empty NetnsDir.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Println("the tests that move devices need root")
		os.Exit(m.Run())
	}
	if os.Getenv(apart) == "" {
		os.Exit(runApart())
	}
	if step := os.Getenv(dieAt); step != "" {
		die(step)
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func runApart() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), apart+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func prepare() error {
	if err := os.MkdirAll(NetnsDir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("test", NetnsDir, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", NetnsDir, err)
	}
	return command("ip link set lo up; sysctl -qw net.ipv6.conf.all.accept_dad=0")
}

func command(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	out, err := exec.Command("sh", "-ec", line).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return nil
}

// bench is a home namespace with a port, a veth whose peer stays, and a namespace
// for a node.
type bench struct {
	t    *testing.T
	node *namespace
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	t.Setenv(StateVariable, t.TempDir())
	b := &bench{t: t}
	b.ip(`ip netns add s6.lab.r
		ip link add p0 type veth peer name cable
		ip link set p0 addrgenmode none
		ip link set cable addrgenmode none up`)
	t.Cleanup(func() {
		if b.node != nil {
			b.node.close()
		}
		command(`for l in p0 cable taken other; do ip link del $l 2>/dev/null || true; done
			ip -all netns delete; ip route flush table main; ip -6 route flush table main`)
	})
	var err error
	if b.node, err = openNamespace(filepath.Join(NetnsDir, "s6.lab.r")); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) ip(format string, args ...any) {
	b.t.Helper()
	if err := command(format, args...); err != nil {
		b.t.Fatal(err)
	}
}

// rich gives the port settings of every kind that a veth has.
func (b *bench) rich() {
	b.t.Helper()
	b.ip(`ip link property add dev p0 altname enp9s0 altname a-rather-long-alternative-name
		ip link set p0 addrgenmode eui64
		ip link set p0 mtu 1400 txqueuelen 77 group 5 promisc on allmulticast on alias 'uplink to r7' address 02:00:00:00:09:09
		sysctl -qw net.ipv6.conf.p0.accept_ra=0 net.ipv4.conf.p0.rp_filter=2 net.ipv4.conf.p0.forwarding=1 net.ipv6.conf.p0.hop_limit=33 net.ipv4.neigh.p0.gc_stale_time=61
		ip link set p0 up
		ip addr add 192.0.2.1/24 brd + dev p0
		ip addr add 192.0.2.9/24 dev p0 label p0:x
		ip addr add 198.51.100.1 peer 198.51.100.2 dev p0
		ip addr add 2001:db8::1/64 dev p0 nodad
		ip addr add 2001:db8:5::1/64 dev p0 valid_lft 3600 preferred_lft 1800 noprefixroute
		for i in $(seq 100); do ip addr show dev p0 | grep -q tentative || break; sleep 0.05; done
		ip neigh add 192.0.2.7 lladdr 02:00:00:00:00:07 dev p0 nud permanent
		ip neigh add 2001:db8::7 lladdr 02:00:00:00:00:07 dev p0 nud permanent
		ip neigh add proxy 2001:db8::8 dev p0
		ip route add 203.0.113.0/24 via 192.0.2.254 metric 50 mtu 1300
		ip route add 203.0.113.0/25 dev p0 table 100 src 192.0.2.9
		ip -6 route add 2001:db8:6::/48 via 2001:db8::fe dev p0 metric 7 pref high
		ip -6 route add 2001:db8:7::/48 dev p0 encap seg6 mode encap segs fc00::1,fc00::2
		ip -6 route add 2001:db8:8::/48 dev lo src 2001:db8:5::1
		ip -6 route add 2001:db8:9::/48 nexthop via 2001:db8::a dev p0 weight 2 nexthop via 2001:db8::b dev p0
		ip route add 203.0.114.0/24 nexthop via 192.0.2.3 nexthop via 192.0.2.4 weight 3
		ip route add blackhole 203.0.115.0/24
		tc qdisc add dev p0 root handle 5: tbf rate 3mbit burst 20kb latency 50ms
		tc qdisc add dev p0 parent 5:1 handle 6: pfifo limit 55`)
}

// settled is look once duplicate address detection is over.
func (b *bench) settled() string {
	b.t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for strings.Contains(b.look(), "tentative") && time.Now().Before(deadline) {
	}
	return b.look()
}

// look says everything about the port in the words of iproute2, which knows nothing
// of this package.
func (b *bench) look() string {
	b.t.Helper()
	out, err := exec.Command("sh", "-ec", `ip -d link show dev p0
		ip addr show dev p0 | sed 's/[0-9]*sec/SEC/g'
		ip neigh show dev p0 nud permanent; ip neigh show proxy dev p0
		(ip -4 route show table all; ip -6 route show table all) | grep -v 'dev cable' | sort
		tc qdisc show dev p0
		cd /proc/sys/net; grep -s '' ipv?/conf/p0/* ipv?/neigh/p0/* || true`).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func (b *bench) binding() Binding {
	mac := topology.LinkMAC(0, 0)
	return Binding{
		Port: &topology.Port{Name: "p0"}, Lab: "lab", End: topology.End{Node: "r", Dev: "in"},
		Netns: "s6.lab.r", Handle: handle(b.node), MAC: &mac, MTU: 1500, Force: true,
	}
}

func handle(ns *namespace) netns.NsHandle { return netns.NsHandle(ns.file.Fd()) }

// release gives every port back.
func (b *bench) release() error {
	records, err := Records()
	for _, r := range records {
		err = errors.Join(err, r.Release())
	}
	return err
}

// nothingLeft checks that there is no record any more.
func (b *bench) nothingLeft() {
	b.t.Helper()
	files, err := os.ReadDir(Dir())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != "lock" {
			b.t.Errorf("left: %s", f.Name())
		}
	}
}

// same checks that the port is as it was, once the kernel has looked for duplicates
// of its addresses.
func (b *bench) same(was string) {
	b.t.Helper()
	now := b.look()
	for deadline := time.Now().Add(5 * time.Second); now != was && time.Now().Before(deadline); {
		now = b.look()
	}
	old, new := strings.Split(was, "\n"), strings.Split(now, "\n")
	for _, line := range old {
		if !slices.Contains(new, line) {
			b.t.Errorf("lost: %s", line)
		}
	}
	for _, line := range new {
		if !slices.Contains(old, line) {
			b.t.Errorf("new: %s", line)
		}
	}
	if !b.t.Failed() && now != was {
		b.t.Errorf("another order: now\n%s\nwas\n%s", now, was)
	}
}

func TestComesBack(t *testing.T) {
	b := newBench(t)
	// One route needs an address that the kernel first looks for duplicates of.
	b.ip("sysctl -qw net.ipv6.conf.all.accept_dad=1")
	defer b.ip("sysctl -qw net.ipv6.conf.all.accept_dad=0")
	b.rich()
	was := b.settled()
	f, err := Bind(b.binding())
	if err != nil {
		t.Fatal(err)
	}
	if f.Name != "p0" || f.End != "r:in" {
		t.Errorf("%+v", f)
	}
	b.ip(`ip -n s6.lab.r -d link show dev in | grep -q 'promiscuity [1-9]'
		ip -n s6.lab.r link show dev in | grep -q 'PROMISC,UP.*mtu 1500'
		ip -n s6.lab.r link show dev in | grep -q 02:00:00:00:00:01
		! ip link show p0 2>/dev/null`)
	// What a lab can do to it.
	b.ip(`ip netns exec s6.lab.r sh -ec 'ip link set in mtu 1280 txqueuelen 5
		ip addr add 10.0.0.1/24 dev in
		tc qdisc add dev in root handle 1: bfifo limit 50000
		sysctl -qw net.ipv6.conf.in.hop_limit=9'`)
	if err := b.release(); err != nil {
		t.Fatal(err)
	}
	b.same(was)
	b.nothingLeft()
}
