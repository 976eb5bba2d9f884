package specs_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"seg6lab/lab"
	"seg6lab/lab/topology"
	. "seg6lab/specs/matchers"
	"seg6lab/topologies"
	"seg6lab/traffic"
)

// Specs in Go: for what a case file cannot say, such as a loop over values or a
// comparison between packets. Each builds its own lab.
var _ = Describe("a lab from Go", Label("seg6", "fast"), func() {
	BeforeEach(func() { needRootSpec() })

	// RFC 8986 section 5.2: the first segment is only in the destination, the
	// list holds the others in reverse, and Segments Left is one more than Last
	// Entry. One segment needs no SRH.
	DescribeTable("H.Encaps.Red reduces the list by its first segment", Label("seg6.encap.red"),
		func(ctx SpecContext, path []string, srh OmegaMatcher) {
			l := upHeadend(ctx, topology.Node{
				Seg6: &topology.Seg6{TunSrc: addr("fc00::1")},
				Routes: []*topology.Route{{
					To: destination("2001:db8:9::/64"), Dev: "out",
					Encap: &topology.Encap{Seg6: &topology.Seg6Encap{Mode: "encap.red", Segs: addrs(path)}},
				}},
			})
			frames := exchange(ctx, l, "src:eth0", "dst:eth0",
				`Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")/IPv6(src="2001:db8:1::2", dst="2001:db8:9::1", hlim=9)/UDP(dport=9)/Raw(64)`)

			Expect(frames).To(HaveLen(1))
			Expect(frames[0]).To(And(
				HaveOuterIPv6("fc00::1", path[0], HopLimit(8)),
				srh,
				HaveInner(`IPv6(src="2001:db8:1::2", dst="2001:db8:9::1", hlim=9)/UDP(dport=9)`),
			))
		},
		Entry("1 segment", []string{"fc00:1::1"}, Not(HaveSRH())),
		Entry("2 segments", []string{"fc00:1::1", "fc00:2::2"},
			HaveSRH(SegmentsLeft(1), LastEntry(0), Segments("fc00:2::2"))),
		Entry("3 segments", []string{"fc00:1::1", "fc00:2::2", "fc00:3::3"},
			HaveSRH(SegmentsLeft(2), LastEntry(1), Segments("fc00:3::3", "fc00:2::2"))),
	)

	// net.ipv6.seg6_flowlabel=1: the outer label is a hash of the flow with a key
	// that only the kernel knows, so all that can be said is that it is stable
	// within a flow and not zero.
	It("gives all packets of a flow one flow label", Label("seg6.encap"), func(ctx SpecContext) {
		l := upHeadend(ctx, topology.Node{
			Sysctls: map[string]string{"net.ipv6.seg6_flowlabel": "1"},
			Seg6:    &topology.Seg6{TunSrc: addr("fc00::1")},
			Routes: []*topology.Route{{
				To: destination("2001:db8:9::/64"), Dev: "out",
				Encap: &topology.Encap{Seg6: &topology.Seg6Encap{Mode: "encap", Segs: addrs([]string{"fc00:1::1"})}},
			}},
		})
		const packet = `Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")/IPv6(src="2001:db8:1::2", dst="2001:db8:9::1")/UDP(sport=7, dport=9)/Raw(64)`
		frames := exchange(ctx, l, "src:eth0", "dst:eth0", packet, packet, packet)

		Expect(frames).To(HaveLen(3))
		label := frames[0].Data[15:18] // the low 20 bits of an IPv6 header's first 4 bytes
		of := uint32(label[0]&0xf)<<16 | uint32(label[1])<<8 | uint32(label[2])
		Expect(of).NotTo(BeZero())
		Expect(frames).To(HaveEach(HaveOuterIPv6("fc00::1", "fc00:1::1", FlowLabel(of))))
	})
})

// upHeadend builds the topology headend with an overlay for its router, and takes
// it down after the spec.
func upHeadend(ctx context.Context, r topology.Node) *lab.Lab {
	GinkgoHelper()
	t, err := topologies.Load("headend")
	Expect(err).NotTo(HaveOccurred())
	Expect(t.Merge(map[string]*topology.Node{"r": &r})).To(Succeed())
	Expect(t.Validate()).To(Succeed())

	name := fmt.Sprintf("spec-%d", os.Getpid())
	l, err := lab.Up(ctx, t, lab.Options{Name: name, Owned: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(l.Down)
	return l
}

// exchange sends packets from one end and returns the frames that arrive at
// another, once there are as many or a second is over. Multicasts are left out:
// kernels speak of listeners when they like.
func exchange(ctx context.Context, l *lab.Lab, from, to string, packets ...string) []traffic.Frame {
	GinkgoHelper()
	capture := traffic.NewCapture()
	defer capture.Close()
	inside(l, to, func(dev string) error { return capture.Add(to, dev, traffic.Incoming) })
	var socket *traffic.Socket
	inside(l, from, func(dev string) (err error) {
		socket, err = traffic.Open(dev)
		return err
	})
	defer socket.Close()

	for _, expr := range packets {
		packet, err := traffic.Parse(expr)
		Expect(err).NotTo(HaveOccurred())
		frame, err := packet.Bytes()
		Expect(err).NotTo(HaveOccurred())
		Expect(socket.Send(frame)).To(Succeed())
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	unicast := func(frames []traffic.Frame) []traffic.Frame {
		return slices.DeleteFunc(slices.Clone(frames), func(f traffic.Frame) bool { return f.Data[0]&1 != 0 })
	}
	n := 0
	_ = capture.Wait(ctx, 0, func(frames []traffic.Frame) bool {
		n += len(unicast(frames))
		return n >= len(packets)
	})
	Expect(capture.Close()).To(Succeed())
	return unicast(capture.Frames(0))
}

// inside calls f in the node of an end with the end's device.
func inside(l *lab.Lab, at string, f func(dev string) error) {
	GinkgoHelper()
	var end topology.End
	Expect(end.UnmarshalText([]byte(at))).To(Succeed())
	node, err := l.Node(end.Node)
	Expect(err).NotTo(HaveOccurred())
	Expect(node.Do(func() error { return f(end.Dev) })).To(Succeed())
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func addrs(list []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, addr(s))
	}
	return out
}

func destination(prefix string) (d topology.Destination) {
	Expect(d.UnmarshalText([]byte(prefix))).To(Succeed())
	return d
}
