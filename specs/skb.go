package specs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/safchain/ethtool"

	"seg6lab/lab"
	"seg6lab/lab/feature"
	"seg6lab/lab/headroom"
	"seg6lab/lab/probe"
)

// Features that observing sk_buffs needs. probe is either of the others.
const (
	featureProbe  = "probe"
	featureFentry = "probe.fentry"
)

func init() {
	with := func(backend probe.Backend) func() error {
		return func() error {
			p, err := probe.Open(probe.Options{Backend: backend})
			if errors.Is(err, probe.ErrUnsupported) {
				return feature.Absent(err)
			}
			if err != nil {
				return err
			}
			return p.Close()
		}
	}
	const config = "CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_EVENTS"
	feature.Register(feature.Feature{Name: featureProbe, About: "sk_buffs can be observed", Since: "5.8", Config: config, Probe: with(probe.Auto)})
	feature.Register(feature.Feature{Name: featureFentry, About: "sk_buffs can be observed at function entry", Since: "5.5", Config: config + " and CONFIG_FUNCTION_TRACER, without lockdown", Probe: with(probe.Fentry)})
	feature.Register(feature.Feature{Name: "probe.tracepoint", About: "sk_buffs can be observed at tracepoints", Since: "6.4", Config: config, Probe: with(probe.Tracepoint)})
}

// feature is what the expectation needs: some only function entry can answer.
func (x *SKB) feature() string {
	if x.Function == "__pskb_pull_tail" || strings.HasPrefix(x.Point, "ip6_") || strings.HasPrefix(x.Point, "seg6_") {
		return featureFentry
	}
	return featureProbe
}

// watch observes the sk_buffs of a running case; a nil probe observes nothing.
type watch struct {
	lab   *lab.Lab
	probe *probe.Probe
	cost  bool     // of a variant of costs
	fix   FixState // what the kernel has of the case's fix, if it names one
	blind string   // why the probe is nil although Options.Observe asks for one
}

// openWatch observes the nodes that the case has skb expectations of.
func openWatch(ctx context.Context, l *lab.Lab, c *Case, opts Options) (*watch, error) {
	w := &watch{lab: l, cost: c.variant != ""}
	if c.File.Complaint != "" {
		w.fix = Fixed // or this would not be the end of it
	} else if c.File.Fix != "" {
		has, err := fixState(ctx, c.File.Fix)
		if err != nil {
			return nil, err
		}
		if claim, ok := opts.Claims[c.File.Fix]; ok && claim != has {
			return nil, notMet("the kernel is said to be %s of %s, but does as %s ones do", claim, c.File.Fix, has)
		}
		w.fix = has
	}
	nodes := make(map[string]bool)
	for _, s := range c.steps {
		for _, x := range s.SKB {
			nodes[x.Node] = true
		}
		if s.shape != nil {
			nodes[s.to.Node] = true
		}
	}
	needed := len(nodes) > 0
	if opts.Observe {
		for name, n := range c.Topology.Nodes {
			if !n.Forwards() {
				nodes[name] = true
			}
		}
	}
	if len(nodes) == 0 {
		return w, nil
	}
	var o probe.Options
	for name := range nodes {
		node, err := l.Node(name)
		if err != nil {
			return nil, err
		}
		o.Nodes = append(o.Nodes, probe.Node{Name: name, NetNS: int(node.Handle())})
	}
	var err error
	w.probe, err = probe.Open(o)
	if !needed && errors.Is(err, probe.ErrUnsupported) {
		w.blind = err.Error()
		return w, nil
	}
	return w, err
}

// expectations are those that speak of the running kernel.
func (w *watch) expectations(all []expect) []expect {
	return slices.DeleteFunc(slices.Clone(all), func(e expect) bool {
		return e.When != "" && e.When != string(w.fix)
	})
}

func (w *watch) close() {
	if w.probe != nil {
		w.probe.Close()
		w.probe = nil
	}
}

// check compares what was observed in a step with its skb expectations, and sums
// it up. The error is a *notMetError where they differ, and another where the observation
// itself is worth nothing.
func (w *watch) check(ctx context.Context, s step) ([]Measured, error) {
	if w.probe == nil {
		return nil, nil
	}
	trace, err := w.probe.Collect(ctx)
	if err != nil {
		return nil, err
	}
	measured := measure(trace)
	// A variant of costs may have no seg6 to reach.
	if s.shape != nil && (!w.cost || len(trace.Seg6Packets(s.to.Node)) > 0) {
		if err := checkShape(trace, s); err != nil {
			return measured, err
		}
	}
	var failures []string
	for _, x := range s.SKB {
		k := skbChecker{expected: x, fix: w.fix, driver: func(dev string) (string, error) { return driver(w.lab, x.Node, dev) }}
		k.check(trace, len(s.frames))
		failures = append(failures, k.failures...)
	}
	if len(failures) > 0 {
		return measured, notMet("%s", strings.Join(failures, "\n"))
	}
	return measured, nil
}

