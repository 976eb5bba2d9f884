package probe_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"seg6lab/lab/headroom"
	"seg6lab/lab/probe"
	"seg6lab/lab/seg6"
)

func (b *bench) nodes() []probe.Node {
	return []probe.Node{{Name: "router", NetNS: int(b.router.ns)}}
}

func (b *bench) open(backend probe.Backend) *probe.Probe {
	b.t.Helper()
	p, err := probe.Open(probe.Options{Nodes: b.nodes(), Backend: backend})
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

// arrive makes frames reach the router with a headroom and as clones.
func (b *bench) arrive(h headroom.Headroom, c headroom.Clone) (undo func()) {
	b.t.Helper()
	_, undo = b.applied(h, c)
	return undo
}

func (b *bench) applied(h headroom.Headroom, c headroom.Clone) (a *headroom.Applied, undo func()) {
	b.t.Helper()
	return b.apply(headroom.Profile{Headroom: h, Clone: c})
}

func (b *bench) apply(p headroom.Profile) (a *headroom.Applied, undo func()) {
	b.t.Helper()
	a, err := headroom.Apply(headroom.End{NetNS: int(b.sender.ns), Device: "s0"}, headroom.End{NetNS: int(b.router.ns), Device: "r0"}, p)
	check(b.t, err)
	return a, func() {
		b.t.Helper()
		if n := must(a.Failed())(b.t); n > 0 {
			b.t.Errorf("%+v: %d frames could not be changed", p, n)
		}
		check(b.t, a.Close())
	}
}

func isL2(mode seg6.Mode) bool { return mode == seg6.ModeL2Encap || mode == seg6.ModeL2EncapRed }

// fixed tells whether the L2 modes reallocate only what lacks room, by whether
// they do when nothing does: 206 bytes are enough for every mode.
func (b *bench) fixed(p *probe.Probe) bool {
	b.t.Helper()
	b.encapsulate(seg6.ModeL2Encap, 1)
	defer b.arrive(206, headroom.NotCloned)()
	return len(calls(b.observe(p, frame(b.t, 64), 1)[0])) == 0
}

// needed is the headroom that an encapsulation with one segment takes, with the
// room that is kept for the outgoing Ethernet header (LL_RESERVED_SPACE, 16).
var needed = map[seg6.Mode]int{
	seg6.ModeInline:     8 + 2*16 + 16, // the SRH with the segment and the destination
	seg6.ModeEncap:      40 + 24 + 16,
	seg6.ModeEncapRed:   40 + 16, // a single segment needs no SRH
	seg6.ModeL2Encap:    14 + 40 + 24 + 16,
	seg6.ModeL2EncapRed: 14 + 40 + 16,
}

// wantedCalls are those for one segment and a warm dst cache. skb_cow_head grows
// by the lack rounded up to NET_SKB_PAD (64), and reallocates what is
// header-cloned even when nothing lacks.
func wantedCalls(mode seg6.Mode, hr int, headerCloned, fixed bool) []call {
	lack := needed[mode] - hr
	cow := func(lack int) []call {
		if lack <= 0 && !headerCloned {
			return nil
		}
		return []call{{probe.CowHeader, (max(lack, 0) + 63) / 64 * 64}}
	}
	if !isL2(mode) || fixed {
		return cow(lack)
	}
	// The direct call adds mac_len and unclones; the push takes it away again.
	headerCloned = false
	return append([]call{{probe.DirectL2, 14}}, cow(needed[mode]-14-hr)...)
}

// The steps at 80 and 94 bytes, and above and below them.
func TestExpansions(t *testing.T) {
	b := newBench(t)
	p := b.open(probe.Auto)
	fixed := b.fixed(p)
	t.Logf("backend %s, L2 modes fixed: %v", p.Backend(), fixed)
	for _, clone := range []headroom.Clone{headroom.NotCloned, headroom.HeaderCloned, headroom.DataCloned} {
		a, undo := b.applied(headroom.Veth, clone)
		for _, hr := range []int{16, 40, 55, 56, 64, 69, 70, 79, 80, 93, 94, 95, 206} {
			check(t, a.SetHeadroom(headroom.Headroom(hr)))
			for _, mode := range seg6.Modes() {
				b.encapsulate(mode, 1)
				want := wantedCalls(mode, hr, clone == headroom.HeaderCloned, fixed)
				for _, packet := range b.observe(p, frame(t, 64), 2) {
					if d := cmp.Diff(want, calls(packet)); d != "" {
						t.Errorf("%s, headroom %d, clone %s: calls of pskb_expand_head (-want +got):\n%s", mode, hr, clone, d)
					}
					b.checkEntry(packet, hr, clone)
				}
			}
		}
		undo()
	}
}

func (b *bench) checkEntry(packet *probe.Packet, hr int, clone headroom.Clone) {
	b.t.Helper()
	e, _ := packet.Entry()
	got := []any{e.Device, e.State.Headroom, e.State.MacLen, e.State.Cloned, e.State.HeaderCloned}
	want := []any{"r0", hr, 14, clone != headroom.NotCloned, clone == headroom.HeaderCloned}
	if d := cmp.Diff(want, got); d != "" {
		b.t.Errorf("headroom %d, clone %s: device, headroom, mac_len, cloned, header-cloned at seg6 (-want +got):\n%s", hr, clone, d)
	}
}

// Every headroom that can be asked for is reached, and the frame is unchanged.
func TestHeadroomIsReached(t *testing.T) {
	b := newBench(t)
	p := b.open(probe.Auto)
	b.encapsulate(seg6.ModeEncap, 1)
	a, undo := b.applied(headroom.Veth, headroom.NotCloned)
	for hr := headroom.Veth; hr <= headroom.Max; hr++ {
		check(t, a.SetHeadroom(hr))
		size := []int{0, 17, 1300}[hr%3]
		f := frame(t, size)
		b.checkEntry(b.observe(p, f, 1)[0], int(hr), headroom.NotCloned)
		// IPv6 and segment routing header, then the inner packet.
		if d := cmp.Diff(f[14:], b.last[14+40+24:]); d != "" {
			t.Errorf("headroom %d, payload %d: inner packet (-sent +received):\n%s", hr, size, d)
		}
	}
	undo()
	defer b.arrive(headroom.Page, headroom.NotCloned)()
	b.checkEntry(b.observe(p, frame(t, 64), 1)[0], headroom.Page.Bytes(), headroom.NotCloned)
}

// A driver hands packets over in lists: all are received and pass netfilter
// before seg6 sees the first. Frames of bpf_prog_test_run arrive in that way,
// with the headroom of a page.
func TestList(t *testing.T) {
	b := newBench(t)
	backends, _ := probe.Supported()
	const frames, segments = 8, 16
	// 14 + 40 + 8 + 16 segments + 16 is more than 270 + 14.
	b.encapsulate(seg6.ModeL2Encap, segments)
	pass := must(ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}}))(t)
	defer pass.Close()
	f := frame(t, 64)
	for _, backend := range backends {
		p := b.open(backend)
		b.router.do(func() {
			context := make([]byte, 24) // struct xdp_md
			binary.NativeEndian.PutUint32(context[4:], uint32(len(f)))
			binary.NativeEndian.PutUint32(context[12:], uint32(b.router.link("r0").Attrs().Index))
			must(pass.Run(&ebpf.RunOptions{Data: f, Context: context, Repeat: frames, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES}))(t)
		})
		b.await(frames)
		trace := must(p.Collect(t.Context()))(t)
		packets := trace.Seg6Packets("router")
		if len(packets) != frames || trace.Unmatched != 0 {
			t.Errorf("%s: %d packets, %d reallocations of none, want %d and 0", backend, len(packets), trace.Unmatched, frames)
		}
		for i, packet := range packets {
			var got []probe.Attribution
			var previous *probe.Expansion
			for _, e := range packet.Expansions(probe.Anywhere) {
				got = append(got, e.Attribution)
				if previous != nil && (previous.NewHead != e.OldHead || previous.NewSize != e.OldSize) {
					t.Errorf("%s: packet %d: head %#x of %d bytes follows on %#x of %d", backend, i, e.OldHead, e.OldSize, previous.NewHead, previous.NewSize)
				}
				previous = e
			}
			if d := cmp.Diff([]probe.Attribution{probe.DirectL2, probe.CowHeader}, got); d != "" {
				t.Errorf("%s: packet %d (-want +got):\n%s", backend, i, d)
			}
			b.checkEntry(packet, headroom.Page.Bytes(), headroom.NotCloned)
		}
	}
}

