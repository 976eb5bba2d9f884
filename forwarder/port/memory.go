package port

import (
	"bytes"
	"sync"
)

// memory is one end of a link in memory.
type memory struct {
	name    string
	in, out chan []byte
	closed  chan struct{}
	shut    sync.Once
}

// memoryQueue is how many frames fit on a link in memory.
const memoryQueue = 1024

// Pair is a link in memory: what is sent at one end is received at the other.
// A full link loses frames.
func Pair(a, b string) (Port, Port) {
	toB, toA := make(chan []byte, memoryQueue), make(chan []byte, memoryQueue)
	closeA, closeB := make(chan struct{}), make(chan struct{})
	return &memory{name: a, in: toA, out: toB, closed: closeA},
		&memory{name: b, in: toB, out: toA, closed: closeB}
}

func (m *memory) String() string { return "memory " + m.name }

func (m *memory) Stop() { m.shut.Do(func() { close(m.closed) }) }

func (m *memory) Close() error {
	m.Stop()
	return nil
}

func (m *memory) Queues() []Queue { return []Queue{m} }

func (m *memory) Receive(take func([]byte)) error {
	select {
	case <-m.closed:
		return ErrStopped
	case frame := <-m.in:
		take(frame)
	}
	for range batch - 1 {
		select {
		case frame := <-m.in:
			take(frame)
		default:
			return nil
		}
	}
	return nil
}

func (m *memory) Sender() (Sender, error) { return memorySender{m}, nil }

type memorySender struct{ *memory }

func (s memorySender) Send(frame []byte) error {
	select {
	case s.out <- bytes.Clone(frame):
	default:
	}
	return nil
}

func (memorySender) Flush() error { return nil }
