package skb

import (
	"fmt"
	"slices"
	"strings"
)

// Fix names a change to the kernel that the model can be run with or without.
type Fix string

// The fixes.
const (
	// L2Cow: the L2 modes ask skb_cow_head for room for the whole
	// encapsulation instead of calling pskb_expand_head for every packet.
	L2Cow Fix = "l2-cow"
	// L2CowMacLenOnly: the L2 modes ask skb_cow_head for mac_len alone.
	L2CowMacLenOnly Fix = "l2-cow-maclen-only"
	// MacHeaderRoom: the room kept for the outgoing link layer is never less
	// than mac_len, so that the MAC header always fits in front.
	MacHeaderRoom Fix = "mac-header-room"
	// EndUncow: endpoints make a shared head private before they edit it.
	EndUncow Fix = "end-uncow"
)

// Fixes lists every fix.
func Fixes() []Fix { return []Fix{L2Cow, L2CowMacLenOnly, MacHeaderRoom, EndUncow} }

// Profile is a kernel, told by the fixes that it has.
type Profile []Fix

// ParseProfile reads fixes separated by commas. The empty string is a kernel
// without any.
func ParseProfile(s string) (Profile, error) {
	var p Profile
	for _, name := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		if !slices.Contains(Fixes(), Fix(name)) {
			return nil, fmt.Errorf("kernel profile: no fix is called %q; there are %v", name, Fixes())
		}
		p = append(p, Fix(name))
	}
	return p, nil
}

// Has reports whether the kernel has the fix.
func (p Profile) Has(f Fix) bool { return slices.Contains(p, f) }

// Site is the place in seg6 that asked for a reallocation.
type Site string

// The sites.
const (
	// SiteL2 is seg6_do_srh itself, before an L2 encapsulation.
	SiteL2 Site = "l2"
	// SiteHeader is the skb_cow_head for the outer header in
	// __seg6_do_srh_encap, seg6_do_srh_encap_red or __seg6_do_srh_inline.
	SiteHeader Site = "header"
	// SiteLinkLayer is the skb_cow_head for the outgoing link layer in
	// seg6_input_core, with a cold cache only.
	SiteLinkLayer Site = "link-layer"
	// SiteEndpoint is an endpoint that makes the head private.
	SiteEndpoint Site = "endpoint"
)

// Expansion is one call of pskb_expand_head. Sizes are in bytes.
type Expansion struct {
	By           Site
	NHead, NTail int
	// Headroom before the call.
	Headroom int
	// Object is the size of the new allocation.
	Object int
	// Copied is how much was copied into it.
	Copied int
}

// Kernel is where buffers come from and where their reallocations are counted.
type Kernel struct {
	Profile Profile
	// InitOnAlloc is the boot parameter init_on_alloc: every allocation is
	// zeroed.
	InitOnAlloc bool

	// Expansions in the order in which they happened.
	Expansions []Expansion
	// Copied and Zeroed bytes of all expansions.
	Copied, Zeroed int
	// Stray counts copies of a MAC header to outside of the head.
	Stray int
}

func (k *Kernel) note(e Expansion) {
	k.Expansions = append(k.Expansions, e)
	k.Copied += e.Copied
	if k.InitOnAlloc {
		k.Zeroed += e.Object
	}
}
