package port

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// tap is a TAP device: what is sent is received by the kernel of the
// namespace, and the other way round.
type tap struct {
	device  string
	fd      int
	wake    int
	buffer  []byte
	stopped atomic.Bool
	// receiving is held while frames are read.
	receiving sync.Mutex
}

// openTAP makes the TAP device, or attaches to it where it exists.
func openTAP(device string) (*tap, error) {
	t := &tap{device: device, fd: -1, wake: -1, buffer: make([]byte, maxFrame)}
	if err := t.open(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *tap) open() (err error) {
	if t.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	if t.fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		return fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(t.device)
	if err != nil {
		return fmt.Errorf("name of the TAP device: %w", err)
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(t.fd, unix.TUNSETIFF, request); err != nil {
		return fmt.Errorf("attach to the TAP device: %w", err)
	}
	return nil
}

func (t *tap) String() string { return "TAP " + t.device }

func (t *tap) Stop() {
	t.stopped.Store(true)
	unix.Write(t.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (t *tap) Close() error {
	t.Stop()
	t.receiving.Lock()
	defer t.receiving.Unlock()
	var errs []error
	for _, fd := range []*int{&t.fd, &t.wake} {
		if *fd >= 0 {
			errs = append(errs, unix.Close(*fd))
			*fd = -1
		}
	}
	return errors.Join(errs...)
}

func (t *tap) Queues() []Queue { return []Queue{t} }

func (t *tap) Receive(take func([]byte)) error {
	t.receiving.Lock()
	defer t.receiving.Unlock()
	for taken := 0; taken < batch; {
		if t.stopped.Load() {
			return ErrStopped
		}
		n, err := unix.Read(t.fd, t.buffer)
		switch {
		case err == nil:
			take(t.buffer[:n])
			taken++
			continue
		case err == unix.EINTR:
			continue
		case err != unix.EAGAIN:
			return fmt.Errorf("port %s: read: %w", t.device, err)
		case taken > 0:
			return nil
		}
		fds := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}, {Fd: int32(t.wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return fmt.Errorf("port %s: poll: %w", t.device, err)
		}
	}
	return nil
}

func (t *tap) Sender() (Sender, error) { return tapSender{t}, nil }

type tapSender struct{ *tap }

func (s tapSender) Send(frame []byte) error {
	// EIO: the device is down.
	if _, err := unix.Write(s.fd, frame); err != nil && !lost(err) && err != unix.EIO {
		return fmt.Errorf("port %s: write: %w", s.device, err)
	}
	return nil
}

func (tapSender) Flush() error { return nil }
