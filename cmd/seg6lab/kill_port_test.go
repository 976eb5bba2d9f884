package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"seg6lab/lab/port"
)

// machine is a namespace that stands for a machine with two ports and a cable
// between them.
type machine struct {
	*command
	was string // what ip says of the ports
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{command: newCommand(t)}
	m.within = filepath.Join(netnsDir, "machine")
	m.sh(`ip netns add machine
		for p in p0 p1; do ip -n machine link show $p >/dev/null 2>&1 || ip -n machine link add p0 type veth peer name p1; done
		ip -n machine link set p0 mtu 1400 promisc on up addrgenmode none
		ip -n machine link set p1 up addrgenmode none
		ip -n machine addr add 192.0.2.1/24 dev p0
		ip -n machine route add default via 192.0.2.2`)
	t.Cleanup(func() {
		m.run("down", "--all", "--force")
		m.sh("ip netns del machine")
	})
	m.was = m.look()
	return m
}

func (m *machine) sh(line string) string {
	m.t.Helper()
	cmd := exec.Command("sh", "-ec", line)
	cmd.Env = m.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v: %s", line, err, out)
	}
	return string(out)
}

func (m *machine) look() string {
	m.t.Helper()
	// The route to multicast groups comes with the carrier, and is the kernel's own.
	return m.sh("ip -n machine -d addr show; ip -n machine route show table all | grep -v 'multicast ff00::' | sort")
}

// back checks that the ports are as they were, and that nothing is left of a lab.
func (m *machine) back(when string) {
	m.t.Helper()
	// The kernel tells the state of a link a moment after it has changed.
	now := m.look()
	for deadline := time.Now().Add(5 * time.Second); now != m.was && time.Now().Before(deadline); {
		now = m.look()
	}
	if now != m.was {
		m.t.Fatalf("%s: the ports are\n%s\nwere\n%s", when, now, m.was)
	}
	if left := m.sh("ls /run/netns"); left != "machine\n" {
		m.t.Fatalf("%s: left: %s", when, left)
	}
	state := ""
	for _, v := range m.env {
		if value, ok := strings.CutPrefix(v, port.StateVariable+"="); ok {
			state = value
		}
	}
	if left, _ := filepath.Glob(filepath.Join(state, "ports", "*.json")); len(left) > 0 {
		m.t.Fatalf("%s: left: %q", when, left)
	}
}

// TestKillPorts kills up, run and down at random moments: the next command brings
// the ports back as they were.
func TestKillPorts(t *testing.T) {
	m := newMachine(t)
	r := random(t)
	up := []string{"up", "headend", "--force", "--port", "src:eth0=p0", "--port", "r:in=p1"}
	onPorts := []string{"run", "--force", "long.yaml", "--port", "a:eth0=p0", "--port", "b:eth0=p1"}
	start := time.Now()
	if code, out := m.run(up...); code != 0 {
		t.Fatalf("up: exit code %d: %s", code, out)
	}
	took := time.Since(start)
	m.next(r, "down", "--all")
	m.back("at first")
	for range rounds {
		after := moment(r, took)
		m.end(syscall.SIGKILL, after, up...)
		m.next(r, "down", "--all")
		m.back(fmt.Sprintf("up killed after %v", after))
	}
	for range rounds {
		after := moment(r, took)
		m.end(syscall.SIGKILL, after, onPorts...)
		m.next(r, "run", "demo", "--place", "host")
		m.back(fmt.Sprintf("run killed after %v", after))
	}
	for range rounds {
		if code, out := m.run(up...); code != 0 {
			t.Fatalf("up: exit code %d: %s", code, out)
		}
		after := moment(r, took)
		m.end(syscall.SIGKILL, after, "down", "headend")
		m.next(r, "down", "--all")
		m.back(fmt.Sprintf("down killed after %v", after))
	}
}

func moment(r *rand.Rand, took time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(took * 5 / 4)))
}

// next runs a command that must succeed, and before it, now and then, one that is
// killed in its turn.
func (m *machine) next(r *rand.Rand, args ...string) {
	m.t.Helper()
	if r.IntN(2) == 0 {
		m.end(syscall.SIGKILL, time.Duration(r.Int64N(int64(50*time.Millisecond))), args...)
	}
	if code, out := m.run(args...); code != 0 {
		m.t.Fatalf("%v: exit code %d: %s", args, code, out)
	}
}

// TestInterruptPorts ends up as Ctrl-C does while it waits for a link: the port is
// back when the command has ended.
func TestInterruptPorts(t *testing.T) {
	m := newMachine(t)
	m.sh("ip -n machine link set p1 down")
	m.was = m.look()
	code, out := m.end(os.Interrupt, time.Second, "up", "headend", "--force", "--port", "r:in=p0")
	switch {
	case code == -1: // before the program could ask for the signal
		m.run("down", "--all")
	case code != exitInternal || out != "seg6lab: interrupted\n":
		t.Errorf("exit code %d: %s", code, out)
	}
	m.back("after Ctrl-C")
}
