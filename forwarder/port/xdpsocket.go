package port

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The packet memory: as many chunks to receive into as to send from, each ring
// as long as either.
const (
	chunk      = 4096
	ringLength = 1024
)

// xdpSocket is an AF_XDP socket with its packet memory and four rings. One
// goroutine may receive and one may send at a time.
type xdpSocket struct {
	fd                   int
	memory               []byte
	fill, done, rx, tx   ring
	free                 []uint64
	fillNext, rxNext     uint32
	txNext, doneConsumed uint32
	// zeroCopy: the device reads and writes the packet memory itself.
	zeroCopy bool
}

// ring is one of the four rings, shared with the kernel.
type ring struct {
	mapped             []byte
	producer, consumer *uint32
	entries            unsafe.Pointer
}

const ringMask = ringLength - 1

func (r *ring) address(i uint32) *uint64 {
	return (*uint64)(unsafe.Add(r.entries, uintptr(i&ringMask)*unsafe.Sizeof(uint64(0))))
}

func (r *ring) descriptor(i uint32) *unix.XDPDesc {
	return (*unix.XDPDesc)(unsafe.Add(r.entries, uintptr(i&ringMask)*unsafe.Sizeof(unix.XDPDesc{})))
}

// open makes the socket of one queue of a device, without copies where the driver
// can do so.
func (s *xdpSocket) open(index int, queue uint32) (err error) {
	if s.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("AF_XDP socket: %w", err)
	}
	s.memory, err = unix.Mmap(-1, 0, 2*ringLength*chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("packet memory: %w", err)
	}
	register := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&s.memory[0]))), Len: uint64(len(s.memory)), Size: chunk}
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(s.fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&register)), unsafe.Sizeof(register), 0); errno != 0 {
		return fmt.Errorf("register packet memory: %w", errno)
	}
	for _, option := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_RX_RING, unix.XDP_TX_RING} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, option, ringLength); err != nil {
			return fmt.Errorf("ring: %w", err)
		}
	}
	if err := s.mapRings(); err != nil {
		return fmt.Errorf("map a ring: %w", err)
	}
	for i := range uint32(ringLength) {
		*s.fill.address(i) = uint64(i) * chunk
		s.free = append(s.free, uint64(ringLength+i)*chunk)
	}
	s.fillNext = ringLength
	atomic.StoreUint32(s.fill.producer, s.fillNext)
	// Asked for neither, the kernel tries without copies first.
	if err := unix.Bind(s.fd, &unix.SockaddrXDP{Ifindex: uint32(index), QueueID: queue}); err != nil {
		return fmt.Errorf("bind to queue %d: %w", queue, err)
	}
	options, err := unix.GetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_OPTIONS)
	if err != nil {
		return fmt.Errorf("ask whether frames are copied: %w", err)
	}
	s.zeroCopy = options&unix.XDP_OPTIONS_ZEROCOPY != 0
	return nil
}

func (s *xdpSocket) mapRings() error {
	var offsets unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(offsets))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&offsets)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
		return errno
	}
	for _, m := range []struct {
		ring   *ring
		page   int64
		offset unix.XDPRingOffset
		entry  uintptr
	}{
		{&s.fill, unix.XDP_UMEM_PGOFF_FILL_RING, offsets.Fr, unsafe.Sizeof(uint64(0))},
		{&s.done, unix.XDP_UMEM_PGOFF_COMPLETION_RING, offsets.Cr, unsafe.Sizeof(uint64(0))},
		{&s.rx, unix.XDP_PGOFF_RX_RING, offsets.Rx, unsafe.Sizeof(unix.XDPDesc{})},
		{&s.tx, unix.XDP_PGOFF_TX_RING, offsets.Tx, unsafe.Sizeof(unix.XDPDesc{})},
	} {
		b, err := unix.Mmap(s.fd, m.page, int(m.offset.Desc)+ringLength*int(m.entry), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			return err
		}
		*m.ring = ring{
			mapped:   b,
			producer: (*uint32)(unsafe.Pointer(&b[m.offset.Producer])),
			consumer: (*uint32)(unsafe.Pointer(&b[m.offset.Consumer])),
			entries:  unsafe.Pointer(&b[m.offset.Desc]),
		}
	}
	return nil
}

func (s *xdpSocket) close() error {
	var errs []error
	if s.fd >= 0 {
		errs = append(errs, unix.Close(s.fd))
		s.fd = -1
	}
	for _, b := range []*[]byte{&s.fill.mapped, &s.done.mapped, &s.rx.mapped, &s.tx.mapped, &s.memory} {
		if *b != nil {
			errs = append(errs, unix.Munmap(*b))
			*b = nil
		}
	}
	return errors.Join(errs...)
}

// receive hands out what is on the receive ring, a batch at most, gives the
// chunks back, and reports whether there was anything.
func (s *xdpSocket) receive(take func([]byte)) bool {
	n := min(atomic.LoadUint32(s.rx.producer)-s.rxNext, batch)
	for i := range n {
		d := *s.rx.descriptor(s.rxNext + i)
		take(s.memory[d.Addr : d.Addr+uint64(d.Len)])
		*s.fill.address(s.fillNext + i) = d.Addr &^ (chunk - 1)
	}
	s.rxNext += n
	s.fillNext += n
	atomic.StoreUint32(s.rx.consumer, s.rxNext)
	atomic.StoreUint32(s.fill.producer, s.fillNext)
	return n > 0
}

// sendTries is how often a batch is offered to a device that is busy before
// frames are lost.
const sendTries = 256

// send puts the frames on the transmit ring and has the kernel send them; without
// copies the device does so in its own time.
func (s *xdpSocket) send(frames [][]byte) error {
	if s.fd < 0 {
		return ErrStopped
	}
	for tries := 0; len(frames) > 0 || !s.zeroCopy && atomic.LoadUint32(s.tx.consumer) != s.txNext; tries++ {
		if tries == sendTries {
			return nil
		}
		s.reclaim()
		n := min(len(frames), len(s.free))
		for i, frame := range frames[:n] {
			at := s.free[len(s.free)-1]
			s.free = s.free[:len(s.free)-1]
			copy(s.memory[at:], frame)
			*s.tx.descriptor(s.txNext + uint32(i)) = unix.XDPDesc{Addr: at, Len: uint32(len(frame))}
		}
		frames = frames[n:]
		s.txNext += uint32(n)
		atomic.StoreUint32(s.tx.producer, s.txNext)
		// One call sends no more than 32 in copy mode, and says EAGAIN then.
		_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		if errno != 0 && errno != unix.EINTR && errno != unix.EBUSY && !lost(errno) {
			return errno
		}
	}
	return nil
}

// reclaim takes back the chunks that the kernel has sent.
func (s *xdpSocket) reclaim() {
	producer := atomic.LoadUint32(s.done.producer)
	for ; s.doneConsumed != producer; s.doneConsumed++ {
		s.free = append(s.free, *s.done.address(s.doneConsumed))
	}
	atomic.StoreUint32(s.done.consumer, s.doneConsumed)
}
