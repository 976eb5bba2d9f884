package specs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"seg6lab/lab/topology"
	"seg6lab/specs/dataplane"
)

// Dataplanes that a run can ask for.
const (
	DataplaneAsWritten = ""          // what the topology says of each node
	DataplaneForwarder = "forwarder" // seg6lab's forwarder in every node that routes
)

// on is the case with the dataplane that a run asks for.
func (c *Case) on(name string) *Case {
	if name != DataplaneForwarder {
		return c
	}
	t := *c.Topology
	t.Nodes = maps.Clone(t.Nodes)
	for name, n := range t.Nodes {
		own := *n
		t.Nodes[name] = &own
	}
	dataplane.Replace(&t)
	own := *c
	own.Topology = &t
	return &own
}

// unsuitedError says that a case speaks of a kernel where it gets a forwarder.
type unsuitedError struct{ why string }

func (e *unsuitedError) Error() string { return e.why }

// suits tells whether the nodes that forward in user space can do what the case
// wants of them.
func (c *Case) suits() error {
	forwards := func(node string) bool {
		n := c.Topology.Nodes[node]
		return n != nil && n.Forwards()
	}
	if err := dataplane.Check(c.Topology); err != nil {
		return &unsuitedError{err.Error()}
	}
	for i, s := range c.steps {
		switch {
		case s.Run != nil && forwards(s.Run.Node):
			return &unsuitedError{fmt.Sprintf("step %d asks the kernel of node %s, which a forwarder has replaced", i+1, s.Run.Node)}
		case len(s.SKB) > 0 && forwards(s.SKB[0].Node), s.shape != nil && forwards(s.to.Node):
			return &unsuitedError{fmt.Sprintf("step %d looks at sk_buffs of the kernel, which a forwarder has replaced", i+1)}
		case slices.ContainsFunc(s.expect, func(e expect) bool { return e.When != "" && forwards(e.End.Node) }):
			return &unsuitedError{fmt.Sprintf("step %d expects what depends on a fix of the kernel, which a forwarder has replaced", i+1)}
		}
	}
	for _, name := range c.File.Requires {
		if Forwarders(c.Topology) && strings.HasPrefix(name, "probe") {
			return &unsuitedError{"the case observes the kernel"}
		}
	}
	return nil
}

// Forwarders tells whether a node of the topology forwards in user space.
func Forwarders(t *topology.Topology) bool {
	for _, n := range t.Nodes {
		if n.Forwards() {
			return true
		}
	}
	return false
}
