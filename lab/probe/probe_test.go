package probe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"seg6lab/lab/probe"
	"seg6lab/lab/seg6"
)

func (b *bench) open(backend probe.Backend) *probe.Probe {
	b.t.Helper()
	p, err := probe.Open(probe.Options{Nodes: []probe.Node{{Name: "router", NetNS: int(b.router.ns)}}, Backend: backend})
	check(b.t, err)
	b.t.Cleanup(func() { check(b.t, p.Close()) })
	return p
}

// observe sends one frame to warm the route's dst cache and then count frames,
// and gives what seg6 did to the latter.
func (b *bench) observe(p *probe.Probe, frame []byte, count int) []*probe.Packet {
	b.t.Helper()
	b.send(frame, 1)
	must(p.Collect(b.t.Context()))(b.t)
	b.send(frame, count)
	trace := must(p.Collect(b.t.Context()))(b.t)
	if trace.Unmatched != 0 {
		b.t.Errorf("%d reallocations belong to no packet", trace.Unmatched)
	}
	packets := trace.Seg6Packets("router")
	if len(packets) != count {
		b.t.Fatalf("seg6 encapsulated %d packets, want %d", len(packets), count)
	}
	return packets
}

type call struct {
	Attribution probe.Attribution
	Nhead       int
}

func calls(p *probe.Packet) []call {
	var out []call
	for _, e := range p.Expansions(probe.Anywhere) {
		out = append(out, call{e.Attribution, e.Nhead})
	}
	return out
}

// A frame from a packet socket reaches seg6 over veth with 16 bytes of
// headroom (LL_RESERVED_SPACE of Ethernet), less than any mode needs.
func TestExpansionsOfInjectedFrames(t *testing.T) {
	for _, clone := range []bool{false, true} {
		b := newBench(t)
		p := b.open(probe.Auto)
		if clone {
			b.router.packetSocket("r0", unix.ETH_P_ALL)
		}
		for _, mode := range seg6.Modes() {
			// skb_cow_head grows by the lack rounded up to NET_SKB_PAD.
			want := []call{{probe.CowHeader, 64}}
			if mode == seg6.ModeL2Encap || mode == seg6.ModeL2EncapRed {
				// Every kernel until the L2 modes ask for all they need
				// at once, which is 14 + 40 + 24 + 16.
				want = []call{{probe.DirectL2, 14}, {probe.CowHeader, 64}}
			}
			b.encapsulate(mode, 1)
			for _, packet := range b.observe(p, frame(t, 64), 3) {
				if d := cmp.Diff(want, calls(packet)); d != "" {
					t.Errorf("%s, header-cloned %v: calls of pskb_expand_head (-want +got):\n%s", mode, clone, d)
				}
				e, _ := packet.Entry()
				got := []any{e.Device, e.State.Headroom, e.State.MacLen, e.State.HeaderCloned}
				if d := cmp.Diff([]any{"r0", 16, 14, clone}, got); d != "" {
					t.Errorf("%s: device, headroom, mac_len, header-cloned at seg6 (-want +got):\n%s", mode, d)
				}
			}
		}
	}
}