// checkShape makes sure that the frames reached seg6 as the step asked for:
// else its expectations speak of something else.
func checkShape(t *probe.Trace, s step) error {
	packets := t.Seg6Packets(s.to.Node)
	if len(packets) != len(s.frames) {
		return fmt.Errorf("node %s: seg6 saw %d of %d frames: the headroom they had is not known", s.to.Node, len(packets), len(s.frames))
	}
	for i, p := range packets {
		if wrong := misshapen(p, s); wrong != "" {
			return fmt.Errorf("node %s: packet %d of %d did not reach seg6 as asked: %s:\n%s", s.to.Node, i+1, len(packets), wrong, indent(describe(p)))
		}
	}
	return nil
}

// misshapen says what a packet has otherwise than its step asks for, if anything.
func misshapen(p *probe.Packet, s step) string {
	entry, ok := p.Entry()
	if !ok {
		return "it was not seen there"
	}
	got, send := entry.State, s.Send
	for _, f := range []struct {
		name      string
		asked     bool
		want, got any
	}{
		{"headroom", send.Headroom != "", s.shape.Headroom.Bytes(), got.Headroom},
		{"cloned", true, s.shape.Clone != headroom.NotCloned, got.Cloned},
		{"header-cloned", true, s.shape.Clone == headroom.HeaderCloned, got.HeaderCloned},
		{"linear", send.Linear != nil, !send.paged(), got.Linear == got.Len},
		{"tag beside the frame", send.AccelVLAN != nil, s.shape.AccelVLAN, p.Events[0].State.VLAN},
	} {
		if f.asked && f.want != f.got {
			return fmt.Sprintf("%s is %v, asked for %v", f.name, f.got, f.want)
		}
	}
	// The tag is where it was asked to be when the device hands the frame over.
	if first := p.Events[0]; send.AccelVLAN != nil && (first.Kind != probe.Receive || first.Device != s.to.Dev) {
		return fmt.Sprintf("it was first seen at %s %s", first.Kind, first.Device)
	}
	return ""
}

type skbChecker struct {
	expected *SKB
	fix      FixState
	driver   func(dev string) (string, error)
	in       string // the device that the packet at hand came in by
	failures []string
}

// driver names what drives a device of a node.
func driver(l *lab.Lab, node, dev string) (name string, err error) {
	n, err := l.Node(node)
	if err != nil {
		return "", err
	}
	err = n.Do(func() error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		name, err = tool.DriverName(dev)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("node %s: driver of %s: %w", node, dev, err)
	}
	return name, nil
}

func (k *skbChecker) failf(format string, args ...any) {
	k.failures = append(k.failures, "node "+k.expected.Node+": "+fmt.Sprintf(format, args...))
}

func (k *skbChecker) check(t *probe.Trace, sent int) {
	x := k.expected
	packets := t.Seg6Packets(x.Node)
	if x.Packets != nil {
		k.quantity("packets that seg6 worked on", x.Packets, len(packets))
	} else if len(packets) != sent {
		k.failf("seg6 worked on %d packets, %d were sent", len(packets), sent)
	}
	if t.Unmatched > 0 {
		k.failf("%d reallocations could not be given to a packet", t.Unmatched)
	}
	for i, p := range packets {
		before := len(k.failures)
		k.packet(p)
		if len(k.failures) > before {
			k.failures = append(k.failures, fmt.Sprintf("packet %d of %d, as observed:\n%s", i+1, len(packets), indent(describe(p))))
			return // the others tell no more
		}
	}
}

func (k *skbChecker) packet(p *probe.Packet) {
	x := k.expected
	k.in = p.Events[0].Device
	within := probe.Within(x.Within)
	if x.Function != "" {
		what := "calls of " + x.Function
		if x.Within != "" {
			what += " within " + x.Within
		}
		k.quantity(what, x.PerPacket, p.Calls(x.Function, within))
	}
	copied, zeroed, allocated := 0, 0, 0
	for _, e := range p.Expansions(within) {
		copied, zeroed, allocated = copied+e.Copied, zeroed+e.Zeroed, allocated+e.Allocated
		if e.Copied == probe.Unknown || e.Zeroed == probe.Unknown {
			if x.Copied != nil || x.Zeroed != nil {
				k.failf("this kernel does not let the bytes copied and zeroed be observed")
				return
			}
		}
	}
	k.quantity("bytes copied", x.Copied, copied)
	// A kernel with init_on_alloc=0 zeroes none.
	if allocated == 0 || zeroed > 0 {
		k.quantity("bytes zeroed", x.Zeroed, zeroed)
	}
	if x.State != nil {
		k.state(p)
	}
	if x.Dropped != "" {
		if e, ok := p.Dropped(); !ok {
			k.failf("the packet was not dropped, expected %s", x.Dropped)
		} else if e.Reason != x.Dropped {
			k.failf("the packet was dropped with %s, expected %s", e.Reason, x.Dropped)
		}
	}
}

