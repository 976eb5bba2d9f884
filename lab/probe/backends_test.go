package probe_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"seg6lab/lab/headroom"
	"seg6lab/lab/probe"
	"seg6lab/lab/seg6"
)

func needBackends(t *testing.T, backends ...probe.Backend) {
	t.Helper()
	needRoot(t)
	_, missing := probe.Supported()
	for _, b := range backends {
		if err := missing[b]; err != nil {
			if !errors.Is(err, probe.ErrUnsupported) {
				t.Fatal(err)
			}
			t.Skipf("needs probe.%s: %v", b, err)
		}
	}
}

// Both backends look at the same packets at the same time, and must say the
// same of them.
func TestBackendsAgree(t *testing.T) {
	needBackends(t, probe.Fentry, probe.Tracepoint)
	b := newBench(t)
	fentry, tracepoint := b.open(probe.Fentry), b.open(probe.Tracepoint)
	smallHeads, expansions := 0, 0
	compare := func(what string, count int) {
		t.Helper()
		a := must(fentry.Collect(t.Context()))(t)
		c := must(tracepoint.Collect(t.Context()))(t)
		if c.Unmatched != 0 {
			t.Errorf("%s: %d reallocations belong to no packet", what, c.Unmatched)
		}
		x, y := a.Seg6Packets("router"), c.Seg6Packets("router")
		if len(x) != count || len(y) != count {
			t.Fatalf("%s: fentry saw %d packets, tracepoint %d, want %d", what, len(x), len(y), count)
		}
		for i := range x {
			// All that an expansion says, heads and sizes included. The
			// depth of the stack is limited and begins in different places.
			ignore := cmpopts.IgnoreFields(probe.Expansion{}, "Callers")
			if d := cmp.Diff(x[i].Expansions(probe.Anywhere), y[i].Expansions(probe.Anywhere), ignore); d != "" {
				t.Errorf("%s: packet %d: expansions (-fentry +tracepoint):\n%s", what, i, d)
			}
			for _, e := range x[i].Expansions(probe.Seg6) {
				expansions++
				// The slab for small heads is the only one that is not a
				// power of two.
				if e.Allocated&(e.Allocated-1) != 0 {
					smallHeads++
				}
			}
			e, _ := x[i].Entry()
			f, _ := y[i].Entry()
			if d := cmp.Diff(e.State, f.State); d != "" {
				t.Errorf("%s: packet %d: state at seg6 (-fentry +tracepoint):\n%s", what, i, d)
			}
		}
	}
	for _, clone := range []headroom.Clone{headroom.NotCloned, headroom.HeaderCloned, headroom.DataCloned} {
		for _, hr := range []headroom.Headroom{16, 55, 80, 94, 206, headroom.Page} {
			if hr == headroom.Page && clone == headroom.DataCloned {
				continue
			}
			undo := b.arrive(hr, clone)
			for _, mode := range seg6.Modes() {
				for _, segments := range []int{1, 4} {
					b.encapsulate(mode, segments)
					b.send(frame(t, 16), 1)
					b.send(frame(t, 1000), 2)
					compare(fmt.Sprintf("%s, %d segments, headroom %d, clone %s", mode, segments, hr, clone), 3)
				}
			}
			undo()
		}
	}
	if smallHeads == 0 {
		t.Error("no head came from the slab for small heads: the test does not cover it")
	}

	// Packets of the router itself reach seg6 on their way out.
	expansions = 0
	for _, mode := range []seg6.Mode{seg6.ModeInline, seg6.ModeEncap, seg6.ModeEncapRed} {
		for segments := 1; segments <= 6; segments++ {
			b.encapsulate(mode, segments)
			b.router.sendUDP("fd99::1", 2)
			b.await(2)
			compare(fmt.Sprintf("%s, %d segments, of the router itself", mode, segments), 2)
		}
	}
	if expansions == 0 {
		t.Error("no packet of the router itself was reallocated: the test does not cover it")
	}
}

