package port

import (
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The netdev generic netlink family, since Linux 6.3
// (include/uapi/linux/netdev.h).
const (
	netdevCmdDevGet      = 1
	netdevAttrIfindex    = 1
	netdevAttrFeatures   = 3
	netdevXDPXskZerocopy = 1 << 3 // NETDEV_XDP_ACT_XSK_ZEROCOPY
)

// zeroCopy gives a function that tells by interface index whether the driver has
// AF_XDP zero-copy, nil where the kernel cannot tell.
func zeroCopy() func(index int) *bool {
	family, err := here.GenlFamilyGet("netdev")
	if err != nil {
		return func(int) *bool { return nil }
	}
	return func(index int) *bool {
		// One by one: the messages of a dump lack the flag by which the library
		// knows that there are more.
		req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
		req.AddData(&nl.Genlmsg{Command: netdevCmdDevGet, Version: 1})
		req.AddData(nl.NewRtAttr(netdevAttrIfindex, nl.Uint32Attr(uint32(index))))
		messages, err := req.Execute(unix.NETLINK_GENERIC, 0)
		if err != nil || len(messages) == 0 || len(messages[0]) < nl.SizeofGenlmsg {
			return nil
		}
		features := find(attributes(messages[0][nl.SizeofGenlmsg:]), netdevAttrFeatures)
		if len(features) != 8 {
			return nil
		}
		has := native.Uint64(features)&netdevXDPXskZerocopy != 0
		return &has
	}
}
