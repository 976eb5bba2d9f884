package vm

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// hostCall is a call under way, seen from the host.
type hostCall struct {
	stdout, stderr io.Writer
	credit         chan int
	reply          chan reply
	done           chan struct{}
}

// receive sorts what the agent sends.
func (m *Machine) receive() {
	r := bufio.NewReaderSize(m.hv.agent, 1<<20)
	for {
		f, err := readFrame(r)
		if err == nil {
			err = m.dispatch(f)
		}
		if err != nil {
			if errors.Is(err, errFrame) {
				m.fail(m.withConsole(fmt.Errorf("the agent's connection: %w", err)))
			}
			return // else QEMU ended, which says more
		}
	}
}

func (m *Machine) dispatch(f frame) error {
	m.mu.Lock()
	c := m.calls[f.call]
	m.mu.Unlock()
	switch f.kind {
	case kindReady:
		var h hello
		if err := json.Unmarshal(f.data, &h); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		select {
		case m.ready <- h:
		default:
		}
		return nil
	case kindRequest:
		var req request
		if err := json.Unmarshal(f.data, &req); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		go m.serveModules(f.call, req.Names)
		return nil
	}
	if c == nil {
		return nil // nobody waits any more
	}
	switch f.kind {
	case kindOutput:
		c.stdout.Write(f.data) // whose reader went away is told by the caller's own error
	case kindErrors:
		c.stderr.Write(f.data)
	case kindCredit:
		if len(f.data) != 4 {
			return fmt.Errorf("%w: credit of %d bytes", errFrame, len(f.data))
		}
		select {
		case c.credit <- int(binary.LittleEndian.Uint32(f.data)):
		case <-c.done:
		}
	case kindReply:
		var r reply
		if err := json.Unmarshal(f.data, &r); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		c.reply <- r
	default:
		return fmt.Errorf("%w: kind %d from the guest", errFrame, f.kind)
	}
	return nil
}

// call runs an operation in the guest. in, stdout and stderr may be nil.
func (m *Machine) call(ctx context.Context, req request, in io.Reader, stdout, stderr io.Writer) (reply, error) {
	return m.callResized(ctx, req, in, stdout, stderr, nil)
}

func (m *Machine) callResized(ctx context.Context, req request, in io.Reader, stdout, stderr io.Writer, resize <-chan [2]uint16) (reply, error) {
	b, err := json.Marshal(req)
	if err != nil {
		return reply{}, err
	}
	if len(b) > maxFrame {
		return reply{}, fmt.Errorf("%s: arguments and environment of %d bytes, at most %d", req.Op, len(b), maxFrame)
	}
	c := &hostCall{stdout: orDiscard(stdout), stderr: orDiscard(stderr), credit: make(chan int, 64), reply: make(chan reply, 1), done: make(chan struct{})}
	defer close(c.done)
	m.mu.Lock()
	m.next++
	id := m.next &^ guestCall
	m.calls[id] = c
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.calls, id)
		m.mu.Unlock()
	}()
	// A guest that hangs reads nothing: whatever is sent to it, nobody waits for that alone.
	inErr := make(chan error, 1)
	go func() {
		err := m.out.write(kindRequest, id, b)
		if err == nil {
			err = m.sendInput(c, id, in)
		}
		inErr <- err
	}()
	for {
		select {
		case r := <-c.reply:
			if m.console.settled(m.hv.console) {
				<-m.dead // once the report is whole
				return reply{}, m.Err()
			}
			if r.Error != "" {
				return r, fmt.Errorf("%s in the guest: %s", req.Op, r.Error)
			}
			return r, nil
		case err := <-inErr:
			if err != nil {
				go m.out.write(kindCancel, id, nil)
				return reply{}, m.explain(err)
			}
		case size := <-resize:
			b := binary.LittleEndian.AppendUint16(nil, size[0])
			go m.out.write(kindResize, id, binary.LittleEndian.AppendUint16(b, size[1]))
		case <-m.dead:
			return reply{}, m.Err()
		case <-ctx.Done():
			go m.out.write(kindCancel, id, nil)
			return reply{}, m.withConsole(context.Cause(ctx))
		}
	}
}

// sendInput feeds in to the call, never more than the guest has room for.
func (m *Machine) sendInput(c *hostCall, id uint32, in io.Reader) error {
	if in == nil {
		return m.out.write(kindInput, id, nil)
	}
	buf := make([]byte, maxFrame)
	room := inputWindow
	for {
		n, err := in.Read(buf)
		for n > room {
			select {
			case k := <-c.credit:
				room += k
			case <-c.done:
				return nil
			}
		}
		if n > 0 {
			if werr := m.out.write(kindInput, id, buf[:n]); werr != nil {
				return werr
			}
			room -= n
		}
		for more := true; more; {
			select {
			case k := <-c.credit:
				room += k
			case <-c.done:
				return nil
			default:
				more = false
			}
		}
		if err == io.EOF {
			return m.drainCredit(c, id)
		}
		if err != nil {
			return err
		}
	}
}

// drainCredit ends the input and takes the credit that still comes.
func (m *Machine) drainCredit(c *hostCall, id uint32) error {
	if err := m.out.write(kindInput, id, nil); err != nil {
		return err
	}
	for {
		select {
		case <-c.credit:
		case <-c.done:
			return nil
		}
	}
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
