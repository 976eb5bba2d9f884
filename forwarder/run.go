package forwarder

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"seg6lab/forwarder/port"
)

// Run forwards between the ports, which stand in the order of port numbers,
// until the context ends or a port fails. Each queue of a port is read by one
// goroutine with a thread of its own, which forwards and sends what it read before
// it reads on. Run closes the ports.
func (f *Forwarder) Run(ctx context.Context, ports []port.Port) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type way struct {
		port  int
		queue port.Queue
	}
	var ways []way
	for i, p := range ports {
		for _, q := range p.Queues() {
			ways = append(ways, way{i, q})
		}
	}
	wantProcs(len(ways))
	defer wantProcs(-len(ways))
	errs := make([]error, len(ways)+2)
	var wait sync.WaitGroup
	if len(ports) != len(f.ports) {
		errs[len(ways)+1] = fmt.Errorf("forwarder: %d ports for %d devices", len(ports), len(f.ports))
		cancel()
	}
	for i, way := range ways {
		wait.Go(func() {
			defer cancel()
			if ctx.Err() == nil {
				errs[i] = f.serve(i, way.port, way.queue, ports)
			}
		})
	}
	wait.Go(func() {
		defer cancel()
		errs[len(ways)] = f.tick(ctx, ports)
	})
	<-ctx.Done()
	for _, p := range ports {
		p.Stop()
	}
	wait.Wait()
	for _, p := range ports {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// senders are one goroutine's ways out of all ports.
type senders struct {
	ports []port.Sender
	// used marks those with frames to flush.
	used []bool
	err  error
}

func newSenders(ports []port.Port) (*senders, error) {
	s := &senders{used: make([]bool, len(ports))}
	for _, p := range ports {
		sender, err := p.Sender()
		if err != nil {
			return nil, err
		}
		s.ports = append(s.ports, sender)
	}
	return s, nil
}

func (s *senders) out(port int, frame []byte) {
	s.used[port] = true
	if err := s.ports[port].Send(frame); err != nil {
		s.err = err
	}
}

// flush sends what is queued and returns the latest error.
func (s *senders) flush() error {
	for i, used := range s.used {
		if !used {
			continue
		}
		s.used[i] = false
		if err := s.ports[i].Flush(); err != nil {
			s.err = err
		}
	}
	return s.err
}

// serve forwards what one queue of a port receives, as one of the threads of Run.
func (f *Forwarder) serve(thread, index int, queue port.Queue, ports []port.Port) error {
	runtime.LockOSThread()
	if n := len(f.cpus); n > 0 {
		if err := onCPU(f.cpus[thread%n]); err != nil {
			return err
		}
	}
	// A thread of the batch class does not interrupt whoever sends to the port,
	// so it finds more frames at a time. Refused, it is only slower. The thread
	// ends with the goroutine, and its class with it.
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH}, 0)
	s, err := newSenders(ports)
	if err != nil {
		return err
	}
	w := f.NewWorker()
	out := Out(s.out)
	take := func(frame []byte) { w.Input(index, frame, out) }
	for {
		if err := queue.Receive(take); err != nil {
			if errors.Is(err, port.ErrStopped) {
				return nil
			}
			return err
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
}

// tick calls Tick once a second.
func (f *Forwarder) tick(ctx context.Context, ports []port.Port) error {
	s, err := newSenders(ports)
	if err != nil {
		return err
	}
	w := f.NewWorker()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
			w.Tick(s.out)
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}
