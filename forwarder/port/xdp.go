package port

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// xdpMaxMTU keeps a frame within one chunk of the packet memory.
const xdpMaxMTU = chunk - 256 - 14 - 4

// xdp is a device behind an AF_XDP socket on its queue 0: copy mode where the
// driver has nothing better. Frames that it takes are seen by no packet socket
// on the device, and those of other queues go to the kernel.
type xdp struct {
	device  string
	mode    string
	socket  xdpSocket
	program *ebpf.Program
	sockets *ebpf.Map
	link    link.Link

	wake    int
	stopped atomic.Bool
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
	p := &xdp{device: device, mode: mode, wake: -1, socket: xdpSocket{fd: -1}}
	if err := p.open(dev.Index, flags); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *xdp) open(index int, flags link.XDPAttachFlags) (err error) {
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	if err := p.socket.open(index); err != nil {
		return err
	}
	p.sockets, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("map of sockets: %w", err)
	}
	if err := p.sockets.Put(uint32(0), uint32(p.socket.fd)); err != nil {
		return fmt.Errorf("enter the socket: %w", err)
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

func (p *xdp) String() string { return "AF_XDP " + p.mode + " " + p.device }

func (p *xdp) Stop() {
	p.stopped.Store(true)
	unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (p *xdp) Close() error {
	p.Stop()
	p.receiving.Lock()
	defer p.receiving.Unlock()
	p.sending.Lock()
	defer p.sending.Unlock()
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
	errs = append(errs, p.socket.close())
	if p.wake >= 0 {
		errs = append(errs, unix.Close(p.wake))
		p.wake = -1
	}
	return errors.Join(errs...)
}

func (p *xdp) Receive(take func([]byte)) error {
	p.receiving.Lock()
	defer p.receiving.Unlock()
	for {
		if p.stopped.Load() {
			return ErrStopped
		}
		if p.socket.receive(take) {
			return nil
		}
		fds := []unix.PollFd{{Fd: int32(p.socket.fd), Events: unix.POLLIN}, {Fd: int32(p.wake), Events: unix.POLLIN}}
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
	port   *xdp
	frames [batch][]byte
	n      int
}

// Sender shares the transmit ring of the port with others, a batch at a time.
func (p *xdp) Sender() (Sender, error) {
	s := &xdpSender{port: p}
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
	s.port.sending.Lock()
	defer s.port.sending.Unlock()
	err := s.port.socket.send(s.frames[:s.n])
	s.n = 0
	if err != nil {
		return fmt.Errorf("port %s: send: %w", s.port.device, err)
	}
	return nil
}
