package sweep

import (
	"fmt"
	"slices"

	"seg6lab/forwarder/skb"
	"seg6lab/lab/headroom"
	"seg6lab/lab/probe"
)

// packetLen is the length in bytes of the packets sent: IPv6, UDP and 16 more.
const packetLen = 64

// predict says by the model what a kernel with the given fixes does at a point,
// with a warm dst cache and Ethernet on both sides.
func predict(p Point, profile skb.Profile) (State, error) {
	r, err := skb.Encapsulation{
		Frame: skb.Frame{
			Headroom: p.Headroom, MacLen: p.MacLen, Len: packetLen,
			Cloned: p.Clone != headroom.NotCloned, HeaderCloned: p.Clone == headroom.HeaderCloned,
		},
		Mode: p.Mode, Segments: p.Segments,
	}.Run(profile, false)
	if err != nil {
		return State{}, fmt.Errorf("model: %s: %w", p, err)
	}
	return stateOf(r), nil
}

func stateOf(r *skb.Result) State {
	s := State{Mac: int(r.Mac), Network: int(r.Network)}
	for _, e := range r.Expansions {
		s.Calls = append(s.Calls, Call{e.By, e.NHead, e.Copied})
	}
	return s
}

// differences tells in words where a kernel does otherwise than the model; ""
// where it does not. What was not seen counts as the same.
func differences(want, got State) string {
	same := func(a, b int) bool { return a == b || b == probe.Unknown }
	calls := len(want.Calls) == len(got.Calls)
	for i := 0; calls && i < len(want.Calls); i++ {
		w, g := want.Calls[i], got.Calls[i]
		calls = w.By == g.By && same(w.NHead, g.NHead) && same(w.Copied, g.Copied)
	}
	switch {
	case !calls:
		return fmt.Sprintf("the kernel: %s; the model: %s", describe(got.Calls), describe(want.Calls))
	case !same(want.Mac, got.Mac), !same(want.Network, got.Network):
		return fmt.Sprintf("mac and network offset %d, %d; the model has %d, %d", got.Mac, got.Network, want.Mac, want.Network)
	}
	return ""
}

func describe(calls []Call) string {
	if len(calls) == 0 {
		return "no reallocation"
	}
	s := fmt.Sprintf("%d by", len(calls))
	for _, c := range calls {
		s += fmt.Sprintf(" %s (nhead %d, copied %d)", c.By, c.NHead, c.Copied)
	}
	return s
}

// profiles are the kernels that the points of trials tell apart.
var profiles = []skb.Profile{
	{}, {skb.L2Cow}, {skb.L2CowMacLenOnly},
	{skb.MacHeaderRoom}, {skb.L2Cow, skb.MacHeaderRoom}, {skb.L2CowMacLenOnly, skb.MacHeaderRoom},
}

// trials are points at which kernels of different profiles differ: with room to
// spare only a kernel without either fix of the L2 modes reallocates; of a cloned
// head without room the fix for mac_len alone makes two. With mac_len 18 a
// headroom of exactly 40 + 24 + 16 is too small for the MAC header.
var trials = []Point{
	{skb.L2Encap, 1, 14, 206, headroom.NotCloned},
	{skb.L2Encap, 1, 14, 16, headroom.HeaderCloned},
	{skb.Encap, 1, 18, 80, headroom.NotCloned},
}

// recognise gives the first of the profiles that says the most of what was seen.
func recognise(seen map[Point]State) (skb.Profile, error) {
	best, fewest := 0, len(seen)+1
	for i, profile := range profiles {
		n := 0
		for p, got := range seen {
			want, err := predict(p, profile)
			if err != nil {
				return nil, err
			}
			if differences(want, got) != "" {
				n++
			}
		}
		if n < fewest {
			best, fewest = i, n
		}
	}
	return profiles[best], nil
}

// plan puts points into the batches in which they are sent. Points of a batch
// share everything but mode and segments. Those where the MAC header ends up
// outside of the buffer come last and alone, since the kernel may not survive
// them. The plan is the same each time.
func plan(points []Point, profile skb.Profile) ([][]Point, error) {
	var safe, harmful [][]Point
	for _, p := range points {
		want, err := predict(p, profile)
		if err != nil {
			return nil, err
		}
		if want.Outside() {
			harmful = append(harmful, []Point{p})
			continue
		}
		last := len(safe) - 1
		if last < 0 || !p.sharesSetting(safe[last][0]) {
			safe = append(safe, nil)
			last++
		}
		safe[last] = append(safe[last], p)
	}
	return slices.Concat(safe, harmful), nil
}

func (p Point) sharesSetting(q Point) bool {
	return p.MacLen == q.MacLen && p.Headroom == q.Headroom && p.Clone == q.Clone
}
