package port

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"seg6lab/lab/topology"
)

// TestRefused: what is in use is not taken unasked, and comes back where it was
// taken all the same.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, setup string
		want        string
		back        bool // all of it comes back
	}{
		{"free", "ip addr add 192.0.2.1/24 dev p0; ip addr add 198.51.100.1/24 dev cable", "", true},
		{"default route", "ip addr add 192.0.2.1/24 dev p0; ip addr add 198.51.100.1/24 dev cable; ip route add default via 192.0.2.2", "carries a default route", true},
		{"IPv6 default route", "ip addr add 198.51.100.1/24 dev cable; ip -6 route add default via fe80::1 dev p0", "carries a default route", true},
		{"default route by two ways", "ip addr add 192.0.2.1/24 dev p0; ip addr add 198.51.100.1/24 dev cable; ip route add default nexthop via 198.51.100.2 nexthop via 192.0.2.2", "carries a default route", true},
		{"default route of another table", "ip addr add 192.0.2.1/24 dev p0; ip addr add 198.51.100.1/24 dev cable; ip route add default via 192.0.2.2 table 9", "carries a default route", true},
		{"only address", "ip addr add 192.0.2.1/24 dev p0", "has the only address of this machine", true},
		{"link-local address", "ip addr add fe80::9/64 dev p0", "", true},
		{"bridge", "ip link add other type bridge; ip link set p0 master other", "belongs to other (bridge)", true},
		{"clsact", "tc qdisc add dev p0 clsact", "has the qdisc clsact, which would not come back", false},
		{"classes", "tc qdisc add dev p0 root handle 1: htb; tc class add dev p0 parent 1: classid 1:1 htb rate 1mbit", "has tc classes, which would not come back", false},
		{"nexthop object", "ip nexthop add id 7 dev p0", "has nexthop objects, which would not come back", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.ip("ip link set p0 up; %s", c.setup)
			was := b.settled()
			binding := b.binding()
			binding.Force = false
			_, err := Bind(binding)
			var refused *RefusedError
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v", err)
			case c.want != "" && (!errors.As(err, &refused) || len(refused.Reasons) != 1 || refused.Reasons[0] != c.want):
				t.Errorf("got %v, want %s", err, c.want)
			}
			if f, err := List(true); err != nil {
				t.Error(err)
			} else if p, err := choose(f, binding.Port); err != nil || strings.Join(p.Refused, "") != c.want {
				t.Errorf("listed as refused for %q, %v", p.Refused, err)
			}
			if c.want != "" {
				b.same(was)
				binding.Force = true
				if _, err := Bind(binding); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.release(); err != nil && c.back {
				t.Error(err)
			}
			if c.back {
				b.same(was)
				b.nothingLeft()
			}
		})
	}
}

// refusedFor says why the port of a name is refused.
func refusedFor(name string) (string, error) {
	f, err := List(true)
	if err != nil {
		return "", err
	}
	p, err := choose(f, &topology.Port{Name: name})
	if err != nil {
		return "", err
	}
	return strings.Join(p.Refused, "; "), nil
}

// TestSSH: the device that an SSH session uses, by the environment and by its
// connection.
func TestSSH(t *testing.T) {
	b := newBench(t)
	b.ip(`ip link set p0 up; ip addr add 192.0.2.1/24 dev p0; ip addr add 198.51.100.1/24 dev cable`)
	refused := func() string {
		t.Helper()
		why, err := refusedFor("p0")
		if err != nil {
			t.Fatal(err)
		}
		return why
	}
	if why := refused(); why != "" {
		t.Errorf("refused: %s", why)
	}
	t.Setenv("SSH_CONNECTION", "203.0.113.5 50000 192.0.2.1 22")
	if why := refused(); why != "carries an SSH session from 203.0.113.5" {
		t.Errorf("refused: %s", why)
	}
	// The client is reached by way of the port, whatever address it called.
	t.Setenv("SSH_CONNECTION", "192.0.2.77 50000 198.51.100.1 22")
	if why := refused(); why != "carries an SSH session from 192.0.2.77" {
		t.Errorf("refused: %s", why)
	}
	t.Setenv("SSH_CONNECTION", "")

	// So it is where sudo took the variable away.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `env -u SSH_CONNECTION "$0"; true`, self)
	cmd.Env = append(os.Environ(), "SSH_CONNECTION=203.0.113.5 50000 192.0.2.1 2222", dieAt+"=list p0")
	if out, err := cmd.Output(); err != nil || string(out) != "carries an SSH session from 203.0.113.5\n" {
		t.Errorf("in a child: %q, %v", out, err)
	}

	// A connection to port 22 of an address of the port, from this machine itself.
	b.ip(`ip addr add 2001:db8::1/64 dev p0 nodad
		for i in $(seq 100); do ip route get 2001:db8::1 2>/dev/null | grep -q ^local && break; sleep 0.05; done`)
	for _, address := range []string{"192.0.2.1", "2001:db8::1"} {
		at := net.JoinHostPort(address, "22")
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if why := refused(); why != "carries an SSH session from "+address {
			t.Errorf("refused: %s", why)
		}
		c.Close()
		l.Close()
	}
}

func TestChoose(t *testing.T) {
	b := newBench(t)
	b.ip(`ip link property add dev p0 altname enp9s0 ; ip link set p0 address 02:00:00:00:09:09`)
	f, err := List(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p0", "enp9s0", "02:00:00:00:09:09"} {
		p, err := topology.ParsePort(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := choose(f, p); err != nil || got.Name != "p0" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"enp3s0f0":          "no port of this machine is named enp3s0f0: ",
		"0000:03:00.0":      "no port of this machine is at PCI address 0000:03:00.0: ",
		"02:00:00:00:00:99": "no port of this machine has the address 02:00:00:00:00:99: ",
	} {
		p, _ := topology.ParsePort(name)
		var none *NotFoundError
		if _, err := choose(f, p); !errors.As(err, &none) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	b.ip("ip link set cable down; ip link set cable address 02:00:00:00:09:09")
	if f, err = List(true); err != nil {
		t.Fatal(err)
	}
	p, _ := topology.ParsePort("02:00:00:00:09:09")
	if _, err := choose(f, p); err == nil || !strings.Contains(err.Error(), "2 ports are 02:00:00:00:09:09: ") {
		t.Errorf("got %v", err)
	}
}

// TestFacts: what a veth tells of itself, which has no zero-copy.
func TestFacts(t *testing.T) {
	b := newBench(t)
	b.ip("ip link set p0 up; ip link property add dev p0 altname enp9s0")
	all, err := List(true)
	if err != nil {
		t.Fatal(err)
	}
	f, err := choose(all, &topology.Port{Name: "enp9s0"})
	if err != nil {
		t.Fatal(err)
	}
	if f.Name != "p0" || f.Driver != "veth" || f.Kind != "veth" || !f.Up || !f.Carrier || f.SpeedMbps != 10_000 ||
		f.NUMANode != -1 || f.RxQueues < 1 || f.TxQueues < 1 || f.State != Free || f.PCI != "" || f.real() {
		t.Errorf("%+v", f)
	}
	if _, err := here.GenlFamilyGet("netdev"); err == nil && (f.ZeroCopy == nil || *f.ZeroCopy) {
		t.Errorf("zero-copy %v", f.ZeroCopy)
	}
	// Nothing of it is a real port.
	if all, err := List(false); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}
