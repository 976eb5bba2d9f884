// Package sweep measures what encap seg6 routes do to sk_buffs over a grid of
// headrooms, MAC headers, modes, segments and clone states, and compares every
// point with the sk_buff model of the forwarder.
//
// It observes this machine's kernel, or by this program that of a guest. It
// judges no case: that is for specs. On the host it sends only frames with which
// no known kernel writes outside of a buffer.
package sweep

import (
	"errors"
	"fmt"
	"slices"

	"seg6lab/forwarder/skb"
	"seg6lab/lab/headroom"
)

// A Point is a state in which a packet reaches seg6. Sizes are in bytes.
type Point struct {
	Mode     skb.Mode
	Segments int
	MacLen   int // 14, and 4 more for each VLAN tag that stays in the frame
	Headroom int // in front of the network header, the MAC header included
	Clone    headroom.Clone
}

func (p Point) String() string {
	return fmt.Sprintf("%s, segments %d, mac_len %d, headroom %d, clone %s", p.Mode, p.Segments, p.MacLen, p.Headroom, p.Clone)
}

// A Range is a first and a last value.
type Range struct{ First, Last int }

func (r Range) String() string { return fmt.Sprintf("%d..%d", r.First, r.Last) }

// A Grid is the points to measure.
type Grid struct {
	Modes    []skb.Mode
	Segments Range
	MacLens  []int
	Headroom Range
	Clones   []headroom.Clone
}

// Limits of a grid.
const (
	maxSegments = 8
	minHeadroom = int(headroom.Veth)
	maxHeadroom = int(headroom.Max)
)

// macLens are the lengths that a frame without, with one and with two tags has.
var macLens = []int{14, 18, 22}

// FullGrid is everything that can be measured.
func FullGrid() Grid {
	return Grid{
		Modes:    skb.Modes(),
		Segments: Range{1, maxSegments},
		MacLens:  slices.Clone(macLens),
		Headroom: Range{minHeadroom, maxHeadroom},
		Clones:   []headroom.Clone{headroom.NotCloned, headroom.DataCloned, headroom.HeaderCloned},
	}
}

// Check tells whether the grid can be measured.
func (g Grid) Check() error {
	for _, m := range g.Modes {
		if !slices.Contains(skb.Modes(), m) {
			return fmt.Errorf("mode %q: expected one of %v", m, skb.Modes())
		}
	}
	for _, n := range g.MacLens {
		if !slices.Contains(macLens, n) {
			return fmt.Errorf("mac_len %d: expected one of %v", n, macLens)
		}
	}
	for _, c := range g.Clones {
		if _, err := headroom.ParseClone(string(c)); err != nil {
			return err
		}
	}
	for _, r := range []struct {
		name       string
		got, limit Range
	}{
		{"segments", g.Segments, Range{1, maxSegments}},
		{"headroom", g.Headroom, Range{minHeadroom, maxHeadroom}},
	} {
		if r.got.First < r.limit.First || r.got.Last > r.limit.Last || r.got.First > r.got.Last {
			return fmt.Errorf("%s %d..%d: expected a range within %d..%d", r.name, r.got.First, r.got.Last, r.limit.First, r.limit.Last)
		}
	}
	if len(g.Points()) == 0 {
		return errors.New("the grid has no points")
	}
	return nil
}

// Points lists the grid's points, but for those whose headroom could not hold
// the MAC header.
func (g Grid) Points() []Point {
	var points []Point
	for _, macLen := range g.MacLens {
		for _, clone := range g.Clones {
			for room := max(g.Headroom.First, macLen); room <= g.Headroom.Last; room++ {
				for _, mode := range g.Modes {
					for segments := g.Segments.First; segments <= g.Segments.Last; segments++ {
						points = append(points, Point{mode, segments, macLen, room, clone})
					}
				}
			}
		}
	}
	return points
}

// A Call is one call of pskb_expand_head on behalf of seg6.
type Call struct {
	By     skb.Site
	NHead  int // bytes of headroom added; probe.Unknown where it was not seen
	Copied int // bytes; probe.Unknown where it was not seen
}

// A State is what seg6 did to a packet.
type State struct {
	Calls []Call
	// Mac and Network are the header offsets with which the packet leaves seg6,
	// probe.Unknown where they were not seen.
	Mac, Network int
}

// Outside tells whether the MAC header was moved to outside of the buffer: its
// offset has wrapped.
func (s *State) Outside() bool { return s.Mac > s.Network }

// A Verdict is what came of a point.
type Verdict string

// Verdicts.
const (
	Agrees      Verdict = "agrees"      // the kernel does what the model says
	Differs     Verdict = "differs"     // it does otherwise
	Died        Verdict = "died"        // it did not survive the packet, or complained about it
	Unreached   Verdict = "unreached"   // the packet did not reach seg6 as the point says
	Unsupported Verdict = "unsupported" // it cannot be measured here
)

// A Result is a point with what the model says of it and what was seen.
type Result struct {
	Point
	Verdict Verdict
	Want    State
	Got     *State `json:",omitempty"` // nil where nothing was seen
	Why     string `json:",omitempty"` // of every verdict but Agrees
}
