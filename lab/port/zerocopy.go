package port

import (
	"github.com/vishvananda/netlink"
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

// zeroCopy tells by interface index whether the driver has AF_XDP zero-copy. A
// kernel that cannot tell gives none.
func zeroCopy() map[int]bool {
	family, err := here.GenlFamilyGet("netdev")
	if err != nil {
		return nil
	}
	req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_DUMP)
	req.AddData(&nl.Genlmsg{Command: netdevCmdDevGet, Version: 1})
	messages, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil && err != netlink.ErrDumpInterrupted {
		return nil
	}
	has := make(map[int]bool)
	for _, m := range messages {
		if len(m) < nl.SizeofGenlmsg {
			continue
		}
		attrs := attributes(m[nl.SizeofGenlmsg:])
		index, features := find(attrs, netdevAttrIfindex), find(attrs, netdevAttrFeatures)
		if len(index) == 4 && len(features) == 8 {
			has[int(native.Uint32(index))] = native.Uint64(features)&netdevXDPXskZerocopy != 0
		}
	}
	return has
}
