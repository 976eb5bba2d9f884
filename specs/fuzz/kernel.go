package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"seg6lab/forwarder"
	"seg6lab/lab"
	"seg6lab/lab/seg6"
	"seg6lab/lab/topology"
	"seg6lab/traffic"
)

// Sent is a frame that the router sent to a port.
type Sent struct {
	Port  int
	Frame []byte
}

func (s Sent) String() string {
	return fmt.Sprintf("%s gets %s\n  %x", ends[s.Port], traffic.Dissect(s.Frame), s.Frame)
}

func equalSent(a, b Sent) bool { return a.Port == b.Port && bytes.Equal(a.Frame, b.Frame) }

// kernelRouter is a lab whose router is the kernel, with a packet socket at
// each end.
type kernelRouter struct {
	lab     *lab.Lab
	sockets [2]int
	serial  uint32
	buf     []byte
	control [128]byte
}

var labs atomic.Uint64

func upKernel(ctx context.Context, t *topology.Topology) (_ *kernelRouter, err error) {
	k := &kernelRouter{sockets: [2]int{-1, -1}, buf: make([]byte, 1<<16)}
	k.lab, err = lab.Up(ctx, t, lab.Options{Name: fmt.Sprintf("fuzz-%d-%d", os.Getpid(), labs.Add(1)), Owned: true})
	if err != nil {
		return nil, err
	}
	for port, at := range ends {
		node, err := k.lab.Node(at.Node)
		if err == nil {
			err = node.Do(func() (err error) {
				k.sockets[port], err = openSocket(at.Dev)
				return err
			})
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", at, err), k.down())
		}
	}
	return k, nil
}

func (k *kernelRouter) down() error {
	for _, fd := range k.sockets {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	return k.lab.Down()
}

// receiveBuffer in bytes is more than one frame makes a router send.
const receiveBuffer = 4 << 20

// openSocket opens a packet socket on a device of the calling thread's
// namespace. It reads what arrives there, not what is sent by it.
func openSocket(device string) (int, error) {
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	iface, err := deviceIndex(device)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("packet socket: %w", err)
	}
	for _, o := range []struct{ level, option, value int }{
		{unix.SOL_PACKET, unix.PACKET_AUXDATA, 1},
		{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.option, o.value); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("packet socket: option %d: %w", o.option, err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: iface}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("packet socket: bind: %w", err)
	}
	return fd, nil
}

func deviceIndex(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r)
	}
	if err != nil {
		return 0, fmt.Errorf("index of %s: %w", name, err)
	}
	return int(r.Uint32()), nil
}

// patience is how long a marker may take.
const patience = 20 * time.Second

