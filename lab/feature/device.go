package feature

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// deviceFeatures are devices, queueing disciplines, sockets and BPF.
var deviceFeatures = []Feature{
	{"veth", "veth devices", "2.6.24", "CONFIG_VETH", "veth", func() error { return addVeth() }},
	{"vrf", "VRF devices", "4.3", "CONFIG_NET_VRF", "vrf", func() error { return addVRF() }},
	{"vlan", "VLAN devices", "", "CONFIG_VLAN_8021Q", "8021q", addVLAN},
	{"bridge", "bridge devices", "", "CONFIG_BRIDGE", "bridge",
		func() error { return add(&netlink.Bridge{LinkAttrs: named("br0")}) }},
	{"bridge.vlan_filtering", "bridges that filter VLANs", "3.9", "CONFIG_BRIDGE_VLAN_FILTERING", "bridge", addFilteringBridge},
	{"dummy", "dummy devices", "", "CONFIG_DUMMY", "dummy",
		func() error { return add(&netlink.Dummy{LinkAttrs: named("dummy7")}) }},
	{"ifb", "ifb devices", "2.6.17", "CONFIG_IFB", "ifb",
		func() error { return add(&netlink.Ifb{LinkAttrs: named("ifb7")}) }},
	{"tap", "TAP devices", "", "CONFIG_TUN", "tun", func() error { return openTAP(0) }},
	{"tap.napi-frags", "TAP devices that pass fragments to napi_gro_frags", "4.15", "CONFIG_TUN", "tun",
		func() error { return openTAP(unix.IFF_NAPI | unix.IFF_NAPI_FRAGS) }},
	{"netem", "the netem queueing discipline", "", "CONFIG_NET_SCH_NETEM", "sch_netem", addNetem},
	{"packet", "packet sockets", "", "CONFIG_PACKET", "af_packet", func() error { return openSocket(unix.AF_PACKET) }},
	{"af_xdp", "AF_XDP sockets", "4.18", "CONFIG_XDP_SOCKETS", "", func() error { return openSocket(unix.AF_XDP) }},
	{"bpf", "BPF programs on packets", "4.1", "CONFIG_BPF_SYSCALL", "", func() error {
		return absentIfUnsupported(features.HaveProgramType(ebpf.SchedCLS))
	}},
	{"bpf.lwt", "BPF programs in lightweight tunnels, End.BPF", "4.18", "CONFIG_LWTUNNEL_BPF and CONFIG_IPV6_SEG6_BPF", "", func() error {
		return absentIfUnsupported(features.HaveProgramType(ebpf.LWTSeg6Local))
	}},
	{"tcx", "BPF programs at tcx", "6.6", "CONFIG_NET_XGRESS and CONFIG_BPF_SYSCALL", "", attachTCX},
}

func named(name string) netlink.LinkAttrs {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	return attrs
}

// add creates a device. EOPNOTSUPP is rtnetlink's answer to an unknown kind.
func add(l netlink.Link) error {
	if err := here.LinkAdd(l); err != nil {
		return fmt.Errorf("add a device of type %s: %w", l.Type(), absentIf(err, unix.EOPNOTSUPP))
	}
	return nil
}

func addVeth() error {
	return add(&netlink.Veth{LinkAttrs: named("veth0"), PeerName: "veth1"})
}

// vrfTable is the table of the VRF that addVRF makes.
const vrfTable = 100

func addVRF() error {
	return add(&netlink.Vrf{LinkAttrs: named("vrf0"), Table: vrfTable})
}

// addVLAN needs a device that can carry VLANs: on lo, a kernel that has them
// answers EOPNOTSUPP too.
func addVLAN() error {
	if err := addVeth(); err != nil {
		return err
	}
	below, err := here.LinkByName("veth0")
	if err != nil {
		return fmt.Errorf("find veth0: %w", err)
	}
	attrs := named("vlan0")
	attrs.ParentIndex = below.Attrs().Index
	return add(&netlink.Vlan{LinkAttrs: attrs, VlanId: 100})
}

// addFilteringBridge reads the setting back: a kernel without the option ignores
// it.
func addFilteringBridge() error {
	on := true
	if err := add(&netlink.Bridge{LinkAttrs: named("br0"), VlanFiltering: &on}); err != nil {
		return err
	}
	l, err := here.LinkByName("br0")
	if err != nil {
		return fmt.Errorf("find br0: %w", err)
	}
	if b, ok := l.(*netlink.Bridge); !ok || b.VlanFiltering == nil || !*b.VlanFiltering {
		return Absent(errors.New("vlan_filtering was accepted and ignored"))
	}
	return nil
}

// addNetem puts netem on lo. ENOENT is the answer to an unknown discipline.
func addNetem() error {
	q := netlink.NewNetem(
		netlink.QdiscAttrs{LinkIndex: 1, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		netlink.NetemQdiscAttrs{Latency: 1000, Limit: 10})
	if err := here.QdiscAdd(q); err != nil {
		return fmt.Errorf("add netem: %w", absentIf(err, unix.ENOENT))
	}
	return nil
}

// openTAP creates a TAP device with those flags on top.
func openTAP(flags uint16) error {
	const path = "/dev/net/tun"
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, absentIf(err, unix.ENOENT, unix.ENODEV, unix.ENXIO))
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("tap0")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return fmt.Errorf("create a TAP device: %w", absentIf(err, unix.EINVAL))
	}
	// A kernel that does not know a flag takes the request without it.
	var known uint32
	if n, err := unix.IoctlGetUint32(fd, unix.TUNGETFEATURES); err != nil {
		return fmt.Errorf("ask for the features of TAP devices: %w", err)
	} else {
		known = n
	}
	if missing := uint32(flags) &^ known; missing != 0 {
		return Absent(fmt.Errorf("TAP flags %#x are not known", missing))
	}
	return nil
}

func openSocket(family int) error {
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", absentIf(err, unix.EAFNOSUPPORT))
	}
	return unix.Close(fd)
}

func absentIfUnsupported(err error) error {
	if errors.Is(err, ebpf.ErrNotSupported) {
		return Absent(err)
	}
	return err
}

// attachTCX attaches a program that passes every packet on to lo.
func attachTCX() error {
	const next = -1 // TCX_NEXT
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.SchedCLS,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, next), asm.Return()},
		License:      "GPL",
	})
	if err != nil {
		return fmt.Errorf("load a BPF program: %w", absentIfUnsupported(err))
	}
	defer prog.Close()
	l, err := link.AttachTCX(link.TCXOptions{Interface: 1, Program: prog, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return fmt.Errorf("attach at tcx: %w", absentIfUnsupported(err))
	}
	return l.Close()
}