// What no buffer can hold is counted, and Collect fails.
func TestLost(t *testing.T) {
	b := newBench(t)
	b.encapsulate(seg6.ModeEncap, 1)
	p := must(probe.Open(probe.Options{Nodes: b.nodes(), Buffer: unix.Getpagesize()}))(t)
	defer p.Close()
	resume := p.Pause()
	b.send(frame(t, 64), 20)
	resume()
	trace, err := p.Collect(t.Context())
	if !errors.Is(err, probe.ErrLost) {
		t.Fatalf("20 packets in one page of events: error %v, want %v", err, probe.ErrLost)
	}
	if trace == nil || len(trace.Packets) == 0 {
		t.Error("the events that were not lost are missing")
	}
	if n := must(p.Lost())(t); n == 0 {
		t.Error("lost 0 events")
	}
}

// The sender, the receiver and the host are not reported.
func TestOnlyTheLab(t *testing.T) {
	b := newBench(t)
	b.encapsulate(seg6.ModeEncap, 1)
	p := b.open(probe.Auto)
	b.send(frame(t, 64), 5)
	trace := must(p.Collect(t.Context()))(t)
	devices := map[string]bool{"r0": true, "r1": true, "lo": true}
	for _, packet := range trace.Packets {
		for _, e := range packet.Events {
			if e.Node != "router" || e.Device != "" && !devices[e.Device] {
				t.Errorf("%s at %s:%s", e.Kind, e.Node, e.Device)
			}
		}
	}
}

// A datagram for a port that nobody has is dropped by name.
func TestDrop(t *testing.T) {
	b := newBench(t)
	p := b.open(probe.Auto)
	f := frame(t, 8)
	copy(f[14+24:], []byte{0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}) // to the router
	fixUDPChecksum(f)
	must(unix.Write(b.in, f))(t)
	deadline := time.Now().Add(2 * time.Second)
	for time.Now().Before(deadline) {
		for _, packet := range must(p.Collect(t.Context()))(t).Packets {
			if e, ok := packet.Dropped(); ok && e.State.L3[6] == unix.IPPROTO_UDP {
				if e.Reason != "NO_SOCKET" {
					t.Errorf("dropped for %s in %s, want NO_SOCKET", e.Reason, e.Location)
				}
				return
			}
		}
	}
	t.Error("no drop was seen within 2 s")
}

// fixUDPChecksum writes the checksum of RFC 8200 section 8.1 into an Ethernet
// frame with IPv6 and UDP.
func fixUDPChecksum(f []byte) {
	l4 := f[14+40:]
	l4[6], l4[7] = 0, 0
	sum := uint32(len(l4)) + unix.IPPROTO_UDP
	for _, b := range [][]byte{f[14+8 : 14+40], l4} {
		for i := 0; i < len(b); i++ {
			sum += uint32(b[i]) << (8 * (1 - i%2))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	l4[6], l4[7] = byte(^sum>>8), byte(^sum)
}

// Nothing stays loaded.
func TestClose(t *testing.T) {
	b := newBench(t)
	p := must(probe.Open(probe.Options{Nodes: b.nodes()}))(t)
	ids := must(p.ProgramIDs())(t)
	if len(ids) == 0 {
		t.Fatal("no program was loaded")
	}
	check(t, p.Close())
	// The kernel frees a program after a grace period.
	deadline := time.Now().Add(5 * time.Second)
	for _, id := range ids {
		for {
			prog, err := ebpf.NewProgramFromID(id)
			if errors.Is(err, unix.ENOENT) {
				break
			}
			check(t, err)
			name := prog.String()
			prog.Close()
			if time.Now().After(deadline) {
				t.Fatalf("%s is still loaded", name)
			}
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		p, err := probe.Open(probe.Options{})
		if err != nil {
			b.Skip(err)
		}
		p.Close()
	}
}
