package port

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"seg6lab/lab/nsthread"
	"seg6lab/lab/topology"
)

// Cable is what a check found out about one bound end: where the frames arrive that
// leave by it.
type Cable struct {
	End  topology.End
	Port string // by what it is called outside of the lab
	// To is where the topology has the cable lead, nil where that is outside equipment.
	To *topology.End
	// Arrived are the bound ends where the frames arrive, sorted.
	Arrived []string

	netns netns.NsHandle
	fd    int
	mac   net.HardwareAddr
}

// Wrong says what is wrong with a cable, empty when nothing is. Frames that arrive
// elsewhere too, through a switch, do no harm, and where outside equipment sends them
// is its own affair.
func (c *Cable) Wrong() string {
	at := strings.Join(c.Arrived, " and ")
	switch {
	case c.To == nil || slices.Contains(c.Arrived, c.To.String()):
		return ""
	case len(c.Arrived) > 0:
		return fmt.Sprintf("%s, port %s, leads to %s, not to %s: the cables are swapped", c.End, c.Port, at, c.To)
	}
	return fmt.Sprintf("%s, port %s, leads to no port of this lab, expected %s: a cable is missing, or leads elsewhere", c.End, c.Port, c.To)
}

// CableError says which cables are wrong.
type CableError struct{ Cables []*Cable }

func (e *CableError) Error() string {
	var wrong []string
	for _, c := range e.Cables {
		if w := c.Wrong(); w != "" {
			wrong = append(wrong, w)
		}
	}
	return "cables: " + strings.Join(wrong, "; ")
}

// etherType is the IEEE's Local Experimental EtherType 1 (RFC 5342 appendix B.2).
const etherType = 0x88b5

// tick is how often frames are sent again: a link that came up just now may lose
// the first ones.
const tick = 100 * time.Millisecond

// CheckCables sends marked broadcast frames out of bound ends and sees where they
// arrive. netnsOf opens the namespace of a record's node. It returns as soon as
// everything arrived where it should, or after timeout. A forwarder that takes the
// frames of an end by AF_XDP takes these, too.
func CheckCables(ctx context.Context, records []*Record, netnsOf func(*Record) (netns.NsHandle, error), timeout time.Duration) (_ []*Cable, err error) {
	var cables []*Cable
	defer func() {
		for _, c := range cables {
			unix.Close(c.fd)
		}
	}()
	for _, r := range records {
		c := &Cable{End: r.End(), Port: r.Port(), To: r.To}
		if c.netns, err = netnsOf(r); err != nil {
			return nil, err
		}
		if err := c.open(); err != nil {
			return nil, fmt.Errorf("check the cable of %s: %w", c.End, err)
		}
		cables = append(cables, c)
	}
	slices.SortFunc(cables, func(a, b *Cable) int { return strings.Compare(a.End.String(), b.End.String()) })
	nonce := make([]byte, 16)
	rand.Read(nonce) // never fails
	deadline := time.Now().Add(timeout)
	for {
		for i, c := range cables {
			// ENETDOWN and ENOBUFS pass, or show as frames that do not arrive.
			if err := unix.Send(c.fd, c.frame(nonce, i), 0); err != nil && !errors.Is(err, unix.ENETDOWN) && !errors.Is(err, unix.ENOBUFS) {
				return nil, fmt.Errorf("check the cable of %s: send: %w", c.End, err)
			}
		}
		for next := time.Now().Add(tick); time.Now().Before(next); {
			if err := receive(cables, nonce, next); err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(cables, func(c *Cable) bool { return c.Wrong() != "" }) {
				return cables, nil
			}
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if time.Now().After(deadline) {
			return cables, nil
		}
	}
}

// open opens a socket for the frames on the end.
func (c *Cable) open() error {
	return nsthread.In(c.netns, func() error {
		l, err := here.LinkByName(c.End.Dev)
		if err != nil {
			return err
		}
		c.mac = l.Attrs().HardwareAddr
		if c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		// The protocol of the address makes the socket receive, in network byte order.
		protocol := binary.BigEndian.AppendUint16(nil, etherType)
		addr := &unix.SockaddrLinklayer{Protocol: native.Uint16(protocol), Ifindex: l.Attrs().Index}
		if err := unix.Bind(c.fd, addr); err != nil {
			unix.Close(c.fd)
			return err
		}
		return nil
	})
}

// The frame: Ethernet header, label, nonce, number of the end, zeros up to the least
// length of a frame.
const (
	label       = "seg6lab"
	nonceAt     = 14 + len(label)
	numberAt    = nonceAt + 16
	frameLength = 60
)

func (c *Cable) frame(nonce []byte, number int) []byte {
	f := bytes.Repeat([]byte{0xff}, 6)
	f = append(f, c.mac...)
	f = binary.BigEndian.AppendUint16(f, etherType)
	f = append(append(f, label...), nonce...)
	f = binary.BigEndian.AppendUint16(f, uint16(number))
	return append(f, make([]byte, frameLength-len(f))...)
}

// receive takes what arrived, waiting for it until then.
func receive(cables []*Cable, nonce []byte, until time.Time) error {
	fds := make([]unix.PollFd, len(cables))
	for i, c := range cables {
		fds[i] = unix.PollFd{Fd: int32(c.fd), Events: unix.POLLIN}
	}
	_, err := unix.Poll(fds, int(max(time.Until(until).Milliseconds(), 1)))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for frames: %w", err)
	}
	buf := make([]byte, 2048)
	for _, at := range cables {
		for {
			n, from, err := unix.Recvfrom(at.fd, buf, 0)
			if err != nil {
				break // nothing more, or the link is down
			}
			ll, ok := from.(*unix.SockaddrLinklayer)
			if !ok || ll.Pkttype == unix.PACKET_OUTGOING || n < frameLength || !bytes.Equal(buf[nonceAt:numberAt], nonce) {
				continue
			}
			sender := int(binary.BigEndian.Uint16(buf[numberAt:]))
			if end := at.End.String(); sender < len(cables) && !slices.Contains(cables[sender].Arrived, end) {
				cables[sender].Arrived = append(cables[sender].Arrived, end)
				slices.Sort(cables[sender].Arrived)
			}
		}
	}
	return nil
}
