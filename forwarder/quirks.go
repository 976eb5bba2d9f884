package forwarder

import "reflect"

// Quirks are the points in which Linux departs from the RFCs, with the words for
// them. True follows Linux. The cases labelled quirk show each of them, and what
// the RFC has instead.
type Quirks struct {
	// NoICMP: an endpoint drops in silence where RFC 8986 answers with an
	// ICMPv6 parameter problem (seg6_local.c, every "goto drop"; RFC 8986
	// section 4.1, S09 to S11, and section 4.1.1).
	NoICMP bool `quirk:"no-icmp"`
	// HopLimitAfterEdit: End and its relatives find a hop limit of 1 only when
	// the packet is forwarded, after they changed it, so that the ICMPv6 time
	// exceeded shows the changed packet (RFC 8986 section 4.1, S05 to S07).
	HopLimitAfterEdit bool `quirk:"hop-limit-after-edit"`
	// InnerHopLimitKept: a headend passes the hop limit on to the outer header
	// and decrements it there. RFC 2473 section 3.1, to which RFC 8986 section
	// 5.1 refers, decrements that of the inner packet and gives the outer
	// header one of its own.
	InnerHopLimitKept bool `quirk:"inner-hop-limit-kept"`
	// L2TakesOuterHeaders: after the router decapsulated a packet to one of its
	// own addresses (ipv6_srh_rcv), an L2 encapsulation takes the outer headers
	// along as if they belonged to the MAC header (skb_reset_mac_len in
	// __netif_receive_skb_core).
	L2TakesOuterHeaders bool `quirk:"l2-takes-outer-headers"`
	// SolicitFromLinkLocal: without a link-local address on the device, a
	// neighbour is asked for only on behalf of a packet from an address of
	// that device (ndisc_solicit). RFC 4861 section 7.2.2 takes any address
	// of the device.
	SolicitFromLinkLocal bool `quirk:"solicit-from-link-local"`
	// NoDSCPCopy: the outer traffic class of an IPv4 packet is 0, not the
	// packet's type of service (RFC 2983 section 3.1, the uniform model that
	// Linux keeps to for IPv6).
	NoDSCPCopy bool `quirk:"no-dscp-copy"`
	// UpperLayerDrop: End, End.X and End.T without an SRH or with segments
	// left 0 drop; RFC 8986 section 4.1.1 processes the upper layer, where an
	// ICMPv6 echo request is answered.
	UpperLayerDrop bool `quirk:"upper-layer-drop"`
	// TLVsWithoutPad1: a Pad1 TLV is read as if it had a length
	// (seg6_validate_srh), so that an SRH with one is mostly refused.
	TLVsWithoutPad1 bool `quirk:"tlvs-without-pad1"`
	// HMACAtTransport: the HMAC is looked for in the first extension header,
	// SRH or not (seg6_hmac_validate_skb reads skb_transport_header).
	HMACAtTransport bool `quirk:"hmac-at-transport"`
	// CSIDIgnoresSRH: while a NEXT-CSID argument is left, nothing of the SRH
	// is looked at, not even its HMAC (end_next_csid_core).
	CSIDIgnoresSRH bool `quirk:"csid-ignores-srh"`
	// CSIDWithoutPSP: with both flavors psp is ignored (input_action_end).
	CSIDWithoutPSP bool `quirk:"csid-without-psp"`
	// DX2DropsLLC: End.DX2 drops frames whose EtherType is a length
	// (eth_proto_is_802_3).
	DX2DropsLLC bool `quirk:"dx2-drops-llc"`
	// DecapIgnoresOptions: in an IPv4 packet that was decapsulated for the node
	// itself, the upper layer is looked for right behind the 20 bytes of the
	// header, IP options or not (skb_set_transport_header in
	// input_action_end_dx4 and end_dt_vrf_core).
	DecapIgnoresOptions bool `quirk:"decap-ignores-options"`
	// DX4NextHopUnused: a connected next hop of End.DX4 chooses the device
	// only; the neighbour asked for is the inner destination
	// (ip_neigh_for_gw).
	DX4NextHopUnused bool `quirk:"dx4-next-hop-unused"`
}

// LinuxQuirks are all of them: what the kernel does.
func LinuxQuirks() Quirks {
	var q Quirks
	for _, name := range QuirkNames() {
		q.Set(name, true)
	}
	return q
}

// QuirkNames are the words for the quirks.
func QuirkNames() (names []string) {
	t := reflect.TypeFor[Quirks]()
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("quirk"))
	}
	return names
}

// Set turns the quirk of that name on or off. It is false when there is none.
func (q *Quirks) Set(name string, on bool) bool {
	v := reflect.ValueOf(q).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("quirk") == name {
			v.Field(i).SetBool(on)
			return true
		}
	}
	return false
}
