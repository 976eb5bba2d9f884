package sweep

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"seg6lab/forwarder/skb"
	"seg6lab/lab"
	"seg6lab/lab/headroom"
	"seg6lab/lab/probe"
	"seg6lab/lab/topology"
	"seg6lab/topologies"
	"seg6lab/traffic"
)

// patience is how long frames may be on their way.
const patience = 2 * time.Second

// vlanOuter and vlanInner are the tags of frames that have one or two.
const vlanOuter, vlanInner = 100, 200

// ingress is how frames with a mac_len come: the tags that they are given, the
// innermost first, and the device of r that seg6 sees.
var ingress = map[int]struct {
	tags []uint16
	to   string
}{
	14: {nil, "in"},
	18: {[]uint16{vlanOuter}, "outer"},
	22: {[]uint16{vlanInner, vlanOuter}, "inner"},
}

// network is the topology headend with a route for every mode and number of
// segments, and where tagged is set with VLAN devices that leave the tag in the
// frame.
func network(tagged bool) (*topology.Topology, error) {
	t, err := topologies.Load("headend")
	if err != nil {
		return nil, err
	}
	r := t.Nodes["r"]
	for _, mode := range skb.Modes() {
		for segments := 1; segments <= maxSegments; segments++ {
			e := &topology.Seg6Encap{Mode: string(mode)}
			for i := range segments {
				e.Segs = append(e.Segs, netip.AddrFrom16([16]byte{0: 0xfc, 3: 1, 15: byte(i + 1)}))
			}
			r.Routes = append(r.Routes, &topology.Route{
				To:    topology.Destination{Prefix: netip.PrefixFrom(destination(mode, segments), 128)},
				Dev:   "out",
				Encap: &topology.Encap{Seg6: e},
			})
		}
	}
	if tagged {
		off := false
		r.VLANs = map[string]*topology.VLAN{
			"outer": {Link: "in", ID: vlanOuter, ReorderHdr: &off},
			"inner": {Link: "outer", ID: vlanInner, ReorderHdr: &off},
		}
	}
	return t, nil
}

// destination is the address that a route of network encapsulates.
func destination(mode skb.Mode, segments int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 9, byte(slices.Index(skb.Modes(), mode)), byte(segments), 15: 1})
}

// bench is network, up and observed.
type bench struct {
	lab      *lab.Lab
	topology *topology.Topology
	probe    *probe.Probe
	sink     int // a packet socket at the receiver
	sender   *traffic.Socket
	tagged   bool
	frames   map[netip.Addr][]byte // by destination

	// The setting in force.
	applied *headroom.Applied
	tags    link.Link // nil for untagged frames
	setting Point     // of which only MacLen and Clone count
}

