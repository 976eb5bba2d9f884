package topology

import (
	"maps"
	"slices"

	"seg6lab/lab/topology/strictyaml"
)

// QuirkNames are the words for the points in which Linux departs from the RFCs,
// and a forwarder with it or not; forwarder.Quirks says what each of them is.
// AllQuirks is the word for all others.
var QuirkNames = []string{
	"no-icmp", "hop-limit-after-edit", "inner-hop-limit-kept", "l2-takes-outer-headers", "solicit-from-link-local",
	"no-dscp-copy", "upper-layer-drop", "tlvs-without-pad1", "hmac-at-transport", "csid-ignores-srh",
	"csid-without-psp", "dx2-drops-llc", "decap-ignores-options", "dx4-next-hop-unused",
}

// AllQuirks stands for the quirks that are not named.
const AllQuirks = "all"

func (n *node) quirks() {
	words := append(slices.Clone(QuirkNames), AllQuirks)
	for _, name := range slices.Sorted(maps.Keys(n.Quirks)) {
		at := "quirks." + name
		switch {
		case !slices.Contains(words, name):
			n.fail(n.KeyAt(at), n.path+"."+at, "%q is not known%s", name, strictyaml.Suggest(name, words))
		case !n.Forwards():
			n.fail(n.KeyAt(at), n.path+"."+at, "the kernel has it: only a node with dataplane: forwarder can be without")
		}
	}
}
