package lab

import (
	"errors"
	"os"
	"slices"

	"seg6lab/lab/feature"
	"seg6lab/lab/topology"
)

// Requires names the features that a topology needs from the kernel, sorted.
// What only a Run line uses is not known and not among them.
func Requires(t *topology.Topology) []string {
	need := make(map[string]bool)
	for _, l := range t.Links {
		if t.Port(l.Ends[0]) == nil && t.Port(l.Ends[1]) == nil {
			need["veth"] = true
			break
		}
	}
	outside := t.Outside()
	for name, n := range t.Nodes {
		if outside[name] || n.Forwards() {
			continue // the kernel only carries its frames
		}
		for _, f := range []struct {
			used bool
			name string
		}{
			{len(n.VRFs) > 0, "vrf"},
			{len(n.VLANs) > 0, "vlan"},
			{len(n.Bridges) > 0, "bridge"},
			{len(n.Dummies) > 0, "dummy"},
			{len(n.IFBs) > 0, "ifb"},
			{len(n.Netem) > 0, "netem"},
			{n.Seg6 != nil && n.Seg6.TunSrc.IsValid(), "seg6"},
			{n.Seg6 != nil && len(n.Seg6.HMAC) > 0, "seg6.hmac"},
		} {
			if f.used {
				need[f.name] = true
			}
		}
		for _, b := range n.Bridges {
			if b.VLANFiltering {
				need["bridge.vlan_filtering"] = true
			}
		}
		// What an encapsulation needs follows from the form that goes to the
		// kernel; the numbers of devices do not matter.
		c := &configurator{index: anyIndex(n)}
		for _, r := range n.Routes {
			if r.Encap == nil {
				continue
			}
			if encap, err := c.encap(r.Encap); err == nil {
				for _, name := range feature.Needs(encap) {
					need[name] = true
				}
			}
		}
	}
	var names []string
	for name := range need {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// anyIndex gives a number to every device that the node's routes can name.
func anyIndex(n *topology.Node) map[string]int {
	index := map[string]int{}
	for _, r := range n.Routes {
		if r.Encap != nil && r.Encap.Seg6Local != nil {
			index[r.Encap.Seg6Local.IIF] = 1
			index[r.Encap.Seg6Local.OIF] = 1
		}
	}
	return index
}

// Supported probes the named features. The error joins a *feature.Missing for
// each that the kernel lacks, and whatever kept a probe from an answer. Without
// root no probe can answer: the error is ErrNotRoot.
func Supported(names []string) error {
	if os.Geteuid() != 0 {
		return ErrNotRoot
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, feature.Probe(name))
	}
	return errors.Join(errs...)
}
