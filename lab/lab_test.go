package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"seg6lab/lab/topology"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// testName is a lab name that no other test process uses.
func testName(suffix string) string { return fmt.Sprintf("t%d-%s", os.Getpid(), suffix) }

func decode(t *testing.T, text string) *topology.Topology {
	t.Helper()
	top, err := topology.Decode("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// up builds a lab that ends with the test.
func up(t *testing.T, name, text string) *Lab {
	t.Helper()
	needRoot(t)
	l, err := Up(context.Background(), decode(t, text), Options{Name: name, Owned: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// ip runs the real iproute2 in a namespace by its name.
func ip(t *testing.T, n *Node, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", append([]string{"-n", n.Netns}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip -n %s %s: %v: %s", n.Netns, strings.Join(args, " "), err, out)
	}
	return string(out)
}

const router = `
name: router
nodes:
  src:
    addresses: {eth0: ["2001:db8:1::2/64", 192.0.2.2/24]}
    routes: [{to: default, via: "2001:db8:1::1"}]
  r:
    sysctls: {net.ipv6.conf.all.forwarding: 1, net.ipv6.conf.in.seg6_enabled: 1}
    seg6: {tunsrc: "fc00::1"}
    bridges: {br0: {}}
    addresses: {in: ["2001:db8:1::1/64"], out: ["2001:db8:2::1/64"], lo: ["2001:db8::1/128"]}
    routes:
      - {to: "2001:db8:9::/64", dev: out, encap: {seg6: {mode: encap, segs: ["fc00:2::1", "fc00:3::1"]}}}
      - {to: "fc00:1::e/128", dev: out, encap: {seg6local: {action: End, count: true}}}
    rules: [{from: "2001:db8:7::/64", table: 100, priority: 77}]
    run: ["ip link set br0 mtu 1400"]
  dst:
    addresses: {eth0: ["2001:db8:2::2/64"]}
    routes: [{to: default, via: "2001:db8:2::1"}]
links:
  - [src:eth0, r:in]
  - {ends: [r:out, dst:eth0], mtu: 9000, macs: ["02:00:00:00:aa:01", "02:00:00:00:aa:02"], txqueuelen: 77}
`

func TestUp(t *testing.T) {
	l := up(t, testName("up"), router)
	r, err := l.Node("r")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ args, text string }{
		{"link show out", "mtu 9000"},
		{"link show out", "qlen 77"},
		{"link show out", "02:00:00:00:aa:01"},
		{"link show br0", "mtu 1400"},
		{"-6 addr show in", "2001:db8:1::1/64"},
		{"-6 neigh show dev in", "2001:db8:1::2 lladdr 02:00:00:00:00:01 PERMANENT"},
		{"-6 route show 2001:db8:9::/64", "encap seg6 mode encap segs 2 [ fc00:2::1 fc00:3::1 ]"},
		{"-6 route show fc00:1::e", "encap seg6local action End"},
		{"-6 rule show", "77:	from 2001:db8:7::/64 lookup 100"},
		{"sr tunsrc show", "tunsrc addr fc00::1"},
	} {
		if out := ip(t, r, strings.Fields(want.args)...); !strings.Contains(out, want.text) {
			t.Errorf("ip %s: no %q in:\n%s", want.args, want.text, out)
		}
	}
	// The kernel itself says that packets pass.
	src, err := l.Node("src")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Shell(context.Background(), "ping -c1 -W5 2001:db8:2::2"); err != nil {
		t.Error(err)
	}
}

func TestUpRefusesTheSameName(t *testing.T) {
	l := up(t, testName("same"), router)
	_, err := Up(context.Background(), decode(t, router), Options{Name: l.Name})
	if exists := (*ExistsError)(nil); !errors.As(err, &exists) {
		t.Fatalf("got %v, want an ExistsError", err)
	}
	if _, err := Open(l.Name); err != nil {
		t.Errorf("the first lab is gone: %v", err)
	}
}

func TestUpLeavesNothingOnFailure(t *testing.T) {
	needRoot(t)
	name := testName("fail")
	text := strings.Replace(router, `run: ["ip link set br0 mtu 1400"]`, `run: ["ip route add 192.0.2.0/24 via 203.0.113.1"]`, 1)
	_, err := Up(context.Background(), decode(t, text), Options{Name: name})
	if err == nil || !strings.Contains(err.Error(), "node r: ") || !strings.Contains(err.Error(), "Nexthop has invalid gateway") {
		t.Errorf("got %v, want node r and the kernel's words", err)
	}
	if _, err := Open(name); err == nil {
		t.Error("the lab is still there")
	}
}

func TestExtackReachesTheUser(t *testing.T) {
	needRoot(t)
	text := strings.Replace(router, `{to: "fc00:1::e/128", dev: out, encap: {seg6local: {action: End, count: true}}}`,
		`{to: "fc00:1::e/128", via: "2001:db8:99::1"}`, 1)
	_, err := Up(context.Background(), decode(t, text), Options{Name: testName("extack")})
	if err == nil || !strings.Contains(err.Error(), "node r: route fc00:1::e/128") || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("got %v", err)
	}
}

func TestUpEndsWithItsContext(t *testing.T) {
	needRoot(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("stop")
	cancel(stop)
	name := testName("ctx")
	if _, err := Up(ctx, decode(t, router), Options{Name: name}); !errors.Is(err, stop) {
		t.Errorf("got %v, want the cause", err)
	}
	if _, err := Open(name); err == nil {
		t.Error("the lab is still there")
	}
}

func TestDownIsIdempotentAndEndsProcesses(t *testing.T) {
	l := up(t, testName("down"), router)
	n, err := l.Node("src")
	if err != nil {
		t.Fatal(err)
	}
	// In the background, in a session of its own, deaf to SIGTERM.
	if _, err := n.Shell(context.Background(), `setsid sh -c 'trap "" TERM; exec sleep 1000' >/dev/null 2>&1 &`); err != nil {
		t.Fatal(err)
	}
	ino, err := inode(int(n.handle))
	if err != nil {
		t.Fatal(err)
	}
	if pids, err := processesIn([]uint64{ino}); err != nil || len(pids) == 0 {
		t.Fatalf("no process in the namespace: %v", err)
	}
	for range 2 {
		if err := l.Down(); err != nil {
			t.Fatal(err)
		}
	}
	if pids, err := processesIn([]uint64{ino}); err != nil || len(pids) != 0 {
		t.Errorf("processes left: %v, %v", pids, err)
	}
	if err := Down(l.Name); err == nil {
		t.Error("Down of a lab that is not there: no error")
	}
}

// TestSweepRemovesClaims: a name that a process had claimed before it died, and that no
// namespace was mounted on yet, is free again, and that of one that lives is not touched.
func TestSweepRemovesClaims(t *testing.T) {
	needRoot(t)
	if err := prepareNetnsDir(); err != nil {
		t.Fatal(err)
	}
	self, err := findProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	dead := process{pid: self.pid, start: self.start + 1}
	left := map[process]bool{dead: false, self: true}
	for owner := range left {
		m := mark{lab: testName(fmt.Sprint(owner.start)), node: "a", owner: owner}
		path := filepath.Join(netnsDir, netnsName(m.lab, m.node))
		if err := os.WriteFile(path, []byte(m.String()), 0o444); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
	}
	if _, err := Sweep(); err != nil {
		t.Fatal(err)
	}
	for owner, want := range left {
		_, err := os.Stat(filepath.Join(netnsDir, netnsName(testName(fmt.Sprint(owner.start)), "a")))
		if (err == nil) != want {
			t.Errorf("claim of %v: %v, want it left: %v", owner, err, want)
		}
	}
}

func TestTwoLabsOfOneTopology(t *testing.T) {
	a, b := up(t, testName("a"), router), up(t, testName("b"), router)
	for _, l := range []*Lab{a, b} {
		n, err := l.Node("src")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Shell(context.Background(), "ping -c1 -W5 2001:db8:2::2"); err != nil {
			t.Errorf("lab %s: %v", l.Name, err)
		}
	}
}

func TestHostIsNotChanged(t *testing.T) {
	needRoot(t)
	state := func() string {
		var s strings.Builder
		for _, args := range []string{"-o link show", "addr show", "route show table all", "-6 route show table all", "rule show", "-6 rule show", "neigh show"} {
			out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
			if err != nil {
				t.Fatal(err)
			}
			s.Write(out)
		}
		out, err := exec.Command("sysctl", "-a", "-r", `^net\.(ipv[46]\.(conf|ip_forward|seg6)|vrf|core)`).Output()
		if err != nil {
			t.Fatal(err)
		}
		s.Write(out)
		return s.String()
	}
	before := state()
	l := up(t, testName("host"), router)
	if during := state(); during != before {
		t.Error("the host differs while a lab is up")
	}
	if err := l.Down(); err != nil {
		t.Fatal(err)
	}
	if after := state(); after != before {
		t.Error("the host differs after a lab")
	}
}

func TestDoStaysOutOfTheMainThread(t *testing.T) {
	needRoot(t)
	l := up(t, testName("main"), router)
	n, err := l.Node("src")
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		err := n.Do(func() error {
			if unix.Gettid() == unix.Getpid() {
				return errors.New("on the main thread")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