// vlan gives the router a device for VLAN 100.
func (b *bench) vlan(reorderHdr bool) {
	b.t.Helper()
	vlan := &netlink.Vlan{LinkAttrs: netlink.NewLinkAttrs(), VlanId: 100, ReorderHdr: &reorderHdr}
	vlan.Name, vlan.ParentIndex = "r0.100", b.router.link("r0").Attrs().Index
	err := b.router.nl.LinkAdd(vlan)
	if errors.Is(err, unix.EOPNOTSUPP) {
		b.t.Skip("needs vlan")
	}
	check(b.t, err)
	check(b.t, b.router.nl.LinkSetUp(b.router.link("r0.100")))
}

func tagged(f []byte) []byte {
	return slices.Concat(f[:12], []byte{0x81, 0, 0, 100}, f[12:])
}

// Where the tag of a frame is decides about headroom and mac_len at seg6.
func TestTags(t *testing.T) {
	needRoot(t)
	backends, _ := probe.Supported()
	for _, c := range []tags{
		{true, false, headroom.Veth, 20, 14, []call{{probe.DirectL2, 14}, {probe.CowHeader, 128}}},
		{true, true, headroom.Veth, 20, 14, []call{{probe.DirectL2, 14}, {probe.CowHeader, 128}}},
		{true, false, 64, 64, 14, []call{{probe.DirectL2, 14}, {probe.CowHeader, 64}}},
		{true, true, 64, 64, 14, []call{{probe.DirectL2, 14}, {probe.CowHeader, 64}}},
		{false, false, headroom.Veth, 20, 18, []call{{probe.DirectL2, 18}, {probe.CowHeader, 128}}},
		{false, false, 64, 64, 18, []call{{probe.DirectL2, 18}, {probe.CowHeader, 64}}},
		// The tag that was taken out leaves the room into which
		// vlan_do_receive puts it back.
		{false, true, headroom.Veth, 20, 18, []call{{probe.DirectL2, 18}, {probe.CowHeader, 128}}},
	} {
		for _, backend := range backends {
			c.test(t, backend)
		}
	}
}

