// Package ports runs cases on ports of emulated hardware, driven by the real
// drivers in guests, and pulls the ground from under them: kills, unplugged
// devices, pulled cables. It holds tests only.
package ports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seg6lab/lab/kernel"
	"seg6lab/lab/vm"
)

// every chooses the tests of every driver, which make test-ports runs. They need
// Debian's kernel with every driver.
var every = os.Getenv("SEG6LAB_PORTS") != ""

const (
	cloudKernel = "debian:6.12"
	fullKernel  = "debian:6.12:full"
)

var program string // seg6lab

func TestMain(m *testing.M) {
	vm.Main()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "seg6lab-ports-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "seg6lab")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "seg6lab/cmd/seg6lab")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build seg6lab: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// guest is a machine with two ports, eth0 and eth1, and a cable between them.
type guest struct {
	*testing.T
	machine *vm.Machine
}

func boot(t *testing.T, kernelName, model string) *guest { return bootOn(t, 1, kernelName, model) }

func bootOn(t *testing.T, cpus int, kernelName, model string) *guest {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	k, err := kernel.Resolve(t.Context(), kernelName)
	if err != nil {
		t.Fatal(err)
	}
	m, err := vm.Boot(t.Context(), vm.Config{Kernel: k, CPUs: cpus, HostFiles: true, NICs: []vm.NIC{{Model: model, Cable: "a"}, {Model: model, Cable: "a"}}})
	if errors.Is(err, vm.ErrNoNIC) && model == "igb" {
		t.Skip(err) // QEMU 8.0 is the first that has it
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &guest{t, m}
}

// deadline is for whatever a guest does; nothing of it takes a tenth of that on an idle machine.
const deadline = 3 * time.Minute

// exec runs a command in the guest and returns its output and exit code.
func (g *guest) exec(args ...string) (string, int) {
	g.Helper()
	ctx, cancel := context.WithTimeoutCause(g.Context(), deadline, fmt.Errorf("%s: no end within %v", strings.Join(args, " "), deadline))
	defer cancel()
	var out bytes.Buffer
	exit, err := g.machine.Run(ctx, vm.Cmd{Args: args, Stdout: &out, Stderr: &out})
	if err != nil {
		g.Fatalf("%v\n%s", err, &out)
	}
	return out.String(), exit
}

// sh runs a command line that must succeed.
func (g *guest) sh(line string) string {
	g.Helper()
	out, exit := g.exec("/bin/sh", "-c", line)
	if exit != 0 {
		g.Fatalf("%s: exit code %d\n%s", line, exit, out)
	}
	return out
}

// seg6lab runs the program, which must end with the exit code.
func (g *guest) seg6lab(want int, args ...string) string {
	g.Helper()
	out, exit := g.exec(append([]string{program}, args...)...)
	if exit != want {
		g.Fatalf("seg6lab %s: exit code %d, want %d\n%s", strings.Join(args, " "), exit, want, out)
	}
	return out
}

// background starts seg6lab; wait gives its output and exit code.
func (g *guest) background(args ...string) (wait func() (string, int)) {
	type ended struct {
		out  string
		exit int
		err  error
	}
	done := make(chan ended, 1)
	go func() {
		var out bytes.Buffer
		exit, err := g.machine.Run(g.Context(), vm.Cmd{Args: append([]string{program}, args...), Stdout: &out, Stderr: &out})
		done <- ended{out.String(), exit, err}
	}()
	return func() (string, int) {
		g.Helper()
		select {
		case e := <-done:
			if e.err != nil {
				g.Fatalf("%v\n%s", e.err, e.out)
			}
			return e.out, e.exit
		case <-time.After(deadline):
			g.Fatalf("seg6lab %s: no end within %v", strings.Join(args, " "), deadline)
			return "", 0
		}
	}
}

// settings are all that is set on a port, in the words of the tools that set it.
func (g *guest) settings(dev string) string {
	g.Helper()
	return g.sh(strings.ReplaceAll(`
		ip -d link show DEV | sed 's/^[0-9]*: //'
		ip addr show dev DEV | sed 's/^[0-9]*: //'
		ip -4 route show table all dev DEV; ip -6 route show table all dev DEV
		ip neigh show dev DEV nud permanent
		tc qdisc show dev DEV
		# What was negotiated is not what was set.
		for what in -k -g -l -c -a; do ethtool $what DEV 2>&1; done | grep -v negotiated`, "DEV", dev))
}

// alike fails the test where settings differ, line by line.
func (g *guest) alike(what, before, after string) {
	g.Helper()
	b, a := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i := range max(len(a), len(b)) {
		var was, is string
		if i < len(b) {
			was = b[i]
		}
		if i < len(a) {
			is = a[i]
		}
		if was != is {
			g.Errorf("%s: was  %s\n%*s is   %s", what, was, len(what), "", is)
		}
	}
}

// nothingLeft: no namespace of a lab and no record of a port.
func (g *guest) nothingLeft() {
	g.Helper()
	if left := g.sh("ls /run/netns /var/lib/seg6lab/ports/*.json 2>/dev/null; true"); strings.Contains(left, "s6.") || strings.Contains(left, ".json") {
		g.Errorf("left behind:\n%s", left)
	}
}

// used makes eth0 a port that somebody uses, and returns the settings of both.
func (g *guest) used() (eth0, eth1 string) {
	g.Helper()
	g.sh(`ip link property add dev eth0 altname uplink0
		ip link set eth0 address 02:00:5e:00:53:01 mtu 1400 txqueuelen 77
		ip link set eth0 promisc on
		ip link set eth0 alias "to the lab"
		ip addr add 198.51.100.1/24 dev eth0
		ip addr add 2001:db8:ff::1/64 dev eth0 nodad
		ip link set eth0 up
		ip route add 203.0.113.0/24 via 198.51.100.2
		ip -6 route add 2001:db8:fe::/48 via 2001:db8:ff::2 metric 7
		ip neigh add 198.51.100.2 lladdr 02:00:5e:00:53:02 dev eth0
		tc qdisc replace dev eth0 root pfifo limit 33
		ethtool -K eth0 gro off`)
	g.carrier()
	return g.settings("eth0"), g.settings("eth1")
}

// carrier waits until eth0, which is up, has its link.
func (g *guest) carrier() {
	g.Helper()
	g.until("carrier", func() bool { return strings.Contains(g.sh("ip link show dev eth0"), "state UP") })
	// Whoever gets a link looks for duplicates of its addresses.
	g.until("addresses", func() bool { return !strings.Contains(g.sh("ip addr show dev eth0"), "tentative") })
}

func (g *guest) until(what string, cond func() bool) {
	g.Helper()
	for end := time.Now().Add(deadline); !cond(); {
		if time.Now().After(end) {
			g.Fatalf("%s: not within %v", what, deadline)
		}
	}
}

// hold is a case that stops between two frames until the fifo is written to.
const hold = `case: hold
topology: headend
with:
  r: {routes: [{to: "2001:db8:9::/64", dev: out, encap: {seg6: {mode: encap, segs: ["fc00:1::1"]}}}]}
steps:
  - send: &send {from: src:eth0, packet: 'Ether()/IPv6(src="2001:db8:1::2", dst="2001:db8:9::1")/UDP(sport=1000, dport=9)/Raw(16)'}
    expect: &expect [{at: dst:eth0, packet: 'Ether()/IPv6(dst="fc00:1::1", hlim=63)/SRH()/IPv6(hlim=64)/UDP(dport=9)/Raw(16)'}]
  - run: {node: src, command: 'touch /tmp/holds; read line </tmp/go'}
  - send: *send
    expect: *expect
`

// holding runs the case on both ports up to where it stops.
func (g *guest) holding() (goOn func(), wait func() (string, int)) {
	g.Helper()
	g.sh("mkfifo /tmp/go && cat >/tmp/hold.yaml <<'END'\n" + hold + "END")
	wait = g.background("run", "/tmp/hold.yaml", "--force", "--port", "r:out=eth0", "--port", "dst:eth0=eth1")
	g.until("the case", func() bool {
		_, exit := g.exec("/bin/test", "-e", "/tmp/holds")
		return exit == 0
	})
	return func() { g.sh("echo >/tmp/go") }, wait
}

// onPorts runs cases on both ports of a model and looks whether all is as it was.
func onPorts(t *testing.T, kernelName, model string) {
	g := boot(t, kernelName, model)
	eth0, eth1 := g.used()
	// eth0 has the only addresses of this machine.
	refused := g.seg6lab(3, "run", "flow-l2vpn", "--port", "pe1:core=eth0", "--port", "p:west=eth1")
	if !strings.Contains(refused, "eth0") || !strings.Contains(refused, "--force") {
		t.Errorf("refused without the port or the way out: %s", refused)
	}
	g.alike("eth0, refused", eth0, g.settings("eth0"))
	g.seg6lab(0, "run", "flow-l2vpn", "--force", "--port", "pe1:core=uplink0", "--port", "p:west=eth1")
	g.seg6lab(0, "run", "driver-headroom", "--force", "--port", "src:eth0=eth0", "--port", "r:in="+vm.NICMAC(1))
	g.carrier()
	g.alike("eth0", eth0, g.settings("eth0"))
	g.alike("eth1", eth1, g.settings("eth1"))
	g.nothingLeft()
}

// TestCases: the line over SRv6, byte for byte, and the driver's headroom.
func TestCases(t *testing.T) {
	if !every {
		t.Run("vmxnet3", func(t *testing.T) { onPorts(t, cloudKernel, "vmxnet3") })
		return
	}
	for _, model := range vm.NICModels() {
		t.Run(model, func(t *testing.T) { onPorts(t, fullKernel, model) })
	}
}

// needEvery skips what make test has no time for.
func needEvery(t *testing.T) {
	t.Helper()
	if !every {
		t.Skip("make test-ports runs it, with SEG6LAB_PORTS=1")
	}
}

// TestKilled: a port comes back with the next command.
func TestKilled(t *testing.T) {
	needEvery(t)
	g := boot(t, fullKernel, "e1000e")
	eth0, eth1 := g.used()
	_, wait := g.holding()
	g.sh("pkill -KILL -f '^" + program + " run '")
	if out, exit := wait(); exit != 128+9 {
		t.Fatalf("exit code %d\n%s", exit, out)
	}
	g.seg6lab(0, "run", "demo")
	g.carrier()
	g.alike("eth0", eth0, g.settings("eth0"))
	g.alike("eth1", eth1, g.settings("eth1"))
	g.nothingLeft()
}

// TestNamespaceGone: a port that fell out of a deleted namespace, and was renamed
// since, is found again.
func TestNamespaceGone(t *testing.T) {
	needEvery(t)
	g := boot(t, fullKernel, "e1000e")
	eth0, _ := g.used()
	g.seg6lab(0, "up", "headend", "--force", "--port", "r:out=eth0")
	g.sh("for n in $(ls /run/netns); do ip netns del $n; done")
	out := func() string { return g.sh("ls /sys/class/net") }
	g.until("the port", func() bool { return len(strings.Fields(out())) == 3 })
	for _, dev := range strings.Fields(out()) {
		if dev != "lo" && dev != "eth1" {
			g.sh("ip link set " + dev + " down && ip link set " + dev + " name stray0")
		}
	}
	g.seg6lab(0, "port", "release", "--all")
	g.carrier()
	g.alike("eth0", eth0, g.settings("eth0"))
	g.nothingLeft()
}

// TestEarlierBoot: a port that a record of an earlier boot speaks of was set up
// by the machine itself, under whatever name, and is left alone.
func TestEarlierBoot(t *testing.T) {
	needEvery(t)
	g := boot(t, fullKernel, "e1000e")
	g.used()
	g.seg6lab(0, "up", "headend", "--force", "--port", "r:out=eth0")
	g.sh(`sed -i 's/"Boot": *"[^"]*"/"Boot":"00000000-0000-0000-0000-000000000000"/' /var/lib/seg6lab/ports/*.json
		grep -q '"Boot":"00000000' /var/lib/seg6lab/ports/*.json
		for n in $(ls /run/netns); do ip netns del $n; done`)
	names := func() []string { return strings.Fields(g.sh("ls /sys/class/net")) }
	g.until("the port", func() bool { return len(names()) == 3 })
	for _, dev := range names() {
		if dev != "lo" && dev != "eth1" {
			g.sh("ip link set " + dev + " down && ip link set " + dev + " name enp0s2")
		}
	}
	before := g.settings("enp0s2")
	g.seg6lab(0, "port", "release", "--all")
	g.alike("enp0s2", before, g.settings("enp0s2"))
	g.nothingLeft()
}

// TestUnplugged: the case fails, and what can come back does.
func TestUnplugged(t *testing.T) {
	needEvery(t)
	g := boot(t, fullKernel, "e1000e")
	eth0, _ := g.used()
	goOn, wait := g.holding()
	if err := g.machine.Unplug(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	goOn()
	out, exit := wait()
	if exit != 1 && exit != 4 {
		t.Errorf("exit code %d, want 1 or 4", exit)
	}
	t.Log(out)
	if !strings.Contains(out, "eth1") {
		t.Error("the output does not name the port that is gone, eth1")
	}
	g.carrier()
	g.alike("eth0", eth0, g.settings("eth0"))
	// It cannot be given back, and is not spoken of again.
	g.seg6lab(0, "port", "release", "--all", "--forget")
	g.nothingLeft()
}

// TestCablePulled: the case fails, and both ports come back. QEMU 7.2's e1000e does
// not interrupt its driver for a pulled cable.
func TestCablePulled(t *testing.T) {
	needEvery(t)
	g := boot(t, fullKernel, "vmxnet3")
	eth0, eth1 := g.used()
	goOn, wait := g.holding()
	carrier := func(up bool) {
		for i := range 2 {
			if err := g.machine.SetCarrier(t.Context(), i, up); err != nil {
				t.Fatal(err)
			}
		}
	}
	carrier(false)
	g.until("the link to go down", func() bool {
		return strings.Contains(g.sh(program+" exec r -- ip link show out"), "NO-CARRIER")
	})
	goOn()
	out, exit := wait()
	if exit != 1 {
		t.Errorf("exit code %d, want 1", exit)
	}
	if !strings.Contains(out, "frame expected arrived") {
		t.Errorf("the output does not say that the frame is missing:\n%s", out)
	}
	carrier(true)
	g.carrier()
	g.alike("eth0", eth0, g.settings("eth0"))
	g.alike("eth1", eth1, g.settings("eth1"))
	g.nothingLeft()
}

// TestInterrupts: the interrupts of a port's queues go to a CPU each, and back, also
// when the lab is killed.
func TestInterrupts(t *testing.T) {
	needEvery(t)
	g := bootOn(t, 2, cloudKernel, "virtio-net-pci")
	g.used()
	virtio := strings.TrimSpace(g.sh("basename $(readlink -f /sys/class/net/eth0/device)"))
	// Where the interrupts of eth0 are, by the names that virtio_net gives them.
	where := func() string {
		return g.sh("for irq in /proc/irq/*/" + virtio + "-*put.0; do d=${irq%/*}; echo ${irq##*-} $(cat $d/smp_affinity_list); done")
	}
	g.sh("for irq in /proc/irq/*/" + virtio + "-*put.0; do echo 1 >${irq%/*}/smp_affinity_list; done")
	const before = "input.0 1\noutput.0 1\n"
	if got := where(); got != before {
		t.Fatalf("interrupts at\n%swant\n%s", got, before)
	}
	if out := g.seg6lab(0, "port", "list"); !strings.Contains(out, "from CPU 1 to 0") {
		t.Errorf("no advice for the interrupts:\n%s", out)
	}
	g.sh("cat >/tmp/far.yaml <<'END'\nname: far\nnodes: {dst: {}, r: {}}\nlinks: [{ends: [dst:eth0, r:out]}]\nEND")
	for _, back := range [][]string{{"down", "far"}, {"port", "release", "--all"}} {
		g.seg6lab(0, "up", "/tmp/far.yaml", "--force", "--port", "dst:eth0=eth0", "--queues", "1", "--place-irqs")
		if got, want := where(), strings.ReplaceAll(before, " 1", " 0"); got != want {
			t.Errorf("interrupts at\n%swant\n%s", got, want)
		}
		if back[0] == "port" {
			g.sh("ip netns delete s6.far.dst")
		}
		g.seg6lab(0, back...)
		g.carrier()
		if got := where(); got != before {
			t.Errorf("%v: interrupts at\n%swant\n%s", back, got, before)
		}
	}
}

// TestForwardTakesHardware: the forwarder alone takes hardware by AF_XDP, unless the
// kernel has an address there, and says so.
func TestForwardTakesHardware(t *testing.T) {
	needEvery(t)
	g := boot(t, cloudKernel, "virtio-net-pci")
	g.sh("for d in eth0 eth1; do ip addr flush dev $d; ip link set $d up; done; ip addr add 2001:db8:5::1/64 dev eth1 nodad")
	g.sh("cat >/tmp/router.yaml <<'END'\nsysctls: {net.ipv6.conf.all.forwarding: 1}\naddresses: {eth0: [\"2001:db8:1::1/64\"], eth1: [\"2001:db8:2::1/64\"]}\nEND")
	out, _ := g.exec("timeout", "-s", "INT", "3", program, "forward", "/tmp/router.yaml")
	if want := "forwarding on AF_XDP generic eth0 (copy, 1 queue), AF_PACKET eth1\n"; out != want && out != strings.Replace(want, "generic", "native", 1) {
		t.Errorf("said %q, want %q", out, want)
	}
}

// TestOutside: one end of the router is a veth, the other a port that leads to
// equipment outside of the lab, here a lab of its own.
func TestOutside(t *testing.T) {
	needEvery(t)
	g := boot(t, fullKernel, "e1000e")
	eth0, eth1 := g.used()
	g.sh("cat >/tmp/far.yaml <<'END'\n" + `name: far
nodes:
  dst: {addresses: {eth0: ["2001:db8:2::2/64", "fc00:1::1/128"]}, routes: [{to: default, via: "2001:db8:2::1"}]}
  r: {}
links: [{ends: [dst:eth0, r:out]}]
ports: {dst:eth0: eth1}
` + "END\ncat >/tmp/near.yaml <<'END'\n" + `case: near
topology: headend
with:
  r: {routes: [{to: "2001:db8:9::/64", dev: out, encap: {seg6: {mode: encap, segs: ["fc00:1::1"]}}}]}
steps:
  - send: {from: src:eth0, packet: 'Ether()/IPv6(src="2001:db8:1::2", dst="2001:db8:9::1")/UDP(sport=1000, dport=9)/Raw(16)', count: 7}
    expect: [{at: r:in, packet: 'Ether()/IPv6(hlim=64)/UDP(dport=9)/Raw(16)'}]
` + "END")
	g.seg6lab(0, "up", "/tmp/far.yaml")
	// Neighbour discovery counts as well.
	received := func() (n int) {
		fmt.Sscanf(g.sh(program+" exec --lab far dst -- cat /proc/net/dev_snmp6/eth0 | grep Ip6InReceives"), "Ip6InReceives %d", &n)
		return n
	}
	before := received()
	g.seg6lab(0, "run", "/tmp/near.yaml", "--force", "--port", "r:out=eth0")
	g.until("the frames at the far end", func() bool { return received() >= before+7 })
	g.seg6lab(0, "down", "far")
	g.carrier()
	g.alike("eth0", eth0, g.settings("eth0"))
	g.alike("eth1", eth1, g.settings("eth1"))
	g.nothingLeft()
}
