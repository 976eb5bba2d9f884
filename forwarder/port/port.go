// Package port moves Ethernet frames in and out: memory for tests, packet
// sockets for any device, AF_XDP sockets for speed. It looks into no frame but for VLAN tags that the
// kernel keeps beside it, and knows nothing of what is done with them.
//
// On a device of the host the kernel receives every frame too. Whoever
// forwards in its place takes the kernel's addresses off the device.
package port

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf/link"
	"github.com/safchain/ethtool"
)

// ErrStopped is what Receive returns after Stop.
var ErrStopped = errors.New("port is stopped")

// Port is one end of a link.
type Port interface {
	// Queues are the ways in, of which each has the frames that the others have
	// not: those that the device spreads over its receive queues.
	Queues() []Queue
	// Sender is a way out of the port for one goroutine.
	Sender() (Sender, error)
	// Stop ends a Receive that waits, and every later one.
	Stop()
	// Close gives everything back. The senders must be done.
	Close() error
	// String says what the port is: its kind and its device, and with AF_XDP
	// whether frames are copied and how many queues are served.
	String() string
}

// Queue is a way in. Only one goroutine may receive from it.
type Queue interface {
	// Receive waits for frames and hands them to take, which may keep none:
	// their memory is used again. It returns after a batch.
	Receive(take func(frame []byte)) error
}

// Sender sends in batches. It belongs to one goroutine.
type Sender interface {
	// Send queues a frame, which may be used again at once.
	Send(frame []byte) error
	// Flush sends what is queued. Frames that the device does not take are
	// lost and counted as an error.
	Flush() error
}

// batch is how many frames are sent by one system call.
const batch = 64

// Kind is a way to reach a device.
type Kind string

// The kinds. With AF_XDP no packet socket sees what the device receives.
const (
	XDPNative  Kind = "xdp-native"
	XDPGeneric Kind = "xdp-generic"
	Packet     Kind = "packet"
	TAP        Kind = "tap"
)

// Choose is what a device of the namespace that the calling thread is in is tried as
// when nobody says. Hardware is tried by AF_XDP first, which takes all frames away from
// the kernel, unless the kernel has an address there. A virtual device's frames can
// have checksums yet to be computed, which AF_XDP does not tell of, and captures on it
// are to see all: it is a packet socket.
func Choose(device string) []Kind {
	if hardware(device) && !addressed(device) {
		return []Kind{XDPNative, XDPGeneric, Packet}
	}
	return []Kind{Packet}
}

// hardware tells whether a device is on a bus.
func hardware(device string) bool {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return false
	}
	defer tool.Close()
	bus, err := tool.BusInfo(device)
	return err == nil && bus != ""
}

// addressed tells whether the kernel has an address on a device, other than the one
// that it gives itself.
func addressed(device string) bool {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return false
	}
	addrs, err := dev.Addrs()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err != nil || !p.Addr().IsLinkLocalUnicast()
	})
}

// kinds opens each of them.
var kinds = map[Kind]func(device string) (Port, error){
	XDPNative:  func(device string) (Port, error) { return openXDP(device, "native", link.XDPDriverMode) },
	XDPGeneric: func(device string) (Port, error) { return openXDP(device, "generic", link.XDPGenericMode) },
	TAP:        func(device string) (Port, error) { return openTAP(device) },
	Packet:     func(device string) (Port, error) { return openPacket(device) },
}

// Open opens a device of the namespace that the calling thread is in: the
// first of the kinds that works, those of Choose when none is named.
func Open(device string, try ...Kind) (Port, error) {
	if len(try) == 0 {
		try = Choose(device)
	}
	var errs []error
	for _, kind := range try {
		open := kinds[kind]
		if open == nil {
			return nil, fmt.Errorf("port %s: no kind is called %q", device, kind)
		}
		p, err := open(device)
		if err == nil {
			return p, nil
		}
		errs = append(errs, fmt.Errorf("port %s: %s: %w", device, kind, err))
	}
	return nil, errors.Join(errs...)
}