func newBench(ctx context.Context, tagged bool) (_ *bench, err error) {
	t, err := network(tagged)
	if err != nil {
		return nil, err
	}
	if err := lab.Supported(append(lab.Requires(t), "tcx")); err != nil {
		return nil, err
	}
	b := &bench{topology: t, tagged: tagged, sink: -1, frames: map[netip.Addr][]byte{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.lab, err = lab.Up(ctx, t, lab.Options{Name: fmt.Sprintf("sweep-%d", os.Getpid()), Owned: true}); err != nil {
		return nil, err
	}
	err = b.lab.Nodes["dst"].Do(func() (err error) {
		b.sink, err = openSink("eth0")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("receive at dst:eth0: %w", err)
	}
	err = b.lab.Nodes["src"].Do(func() (err error) {
		b.sender, err = traffic.Open("eth0")
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := b.build(); err != nil {
		return nil, err
	}
	b.probe, err = probe.Open(probe.Options{Nodes: []probe.Node{{Name: "r", NetNS: int(b.lab.Nodes["r"].Handle())}}})
	return b, err
}

// build prepares a frame for every route.
func (b *bench) build() error {
	src, dst := b.topology.MACs(topology.End{Node: "src", Dev: "eth0"})
	for _, mode := range skb.Modes() {
		for segments := 1; segments <= maxSegments; segments++ {
			to := destination(mode, segments)
			packet, err := traffic.Parse(fmt.Sprintf(`Ether(src="%s", dst="%s")/IPv6(src="2001:db8:1::2", dst="%s")/UDP(sport=1000, dport=9)/Raw(%d)`,
				src, dst, to, packetLen-40-8))
			if err != nil {
				return err
			}
			if b.frames[to], err = packet.Bytes(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) close() error {
	errs := []error{b.unset()}
	if b.probe != nil {
		errs = append(errs, b.probe.Close())
	}
	if b.sender != nil {
		errs = append(errs, b.sender.Close())
	}
	if b.sink >= 0 {
		errs = append(errs, unix.Close(b.sink))
	}
	if b.lab != nil {
		errs = append(errs, b.lab.Down())
	}
	return errors.Join(errs...)
}

// warm fills the dst cache that every route has on this CPU. It takes nothing in
// the jiffy in which its route was made (dst_cache_per_cpu_get).
func (b *bench) warm(ctx context.Context) error {
	if err := nextJiffy(); err != nil {
		return err
	}
	var points []Point
	for _, mode := range skb.Modes() {
		for segments := 1; segments <= maxSegments; segments++ {
			points = append(points, Point{mode, segments, 14, minHeadroom, headroom.NotCloned})
		}
	}
	_, err := b.measure(ctx, points)
	return err
}

// nextJiffy returns in the next jiffy, which the coarse clock counts.
func nextJiffy() error {
	var start, now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &start); err != nil {
		return err
	}
	for now = start; now == start; {
		runtime.Gosched()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &now); err != nil {
			return err
		}
	}
	return nil
}

// seen is what was seen of a point: a state, or why there is none.
type seen struct {
	state     State
	verdict   Verdict // Unreached or Differs where there is no state
	why       string
	withState bool
}

// measure sends a frame for each point of a batch.
func (b *bench) measure(ctx context.Context, batch []Point) ([]seen, error) {
	if err := b.set(batch[0]); err != nil {
		return nil, err
	}
	for _, p := range batch {
		if err := b.sender.Send(b.frames[destination(p.Mode, p.Segments)]); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	if err := b.await(ctx, len(batch)); err != nil {
		return nil, err
	}
	trace, err := b.probe.Collect(ctx)
	if err != nil {
		return nil, err
	}
	packets := map[netip.Addr]*probe.Packet{}
	for _, p := range trace.Seg6Packets("r") {
		e, _ := p.Entry()
		packets[netip.AddrFrom16([16]byte(e.State.L3[24:40]))] = p
	}
	out := make([]seen, len(batch))
	for i, p := range batch {
		out[i] = look(p, packets[destination(p.Mode, p.Segments)])
	}
	return out, nil
}

// set puts the setting of a point in force.
func (b *bench) set(p Point) error {
	h := headroom.Headroom(p.Headroom)
	if b.applied != nil && b.setting.MacLen == p.MacLen && b.setting.Clone == p.Clone {
		return b.applied.SetHeadroom(h)
	}
	if err := b.unset(); err != nil {
		return err
	}
	src, way := b.lab.Nodes["src"], ingress[p.MacLen]
	var err error
	b.applied, err = headroom.Apply(
		headroom.End{NetNS: int(src.Handle()), Device: "eth0"},
		headroom.End{NetNS: int(b.lab.Nodes["r"].Handle()), Device: way.to},
		headroom.Profile{Headroom: h, Clone: p.Clone})
	if err == nil && len(way.tags) > 0 {
		b.tags, err = pushTags(src, "eth0", way.tags)
	}
	b.setting = p
	return err
}

func (b *bench) unset() error {
	var errs []error
	if b.tags != nil {
		errs = append(errs, b.tags.Close())
	}
	if b.applied != nil {
		errs = append(errs, b.applied.Close())
	}
	b.tags, b.applied = nil, nil
	return errors.Join(errs...)
}

// siteOf says in the words of the model who reallocated.
func siteOf(a probe.Attribution) skb.Site {
	switch a {
	case probe.DirectL2:
		return skb.SiteL2
	case probe.CowHeader:
		return skb.SiteHeader
	case probe.CowLinkLayer:
		return skb.SiteLinkLayer
	}
	return skb.Site(a)
}

// look reads what happened to the packet of a point.
func look(p Point, packet *probe.Packet) seen {
	if packet == nil {
		return seen{verdict: Unreached, why: "seg6 saw no packet"}
	}
	e, _ := packet.Entry()
	got := Point{p.Mode, p.Segments, e.State.MacLen, e.State.Headroom, headroom.NotCloned}
	switch {
	case e.State.HeaderCloned:
		got.Clone = headroom.HeaderCloned
	case e.State.Cloned:
		got.Clone = headroom.DataCloned
	}
	if got != p {
		return seen{verdict: Unreached, why: fmt.Sprintf("it reached seg6 with mac_len %d, headroom %d, clone %s", got.MacLen, got.Headroom, got.Clone)}
	}
	if e, ok := packet.Dropped(); ok {
		return seen{verdict: Differs, why: fmt.Sprintf("dropped in %s: %s", e.Location, e.Reason)}
	}
	s := State{Mac: probe.Unknown, Network: probe.Unknown}
	for _, e := range packet.Events {
		switch {
		case e.Kind == probe.Expand && e.Expansion.Attribution != probe.Outside:
			s.Calls = append(s.Calls, Call{siteOf(e.Expansion.Attribution), e.Expansion.Nhead, e.Expansion.Copied})
		case e.Kind == probe.Enter && e.Function == "ip6_forward":
			s.Mac, s.Network = e.State.MacHeader, e.State.NetworkHeader
		}
	}
	return seen{state: s, withState: true}
}

// openSink opens a packet socket for the IPv6 frames of a device.
func openSink(dev string) (int, error) {
	index, err := indexOf(dev)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	const v6 = unix.ETH_P_IPV6
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: v6<<8&0xff00 | v6>>8, Ifindex: index}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// await waits until count encapsulated packets have arrived, or for patience,
// after which a missing one shows in what the probe saw.
func (b *bench) await(ctx context.Context, count int) error {
	deadline := time.Now().Add(patience)
	buf := make([]byte, 64)
	for count > 0 {
		n, err := unix.Read(b.sink, buf)
		switch {
		case err == unix.EAGAIN:
			left := time.Until(deadline)
			if left <= 0 {
				return context.Cause(ctx)
			}
			fds := []unix.PollFd{{Fd: int32(b.sink), Events: unix.POLLIN}}
			if _, err := unix.Poll(fds, int(min(left, 100*time.Millisecond).Milliseconds())+1); err != nil && err != unix.EINTR {
				return fmt.Errorf("wait at dst:eth0: %w", err)
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("receive at dst:eth0: %w", err)
		case n > 14+24 && buf[14+24] == 0xfc: // for a segment
			count--
		}
	}
	return nil
}
