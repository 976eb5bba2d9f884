package traffic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Frame is a captured frame.
type Frame struct {
	End     string    // where it was seen, "node:dev"
	Time    time.Time // the kernel's time stamp
	Out     bool      // it left by the interface; otherwise it came in
	Partial bool      // its transport checksum was still to be filled in by the device (checksum offload)
	Data    []byte    // the whole frame, VLAN tags included, without FCS

	end   int
	order time.Time // Time, but never before that of an earlier frame of the end: the clock can be set back
}

// Direction says which frames of an interface are captured.
type Direction int

// A packet socket makes the kernel clone every skb that it gets: capture at an
// end only what is wanted from there when a probe counts reallocations.
const (
	Both     Direction = iota // frames that come in and frames that leave
	Incoming                  // only those that come in; what leaves is not cloned
)

// Capture collects frames of any number of interfaces, in any number of
// namespaces, from Add to Close.
type Capture struct {
	mu     sync.Mutex
	frames []Frame // in the order in which they were read
	ends   []*end
	closed int           // how many of the ends are closed
	wake   chan struct{} // closed, and replaced, when frames or err change
	err    error
}

// end is one captured interface.
type end struct {
	name  string
	index int // of Capture.ends
	file  *os.File
	done  chan struct{}
	last  time.Time // order of the newest frame
}

const (
	captureBuffer = 256 << 20 // bytes of the receive queue: a limit, not an allocation
	captureSnap   = 256 << 10 // bytes of the largest frame; GSO makes them up to 64 KiB, BIG TCP up to 192
	captureBatch  = 512       // frames that a reader takes before it hands them over
)

var captureBuffers = sync.Pool{New: func() any { return new([captureSnap]byte) }}

// NewCapture returns a capture of no interface yet.
func NewCapture() *Capture { return &Capture{wake: make(chan struct{})} }

// Add captures at an interface of the network namespace that the calling
// thread is in. The name, "node:dev", is that of the frames' End. When Add has
// returned no frame is missed.
func (c *Capture) Add(name, ifname string, dir Direction) error {
	fd, index, err := packetSocket(ifname, unix.SOCK_NONBLOCK)
	if err != nil {
		return fmt.Errorf("capture at %s: %w", name, err)
	}
	for _, o := range []struct {
		level, opt, value int
		what              string
	}{
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBuffer, "receive buffer"},
		{unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1, "time stamps"},
		{unix.SOL_PACKET, unix.PACKET_AUXDATA, 1, "auxiliary data"},
		{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, int(dir), "direction"},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.value); err != nil {
			unix.Close(fd)
			return fmt.Errorf("capture at %s: set %s: %w", name, o.what, err)
		}
	}
	all := binary.NativeEndian.Uint16([]byte{unix.ETH_P_ALL >> 8, unix.ETH_P_ALL & 0xff})
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}); err != nil {
		unix.Close(fd)
		return fmt.Errorf("capture at %s: bind: %w", name, err)
	}
	e := &end{name: name, file: os.NewFile(uintptr(fd), name), done: make(chan struct{})}
	raw, err := e.file.SyscallConn()
	if err != nil {
		e.file.Close()
		return fmt.Errorf("capture at %s: %w", name, err)
	}
	c.mu.Lock()
	e.index = len(c.ends)
	c.ends = append(c.ends, e)
	c.mu.Unlock()
	go c.read(e, raw)
	return nil
}

// read hands over what arrives at one end until Close.
func (c *Capture) read(e *end, raw syscall.RawConn) {
	defer close(e.done)
	var failed error
	drain := func(fd uintptr) bool {
		for {
			batch, more, err := e.batch(int(fd))
			c.add(batch, err)
			if failed = err; err != nil || !more {
				return err != nil // false: wait until there is more
			}
		}
	}
	err := raw.Read(drain)
	if failed == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		// Close has come: what the queue held by then is still read.
		err = raw.Control(func(fd uintptr) { drain(fd) })
	}
	if failed == nil && err != nil {
		c.add(nil, fmt.Errorf("capture at %s: %w", e.name, err))
	}
}

