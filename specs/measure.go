package specs

import (
	"encoding/hex"
	"fmt"

	"seg6lab/lab/probe"
	"seg6lab/lab/topology"
)

// Measured is what a node's kernel did, in a step, to the packets that seg6
// worked on there.
type Measured struct {
	Node string
	// Packets is how many there were.
	Packets int
	// Reallocations of their heads, by who asked (probe.Attribution).
	Reallocations map[probe.Attribution]Reallocations `json:",omitempty"`
	// Pulls counts calls of __pskb_pull_tail; probe.Unknown where the kernel does
	// not let them be seen.
	Pulls int
}

// Reallocations sums calls of pskb_expand_head.
type Reallocations struct {
	Calls int
	// Copied and Zeroed are bytes; probe.Unknown where the kernel does not let
	// them be seen.
	Copied, Zeroed int
}

// ArrivedFrame is a frame that came to an end in a step, and how often.
type ArrivedFrame struct {
	End string
	Hex string
	// Count of such frames.
	Count int
}

// pullTail is the function that moves bytes from fragments into the head.
const pullTail = "__pskb_pull_tail"

// maxArrived bounds the different frames that a step's result holds.
const maxArrived = 1000

// Within sums the reallocations that a probe.Within selects.
func (m *Measured) Within(w probe.Within) Reallocations {
	var sum Reallocations
	for by, r := range m.Reallocations {
		if w.Holds(by) {
			sum.add(r)
		}
	}
	return sum
}

func (r *Reallocations) add(o Reallocations) {
	r.Calls += o.Calls
	r.Copied = plus(r.Copied, o.Copied)
	r.Zeroed = plus(r.Zeroed, o.Zeroed)
}

// plus adds numbers of which any may be unknown.
func plus(a, b int) int {
	if a == probe.Unknown || b == probe.Unknown {
		return probe.Unknown
	}
	return a + b
}

// measure sums up a trace, node by node.
func measure(t *probe.Trace) []Measured {
	var all []Measured
	at := make(map[string]int)
	for _, p := range t.Packets {
		if !p.Seg6() {
			continue
		}
		i, ok := at[p.Node]
		if !ok {
			i = len(all)
			at[p.Node] = i
			all = append(all, Measured{Node: p.Node, Reallocations: make(map[probe.Attribution]Reallocations)})
		}
		m := &all[i]
		m.Packets++
		if t.Observes(pullTail) {
			m.Pulls += p.Calls(pullTail, probe.Anywhere)
		} else {
			m.Pulls = probe.Unknown
		}
		for _, e := range p.Expansions(probe.Anywhere) {
			r := m.Reallocations[e.Attribution]
			r.add(Reallocations{1, e.Copied, e.Zeroed})
			m.Reallocations[e.Attribution] = r
		}
	}
	return all
}

// keep adds a frame to those that arrived in a step.
func (r *StepResult) keep(at topology.End, frame []byte) {
	end, text := at.String(), hex.EncodeToString(frame)
	for i := range r.Frames {
		if f := &r.Frames[i]; f.End == end && f.Hex == text {
			f.Count++
			return
		}
	}
	if len(r.Frames) < maxArrived {
		r.Frames = append(r.Frames, ArrivedFrame{end, text, 1})
	}
}

// describe says how the frames are to reach the node, where the step asks for it.
func (s *Send) describe() string {
	text := ""
	if s == nil {
		return text
	}
	if s.Headroom != "" {
		text += ", headroom " + s.Headroom
	}
	if s.Clone != "" {
		text += map[string]string{"none": ", not cloned", "data": ", data cloned", "header": ", header-cloned"}[s.Clone]
	}
	if s.Linear != nil {
		text += map[bool]string{true: ", linear", false: ", in pages"}[*s.Linear]
	}
	if s.TAP != nil {
		text += ", from a TAP device"
		if s.TAP.First > 0 {
			text += fmt.Sprintf(", %d bytes in the head", s.TAP.First)
		}
	}
	if s.AccelVLAN != nil {
		text += map[bool]string{true: ", tag beside the frame", false: ", tag in the frame"}[*s.AccelVLAN]
	}
	return text
}
