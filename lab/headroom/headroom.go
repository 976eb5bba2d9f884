// Package headroom makes frames reach a node as a driver would deliver them:
// with a chosen headroom, and as clones.
//
// It changes one link of the lab: the device that a frame is sent from with a
// packet socket, and the device of the node that receives it. What it attaches
// is gone once its undo is closed. It sends nothing and observes nothing: the
// state that was reached is for the probe to say.
package headroom

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/lab/nsthread"
)

// Headroom is skb->data - skb->head at the network header, in bytes, as seg6
// finds it.
type Headroom int

const (
	// Veth is what a packet socket gives a frame: LL_RESERVED_SPACE of
	// Ethernet. Nothing is changed for it.
	Veth Headroom = 16
	// TAP is what a TAP device, virtio and an AF_XDP socket leave.
	TAP Headroom = 78
	// IXGBE is what ixgbe leaves.
	IXGBE Headroom = 206
	// Max is the largest headroom that can be asked for by number.
	Max Headroom = 272
	// Page is a frame in a page of its own, as native XDP leaves it: 270
	// bytes over veth.
	Page Headroom = -1
)

// names are the words of a case for a headroom.
var names = map[string]Headroom{"": Veth, "veth": Veth, "tap": TAP, "ixgbe": IXGBE, "page": Page}

