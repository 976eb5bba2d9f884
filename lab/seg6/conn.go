package seg6

import (
	"errors"
	"fmt"
	"sync"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/lab/nsthread"
)

// The netlink library asks for the kernel's extack text only when this is set,
// and only on the sockets that it opens for a single request: those of a
// netlink.Handle without sockets. It is set here, below all that adds routes.
func init() { nl.EnableErrorMessageReporting = true }

// Conn speaks to the kernel for one network namespace, from any goroutine. Its
// errors carry the kernel's extack text and unwrap to the errno.
type Conn struct {
	sockets map[int]*nl.SocketHandle
	family  func() (uint16, error) // of SEG6 in generic netlink, asked for once
}

// Open opens a connection in the namespace ns, or in the caller's one when ns is
// netns.None().
func Open(ns netns.NsHandle) (*Conn, error) {
	c := &Conn{sockets: make(map[int]*nl.SocketHandle)}
	c.family = sync.OnceValues(c.findFamily)
	open := func() error {
		for _, protocol := range []int{unix.NETLINK_ROUTE, unix.NETLINK_GENERIC} {
			s, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), protocol)
			if err != nil {
				return err
			}
			c.sockets[protocol] = &nl.SocketHandle{Socket: s}
			if err := s.SetExtAck(true); err != nil {
				return err
			}
		}
		return nil
	}
	if ns.IsOpen() {
		inside := open
		open = func() error { return nsthread.In(ns, inside) }
	}
	if err := open(); err != nil {
		c.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return c, nil
}

// Close closes the sockets. What they set stays set.
func (c *Conn) Close() error {
	for _, s := range c.sockets {
		s.Close()
	}
	c.sockets = nil
	return nil
}

// errClosed keeps a request of a closed Conn from the caller's namespace: the
// netlink library would open a socket there.
var errClosed = errors.New("netlink connection is closed")

// dumpAttempts bounds the repetitions of a dump that changes interrupted.
const dumpAttempts = 20

// request sends one message, header is that of the family, and returns the
// answers of type answer, 0 for any.
func (c *Conn) request(protocol, kind, flags int, header, attrs []byte, answer uint16) ([][]byte, error) {
	if c.sockets == nil {
		return nil, errClosed
	}
	for attempt := 1; ; attempt++ {
		req := nl.NewNetlinkRequest(kind, flags)
		req.Sockets = c.sockets
		req.AddRawData(header)
		req.AddRawData(attrs)
		msgs, err := req.Execute(protocol, answer)
		interrupted := errors.Is(err, nl.ErrDumpInterrupted) || errors.Is(err, unix.EINTR)
		if interrupted && flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP && attempt < dumpAttempts {
			continue
		}
		if err != nil {
			return nil, err
		}
		return msgs, nil
	}
}
