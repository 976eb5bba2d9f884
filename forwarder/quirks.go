package forwarder

// Quirks are the points in which Linux departs from the RFCs. True follows
// Linux.
type Quirks struct {
	// NoICMP: an endpoint drops in silence where RFC 8986 answers with an
	// ICMPv6 parameter problem (seg6_local.c, every "goto drop"; RFC 8986
	// section 4.1, S09 to S11, and section 4.1.1).
	NoICMP bool
	// HopLimitAfterEdit: End and its relatives find a hop limit of 1 only when
	// the packet is forwarded, after they changed it, so that the ICMPv6 time
	// exceeded shows the changed packet (RFC 8986 section 4.1, S05 to S07).
	HopLimitAfterEdit bool
	// InnerHopLimitKept: a headend passes the hop limit on to the outer header
	// and decrements it there. RFC 2473 section 3.1, to which RFC 8986 section
	// 5.1 refers, decrements that of the inner packet and gives the outer
	// header one of its own.
	InnerHopLimitKept bool
	// L2TakesOuterHeaders: after the router decapsulated a packet to one of its
	// own addresses (ipv6_srh_rcv), an L2 encapsulation takes the outer headers
	// along as if they belonged to the MAC header (skb_reset_mac_len in
	// __netif_receive_skb_core).
	L2TakesOuterHeaders bool
	// SolicitFromLinkLocal: without a link-local address on the device, a
	// neighbour is asked for only on behalf of a packet from an address of
	// that device (ndisc_solicit). RFC 4861 section 7.2.2 takes any address
	// of the device.
	SolicitFromLinkLocal bool
	// NoDSCPCopy: the outer traffic class of an IPv4 packet is 0, not the
	// packet's type of service (RFC 2983 section 3.1, the uniform model that
	// Linux keeps to for IPv6).
	NoDSCPCopy bool
	// UpperLayerDrop: End, End.X and End.T without an SRH or with segments
	// left 0 drop; RFC 8986 section 4.1.1 processes the upper layer, where an
	// ICMPv6 echo request is answered.
	UpperLayerDrop bool
	// TLVsWithoutPad1: a Pad1 TLV is read as if it had a length
	// (seg6_validate_srh), so that an SRH with one is mostly refused.
	TLVsWithoutPad1 bool
	// HMACAtTransport: the HMAC is looked for in the first extension header,
	// SRH or not (seg6_hmac_validate_skb reads skb_transport_header).
	HMACAtTransport bool
	// CSIDIgnoresSRH: while a NEXT-CSID argument is left, nothing of the SRH
	// is looked at, not even its HMAC (end_next_csid_core).
	CSIDIgnoresSRH bool
	// CSIDWithoutPSP: with both flavors psp is ignored (input_action_end).
	CSIDWithoutPSP bool
	// DX2DropsLLC: End.DX2 drops frames whose EtherType is a length
	// (eth_proto_is_802_3).
	DX2DropsLLC bool
	// DecapIgnoresOptions: in an IPv4 packet that was decapsulated for the node
	// itself, the upper layer is looked for right behind the 20 bytes of the
	// header, IP options or not (skb_set_transport_header in
	// input_action_end_dx4 and end_dt_vrf_core).
	DecapIgnoresOptions bool
	// DX4NextHopUnused: a connected next hop of End.DX4 chooses the device
	// only; the neighbour asked for is the inner destination
	// (ip_neigh_for_gw).
	DX4NextHopUnused bool
}

// LinuxQuirks are all of them: what the kernel does.
func LinuxQuirks() Quirks {
	return Quirks{
		NoICMP: true, HopLimitAfterEdit: true, InnerHopLimitKept: true, NoDSCPCopy: true, L2TakesOuterHeaders: true, SolicitFromLinkLocal: true, UpperLayerDrop: true,
		TLVsWithoutPad1: true, HMACAtTransport: true, CSIDIgnoresSRH: true, CSIDWithoutPSP: true, DX2DropsLLC: true, DecapIgnoresOptions: true, DX4NextHopUnused: true,
	}
}
