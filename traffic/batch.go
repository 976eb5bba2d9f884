package traffic

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Batch is frames that are sent with a system call for every thousand of them,
// and with nothing of Go's in between: what it costs is the kernel's.
type Batch struct {
	socket *Socket
	frames [][]byte
	iovecs []unix.Iovec
	msgs   []mmsghdr
}

// mmsghdr is struct mmsghdr of sendmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// maxBatch is UIO_MAXIOV, the most messages of one system call.
const maxBatch = 1024

// NewBatch prepares a number of copies of frames, one after the other.
func (s *Socket) NewBatch(frames [][]byte, copies int) *Batch {
	b := &Batch{socket: s, frames: frames, iovecs: make([]unix.Iovec, len(frames)), msgs: make([]mmsghdr, len(frames)*copies)}
	for i, f := range frames {
		b.iovecs[i].Base = unsafe.SliceData(f)
		b.iovecs[i].SetLen(len(f))
	}
	for i := range b.msgs {
		b.msgs[i].hdr.Iov = &b.iovecs[i%len(frames)]
		b.msgs[i].hdr.SetIovlen(1)
	}
	return b
}

// Len is the number of frames.
func (b *Batch) Len() int { return len(b.msgs) }

// Send sends all frames. It keeps the processor: the Go scheduler does not learn
// that the thread is in the kernel.
func (b *Batch) Send() error {
	defer runtime.KeepAlive(b)
	for left := b.msgs; len(left) > 0; {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(b.socket.fd), uintptr(unsafe.Pointer(&left[0])), uintptr(min(len(left), maxBatch)), 0, 0, 0)
		switch errno {
		case 0:
			left = left[n:]
		case unix.EINTR:
		default:
			return fmt.Errorf("send on %s: %w", b.socket.name, errno)
		}
	}
	return nil
}
