package dataplane

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"

	"seg6lab/forwarder"
	"seg6lab/forwarder/port"
	"seg6lab/lab/topology"
	"seg6lab/lab/topology/strictyaml"
)

// LoadNode reads a file that describes one node, in the format of a node of a
// topology. Its devices are those of the namespace that have addresses in it,
// or are named by its routes.
func LoadNode(path string) (*topology.Node, error) {
	src, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc, err := strictyaml.Parse(path, src)
	if err != nil {
		return nil, err
	}
	if doc.Key("nodes") != nil || doc.Key("case") != nil {
		return nil, fmt.Errorf("%s: the file is a topology or a case: expected what stands there for one node, its addresses, routes and so on", path)
	}
	n := new(topology.Node)
	if err := doc.Decode(n); err != nil {
		return nil, err
	}
	// The validator knows topologies: give the node a world to be linked to.
	world := &topology.Topology{Name: "alone", Nodes: map[string]*topology.Node{"node": n, "world": {}}}
	for i, dev := range Devices(n) {
		world.Links = append(world.Links, &topology.Link{Ends: [2]topology.End{{Node: "node", Dev: dev}, {Node: "world", Dev: fmt.Sprintf("eth%d", i)}}})
	}
	if err := world.Validate(); err != nil {
		return nil, err
	}
	var devices []forwarder.Device
	for _, name := range Devices(n) {
		devices = append(devices, forwarder.Device{Name: name})
	}
	c, err := config(n, devices, nil)
	if m := mistakes(n, c, err); len(m) > 0 {
		return nil, strictyaml.Sort(m)
	}
	return n, nil
}

// Devices are the devices that a node has by its addresses, its routes and its
// VLAN devices: the ports of a forwarder.
func Devices(n *topology.Node) []string {
	names := make(map[string]bool)
	for dev := range n.Addresses {
		names[dev] = true
	}
	for _, r := range n.Routes {
		names[r.Dev] = true
	}
	for _, v := range n.VLANs {
		names[v.Link] = true
	}
	for _, v := range n.VRFs {
		for _, dev := range v.Devices {
			names[dev] = true
		}
	}
	for _, own := range []string{"", "lo"} {
		delete(names, own)
	}
	for dev := range n.VLANs {
		delete(names, dev)
	}
	for dev := range n.VRFs {
		delete(names, dev)
	}
	for _, dev := range n.Dummies {
		delete(names, dev)
	}
	return slices.Sorted(maps.Keys(names))
}

// Means are what a forwarder of its own forwards with.
type Means struct {
	// Kinds of port to try in order, those of port.Choose when empty.
	Kinds []port.Kind
	// CPUs are those of forwarder.Config.
	CPUs []int
}

// RunAlone forwards as the node says on devices of the namespace that the
// calling thread is in, until the context ends. started is told what each port
// is once frames are taken.
func RunAlone(ctx context.Context, n *topology.Node, means Means, started func(ports []string)) error {
	var devices []forwarder.Device
	for _, name := range Devices(n) {
		d, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("device %s: %w", name, err)
		}
		device := forwarder.Device{Name: name, MTU: d.MTU}
		copy(device.MAC[:], d.HardwareAddr)
		devices = append(devices, device)
	}
	c, err := config(n, devices, nil)
	if err != nil {
		return err
	}
	return run(ctx, c, means, started, false)
}

// RunNode is RunAlone for a node of a topology, in whose namespace this process
// is. It answers ReadStatus.
func RunNode(ctx context.Context, t *topology.Topology, name string, means Means, started func(ports []string)) error {
	c, err := Config(t, name)
	if err != nil {
		return err
	}
	return run(ctx, c, means, started, true)
}

func run(ctx context.Context, c forwarder.Config, means Means, started func(ports []string), status bool) error {
	c.CPUs = means.CPUs
	f, err := forwarder.New(c)
	if err != nil {
		return err
	}
	ports, err := openPorts(c, means.Kinds...)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range ports {
		names = append(names, p.String())
	}
	if status {
		s, err := serveStatus(func() Status { return statusOf(f, c, names) })
		if err != nil {
			return err
		}
		defer s.Close()
	}
	started(names)
	return f.Run(ctx, ports)
}
