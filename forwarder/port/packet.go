package port

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The receive ring: blocks of 64 KB, handed over when full or after a
// millisecond.
const (
	blockSize  = 1 << 16
	blocks     = 64
	frameSize  = 1 << 11
	retireMs   = 1
	maxFrame   = 1<<16 + 64
	vlanTagLen = 4
	macsLen    = 12
)

// packet is a device behind a packet socket with a TPACKET_V3 receive ring.
type packet struct {
	device string
	index  int
	// fd receives; out sends, since what a socket with virtio headers sends
	// begins with one too.
	fd, out int
	ring    []byte
	// next is the block that the kernel fills next.
	next int
	// wake is an event that ends a poll.
	wake    int
	stopped atomic.Bool
	// receiving is held while the ring is read.
	receiving sync.Mutex
	// tagged is where frames get back the VLAN tag that the kernel took off.
	tagged []byte
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func openPacket(device string) (*packet, error) {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("find the device: %w", err)
	}
	p := &packet{device: device, index: dev.Index, fd: -1, out: -1, wake: -1, tagged: make([]byte, maxFrame)}
	if err := p.open(); err != nil {
		return nil, errors.Join(err, p.release())
	}
	return p, nil
}

func (p *packet) open() (err error) {
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	// Protocol 0 receives nothing until the socket is bound, with the ring in
	// place.
	if p.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	if err := unix.SetsockoptInt(p.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return fmt.Errorf("TPACKET_V3: %w", err)
	}
	if err := unix.SetsockoptInt(p.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		return fmt.Errorf("leave out what the host sends: %w", err)
	}
	if err := unix.SetsockoptInt(p.fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return fmt.Errorf("virtio header: %w", err)
	}
	req := unix.TpacketReq3{
		Block_size: blockSize, Block_nr: blocks, Frame_size: frameSize, Frame_nr: blockSize / frameSize * blocks,
		Retire_blk_tov: retireMs,
	}
	if err := unix.SetsockoptTpacketReq3(p.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return fmt.Errorf("receive ring: %w", err)
	}
	if p.ring, err = unix.Mmap(p.fd, 0, blockSize*blocks, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the receive ring: %w", err)
	}
	// Neighbour discovery is multicast.
	all := unix.PacketMreq{Ifindex: int32(p.index), Type: unix.PACKET_MR_ALLMULTI}
	if err := unix.SetsockoptPacketMreq(p.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &all); err != nil {
		return fmt.Errorf("receive multicast: %w", err)
	}
	if err := unix.Bind(p.fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: p.index}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if p.out, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	if err := unix.Bind(p.out, &unix.SockaddrLinklayer{Ifindex: p.index}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

func (p *packet) String() string { return "AF_PACKET " + p.device }

// Stop ends Receive.
func (p *packet) Stop() {
	p.stopped.Store(true)
	unix.Write(p.wake, binary.NativeEndian.AppendUint64(nil, 1))
}

// Close waits for Receive to end before it gives the ring back.
func (p *packet) Close() error {
	p.Stop()
	p.receiving.Lock()
	defer p.receiving.Unlock()
	return p.release()
}

func (p *packet) release() error {
	var errs []error
	if p.ring != nil {
		errs = append(errs, unix.Munmap(p.ring))
	}
	for _, fd := range []int{p.fd, p.out, p.wake} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("port %s: close: %w", p.device, err)
	}
	return nil
}

// Offsets in struct tpacket_block_desc.
const (
	blockStatus = 8
	blockCount  = 12
	blockFirst  = 16
)

// Queues is one: the socket has the frames of all queues of the device.
func (p *packet) Queues() []Queue { return []Queue{p} }

// Receive takes one block of the ring.
func (p *packet) Receive(take func([]byte)) error {
	p.receiving.Lock()
	defer p.receiving.Unlock()
	if p.stopped.Load() {
		return ErrStopped
	}
	block := p.ring[p.next*blockSize : (p.next+1)*blockSize]
	status := (*uint32)(unsafe.Pointer(&block[blockStatus]))
	for atomic.LoadUint32(status)&unix.TP_STATUS_USER == 0 {
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}, {Fd: int32(p.wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return fmt.Errorf("port %s: poll: %w", p.device, err)
		}
		if p.stopped.Load() {
			return ErrStopped
		}
		if fds[0].Revents&unix.POLLERR != 0 && fds[0].Revents&unix.POLLIN == 0 {
			// The device went down, or away.
			if e, err := unix.GetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && e != 0 && unix.Errno(e) != unix.ENETDOWN {
				return fmt.Errorf("port %s: %w", p.device, unix.Errno(e))
			}
		}
	}
	at := int(binary.NativeEndian.Uint32(block[blockFirst:]))
	for range binary.NativeEndian.Uint32(block[blockCount:]) {
		h := (*unix.Tpacket3Hdr)(unsafe.Pointer(&block[at]))
		frame := block[at+int(h.Mac) : at+int(h.Mac)+int(h.Snaplen)]
		if h.Status&unix.TP_STATUS_CSUMNOTREADY != 0 {
			complete(frame, block[at+int(h.Mac)-vnetLen:])
		}
		if h.Status&unix.TP_STATUS_VLAN_VALID != 0 && len(frame) >= macsLen {
			frame = p.withTag(frame, h.Hv1.Vlan_tpid, uint16(h.Hv1.Vlan_tci))
		}
		take(frame)
		at += int(h.Next_offset)
	}
	atomic.StoreUint32(status, unix.TP_STATUS_KERNEL)
	p.next = (p.next + 1) % blocks
	return nil
}

// struct virtio_net_hdr, which is in front of the frame.
const (
	vnetFlags     = 0
	vnetNeedsCsum = 1
	vnetStart     = 6
	vnetOffset    = 8
	vnetLen       = 10
)

// complete computes the checksum that the sender left to its device: the field
// holds the sum of the pseudo header, and the virtio header says where the field
// is and what else is summed up.
func complete(frame, header []byte) {
	start := int(binary.NativeEndian.Uint16(header[vnetStart:]))
	field := start + int(binary.NativeEndian.Uint16(header[vnetOffset:]))
	if header[vnetFlags]&vnetNeedsCsum == 0 || field+2 > len(frame) {
		return
	}
	var sum uint32
	rest := frame[start:]
	for ; len(rest) > 1; rest = rest[2:] {
		sum += uint32(binary.BigEndian.Uint16(rest))
	}
	if len(rest) == 1 {
		sum += uint32(rest[0]) << 8
	}
	sum = sum>>16 + sum&0xffff
	sum = ^(sum>>16 + sum) & 0xffff
	if sum == 0 {
		sum = 0xffff // As of UDP, where 0 is none; elsewhere both are 0 (RFC 1624 section 3).
	}
	binary.BigEndian.PutUint16(frame[field:], uint16(sum))
}

func (p *packet) withTag(frame []byte, protocol, tci uint16) []byte {
	n := copy(p.tagged, frame[:macsLen])
	binary.BigEndian.PutUint16(p.tagged[n:], protocol)
	binary.BigEndian.PutUint16(p.tagged[n+2:], tci)
	return p.tagged[:n+vlanTagLen+copy(p.tagged[n+vlanTagLen:], frame[macsLen:])]
}
