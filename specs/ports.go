package specs

import (
	"fmt"

	"seg6lab/lab/topology"
)

// Bind is the case on real ports: the ends of links are bound to them, by end. The
// error says which end there is not, or which step needs a node that then is
// outside equipment.
func (c *Case) Bind(ports map[string]*topology.Port) (*Case, error) {
	if len(ports) == 0 {
		return c, nil
	}
	t, err := c.Topology.Bind(ports)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	bound := *c
	bound.Topology, bound.steps = t, nil
	if err := bound.compile(); err != nil {
		return nil, err
	}
	bound.varied = make(map[string]*Case)
	for name, v := range c.varied {
		if bound.varied[name], err = v.Bind(ports); err != nil {
			return nil, err
		}
	}
	return &bound, nil
}
