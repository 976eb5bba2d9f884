package skb

// MacOffset is skb->mac_header: an offset from skb->head that wraps at 65536.
func (s *SKB) MacOffset() uint16 { return s.mac }

// NetworkOffset is skb->network_header, an offset from skb->head.
func (s *SKB) NetworkOffset() uint16 { return s.network }

// TransportOffset is skb->transport_header, an offset from skb->head.
func (s *SKB) TransportOffset() uint16 { return s.transport }

// MacLen is skb->mac_len: how many bytes of link layer seg6 takes along.
func (s *SKB) MacLen() int { return int(s.macLen) }

// MacWasSet is skb_mac_header_was_set.
func (s *SKB) MacWasSet() bool { return s.mac != macUnset }

// ResetMac is skb_reset_mac_header: the MAC header begins at data.
func (s *SKB) ResetMac() { s.mac = uint16(s.data) }

// ResetNetwork is skb_reset_network_header.
func (s *SKB) ResetNetwork() { s.network = uint16(s.data) }

// SetTransport is skb_set_transport_header, n bytes after data.
func (s *SKB) SetTransport(n int) { s.transport = uint16(s.data + n) }

// ResetMacLen is skb_reset_mac_len: what lies between the two headers.
func (s *SKB) ResetMacLen() { s.macLen = s.network - s.mac }

// RebuildMac is skb_mac_header_rebuild: the MAC header moves to just before
// data. With less headroom than mac_len the offset wraps and the kernel writes
// some 64 KB past the head; the model writes nothing then and counts a stray.
func (s *SKB) RebuildMac() {
	if !s.MacWasSet() {
		return
	}
	old := int(s.mac)
	s.mac = uint16(s.data) - s.macLen
	to, n := int(s.mac), int(s.macLen)
	if to+n > len(s.head.mem) || old+n > len(s.head.mem) {
		s.kernel.Stray++
		return
	}
	copy(s.head.mem[to:to+n], s.head.mem[old:old+n])
}
