package port

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"
)

// xdpMaxMTU keeps a frame within one chunk of the packet memory.
const xdpMaxMTU = chunk - 256 - 14 - 4

// xdp is a device behind an AF_XDP socket on each of its receive queues. Frames
// that it takes are seen by no packet socket on the device.
type xdp struct {
	device  string
	mode    string
	queues  []*xdpQueue
	program *ebpf.Program
	sockets *ebpf.Map
	link    link.Link

	wake    int
	stopped atomic.Bool
	// transmit is how many of the queues can transmit: the first ones.
	transmit uint32
	// senders are how many there are, to spread them over the queues.
	senders atomic.Uint32
}

// xdpQueue is one queue of a device, to receive and to transmit.
type xdpQueue struct {
	port   *xdp
	socket xdpSocket
	// receiving is held while the receive ring is read.
	receiving sync.Mutex
	// sending is held while a batch is put on the transmit ring.
	sending sync.Mutex
}

func openXDP(device, mode string, flags link.XDPAttachFlags) (*xdp, error) {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("find the device: %w", err)
	}
	if dev.MTU > xdpMaxMTU {
		return nil, fmt.Errorf("MTU %d: AF_XDP takes at most %d", dev.MTU, xdpMaxMTU)
	}
	p := &xdp{device: device, mode: mode, wake: -1}
	if err := p.open(dev.Index, flags); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *xdp) open(index int, flags link.XDPAttachFlags) (err error) {
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	n, out, err := countQueues(p.device)
	if err != nil {
		return err
	}
	p.sockets, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: n})
	if err != nil {
		return fmt.Errorf("map of sockets: %w", err)
	}
	p.transmit = min(n, out)
	for i := range n {
		q := &xdpQueue{port: p, socket: xdpSocket{fd: -1}}
		p.queues = append(p.queues, q)
		if err := q.socket.open(index, i); err != nil {
			return err
		}
		if err := p.sockets.Put(i, uint32(q.socket.fd)); err != nil {
			return fmt.Errorf("enter the socket of queue %d: %w", i, err)
		}
	}
	p.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			// bpf_redirect_map(sockets, ctx->rx_queue_index, XDP_PASS)
			asm.LoadMem(asm.R2, asm.R1, 16, asm.Word),
			asm.LoadMapPtr(asm.R1, p.sockets.FD()),
			asm.Mov.Imm(asm.R3, 2),
			asm.FnRedirectMap.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		return fmt.Errorf("XDP program: %w", err)
	}
	p.link, err = link.AttachXDP(link.XDPOptions{Program: p.program, Interface: index, Flags: flags})
	if err != nil {
		return fmt.Errorf("attach XDP: %w", err)
	}
	return nil
}

// countQueues counts those that a device of the namespace of the calling thread
// spreads received frames over, and those to transmit.
func countQueues(device string) (receive, transmit uint32, err error) {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return 0, 0, fmt.Errorf("ethtool socket: %w", err)
	}
	defer tool.Close()
	c, err := tool.GetChannels(device)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return 1, 1, nil // of drivers that have no choice
	}
	if err != nil {
		return 0, 0, fmt.Errorf("count its queues: %w", err)
	}
	return max(1, c.CombinedCount+c.RxCount), max(1, c.CombinedCount+c.TxCount), nil
}

func (p *xdp) String() string {
	copies := "copy"
	if !slices.ContainsFunc(p.queues, func(q *xdpQueue) bool { return !q.socket.zeroCopy }) {
		copies = "zero-copy"
	}
	queues := "1 queue"
	if n := len(p.queues); n != 1 {
		queues = fmt.Sprintf("%d queues", n)
	}
	return fmt.Sprintf("AF_XDP %s %s (%s, %s)", p.mode, p.device, copies, queues)
}

func (p *xdp) Queues() []Queue {
	var queues []Queue
	for _, q := range p.queues {
		queues = append(queues, q)
	}
	return queues
}

func (p *xdp) Stop() {
	p.stopped.Store(true)
	unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (p *xdp) Close() error {
	p.Stop()
	for _, q := range p.queues {
		q.receiving.Lock()
		defer q.receiving.Unlock()
		q.sending.Lock()
		defer q.sending.Unlock()
	}
	var errs []error
	if p.link != nil {
		errs = append(errs, p.link.Close())
	}
	if p.program != nil {
		errs = append(errs, p.program.Close())
	}
	if p.sockets != nil {
		errs = append(errs, p.sockets.Close())
	}
	for _, q := range p.queues {
		errs = append(errs, q.socket.close())
	}
	if p.wake >= 0 {
		errs = append(errs, unix.Close(p.wake))
		p.wake = -1
	}
	return errors.Join(errs...)
}

func (q *xdpQueue) Receive(take func([]byte)) error {
	p := q.port
	q.receiving.Lock()
	defer q.receiving.Unlock()
	for {
		if p.stopped.Load() {
			return ErrStopped
		}
		if q.socket.receive(take) {
			return nil
		}
		fds := []unix.PollFd{{Fd: int32(q.socket.fd), Events: unix.POLLIN}, {Fd: int32(p.wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return fmt.Errorf("port %s: poll: %w", p.device, err)
		}
		if fds[0].Revents&(unix.POLLHUP|unix.POLLNVAL) != 0 {
			return fmt.Errorf("port %s: the device went away", p.device)
		}
	}
}

// xdpSender keeps a batch and puts it on the ring at once.
type xdpSender struct {
	queue  *xdpQueue
	frames [batch][]byte
	n      int
}

// Sender is on one of the queues, whose transmit ring it shares a batch at a time
// where there are more senders than queues.
func (p *xdp) Sender() (Sender, error) {
	s := &xdpSender{queue: p.queues[(p.senders.Add(1)-1)%p.transmit]}
	for i := range s.frames {
		s.frames[i] = make([]byte, 0, chunk)
	}
	return s, nil
}

func (s *xdpSender) Send(frame []byte) error {
	if len(frame) > chunk {
		return nil // Longer than any MTU that the port has: lost.
	}
	s.frames[s.n] = append(s.frames[s.n][:0], frame...)
	if s.n++; s.n == batch {
		return s.Flush()
	}
	return nil
}

func (s *xdpSender) Flush() error {
	s.queue.sending.Lock()
	defer s.queue.sending.Unlock()
	err := s.queue.socket.send(s.frames[:s.n])
	s.n = 0
	if err != nil {
		return fmt.Errorf("port %s: send: %w", s.queue.port.device, err)
	}
	return nil
}
