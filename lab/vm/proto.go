package vm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// The two sides talk in frames over one virtio-serial port:
//
//	length  4 bytes, little endian: bytes of data
//	kind    1 byte
//	call    4 bytes, little endian: which call the frame belongs to
//	data    length bytes
//
// The host opens a call with a request and may feed it input; the guest answers
// with output, errors and at last one reply, after which the number is free. The
// guest opens calls of its own (for modules) with numbers that have guestCall set.
type frame struct {
	kind kind
	call uint32
	data []byte
}

type kind uint8

const (
	kindReady   kind = iota + 1 // guest: the agent waits for work; JSON hello
	kindRequest                 // opens a call; JSON request
	kindInput                   // host: bytes for the call; empty: end of input
	kindCredit                  // guest: 4 bytes, how many bytes of input were used up
	kindOutput                  // guest: bytes of standard output or of a pulled archive
	kindErrors                  // guest: bytes of standard error
	kindResize                  // host: 2 bytes of rows, 2 of columns, little endian
	kindCancel                  // host: nobody waits for the reply any more: end the call
	kindReply                   // closes a call; JSON reply
	kindEnd                     // the first invalid kind
)

const (
	guestCall   = 1 << 31
	headerLen   = 9
	maxFrame    = 64 << 10 // bytes of data in a frame
	inputWindow = 1 << 20  // bytes of input that may be under way in a call
)

var errFrame = errors.New("damaged frame")

// readFrame reads one frame; io.EOF only between two frames.
func readFrame(r *bufio.Reader) (frame, error) {
	var h [headerLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return frame{}, err
	}
	n := binary.LittleEndian.Uint32(h[:])
	f := frame{kind: kind(h[4]), call: binary.LittleEndian.Uint32(h[5:])}
	if n > maxFrame {
		return frame{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", errFrame, n, maxFrame)
	}
	if f.kind == 0 || f.kind >= kindEnd {
		return frame{}, fmt.Errorf("%w: kind %d", errFrame, f.kind)
	}
	f.data = make([]byte, n)
	if _, err := io.ReadFull(r, f.data); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	return f, nil
}

// frameWriter writes whole frames from several goroutines.
type frameWriter struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// write sends data as one frame, or as several if it is longer than one holds.
// Empty data makes one empty frame.
func (w *frameWriter) write(k kind, call uint32, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for first := true; first || len(data) > 0; first = false {
		n := min(len(data), maxFrame)
		w.buf = binary.LittleEndian.AppendUint32(w.buf[:0], uint32(n))
		w.buf = append(w.buf, byte(k))
		w.buf = binary.LittleEndian.AppendUint32(w.buf, call)
		w.buf = append(w.buf, data[:n]...)
		if _, err := w.w.Write(w.buf); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// stream is the writer of one kind of frames of one call.
type stream struct {
	w    *frameWriter
	kind kind
	call uint32
}

func (s stream) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := s.w.write(s.kind, s.call, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// hello is what the agent says of itself when it is up.
type hello struct {
	Release string `json:"release"` // uname -r
	Build   string `json:"build"`   // see buildOf
}

// request opens a call.
type request struct {
	Op   string       `json:"op"` // a key of operations; from the guest: modules
	Exec *execRequest `json:"exec,omitempty"`
	Path string       `json:"path,omitempty"` // push, pull: a place in the guest
	// Names are module names or aliases (modules), or a file system and its tag (root).
	Names []string `json:"names,omitempty"`
	// Clock is nanoseconds since 1970; Seed is fresh entropy (fresh).
	Clock int64  `json:"clock,omitempty"`
	Seed  []byte `json:"seed,omitempty"`
}

// execRequest is a command to run in the guest.
type execRequest struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	TTY  bool     `json:"tty,omitempty"`
	Rows uint16   `json:"rows,omitempty"`
	Cols uint16   `json:"cols,omitempty"`
}

// reply closes a call.
type reply struct {
	Error  string `json:"error,omitempty"` // the operation itself failed
	Exit   int    `json:"exit"`            // exec: exit code, or 128 + signal
	Signal int    `json:"signal,omitempty"`
	// Missing says that the kernel has no such module (modules) or file system (root).
	Missing bool `json:"missing,omitempty"`
}
