package traffic

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Socket sends frames on one interface. It does not receive, so that it takes
// no copy of what passes there.
type Socket struct {
	fd   int
	name string
}

// Open opens a socket on an interface of the network namespace that the calling
// thread is in. The socket may be used afterwards from any goroutine.
func Open(ifname string) (*Socket, error) {
	fd, index, err := packetSocket(ifname, 0)
	if err != nil {
		return nil, fmt.Errorf("send on %s: %w", ifname, err)
	}
	// Protocol 0: the socket is bound for sending and gets nothing.
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: index}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("send on %s: bind: %w", ifname, err)
	}
	return &Socket{fd: fd, name: ifname}, nil
}

// packetSocket opens a packet socket that gets nothing yet and finds the index of an interface.
func packetSocket(ifname string, flags int) (fd, index int, err error) {
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|flags, 0)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			err = errors.New("packet socket: needs root (CAP_NET_RAW)")
		}
		return 0, 0, err
	}
	ifr, err := unix.NewIfreq(ifname)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr)
	}
	if err != nil {
		unix.Close(fd)
		return 0, 0, fmt.Errorf("interface %s: %w", ifname, err)
	}
	return fd, int(ifr.Uint32()), nil
}

// Send sends one Ethernet frame, without its FCS. It returns when the frame has been
// given to the device; on a veth pair the peer has it then. A device that is set up but whose
// operational state is not yet "up" drops the frame without an error.
func (s *Socket) Send(frame []byte) error {
	for {
		n, err := unix.Write(s.fd, frame)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EMSGSIZE:
			return fmt.Errorf("send on %s: frame of %d bytes: longer than the MTU of the interface allows", s.name, len(frame))
		case err != nil:
			return fmt.Errorf("send on %s: frame of %d bytes: %w", s.name, len(frame), err)
		case n != len(frame):
			return fmt.Errorf("send on %s: %d of %d bytes were sent", s.name, n, len(frame))
		}
		return nil
	}
}

// Close closes the socket.
func (s *Socket) Close() error { return unix.Close(s.fd) }
