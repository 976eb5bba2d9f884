package traffic

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A slot of a ring (struct tpacket2_hdr, linux/if_packet.h) has the frame's
// state, its length, and the frame where tpacket_parse_header looks for it:
// TPACKET2_HDRLEN less struct sockaddr_ll.
const (
	slotStatus = 0
	slotLen    = 4
	slotFrame  = 32

	slotAvailable   = 0 // TP_STATUS_AVAILABLE
	slotSendRequest = 1 // TP_STATUS_SEND_REQUEST
)

// SendPages is Send for frames that the kernel shall not copy: all of a frame but
// its Ethernet header stays in pages, as fragments of the sk_buff (packet
// socket's PACKET_TX_RING, tpacket_fill_skb). It returns when every frame has
// been given to the device.
func (s *Socket) SendPages(frames [][]byte) error {
	if len(frames) == 0 {
		return nil
	}
	if err := s.sendPages(frames); err != nil {
		return fmt.Errorf("send %d frames in pages on %s: %w", len(frames), s.name, err)
	}
	return nil
}

func (s *Socket) sendPages(frames [][]byte) error {
	longest, total := 0, 0
	for _, f := range frames {
		longest, total = max(longest, len(f)), total+len(f)
	}
	// Blocks of one slot: a power of two of pages, which the kernel has in one
	// piece.
	slot := os.Getpagesize()
	for slot < slotFrame+longest {
		slot *= 2
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return fmt.Errorf("PACKET_VERSION: %w", err)
	}
	ring := func(slots int) error {
		req := unix.TpacketReq{Block_nr: uint32(slots), Frame_nr: uint32(slots)}
		if slots > 0 {
			req.Block_size, req.Frame_size = uint32(slot), uint32(slot)
		}
		return unix.SetsockoptTpacketReq(s.fd, unix.SOL_PACKET, unix.PACKET_TX_RING, &req)
	}
	if err := ring(len(frames)); err != nil {
		return fmt.Errorf("PACKET_TX_RING: %w", err)
	}
	err := s.sendRing(frames, slot, total)
	// The ring goes with each call: whoever has a frame still has its pages, and
	// nothing else is written to them.
	if undo := ring(0); err == nil && undo != nil {
		err = fmt.Errorf("undo PACKET_TX_RING: %w", undo)
	}
	return err
}

// sendRing sends frames by a ring that has a slot of the given size for each.
func (s *Socket) sendRing(frames [][]byte, slot, total int) error {
	mem, err := unix.Mmap(s.fd, 0, slot*len(frames), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	defer unix.Munmap(mem)
	for i, f := range frames {
		b := mem[i*slot:][:slot]
		copy(b[slotFrame:], f)
		*(*uint32)(unsafe.Pointer(&b[slotLen])) = uint32(len(f))
		atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[slotStatus])), slotSendRequest)
	}
	n, err := unix.SendmsgN(s.fd, nil, nil, nil, 0)
	if err != nil {
		return err
	}
	if n != total {
		return fmt.Errorf("%d of %d bytes were sent", n, total)
	}
	for i := range frames {
		if status := atomic.LoadUint32((*uint32)(unsafe.Pointer(&mem[i*slot+slotStatus]))); status != slotAvailable {
			return fmt.Errorf("frame %d of %d bytes was not sent: status %#x", i+1, len(frames[i]), status)
		}
	}
	return nil
}
