package specs

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"seg6lab/lab/topology"
	"seg6lab/traffic"
)

// matcher holds what arrived in a step against what was expected.
type matcher struct {
	step    step
	met     []int                     // frames given to each expectation
	arrived []string                  // one of them, as an expression
	given   map[set][]int             // of met, the frames that meet just this set
	others  map[topology.End][][]byte // frames that no expectation has room for

	keep func(at topology.End, frame []byte) // told of every frame that counts, if set
}

// set is a set of a step's expectations, by their index.
type set uint64

// maxExpect is the number of expectations of a step that a set can hold.
const maxExpect = 64

func (s set) has(i int) bool { return s>>i&1 != 0 }

func newMatcher(s step) *matcher {
	return &matcher{
		step:    s,
		met:     make([]int, len(s.expect)),
		arrived: make([]string, len(s.expect)),
		given:   make(map[set][]int),
		others:  make(map[topology.End][][]byte),
	}
}

// add gives a frame that arrived at an end to an expectation that it meets.
func (m *matcher) add(at topology.End, frame []byte) {
	var meets set
	for i, e := range m.step.expect {
		if e.End == at && e.packet != nil && e.packet.Diff(frame, e.Exact) == nil {
			meets |= 1 << i
		}
	}
	i, ok := m.give(meets)
	if kind := controlKind(frame); !ok && kind != 0 && !m.expectsControl(at, kind) {
		return
	}
	if m.keep != nil {
		m.keep(at, frame)
	}
	switch {
	case !ok:
		m.others[at] = append(m.others[at], frame)
	case m.arrived[i] == "":
		m.arrived[i] = traffic.Dissect(frame).String()
	}
}

// give finds room for a frame that meets the expectations of a set. Where they
// are full, frames given before move on to others that they meet as well: a
// general expectation must not keep a frame from a particular one.
func (m *matcher) give(meets set) (expectation int, ok bool) {
	type step struct {
		from  int // the expectation that gives a frame up, -1 for the new frame
		frame set // what that frame meets
	}
	reached := make(map[int]step)
	var queue []int
	reach := func(by step) {
		for i := range m.step.expect {
			if _, seen := reached[i]; !seen && by.frame.has(i) {
				reached[i] = by
				queue = append(queue, i)
			}
		}
	}
	reach(step{-1, meets})
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		if m.met[i] >= m.step.expect[i].count {
			for frame, n := range m.given {
				if n[i] > 0 {
					reach(step{i, frame})
				}
			}
			continue
		}
		m.met[i]++
		for {
			by := reached[i]
			if m.given[by.frame] == nil {
				m.given[by.frame] = make([]int, len(m.step.expect))
			}
			m.given[by.frame][i]++
			if by.from < 0 {
				return i, true
			}
			m.given[by.frame][by.from]--
			m.arrived[i], m.arrived[by.from] = m.arrived[by.from], ""
			i = by.from
		}
	}
	return 0, false
}

// expectsControl tells whether a packet of this kind of control is expected at
// an end.
func (m *matcher) expectsControl(at topology.End, kind uint32) bool {
	for _, e := range m.step.expect {
		if e.End != at || e.packet == nil {
			continue
		}
		if frame, err := e.packet.Bytes(); err == nil && controlKind(frame) == kind {
			return true
		}
	}
	return false
}

// complete tells whether every expected packet has arrived.
func (m *matcher) complete() bool {
	for i, e := range m.step.expect {
		if !e.Nothing && m.met[i] < e.count {
			return false
		}
	}
	return true
}

// expectsNothing tells whether the step must wait for what must not come.
func (m *matcher) expectsNothing() bool {
	for _, e := range m.step.expect {
		if e.Nothing || e.count == 0 {
			return true
		}
	}
	return false
}

// failure says what was not met, empty when all was.
func (m *matcher) failure() string {
	var b strings.Builder
	for i, e := range m.step.expect {
		others := m.others[e.End]
		switch {
		case e.Nothing && len(others) > 0:
			fmt.Fprintf(&b, "at %s nothing was expected, but %s arrived:\n%s\n", e.End, frames(len(others)), indent(traffic.Dissect(others[0]).String()))
		case !e.Nothing && m.met[i] < e.count:
			fmt.Fprintf(&b, "at %s %d of %s expected arrived:\n%s\n", e.End, m.met[i], frames(e.count), indent(e.packet.String()))
			if near := nearest(e, others); near != nil {
				fmt.Fprintf(&b, "the nearest of %s that did arrive there differs:\n%s\n", frames(len(others)), indent(near.String()))
			}
		}
	}
	if b.Len() > 0 || m.step.Run != nil {
		return strings.TrimRight(b.String(), "\n")
	}
	// All was met; was there more? A command may send what it likes.
	for _, e := range m.step.expect {
		others := m.others[e.End]
		if len(others) == 0 || e.packet == nil {
			continue
		}
		if d := nearest(e, others); d == nil {
			fmt.Fprintf(&b, "at %s more than the %s expected arrived: %d more of\n%s\n", e.End, frames(e.count), len(others), indent(e.packet.String()))
		} else {
			fmt.Fprintf(&b, "at %s %s arrived that nothing expects:\n%s\n", e.End, frames(len(others)), indent(traffic.Dissect(others[0]).String()))
		}
		break
	}
	return strings.TrimRight(b.String(), "\n")
}

// nearest is the difference to the frame that differs least, nil where one does
// not differ, or there is none.
func nearest(e expect, frames [][]byte) *traffic.Diff {
	var best *traffic.Diff
	for _, f := range frames {
		d := e.packet.Diff(f, e.Exact)
		if d == nil {
			return nil
		}
		if best == nil || d.Fields < best.Fields {
			best = d
		}
	}
	return best
}

func frames(n int) string {
	if n == 1 {
		return "1 frame"
	}
	return fmt.Sprintf("%d frames", n)
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

// controlKind tells frames that hosts and routers send on their own: ARP, IGMP,
// neighbour discovery, router and multicast listener messages. It gives the
// EtherType and the protocol or ICMPv6 type as one number, 0 for any other frame.
func controlKind(frame []byte) uint32 {
	const ethernet, ipv6 = 14, 40
	if len(frame) < ethernet {
		return 0
	}
	etherType := uint32(binary.BigEndian.Uint16(frame[12:])) << 8
	switch {
	case etherType == unix.ETH_P_ARP<<8:
		return etherType
	case etherType == unix.ETH_P_IP<<8 && len(frame) > ethernet+9 && frame[ethernet+9] == unix.IPPROTO_IGMP:
		return etherType | unix.IPPROTO_IGMP
	case etherType != unix.ETH_P_IPV6<<8 || len(frame) < ethernet+ipv6:
		return 0
	}
	next, rest := frame[ethernet+6], frame[ethernet+ipv6:]
	if next == unix.IPPROTO_HOPOPTS && len(rest) >= 8 {
		next, rest = rest[0], rest[min(len(rest), 8*int(rest[1])+8):]
	}
	// Multicast listener queries and reports, router and neighbour messages,
	// redirects (RFC 2710, 4861, 3810).
	if next != unix.IPPROTO_ICMPV6 || len(rest) == 0 || (rest[0] < 130 || rest[0] > 137) && rest[0] != 143 {
		return 0
	}
	return etherType | uint32(rest[0])
}
