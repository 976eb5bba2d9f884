package forwarder

import "seg6lab/forwarder/skb"

// headendRow is a headend behaviour: a row of the table below and nothing
// else.
type headendRow struct {
	// mode is iproute2's word, name and section are the RFC's.
	mode, name, section string
	// reduced leaves the first segment out of the SRH, l2 takes the frame
	// instead of the packet.
	reduced, l2 bool
	// insert puts the SRH into the packet instead of a header in front.
	insert bool
	// ipv4: the route may be an IPv4 route.
	ipv4 bool
	// model is the mode of the sk_buff account.
	model skb.Mode
}

var headends = []headendRow{
	{mode: "encap", name: "H.Encaps", section: "RFC 8986 5.1", ipv4: true, model: skb.Encap},
	{mode: "encap.red", name: "H.Encaps.Red", section: "RFC 8986 5.2", ipv4: true, reduced: true, model: skb.EncapRed},
	{mode: "l2encap", name: "H.Encaps.L2", section: "RFC 8986 5.3", ipv4: true, l2: true, model: skb.L2Encap},
	{mode: "l2encap.red", name: "H.Encaps.L2.Red", section: "RFC 8986 5.4", ipv4: true, l2: true, reduced: true, model: skb.L2EncapRed},
	{mode: "inline", name: "H.Insert", section: "draft-filsfils-spring-srv6-net-pgm-insertion", insert: true, model: skb.Inline},
}

// attr is a set of attributes of encap seg6local.
type attr uint

const (
	attrNH4 attr = 1 << iota
	attrNH6
	attrOIF
	attrTable
	attrVRFTable
	attrSRH
)

var attrNames = []string{"nh4", "nh6", "oif", "table", "vrftable", "srh"}

// flavor is a set of flavors (RFC 8986 section 4.16, RFC 9800 section 4).
type flavor uint

const (
	psp flavor = 1 << iota
	usp
	usd
	nextCSID
)

var flavorNames = []string{"psp", "usp", "usd", "next-csid"}

// behaviour is an endpoint behaviour: a row of the table below and nothing
// else. What End and its relatives have in common is in end.go, what the
// decapsulating ones have in common in decap.go.
type behaviour struct {
	// action is iproute2's word, section the RFC's.
	action, section string
	// needs are the attributes without which the route is refused, takes those
	// that it may have besides.
	needs, takes attr
	flavors      flavor
	// run takes a packet whose destination is the SID. It is false when the
	// kernel would count an error.
	run func(w *Worker, p *packet, e *endpoint) bool
}

var behaviours = []behaviour{
	{action: "End", section: "RFC 8986 4.1", flavors: psp | usp | usd | nextCSID, run: (*Worker).end},
	{action: "End.X", section: "RFC 8986 4.2", needs: attrNH6, takes: attrOIF, flavors: psp | usp | usd | nextCSID, run: (*Worker).end},
	{action: "End.T", section: "RFC 8986 4.3", needs: attrTable, flavors: psp | usp | usd | nextCSID, run: (*Worker).end},
	{action: "End.DX6", section: "RFC 8986 4.4", needs: attrNH6, flavors: nextCSID, run: (*Worker).endDX6},
	{action: "End.DX4", section: "RFC 8986 4.5", needs: attrNH4, flavors: nextCSID, run: (*Worker).endDX4},
	{action: "End.DT6", section: "RFC 8986 4.6", takes: attrTable | attrVRFTable, flavors: nextCSID, run: (*Worker).endDT6},
	{action: "End.DT4", section: "RFC 8986 4.7", needs: attrVRFTable, flavors: nextCSID, run: (*Worker).endDT4},
	{action: "End.DT46", section: "RFC 8986 4.8", needs: attrVRFTable, flavors: nextCSID, run: (*Worker).endDT46},
	{action: "End.DX2", section: "RFC 8986 4.9", needs: attrOIF, flavors: nextCSID, run: (*Worker).endDX2},
	{action: "End.B6", section: "draft-filsfils-spring-srv6-net-pgm-insertion", needs: attrSRH, run: (*Worker).endB6Insert},
	{action: "End.B6.Encaps", section: "RFC 8986 4.13", needs: attrSRH, run: (*Worker).endB6Encaps},
}