// through is what the kernel sends for a frame. A marker, which the kernel
// forwards to dst, follows the frame: what the kernel sent before it has
// answered the frame.
func (k *kernelRouter) through(port int, frame []byte) (out []Sent, err error) {
	k.serial++
	tail := binary.BigEndian.AppendUint32([]byte("marker: "), k.serial)
	mark := append(ethernet(0, "", "86dd"), unhex("60000000 000c 3b 40", hostAddr)...)
	mark = append(append(mark, markerDst.AsSlice()...), tail...)
	if err := unix.Send(k.sockets[port], frame, 0); err != nil {
		return nil, fmt.Errorf("send to the kernel: %w", err)
	}
	if err := unix.Send(k.sockets[0], mark, 0); err != nil {
		return nil, fmt.Errorf("send to the kernel: %w", err)
	}
	for deadline := time.Now().Add(patience); ; {
		seen, err := k.collect(1, tail, &out)
		if err != nil {
			return nil, err
		}
		if seen {
			break
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, fmt.Errorf("the kernel did not forward the marker in %s", patience)
		}
		fds := []unix.PollFd{{Fd: int32(k.sockets[1]), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			return nil, fmt.Errorf("poll: %w", err)
		}
	}
	_, err = k.collect(0, tail, &out)
	return normal(out), err
}

// collect reads what arrived at a port, up to the marker if it is there.
func (k *kernelRouter) collect(port int, marker []byte, out *[]Sent) (marked bool, err error) {
	for {
		n, size, _, _, err := unix.Recvmsg(k.sockets[port], k.buf, k.control[:], unix.MSG_DONTWAIT)
		if err == unix.EAGAIN {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("receive at %s: %w", ends[port], err)
		}
		if bytes.HasSuffix(k.buf[:n], marker) {
			return true, nil
		}
		*out = append(*out, Sent{port, withTag(bytes.Clone(k.buf[:n]), k.control[:size])})
	}
}

// withTag puts the VLAN tag back that the kernel keeps beside the frame.
func withTag(frame, control []byte) []byte {
	const auxdata = 20 // struct tpacket_auxdata
	if len(control) < unix.CmsgLen(auxdata) {
		return frame
	}
	aux := control[unix.CmsgLen(0):]
	if binary.NativeEndian.Uint32(aux)&unix.TP_STATUS_VLAN_VALID == 0 {
		return frame
	}
	tag := binary.BigEndian.AppendUint16(nil, binary.NativeEndian.Uint16(aux[18:]))
	tag = binary.BigEndian.AppendUint16(tag, binary.NativeEndian.Uint16(aux[16:]))
	return slices.Insert(frame, 12, tag...)
}

// normal leaves out what a router sends in its own time (see spontaneous) and
// hides what the kernel draws at random: identification and checksum of the
// IPv4 headers of its own ICMP messages. Frames are in order by port.
func normal(s []Sent) []Sent {
	s = slices.DeleteFunc(s, func(s Sent) bool { return spontaneous(s.Frame) })
	for _, s := range s {
		if f := s.Frame; ownICMP4(f) {
			f[18], f[19], f[24], f[25] = 0, 0, 0, 0
		}
	}
	slices.SortStableFunc(s, func(a, b Sent) int { return a.Port - b.Port })
	return s
}

// ownICMP4 tells whether a frame is an ICMP error of the router over IPv4.
func ownICMP4(f []byte) bool {
	return len(f) >= 34 && f[12] == 8 && f[13] == 0 && f[23] == 1 && f[14] == 0x45 && f[15] >= 0xc0
}

// spontaneous tells what a router sends in its own time: multicast listener
// reports, questions for neighbours, and the errors when none answers or the
// rest of a fragmented packet does not come.
func spontaneous(f []byte) bool {
	if bytes.HasPrefix(f, []byte{0x33, 0x33, 0, 0, 0, 0x16}) {
		return true
	}
	in, out := topology.LinkMAC(0, 1), topology.LinkMAC(1, 0)
	if len(f) < 14 || [6]byte(f[6:]) != in && [6]byte(f[6:]) != out {
		return false
	}
	switch binary.BigEndian.Uint16(f[12:]) {
	case 0x0806:
		return true
	case 0x86dd:
		return len(f) > 55 && f[20] == 58 && (f[54] == 135 || f[54] == 1 && f[55] == 3 || f[54] == 3 && f[55] == 1)
	case 0x0800:
		return len(f) > 35 && f[23] == 1 && (f[34] == 3 || f[34] == 11) && f[35] == 1
	}
	return false
}

// counters are what the kernel counted for each SID.
func (k *kernelRouter) counters() (map[netip.Prefix]forwarder.Counters, error) {
	node, err := k.lab.Node(router)
	if err != nil {
		return nil, err
	}
	conn, err := node.Seg6()
	if err != nil {
		return nil, err
	}
	routes, err := conn.Routes(unix.AF_INET6)
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	all := make(map[netip.Prefix]forwarder.Counters)
	for _, r := range routes {
		if l, ok := r.Encap.(*seg6.Local); ok && l.Counters != nil {
			all[r.Dst] = forwarder.Counters{Packets: l.Counters.Packets, Bytes: l.Counters.Bytes, Errors: l.Counters.Errors}
		}
	}
	return all, nil
}
