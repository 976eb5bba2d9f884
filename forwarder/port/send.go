package port

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slot is how much of a batch one frame may take; longer ones are sent alone.
const slot = 2048

// message is struct mmsghdr.
type message struct {
	header unix.Msghdr
	length uint32
	_      [4]byte
}

// packetSender sends with sendmmsg.
type packetSender struct {
	device   string
	fd       int
	n        int
	memory   [batch][slot]byte
	vectors  [batch]unix.Iovec
	messages [batch]message
}

// Sender sends on the socket of the port, which several may do at a time.
func (p *packet) Sender() (Sender, error) {
	s := &packetSender{device: p.device, fd: p.out}
	for i := range s.messages {
		s.vectors[i].Base = &s.memory[i][0]
		s.messages[i].header.Iov = &s.vectors[i]
		s.messages[i].header.SetIovlen(1)
	}
	return s, nil
}

func (s *packetSender) Send(frame []byte) error {
	if len(frame) > slot {
		if err := s.Flush(); err != nil {
			return err
		}
		if err := unix.Send(s.fd, frame, 0); err != nil && !lost(err) {
			return fmt.Errorf("port %s: send %d bytes: %w", s.device, len(frame), err)
		}
		return nil
	}
	s.vectors[s.n].SetLen(copy(s.memory[s.n][:], frame))
	if s.n++; s.n == batch {
		return s.Flush()
	}
	return nil
}

func (s *packetSender) Flush() error {
	for sent := 0; sent < s.n; {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.messages[sent])), uintptr(s.n-sent), 0, 0, 0)
		switch {
		case errno == 0:
			sent += int(n)
		case errno == unix.EINTR:
		case lost(errno):
			sent++
		default:
			s.n = 0
			return fmt.Errorf("port %s: send: %w", s.device, errno)
		}
	}
	s.n = 0
	return nil
}

// lost: the device did not take a frame, as a full or lowered one does not.
// That is loss, not failure.
func lost(err error) bool {
	return errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.EAGAIN)
}
