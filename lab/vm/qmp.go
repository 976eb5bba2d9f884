package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// qmp speaks QEMU's machine protocol (docs/interop/qmp-spec).
type qmp struct {
	conn *net.UnixConn
	in   *bufio.Scanner
	mu   sync.Mutex // one command at a time
}

func newQMP(conn *net.UnixConn) *qmp {
	in := bufio.NewScanner(conn)
	in.Buffer(nil, 1<<20)
	return &qmp{conn: conn, in: in}
}

// hello reads the greeting and leaves the negotiation of capabilities.
func (q *qmp) hello(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { q.conn.Close() })
	defer stop()
	if !q.in.Scan() {
		return q.lost(ctx)
	}
	return q.do(ctx, "qmp_capabilities", nil, nil)
}

// lost is why the connection broke: ctx ended, which closes it, or QEMU did.
func (q *qmp) lost(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := q.in.Err(); err != nil {
		return fmt.Errorf("QEMU monitor: %w", err)
	}
	return fmt.Errorf("QEMU monitor: %w", io.ErrUnexpectedEOF)
}

// do runs a command and decodes what it returns into result, unless that is nil.
func (q *qmp) do(ctx context.Context, command string, arguments any, result any) error {
	return q.doWith(ctx, nil, command, arguments, result)
}

// doWith passes a descriptor along with the command.
func (q *qmp) doWith(ctx context.Context, f *os.File, command string, arguments any, result any) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { q.conn.Close() })
	defer stop()
	msg := map[string]any{"execute": command}
	if arguments != nil {
		msg["arguments"] = arguments
	}
	b, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	var oob []byte
	if f != nil {
		oob = unix.UnixRights(int(f.Fd()))
	}
	if _, _, err := q.conn.WriteMsgUnix(append(b, '\n'), oob, nil); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("QEMU monitor: %s: %w", command, err)
	}
	for q.in.Scan() {
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := json.Unmarshal(q.in.Bytes(), &answer); err != nil {
			return fmt.Errorf("QEMU monitor: %s: %w", command, err)
		}
		switch {
		case answer.Error != nil:
			return fmt.Errorf("QEMU monitor: %s: %w", command, errors.New(answer.Error.Desc))
		case answer.Return == nil: // an event
		case result != nil:
			return json.Unmarshal(answer.Return, result)
		default:
			return nil
		}
	}
	return q.lost(ctx)
}
