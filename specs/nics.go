package specs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"seg6lab/lab/topology"
	"seg6lab/lab/vm"
)

// nicEnds are the ends that emulated hardware stands for, in the order in which a
// guest has its NICs.
func (c *Case) nicEnds() []string { return slices.Sorted(maps.Keys(c.File.NICs)) }

// linkOf is the number of the link that an end belongs to, -1 when there is none.
func (c *Case) linkOf(end string) int {
	return slices.IndexFunc(c.Topology.Links, func(l *topology.Link) bool {
		return l.Ends[0].String() == end || l.Ends[1].String() == end
	})
}

// vmNICs are the NICs of the case's guest, cabled as the topology's links.
func (c *Case) vmNICs() []vm.NIC {
	var nics []vm.NIC
	for _, end := range c.nicEnds() {
		nics = append(nics, vm.NIC{Model: c.File.NICs[end], Cable: fmt.Sprintf("link%d", c.linkOf(end))})
	}
	return nics
}

// onNICs is the case on the NICs of its guest.
func (c *Case) onNICs() (*Case, error) {
	ports := make(map[string]*topology.Port)
	for i, end := range c.nicEnds() {
		p, err := topology.ParsePort(vm.NICMAC(i))
		if err != nil {
			return nil, err
		}
		ports[end] = p
	}
	return c.Bind(ports)
}

// nics checks the file's nics against the topology.
func (k *compiler) nics() {
	f := k.c.File
	for _, end := range k.c.nicEnds() {
		if !slices.Contains(vm.NICModels(), f.NICs[end]) {
			k.fail(f.ValueAt("nics"), "no network device is called %q: expected %s", f.NICs[end], strings.Join(vm.NICModels(), ", "))
		}
		link := k.c.linkOf(end)
		if link < 0 {
			k.fail(f.ValueAt("nics"), "topology %s has no link with the end %s", k.topology.Name, end)
			continue
		}
		for _, e := range k.topology.Links[link].Ends {
			if f.NICs[e.String()] == "" {
				k.fail(f.ValueAt("nics"), "the other end of the link, %s, is of no hardware: a cable has two ends", e)
			}
		}
	}
}
