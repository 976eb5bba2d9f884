package specs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"seg6lab/forwarder"
	"seg6lab/lab"
	"seg6lab/lab/seg6"
	"seg6lab/lab/topology"
	"seg6lab/lab/topology/strictyaml"
	"seg6lab/specs/dataplane"
)

// Counters is what a segment must have counted since the lab is up: in the
// kernel, or in the forwarder that has taken its place. What is left out is not
// compared.
type Counters struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Node and SID name the segment: the destination of a route with encap
	// seg6local and count: true.
	Node string               `yaml:"node"`
	SID  topology.Destination `yaml:"sid"`
	// Packets that the behaviour took, and their bytes from the IPv6 header on,
	// as they came.
	Packets *uint64 `yaml:"packets,omitempty"`
	Bytes   *uint64 `yaml:"bytes,omitempty"`
	// Errors are packets that it dropped.
	Errors *uint64 `yaml:"errors,omitempty"`
}

func (k *compiler) counters(c *Counters) {
	if !k.node(c.Node, c.ValueAt("node")) {
		return
	}
	if c.Packets == nil && c.Bytes == nil && c.Errors == nil {
		k.fail(c.Pos(), "expected packets, bytes or errors")
		return
	}
	for _, r := range k.topology.Nodes[c.Node].Routes {
		if r.To == c.SID && r.Encap != nil && r.Encap.Seg6Local != nil && r.Encap.Seg6Local.Count {
			return
		}
	}
	k.fail(c.ValueAt("sid"), "node %s has no route to %s with encap seg6local and count: true", c.Node, c.SID)
}

// checkCounters waits until the segments have counted what the step says.
func checkCounters(ctx context.Context, l *lab.Lab, forwarders *dataplane.Running, s step) error {
	// A short Within is about what must not arrive.
	within := max(time.Duration(s.Within), defaultWithin)
	for _, c := range s.Counters {
		for deadline := time.Now().Add(within); ; {
			have, err := countersOf(l, forwarders, c)
			if err != nil {
				return err
			}
			expected, differs := c.against(have)
			if !differs {
				break
			}
			if time.Now().After(deadline) {
				return notMet("%s: %s has counted %s, expected %s", c.Node, c.SID,
					fmt.Sprintf("packets %d bytes %d errors %d", have.Packets, have.Bytes, have.Errors), expected)
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	return nil
}

// counters writes what iproute2 must say that a segment has counted.
func (s *scripter) counters(c *Counters) {
	expected, _ := c.against(forwarder.Counters{})
	s.command(&Command{Node: c.Node, Output: expected,
		Command: fmt.Sprintf("ip -s -6 route show %s | grep -ow '%s'", c.SID, expected)})
}

// against compares what was counted with what is expected, which it puts into
// words.
func (c *Counters) against(have forwarder.Counters) (expected string, differs bool) {
	var words []string
	for _, x := range []struct {
		name string
		want *uint64
		have uint64
	}{{"packets", c.Packets, have.Packets}, {"bytes", c.Bytes, have.Bytes}, {"errors", c.Errors, have.Errors}} {
		if x.want != nil {
			words = append(words, fmt.Sprintf("%s %d", x.name, *x.want))
			differs = differs || *x.want != x.have
		}
	}
	return strings.Join(words, " "), differs
}

func countersOf(l *lab.Lab, forwarders *dataplane.Running, c *Counters) (forwarder.Counters, error) {
	if f := forwarders.Of(c.Node); f != nil {
		have, _ := f.Counters(c.SID.String())
		return have, nil
	}
	node, err := l.Node(c.Node)
	if err != nil {
		return forwarder.Counters{}, err
	}
	conn, err := node.Seg6()
	if err != nil {
		return forwarder.Counters{}, err
	}
	routes, err := conn.Routes(unix.AF_INET6)
	if err != nil {
		return forwarder.Counters{}, fmt.Errorf("node %s: routes: %w", c.Node, err)
	}
	for _, r := range routes {
		if l, ok := r.Encap.(*seg6.Local); ok && r.Dst == c.SID.Prefix && l.Counters != nil {
			return forwarder.Counters{Packets: l.Counters.Packets, Bytes: l.Counters.Bytes, Errors: l.Counters.Errors}, nil
		}
	}
	return forwarder.Counters{}, fmt.Errorf("node %s: the kernel has no counters of %s", c.Node, c.SID)
}