type tags struct {
	reorderHdr, accel bool
	asked             headroom.Headroom
	hr, macLen        int
	want              []call
}

func (c tags) test(t *testing.T, backend probe.Backend) {
	t.Helper()
	b := newBench(t)
	b.vlan(c.reorderHdr)
	p := b.open(backend)
	if b.fixed(p) {
		t.Skip("needs a kernel whose L2 modes call pskb_expand_head for every packet")
	}
	// 40 + 8 + 2 * 16 for the headers, 16 for the link layer.
	b.encapsulate(seg6.ModeL2Encap, 2)
	_, undo := b.apply(headroom.Profile{Headroom: c.asked, AccelVLAN: c.accel})
	defer undo()
	f := frame(t, 64)
	for _, packet := range b.observe(p, tagged(f), 2) {
		e, _ := packet.Entry()
		got := []any{e.Device, e.State.Headroom, e.State.MacLen, calls(packet)}
		if d := cmp.Diff([]any{"r0.100", c.hr, c.macLen, c.want}, got); d != "" {
			t.Errorf("%s, %+v: device, headroom, mac_len, calls (-want +got):\n%s", backend, c, d)
		}
		received := packet.Events[0]
		if s := received.State; received.Kind != probe.Receive || received.Device != "r0" || s.VLAN != c.accel || c.accel && s.VLANTCI != 100 {
			t.Errorf("%s, %+v: %s at %s with accelerated tag %v %d", backend, c, received.Kind, received.Device, s.VLAN, s.VLANTCI)
		}
	}
	inner := f
	if !c.reorderHdr {
		inner = tagged(f)
	}
	if d := cmp.Diff(inner, b.last[14+40+8+2*16:]); d != "" {
		t.Errorf("%s, %+v: inner frame (-want +got):\n%s", backend, c, d)
	}
}

