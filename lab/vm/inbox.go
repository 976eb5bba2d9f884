package vm

import (
	"fmt"
	"io"
	"sync"
)

// inbox holds the input of a call between its arrival and its use, at most
// inputWindow bytes. What is read is credited to the sender, so that a call that
// does not read never holds up the others.
type inbox struct {
	credit func(n int) error

	mu     sync.Mutex
	filled sync.Cond
	queue  [][]byte
	held   int
	err    error // what Read returns once the queue is empty
}

func newInbox(credit func(int) error) *inbox {
	b := &inbox{credit: credit}
	b.filled.L = &b.mu
	return b
}

// put adds what came; nothing at all is the end of the input.
func (b *inbox) put(data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.filled.Broadcast()
	switch {
	case b.err != nil:
		return nil
	case len(data) == 0:
		b.err = io.EOF
		return nil
	case b.held+len(data) > inputWindow:
		return fmt.Errorf("%w: more input than the window of %d bytes", errFrame, inputWindow)
	}
	b.queue = append(b.queue, data)
	b.held += len(data)
	return nil
}

// close drops what is held and makes Read fail with err.
func (b *inbox) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue, b.held, b.err = nil, 0, err
	b.filled.Broadcast()
}

func (b *inbox) Read(p []byte) (int, error) {
	b.mu.Lock()
	for len(b.queue) == 0 && b.err == nil {
		b.filled.Wait()
	}
	if len(b.queue) == 0 {
		defer b.mu.Unlock()
		return 0, b.err
	}
	n := copy(p, b.queue[0])
	if b.queue[0] = b.queue[0][n:]; len(b.queue[0]) == 0 {
		b.queue = b.queue[1:]
	}
	b.held -= n
	b.mu.Unlock()
	return n, b.credit(n)
}