func (k *skbChecker) state(p *probe.Packet) {
	e, ok := at(p, k.expected.Point)
	if !ok {
		k.failf("the packet was not seen at %s", k.expected.Point)
		return
	}
	s, want := e.State, k.expected.State
	for _, f := range []struct {
		name string
		want *Quantity
		got  int
	}{
		{"headroom", want.Headroom, s.Headroom},
		{"tailroom", want.Tailroom, s.Tailroom},
		{"linear", want.Linear, s.Linear},
		{"frags", want.Frags, s.Frags},
		{"dataref", want.DataRef, s.DataRef},
		{"mac_len", want.MacLen, s.MacLen},
		{"mac_header", want.MacHeader, s.MacHeader},
		{"network_header", want.NetworkHeader, s.NetworkHeader},
		{"mac_to_network", want.MacToNetwork, s.NetworkHeader - s.MacHeader},
	} {
		k.quantity(f.name, f.want, f.got)
	}
	for _, f := range []struct {
		name string
		want *bool
		got  bool
	}{
		{"cloned", want.Cloned, s.Cloned},
		{"header_cloned", want.HeaderCloned, s.HeaderCloned},
	} {
		if f.want != nil && *f.want != f.got {
			k.failf("%s is %t, expected %t", f.name, f.got, *f.want)
		}
	}
}

// at finds the first event of a packet at a point of SKB.Point.
func at(p *probe.Packet, point string) (probe.Event, bool) {
	if point == "" || point == "seg6" {
		return p.Entry()
	}
	for _, e := range p.Events {
		if e.Kind == probe.Enter && e.Function == point || e.Kind == probe.Transmit && point == "transmit" {
			return e, true
		}
	}
	return probe.Event{}, false
}

// quantity compares a number; q is nil where nothing is expected of it.
func (k *skbChecker) quantity(name string, q *Quantity, got int) {
	if q == nil {
		return
	}
	if q.ByDriver != nil {
		driver, err := k.driver(k.in)
		switch {
		case err != nil:
			k.failf("%s: %d: %v", name, got, err)
		case q.ByDriver[driver] == nil:
			k.failf("%s: %d with the driver %s of %s, of which nothing is expected: only of %s", name, got, driver, k.in, strings.Join(slices.Sorted(maps.Keys(q.ByDriver)), ", "))
		default:
			k.quantity(name+" with the driver "+driver, q.ByDriver[driver], got)
		}
		return
	}
	state := ""
	if q.variants() {
		state = fmt.Sprintf(" on a kernel that is %s", k.fix)
		if q = q.on(k.fix); q == nil {
			return
		}
	}
	switch {
	case q.Exactly != nil && got != *q.Exactly:
		k.failf("%s: %d, expected %d%s", name, got, *q.Exactly, state)
	case q.AtLeast != nil && got < *q.AtLeast:
		k.failf("%s: %d, expected at least %d%s", name, got, *q.AtLeast, state)
	case q.AtMost != nil && got > *q.AtMost:
		k.failf("%s: %d, expected at most %d%s", name, got, *q.AtMost, state)
	}
}

// describe tells what happened to a packet, an event a line.
func describe(p *probe.Packet) string {
	var b strings.Builder
	for _, e := range p.Events {
		s := e.State
		fmt.Fprintf(&b, "%-8s %-18s %-8s headroom %d mac_len %d mac %d network %d linear %d of %d", e.Kind, e.Function, e.Device,
			s.Headroom, s.MacLen, s.MacHeader, s.NetworkHeader, s.Linear, s.Len)
		if s.Cloned {
			fmt.Fprintf(&b, " cloned dataref %d", s.DataRef)
		}
		if s.HeaderCloned {
			b.WriteString(" header-cloned")
		}
		if x := e.Expansion; x != nil {
			fmt.Fprintf(&b, "\n         by %s: nhead %d, size %d -> %d, copied %d, zeroed %d", x.Attribution, x.Nhead, x.OldSize, x.NewSize, x.Copied, x.Zeroed)
		}
		if e.Kind == probe.Drop {
			fmt.Fprintf(&b, " reason %s in %s", e.Reason, e.Location)
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}
