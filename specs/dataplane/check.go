package dataplane

import (
	"errors"

	"seg6lab/forwarder"
	"seg6lab/lab/topology"
	"seg6lab/lab/topology/strictyaml"
)

// Check tells what the forwarders of a topology cannot do of what it says, and where
// it says so.
func Check(t *topology.Topology) error {
	var all strictyaml.Errors
	for _, name := range forwarding(t) {
		c, err := Config(t, name)
		all = append(all, mistakes(t.Nodes[name], c, err)...)
	}
	if len(all) > 0 {
		return strictyaml.Sort(all)
	}
	return nil
}

// mistakes has a forwarder made of a node, of which c is the configuration, or err why
// there is none.
func mistakes(n *topology.Node, c forwarder.Config, err error) (all strictyaml.Errors) {
	if err == nil {
		_, err = forwarder.New(c)
	}
	if err == nil {
		return nil
	}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	for _, err := range errs {
		pos := n.Pos()
		var route *forwarder.RouteError
		if errors.As(err, &route) {
			pos = n.Routes[route.Index].Pos()
		}
		all = append(all, &strictyaml.Error{Pos: pos, Msg: err.Error()})
	}
	return all
}
