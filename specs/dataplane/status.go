package dataplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"seg6lab/forwarder"
	"seg6lab/lab"
)

// Status is what the forwarder of a node says of itself.
type Status struct {
	// Ports say of what kind they are, and of AF_XDP whether frames are copied and how
	// many queues are served.
	Ports []string
	// Drops counts dropped packets by reason.
	Drops map[string]uint64 `json:",omitempty"`
	SIDs  []SID             `json:",omitempty"`
}

// SID is what has come to a segment.
type SID struct {
	To, Action string
	forwarder.Counters
}

// statusSocket is an abstract address: it is known in the forwarder's network namespace
// and gone with the process.
const statusSocket = "@seg6lab/forwarder"

// statusWait is how long a forwarder may take to answer.
const statusWait = 2 * time.Second

// serveStatus tells whoever asks in this namespace, until it is closed.
func serveStatus(status func() Status) (io.Closer, error) {
	l, err := net.Listen("unix", statusSocket)
	if err != nil {
		return nil, fmt.Errorf("answer seg6lab status: %w", err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.SetDeadline(time.Now().Add(statusWait))
			_ = json.NewEncoder(conn).Encode(status()) // Whoever asked may be gone.
			conn.Close()
		}
	}()
	return l, nil
}

// ReadStatus asks the forwarder of a node. It is nil where none runs.
func ReadStatus(n *lab.Node) (*Status, error) {
	var conn net.Conn
	err := n.Do(func() (err error) {
		conn, err = net.Dial("unix", statusSocket)
		return err
	})
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: ask the forwarder: %w", n.Name, err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(statusWait))
	s := new(Status)
	if err := json.NewDecoder(conn).Decode(s); err != nil {
		return nil, fmt.Errorf("node %s: what the forwarder says: %w", n.Name, err)
	}
	return s, nil
}

func statusOf(f *forwarder.Forwarder, c forwarder.Config, ports []string) Status {
	s := Status{Ports: ports, Drops: f.Drops()}
	for _, r := range c.Routes {
		if r.Local != nil {
			counters, _ := f.Counters(r.To.String())
			s.SIDs = append(s.SIDs, SID{To: r.To.String(), Action: r.Local.Action, Counters: counters})
		}
	}
	return s
}
