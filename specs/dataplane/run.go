package dataplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"seg6lab/forwarder"
	"seg6lab/forwarder/port"
	"seg6lab/lab"
	"seg6lab/lab/topology"
)

// Running are the forwarders of a lab.
type Running struct {
	group *errgroup.Group
	stop  context.CancelFunc
	nodes map[string]*forwarder.Forwarder
}

// Of is the forwarder of a node, nil where the kernel forwards.
func (r *Running) Of(node string) *forwarder.Forwarder { return r.nodes[node] }

// Start runs a forwarder for every node of the topology that has one as its
// dataplane. When it returns, the forwarders take frames.
func Start(l *lab.Lab, t *topology.Topology) (*Running, error) {
	ctx, stop := context.WithCancel(context.Background())
	r := &Running{group: new(errgroup.Group), stop: stop, nodes: make(map[string]*forwarder.Forwarder)}
	for _, name := range forwarding(t) {
		f, ports, err := open(l, t, name)
		if err != nil {
			return nil, errors.Join(err, r.Stop())
		}
		r.nodes[name] = f
		r.group.Go(func() error {
			if err := f.Run(ctx, ports); err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
			return nil
		})
	}
	return r, nil
}

// forwarding are the nodes of a lab that have a forwarder.
func forwarding(t *topology.Topology) []string {
	outside := t.Outside()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t.Nodes)), func(name string) bool {
		return outside[name] || !t.Nodes[name].Forwards()
	})
}

// open makes the forwarder of a node and opens its ports.
func open(l *lab.Lab, t *topology.Topology, name string) (_ *forwarder.Forwarder, ports []port.Port, err error) {
	c, err := Config(t, name)
	if err != nil {
		return nil, nil, err
	}
	f, err := forwarder.New(c)
	if err != nil {
		return nil, nil, fmt.Errorf("node %s: %w", name, err)
	}
	node, err := l.Node(name)
	if err != nil {
		return nil, nil, err
	}
	err = node.Do(func() (err error) {
		ports, err = openPorts(c, port.Packet)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("node %s: %w", name, err)
	}
	return f, ports, nil
}

// openPorts opens the devices of the namespace that the calling thread is in,
// in the order of the forwarder's port numbers. Without kinds the port chooses.
func openPorts(c forwarder.Config, kinds ...port.Kind) (ports []port.Port, err error) {
	for _, d := range c.Devices {
		if d.Link != "" || d.Dummy {
			continue // the forwarder's own
		}
		p, err := port.Open(d.Name, kinds...)
		if err != nil {
			for _, p := range ports {
				err = errors.Join(err, p.Close())
			}
			return nil, err
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// Stop ends the forwarders. It returns what made one of them fail before.
func (r *Running) Stop() error {
	r.stop()
	return r.group.Wait()
}