// batch reads frames that are there, without waiting. more: there may be others.
func (e *end) batch(fd int) (frames []Frame, more bool, err error) {
	buf := captureBuffers.Get().(*[captureSnap]byte)
	defer captureBuffers.Put(buf)
	var oob [256]byte
	for len(frames) < captureBatch {
		n, oobn, flags, from, err := unix.Recvmsg(fd, buf[:], oob[:], 0)
		switch {
		case err == unix.EINTR || err == unix.ENETDOWN: // an interface set down may come up again
			continue
		case err == unix.EAGAIN:
			return frames, false, nil
		case err != nil:
			return frames, false, fmt.Errorf("capture at %s: %w", e.name, err)
		case flags&unix.MSG_TRUNC != 0:
			return frames, false, fmt.Errorf("capture at %s: a frame of more than %d bytes", e.name, captureSnap)
		}
		f := Frame{End: e.name, end: e.index}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok {
			f.Out = ll.Pkttype == unix.PACKET_OUTGOING
		}
		if err := f.fill(buf[:n], oob[:oobn]); err != nil {
			return frames, false, fmt.Errorf("capture at %s: %w", e.name, err)
		}
		if f.Time.After(e.last) {
			e.last = f.Time
		}
		f.order = e.last
		frames = append(frames, f)
	}
	return frames, true, nil
}

// Bits of tpacket_auxdata.tp_status, linux/if_packet.h.
const (
	statusChecksumNotReady = 1 << 3
	statusVLANValid        = 1 << 4
	statusVLANTPIDValid    = 1 << 6
)

// fill takes over a frame and what the kernel says beside it. A VLAN tag that
// the kernel has taken out of the frame is put back.
func (f *Frame) fill(frame, oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("control message: %w", err)
	}
	var tag []byte
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})):
			ts := (*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
			f.Time = time.Unix(ts.Unix())
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})):
			aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0]))
			f.Partial = aux.Status&statusChecksumNotReady != 0
			if aux.Status&statusVLANValid != 0 && len(frame) >= 12 {
				tpid := uint16(unix.ETH_P_8021Q)
				if aux.Status&statusVLANTPIDValid != 0 {
					tpid = aux.Vlan_tpid
				}
				tag = binary.BigEndian.AppendUint16(nil, tpid)
				tag = binary.BigEndian.AppendUint16(tag, aux.Vlan_tci)
			}
		}
	}
	if tag == nil {
		f.Data = slices.Clone(frame)
		return nil
	}
	f.Data = slices.Concat(frame[:12], tag, frame[12:])
	return nil
}

func (c *Capture) add(frames []Frame, err error) {
	if len(frames) == 0 && err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames = append(c.frames, frames...)
	c.err = errors.Join(c.err, err)
	close(c.wake)
	c.wake = make(chan struct{})
}

// Len is the number of frames read so far.
func (c *Capture) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.frames)
}

// Frames returns the frames read so far but the first from, ordered by time, those of one
// end in the order in which they passed.
func (c *Capture) Frames(from int) []Frame {
	c.mu.Lock()
	frames := slices.Clone(c.frames[min(from, len(c.frames)):])
	c.mu.Unlock()
	slices.SortStableFunc(frames, byTime)
	return frames
}

func byTime(a, b Frame) int { return a.order.Compare(b.order) }

// Wait calls seen with the frames read so far but the first from, then with
// those that are read next, each once, until it returns true. It returns the
// context's error when that ends first, or that of a reader.
func (c *Capture) Wait(ctx context.Context, from int, seen func([]Frame) bool) error {
	for {
		c.mu.Lock()
		news, wake, err := c.frames[min(from, len(c.frames)):], c.wake, c.err
		c.mu.Unlock()
		from += len(news)
		if seen(news) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close reads what the kernel still has for the capture and ends it. The
// frames stay. The error says, for every end, how many frames the kernel had
// no room for: a capture that lost frames proves nothing.
func (c *Capture) Close() error {
	c.mu.Lock()
	open := c.ends[c.closed:]
	c.closed = len(c.ends)
	c.mu.Unlock()
	for _, e := range open {
		e.file.SetReadDeadline(time.Unix(1, 0))
	}
	for _, e := range open {
		<-e.done
		c.add(nil, e.close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (e *end) close() error {
	defer e.file.Close()
	raw, err := e.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("capture at %s: %w", e.name, err)
	}
	var stats *unix.TpacketStats
	controlErr := raw.Control(func(fd uintptr) {
		stats, err = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	})
	if err = errors.Join(controlErr, err); err != nil {
		return fmt.Errorf("capture at %s: statistics: %w", e.name, err)
	}
	if stats.Drops > 0 {
		return fmt.Errorf("capture at %s lost %d of %d frames", e.name, stats.Drops, stats.Packets)
	}
	return nil
}
