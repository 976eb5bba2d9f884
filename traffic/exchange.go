package traffic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Arrival is a frame that arrived at a port of an Exchange.
type Arrival struct {
	Port  int
	Frame []byte
}

func (a Arrival) String() string { return fmt.Sprintf("port %d: %x", a.Port, a.Frame) }

// Equal tells whether both are the same frame at the same port.
func (a Arrival) Equal(b Arrival) bool { return a.Port == b.Port && bytes.Equal(a.Frame, b.Frame) }

// Exchange gives frames to a router in the kernel and collects what it sends
// for each of them. It has the far ends of the router's devices, whose own
// kernels must be silent. A marker follows each frame, which the router has to
// forward from port 0 to port 1: what it sent before that answers the frame.
type Exchange struct {
	sockets []int
	marker  []byte
	serial  uint32
	buf     []byte
	oob     [256]byte
}

const (
	// exchangeBuffer in bytes is more than one frame makes a router send.
	exchangeBuffer = 4 << 20
	// markerTail in bytes is how much of a marker must come out as it was.
	markerTail = 12
	// exchangePatience is how long a marker may take.
	exchangePatience = 20 * time.Second
)

// NewExchange is an exchange without ports. The last four bytes of the marker
// become a number; the router must leave its last twelve as they are.
func NewExchange(marker []byte) *Exchange {
	return &Exchange{marker: bytes.Clone(marker), buf: make([]byte, captureSnap)}
}

// Add makes an interface of the network namespace that the calling thread is in
// the next port.
func (x *Exchange) Add(ifname string) error {
	fd, index, err := packetSocket(ifname, 0)
	if err != nil {
		return err
	}
	x.sockets = append(x.sockets, fd)
	for _, o := range []struct{ level, option, value int }{
		{unix.SOL_PACKET, unix.PACKET_AUXDATA, 1},
		{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, exchangeBuffer},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.option, o.value); err != nil {
			return fmt.Errorf("packet socket on %s: option %d: %w", ifname, o.option, err)
		}
	}
	all := binary.NativeEndian.Uint16([]byte{unix.ETH_P_ALL >> 8, unix.ETH_P_ALL & 0xff})
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}); err != nil {
		return fmt.Errorf("packet socket on %s: bind: %w", ifname, err)
	}
	return nil
}

// Close closes the sockets.
func (x *Exchange) Close() error {
	var errs []error
	for _, fd := range x.sockets {
		errs = append(errs, unix.Close(fd))
	}
	x.sockets = nil
	return errors.Join(errs...)
}

// Through is what the router sends for a frame that arrives at one of its
// ports, at port 1 first. Reports of multicast listeners are left out.
func (x *Exchange) Through(port int, frame []byte) (out []Arrival, err error) {
	x.serial++
	binary.BigEndian.PutUint32(x.marker[len(x.marker)-4:], x.serial)
	for _, s := range []struct {
		port  int
		frame []byte
	}{{port, frame}, {0, x.marker}} {
		if err := unix.Send(x.sockets[s.port], s.frame, 0); err != nil {
			return nil, fmt.Errorf("send to the kernel: %w", err)
		}
	}
	for deadline := time.Now().Add(exchangePatience); ; {
		marked, err := x.collect(1, &out)
		if err != nil {
			return nil, err
		}
		if marked {
			break
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, fmt.Errorf("the kernel did not forward the marker in %s", exchangePatience)
		}
		fds := []unix.PollFd{{Fd: int32(x.sockets[1]), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			return nil, fmt.Errorf("poll: %w", err)
		}
	}
	for i := range x.sockets {
		if i == 1 {
			continue
		}
		if _, err := x.collect(i, &out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// collect reads what arrived at a port, up to the marker if it is there.
func (x *Exchange) collect(port int, out *[]Arrival) (marked bool, err error) {
	for {
		n, size, _, _, err := unix.Recvmsg(x.sockets[port], x.buf, x.oob[:], unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN:
			return false, nil
		case err == unix.EINTR:
			continue
		case err != nil:
			return false, fmt.Errorf("receive at port %d: %w", port, err)
		case bytes.HasSuffix(x.buf[:n], x.marker[len(x.marker)-markerTail:]):
			return true, nil
		}
		var f Frame
		if err := f.fill(x.buf[:n], x.oob[:size]); err != nil {
			return false, err
		}
		if !bytes.HasPrefix(f.Data, []byte{0x33, 0x33, 0, 0, 0, 0x16}) {
			*out = append(*out, Arrival{port, f.Data})
		}
	}
}

// Comparable makes what a router sent comparable with what another one did. It
// leaves out what a router, known by the addresses of its devices, sends in its own
// time, hides what the kernel draws at random, identification and checksum of
// the IPv4 headers of its own ICMP errors, and puts the frames in order by port.
func Comparable(list []Arrival, router ...[6]byte) []Arrival {
	list = slices.DeleteFunc(list, func(a Arrival) bool {
		return len(a.Frame) >= 14 && slices.Contains(router, [6]byte(a.Frame[6:])) && spontaneous(a.Frame)
	})
	for _, a := range list {
		if f := a.Frame; IsOwnICMP4(f) {
			f[18], f[19], f[24], f[25] = 0, 0, 0, 0
		}
	}
	slices.SortStableFunc(list, func(a, b Arrival) int { return a.Port - b.Port })
	return list
}

// IsOwnICMP4 tells whether a frame is an ICMP error of a router over IPv4, by its
// precedence (RFC 1812 section 4.3.2.5).
func IsOwnICMP4(f []byte) bool {
	return len(f) >= 34 && f[12] == 8 && f[13] == 0 && f[23] == 1 && f[14] == 0x45 && f[15] >= 0xc0
}

// spontaneous tells what a router sends in its own time: questions for
// neighbours, and the errors when none answers or the rest of a fragmented
// packet does not come.
func spontaneous(f []byte) bool {
	switch binary.BigEndian.Uint16(f[12:]) {
	case unix.ETH_P_ARP:
		return true
	case unix.ETH_P_IPV6:
		return len(f) > 55 && f[20] == 58 && (f[54] == 135 || f[54] == 1 && f[55] == 3 || f[54] == 3 && f[55] == 1)
	case unix.ETH_P_IP:
		return len(f) > 35 && f[23] == 1 && (f[34] == 3 || f[34] == 11) && f[35] == 1
	}
	return false
}
