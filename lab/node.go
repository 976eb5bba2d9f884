package lab

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"seg6lab/lab/nsthread"
	"seg6lab/lab/seg6"
)

// Node is one network namespace of a lab.
type Node struct {
	// Name of the node in the topology.
	Name string
	// Netns is the name of the namespace, as `ip netns exec` takes it.
	Netns string

	handle netns.NsHandle
	conn   *seg6.Conn // opened when first needed
}

// Handle is the namespace. It is closed with the lab.
func (n *Node) Handle() netns.NsHandle { return n.handle }

// Seg6 is a connection for seg6 state in the namespace. It is closed with the
// lab.
func (n *Node) Seg6() (*seg6.Conn, error) {
	if n.conn == nil {
		conn, err := seg6.Open(n.handle)
		if err != nil {
			return nil, fmt.Errorf("node %s: seg6: %w", n.Name, err)
		}
		n.conn = conn
	}
	return n.conn, nil
}

// Do runs f inside the namespace, on an operating system thread of its own.
// Goroutines that f starts run outside. Sockets that f opens stay inside and
// can be used from anywhere.
func (n *Node) Do(f func() error) error {
	return nsthread.Do(func() error {
		if err := netns.Set(n.handle); err != nil {
			return fmt.Errorf("node %s: enter namespace: %w", n.Name, err)
		}
		return f()
	})
}

// mark says anew to whom the namespace belongs.
func (n *Node) mark(m mark) error {
	return n.Do(func() error {
		return here.LinkSetAlias(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1, Name: "lo"}}, m.String())
	})
}

func (n *Node) close() {
	if n.conn != nil {
		n.conn.Close()
	}
	n.handle.Close()
}

// newNode sets up the namespace that the calling thread is in.
func newNode(m mark) (*Node, error) {
	h, err := netns.GetFromPath("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	n := &Node{Name: m.node, Netns: netnsName(m.lab, m.node), handle: h}
	lo := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1, Name: "lo"}}
	err = here.LinkSetAlias(lo, m.String())
	if err == nil {
		err = here.LinkSetUp(lo)
	}
	if err == nil {
		err = quiet()
	}
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// quiet keeps the kernel from sending on its own: no duplicate address
// detection, no link-local addresses, no router solicitations.
func quiet() error {
	for _, s := range [][2]string{
		{"net.ipv6.conf.default.accept_dad", "0"},
		{"net.ipv6.conf.all.accept_dad", "0"},
		{"net.ipv6.conf.default.addr_gen_mode", "1"},
		{"net.ipv6.conf.default.router_solicitations", "0"},
		{"net.ipv6.conf.default.accept_ra", "0"},
		{"net.ipv4.conf.all.rp_filter", "0"},
		{"net.ipv4.conf.default.rp_filter", "0"},
	} {
		if err := setSysctl(s[0], s[1]); err != nil {
			return err
		}
	}
	return nil
}