// A TAP device with IFF_NAPI_FRAGS hands frames to napi_gro_frags in the pieces
// in which they were written. Headers outside the first piece are pulled into the
// head.
func TestPulls(t *testing.T) {
	needBackends(t, probe.Fentry)
	b := newBench(t)
	b.encapsulate(seg6.ModeEncap, 1)
	tap := b.router.tap("t0", unix.IFF_NAPI|unix.IFF_NAPI_FRAGS)
	p := b.open(probe.Fentry)
	f := frame(t, 64)
	copy(f, b.router.link("t0").Attrs().HardwareAddr)
	for _, c := range []struct {
		first, want int
	}{
		// The Ethernet header alone: the IPv6 and the UDP header are pulled.
		{14, 2},
		{14 + 40 + 8, 0},
		{len(f), 0},
	} {
		pieces := [][]byte{f[:c.first]}
		if c.first < len(f) {
			pieces = append(pieces, f[c.first:])
		}
		must(unix.Writev(tap, pieces))(t)
		b.await(1)
		packets := must(p.Collect(t.Context()))(t).Seg6Packets("router")
		if len(packets) != 1 {
			t.Fatalf("seg6 encapsulated %d packets, want 1", len(packets))
		}
		if got := packets[0].Calls("__pskb_pull_tail", probe.Anywhere); got != c.want {
			t.Errorf("%d bytes first: %d calls of __pskb_pull_tail, want %d", c.first, got, c.want)
		}
		if e, _ := packets[0].Entry(); (e.State.Frags > 0) != (len(pieces) > 1) {
			t.Errorf("%d bytes first: %d fragments at seg6", c.first, e.State.Frags)
		}
	}
}

// A VLAN device that leaves the tag in the frame (reorder_hdr off) makes mac_len
// 18, and the room of 16 that seg6 keeps for the link layer too small. Here the
// rounding of skb_cow_head hides it. Where it does not, the offset of the MAC
// header wraps and the kernel copies the header to 64 KB behind the buffer: that
// is for a case, in a guest of its own.
func TestMACHeaderOfVLAN(t *testing.T) {
	needBackends(t, probe.Fentry) // which sees ip6_forward
	b := newBench(t)
	b.vlan(false)
	p := b.open(probe.Fentry)
	f := tagged(frame(t, 64))
	defer b.arrive(32, headroom.NotCloned)()
	for _, c := range []struct {
		mode seg6.Mode
		// The offset of the network header by the number of segments, worked
		// out from 32 bytes of headroom, growth in steps of 64, and what the
		// mode pushes; the MAC header belongs 18 bytes before it.
		network map[int]int
	}{
		{seg6.ModeEncap, map[int]int{1: 32, 3: 64, 4: 48}},
		{seg6.ModeL2Encap, map[int]int{1: 32, 3: 64, 4: 48}},
		{seg6.ModeEncapRed, map[int]int{1: 56, 2: 32, 4: 64}},
		{seg6.ModeInline, map[int]int{1: 56, 2: 40, 3: 24, 4: 72}},
	} {
		for segments, network := range c.network {
			b.encapsulate(c.mode, segments)
			b.send(f, 1)
			must(p.Collect(t.Context()))(t)
			must(unix.Write(b.in, f))(t)
			b.await(1)
			trace := must(p.Collect(t.Context()))(t)
			var got []int
			for _, packet := range trace.Seg6Packets("router") {
				entry, _ := packet.Entry()
				if s := entry.State; entry.Device != "r0.100" || s.MacLen != 18 || s.Headroom != 32 || s.VLAN {
					t.Errorf("%s: at seg6 on %s with mac_len %d, headroom %d, accelerated tag %v, want r0.100, 18, 32, false",
						c.mode, entry.Device, s.MacLen, s.Headroom, s.VLAN)
				}
				for _, e := range packet.Events {
					if e.Function == "ip6_forward" {
						got = append(got, e.State.MacHeader, e.State.NetworkHeader)
					}
				}
			}
			want := []int{network - 18, network}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, %d segments: offsets of MAC and network header at ip6_forward (-want +got):\n%s", c.mode, segments, d)
			}
		}
	}
}
