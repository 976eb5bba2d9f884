package lab

import (
	"fmt"
	"os"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"seg6lab/lab/topology"
)

// TAPMAC is the Ethernet address of the devices that Node.TAP makes.
var TAPMAC = topology.MAC{0x02, 0, 0, 0xff, 0, 1}

// TAP makes a TAP device in the node whose frames the kernel hands to
// napi_gro_frags in the pieces in which they are written (IFF_NAPI_FRAGS), and
// sets it up. The device goes when the file is closed.
func (n *Node) TAP(name string, gro bool) (*os.File, error) {
	var file *os.File
	err := n.Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open /dev/net/tun: %w", err)
		}
		file = os.NewFile(uintptr(fd), name)
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_NAPI | unix.IFF_NAPI_FRAGS)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return fmt.Errorf("make the device: %w", err)
		}
		link, err := here.LinkByName(name)
		if err != nil {
			return err
		}
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		if err := tool.Change(name, map[string]bool{"rx-gro": gro}); err != nil {
			return fmt.Errorf("set rx-gro: %w", err)
		}
		if err := here.LinkSetHardwareAddr(link, TAPMAC[:]); err != nil {
			return fmt.Errorf("set the address: %w", err)
		}
		return here.LinkSetUp(&netlink.Device{LinkAttrs: *link.Attrs()})
	})
	if err != nil {
		if file != nil {
			file.Close()
		}
		return nil, fmt.Errorf("node %s: TAP device %s: %w", n.Name, name, err)
	}
	return file, nil
}