// Parse reads veth, tap, ixgbe, page, or a number of bytes.
func Parse(s string) (Headroom, error) {
	if h, ok := names[s]; ok {
		return h, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || Headroom(n) < Veth || Headroom(n) > Max {
		return 0, fmt.Errorf("headroom %q: want veth, tap, ixgbe, page or a number from %d to %d", s, Veth, Max)
	}
	return Headroom(n), nil
}

// Bytes is the headroom that a probe must find at seg6.
func (h Headroom) Bytes() int {
	if h == Page {
		return 270 // XDP_PACKET_HEADROOM and the Ethernet header
	}
	return int(h)
}

// A Clone is how the sk_buff shares its data when it reaches seg6.
type Clone string

const (
	// NotCloned: nobody shares the data.
	NotCloned Clone = "none"
	// DataCloned: skb->cloned is set, the other sk_buff is gone. The state
	// behind a flooding bridge or a mirror whose copy was consumed.
	DataCloned Clone = "data"
	// HeaderCloned: a packet socket on the receiving device shares the data,
	// header and all.
	HeaderCloned Clone = "header"
)

// ParseClone reads none, data or header; "" is none.
func ParseClone(s string) (Clone, error) {
	switch c := Clone(s); c {
	case "":
		return NotCloned, nil
	case NotCloned, DataCloned, HeaderCloned:
		return c, nil
	}
	return "", fmt.Errorf("clone %q: want none, data or header", s)
}

// An End is a device in a namespace.
type End struct {
	NetNS  int // an open descriptor of the namespace
	Device string
}

// A Profile is how frames shall arrive. The zero value of Clone is NotCloned.
type Profile struct {
	Headroom Headroom
	Clone    Clone
	// AccelVLAN takes an 802.1Q tag out of the frame and puts it into
	// skb->vlan_tci before the frame crosses the link, as a driver with
	// NETIF_F_HW_VLAN_CTAG_RX does. Otherwise the receiving stack does it.
	AccelVLAN bool
}

// Applied is a profile in force.
type Applied struct {
	coll  *ebpf.Collection
	undos []io.Closer
}

// Apply puts a profile in force for IPv4 and IPv6 frames, untagged or with one
// 802.1Q tag, that a packet socket sends from the one end of a veth pair to the
// other. A tagged frame has 20 bytes of headroom at the least, wherever its tag is.
func Apply(from, to End, p Profile) (_ *Applied, err error) {
	a := &Applied{}
	defer func() {
		if err != nil {
			a.Close()
			err = fmt.Errorf("headroom: %s to %s: %w", from.Device, to.Device, err)
		}
	}()
	if p.Headroom == Page && (p.Clone == DataCloned || p.AccelVLAN) {
		return nil, errors.New("headroom page goes neither with clone data nor with accelerated VLAN tags: XDP gives every frame a page of its own")
	}
	if err := a.load(); err != nil {
		return nil, err
	}
	if p.Headroom != Page {
		if err := a.SetHeadroom(p.Headroom); err != nil {
			return nil, err
		}
		for name, set := range map[string]bool{bpfVarClone: p.Clone == DataCloned, bpfVarAccelerate: p.AccelVLAN} {
			if !set {
				continue
			}
			if err := a.coll.Variables[name].Set(uint32(1)); err != nil {
				return nil, fmt.Errorf("variable %s: %w", name, err)
			}
		}
		err := in(from, func(index int) error {
			return a.keep(link.AttachTCX(link.TCXOptions{
				Interface: index, Program: a.coll.Programs[bpfProgPrepare], Attach: ebpf.AttachTCXEgress,
			}))
		})
		if err != nil {
			return nil, fmt.Errorf("tcx egress: %w", err)
		}
	} else {
		err := in(to, func(index int) error {
			return a.keep(link.AttachXDP(link.XDPOptions{
				Interface: index, Program: a.coll.Programs[bpfProgPass], Flags: link.XDPDriverMode,
			}))
		})
		if err != nil {
			return nil, fmt.Errorf("native XDP: %w", err)
		}
	}
	if p.Clone == HeaderCloned {
		err := in(to, func(index int) error { return a.tap(index) })
		if err != nil {
			return nil, fmt.Errorf("packet socket: %w", err)
		}
	}
	return a, nil
}

// SetHeadroom changes the headroom of a profile in force that is not Page, to
// another that is not Page. It is far cheaper than a new profile.
func (a *Applied) SetHeadroom(h Headroom) error {
	if h < Veth || h > Max {
		return fmt.Errorf("headroom %d is not within %d to %d", h, Veth, Max)
	}
	if err := a.coll.Variables[bpfVarTarget].Set(uint32(h)); err != nil {
		return fmt.Errorf("headroom %d: %w", h, err)
	}
	return nil
}

func (a *Applied) load() error {
	if err := rlimit.RemoveMemlock(); err != nil {
		return err
	}
	spec, err := loadBpf()
	if err != nil {
		return err
	}
	a.coll, err = ebpf.NewCollection(spec)
	return err
}

func (a *Applied) keep(l link.Link, err error) error {
	if err == nil {
		a.undos = append(a.undos, l)
	}
	return err
}

// tapBuffer bounds the clones that wait in the packet socket, each with the
// memory of its frame: once it is full, frames arrive uncloned.
const tapBuffer = 256 << 20

// tap opens a packet socket that is never read, because a reader on another
// CPU could drop the clone before seg6 sees the frame.
func (a *Applied) tap(index int) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	a.undos = append(a.undos, descriptor(fd))
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, tapBuffer); err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: index})
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

type descriptor int

func (d descriptor) Close() error { return unix.Close(int(d)) }

// Failed is the number of frames that could not be changed and were dropped:
// those without an IPv4 or IPv6 header behind the Ethernet header and its tag,
// and those of more than 16 KB.
func (a *Applied) Failed() (uint64, error) {
	var n uint64
	if err := a.coll.Variables[bpfVarFailed].Get(&n); err != nil {
		return 0, fmt.Errorf("headroom: count of failures: %w", err)
	}
	return n, nil
}

// Close undoes the profile.
func (a *Applied) Close() error {
	var errs []error
	for _, u := range a.undos {
		errs = append(errs, u.Close())
	}
	a.undos = nil
	if a.coll != nil {
		a.coll.Close()
	}
	return errors.Join(errs...)
}

// in runs f with the index of the end's device, in the end's namespace.
func in(e End, f func(index int) error) error {
	return nsthread.In(netns.NsHandle(e.NetNS), func() error {
		dev, err := net.InterfaceByName(e.Device)
		if err != nil {
			return err
		}
		return f(dev.Index)
	})
}
