package specs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"seg6lab/lab"
	"seg6lab/lab/feature"
	"seg6lab/lab/headroom"
	"seg6lab/lab/topology"
	"seg6lab/lab/topology/strictyaml"
	"seg6lab/traffic"
)

// Case is one case, checked and ready to run.
type Case struct {
	// Name is that of the file's case and, after a slash, of the matrix rows.
	Name string
	// File is what the case file says, with this case's variables.
	File *File
	// Topology is the case's, with the overlay merged in.
	Topology *topology.Topology

	path    string            // of the file
	shipped bool              // the file is in the binary
	files   []string          // files of the machine that the case is made of
	beside  map[string][]byte // what File.Files hold
	steps   []step
	variant string           // of the costs
	varied  map[string]*Case // the variants of the costs, by name
}

// Requirements names the features that the case needs from the kernel: those
// of its topology and those that the file adds.
func (c *Case) Requirements() []string {
	names := append(lab.Requires(c.Topology), c.File.Requires...)
	if c.File.Cost != nil {
		names = append(names, featureCost)
		if c.File.Cost.Function != "" {
			names = append(names, featureFentry)
		}
	}
	for _, v := range c.varied {
		names = append(names, lab.Requires(v.Topology)...)
	}
	if len(c.File.NICs) > 0 {
		names = append(names, featureGuest)
	}
	for _, s := range c.File.Steps {
		for _, x := range s.SKB {
			names = append(names, x.feature())
		}
		if s.Send != nil && s.Send.shaped() {
			names = append(names, featureProbe, "tcx")
		}
		if s.Send != nil && s.Send.TAP != nil {
			names = append(names, "tap.napi-frags")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Labels are those of the file.
func (c *Case) Labels() []string { return c.File.Labels }

// step is a Step with its packets built.
type step struct {
	*Step
	frames [][]byte // what Send injects, Count included
	// shape is how the frames are to reach the node to, where Send asks for it.
	shape  *headroom.Profile
	to     topology.End
	expect []expect
}

type expect struct {
	*Expect
	packet *traffic.Packet // nil where nothing is expected
	count  int
}

// compile checks the steps against the topology and builds their packets. The
// error is of type strictyaml.Errors.
func (c *Case) compile() error {
	k := &compiler{c: c, topology: c.Topology, outside: c.Topology.Outside()}
	if len(c.File.Steps) == 0 {
		k.fail(c.File.ValueAt("steps"), "a case needs at least one step")
	}
	for i, name := range c.File.Requires {
		if known := feature.Names(); !slices.Contains(known, name) {
			k.fail(c.File.ValueAt(strictyaml.Item("requires", i)), "no feature is called %q%s", name, strictyaml.Suggest(name, known))
		}
	}
	if c.File.Fix != "" {
		if _, err := findFix(c.File.Fix); err != nil {
			k.fail(c.File.ValueAt("fix"), "%v", err)
		}
	}
	k.nics()
	if c.File.Complaint != "" {
		if _, err := regexp.Compile(c.File.Complaint); err != nil {
			k.fail(c.File.ValueAt("complaint"), "%v", err)
		}
		if c.File.Fix == "" || !slices.Contains(c.File.Requires, featureGuest) {
			k.fail(c.File.KeyAt("complaint"), "a kernel complains where a fix is missing: expected the keys fix, and requires with %s", featureGuest)
		}
	}
	for _, s := range c.File.Steps {
		c.steps = append(c.steps, k.step(s))
	}
	if c.File.Cost != nil {
		k.cost(c.File.Cost)
	}
	if len(k.errs) > 0 {
		return strictyaml.Sort(k.errs)
	}
	return nil
}

type compiler struct {
	c        *Case
	topology *topology.Topology
	outside  map[string]bool // nodes that are no part of the lab
	errs     strictyaml.Errors
}

func (k *compiler) fail(pos strictyaml.Pos, format string, args ...any) {
	k.errs = append(k.errs, &strictyaml.Error{Pos: pos, Msg: fmt.Sprintf(format, args...)})
}

func (k *compiler) step(s *Step) step {
	out := step{Step: s}
	if (s.Send == nil) == (s.Run == nil) {
		k.fail(s.Pos(), "a step does one thing: expected either send or run")
		return out
	}
	sent := 1
	if s.Send != nil {
		out.frames = k.frames(s.Send)
		if s.Send.shaped() && s.Send.TAP == nil {
			out.shape, out.to = k.shape(s.Send, out.frames)
		}
		sent = len(out.frames)
	}
	if s.Run != nil {
		k.node(s.Run.Node, s.Run.ValueAt("node"))
		if s.Run.Fails != "" && s.Run.Output != "" {
			k.fail(s.Run.KeyAt("output"), "output goes with a command that succeeds: expected either fails or output")
		}
	}
	if len(s.Expect) > maxExpect {
		k.fail(s.KeyAt("expect"), "%d expectations: a step has at most %d", len(s.Expect), maxExpect)
		return out
	}
	for _, e := range s.Expect {
		out.expect = append(out.expect, k.expect(e, sent))
	}
	for _, x := range s.SKB {
		k.skb(x, s)
	}
	for _, c := range s.Counters {
		k.counters(c)
	}
	for i, e := range out.expect {
		for _, other := range out.expect[:i] {
			if e.End == other.End && (e.Nothing || other.Nothing) {
				k.fail(e.Pos(), "nothing arrives at %s, yet another expectation has a packet arrive there", e.End)
			}
		}
	}
	return out
}

// node reports a node that the lab has not.
func (k *compiler) node(name string, pos strictyaml.Pos) bool {
	switch {
	case k.outside[name]:
		k.fail(pos, "%s is outside equipment, behind a port of this machine: a case sends, expects and runs at nodes of the lab", name)
	case k.topology.Nodes[name] == nil:
		k.fail(pos, "topology %s has no node %s%s", k.topology.Name, name, strictyaml.Suggest(name, slices.Sorted(maps.Keys(k.topology.Nodes))))
	default:
		return true
	}
	return false
}

// shape reads how a Send wants its frames to arrive, and finds the end that they
// arrive at.
func (k *compiler) shape(s *Send, frames [][]byte) (*headroom.Profile, topology.End) {
	p := new(headroom.Profile)
	var err error
	if p.Headroom, err = headroom.Parse(s.Headroom); err != nil {
		k.fail(s.ValueAt("headroom"), "%v", err)
	}
	if p.Clone, err = headroom.ParseClone(s.Clone); err != nil {
		k.fail(s.ValueAt("clone"), "%v", err)
	}
	if s.paged() && p.Headroom != headroom.Veth {
		k.fail(s.ValueAt("linear"), "a frame in pages has the headroom veth: no other can be given to it")
	}
	if s.paged() && p.Clone == headroom.HeaderCloned {
		k.fail(s.ValueAt("clone"), "a frame in pages cannot stay header-cloned: IPv6's input pulls its header into a head of its own")
	}
	if s.AccelVLAN != nil {
		p.AccelVLAN = *s.AccelVLAN
		if slices.ContainsFunc(frames, func(f []byte) bool { return !tagged(f) }) {
			k.fail(s.ValueAt("accel-vlan"), "the frame has no 802.1Q tag")
		}
	}
	if p.Headroom == headroom.Page && (p.Clone == headroom.DataCloned || p.AccelVLAN) {
		k.fail(s.ValueAt("headroom"), "headroom page goes neither with clone data nor with accel-vlan: XDP gives every frame a page of its own")
	}
	for _, l := range k.topology.Links {
		for end := range l.Ends {
			if l.Ends[end] != s.From {
				continue
			}
			if port := k.topology.Port(s.From); port != nil {
				k.fail(s.ValueAt("from"), "headroom, clone, linear and accel-vlan are set on a veth link: %s is bound to port %s, whose driver decides", s.From, port)
			}
			return p, l.Ends[1-end]
		}
	}
	k.fail(s.ValueAt("from"), "headroom, clone, linear and accel-vlan are set on a link: %s is no end of one", s.From)
	return nil, topology.End{}
}

// tagged tells whether a frame begins with an 802.1Q tag.
func tagged(frame []byte) bool {
	return len(frame) >= 18 && binary.BigEndian.Uint16(frame[12:]) == unix.ETH_P_8021Q
}

func (k *compiler) tap(s *Send) {
	switch {
	case k.topology.Nodes[s.From.Node] == nil, k.outside[s.From.Node]:
		k.end(s.From, s.ValueAt("from"))
	case slices.Contains(k.topology.Devices(s.From.Node), s.From.Dev):
		k.fail(s.ValueAt("from"), "node %s has a device %s already: the step makes one of a new name", s.From.Node, s.From.Dev)
	case s.shaped():
		k.fail(s.KeyAt("tap"), "a TAP device has a headroom of its own: headroom, clone, linear and accel-vlan are for links")
	}
}

// maxFrames bounds what one step sends.
const maxFrames = 1_000_000

func (k *compiler) frames(s *Send) [][]byte {
	if s.TAP != nil {
		k.tap(s)
	} else {
		k.end(s.From, s.ValueAt("from"))
	}
	count := max(s.Count, 1)
	if s.Count < 0 || s.Count > maxFrames {
		k.fail(s.ValueAt("count"), "count %d: expected 1 to %d", s.Count, maxFrames)
		return nil
	}
	var once [][]byte
	if traffic.IsFrames(s.Packet) {
		dir := filepath.Dir(k.c.path)
		if name := traffic.FramesFile(s.Packet, dir); name != "" {
			k.c.files = append(k.c.files, name)
		}
		frames, err := traffic.Frames(s.Packet, dir)
		if err != nil {
			k.fail(s.ValueAt("packet"), "%v", err)
			return nil
		}
		once = frames
	} else if p := k.packet(s.Packet, s.ValueAt("packet")); p != nil {
		src, dst := k.topology.MACs(s.From)
		if s.TAP != nil {
			dst = &lab.TAPMAC
		}
		frame, err := k.build(p, src, dst)
		if err != nil {
			k.fail(s.ValueAt("packet"), "%v", err)
			return nil
		}
		once = [][]byte{frame}
	}
	if len(once)*count > maxFrames {
		k.fail(s.ValueAt("count"), "%d frames %d times: at most %d are sent", len(once), count, maxFrames)
		return nil
	}
	return slices.Repeat(once, count)
}

func (k *compiler) expect(e *Expect, sent int) expect {
	out := expect{Expect: e, count: sent}
	k.end(e.End, e.ValueAt("at"))
	if e.When != "" && k.c.File.Fix == "" {
		k.fail(e.ValueAt("when"), "unfixed, partly and fixed speak of a fix: expected the case to name it with the key fix")
	}
	switch {
	case e.Nothing && (e.Packet != "" || e.Count != nil || e.Exact):
		k.fail(e.KeyAt("nothing"), "nothing stands alone: expected no packet, count or exact beside it")
	case e.Nothing:
		return out
	case e.Packet == "":
		k.fail(e.Pos(), "expected packet, or nothing: true")
		return out
	}
	if e.Count != nil {
		if out.count = *e.Count; out.count < 0 {
			k.fail(e.ValueAt("count"), "count %d: expected at least 0", out.count)
		}
	}
	out.packet = k.packet(e.Packet, e.ValueAt("packet"))
	if out.packet != nil {
		dst, src := k.topology.MACs(e.End)
		if _, err := k.build(out.packet, src, dst); err != nil {
			k.fail(e.ValueAt("packet"), "%v", err)
		}
	}
	return out
}

func (k *compiler) skb(x *SKB, s *Step) {
	k.node(x.Node, x.ValueAt("node"))
	switch {
	case s.Send == nil:
		k.fail(x.Pos(), "skb goes with send: it speaks of the packets of the step")
	case (x.Function == "") != (x.PerPacket == nil):
		k.fail(x.Pos(), "function and per-packet go together")
	case x.Within != "" && x.Function != "pskb_expand_head" && x.Copied == nil && x.Zeroed == nil:
		k.fail(x.KeyAt("within"), "within narrows down the calls of pskb_expand_head: expected function, copied or zeroed beside it")
	case x.Point != "" && x.State == nil:
		k.fail(x.KeyAt("point"), "point says where state is looked at: expected state beside it")
	case x.variants() && k.c.File.Fix == "":
		k.fail(x.Pos(), "unfixed, partly and fixed speak of a fix: expected the case to name it with the key fix")
	}
}

// packet parses an expression and gives a mistake its place in the file.
func (k *compiler) packet(expr string, pos strictyaml.Pos) *traffic.Packet {
	p, err := traffic.Parse(expr)
	if err != nil {
		var syntax *traffic.SyntaxError
		if errors.As(err, &syntax) {
			k.fail(pos, "packet expression, character %d: %s", syntax.Column, syntax.Msg)
		} else {
			k.fail(pos, "packet expression: %v", err)
		}
		return nil
	}
	if layers := p.Layers(); len(layers) == 0 || layers[0].Name() != "Ether" {
		k.fail(pos, "packet expression: expected Ether as the first layer")
		return nil
	}
	return p
}

// build fills in the Ethernet addresses that were left out and builds the frame.
func (k *compiler) build(p *traffic.Packet, src, dst *topology.MAC) ([]byte, error) {
	for _, f := range []struct {
		field string
		mac   *topology.MAC
	}{{"src", src}, {"dst", dst}} {
		if f.mac == nil {
			continue
		}
		if err := p.Default(0, f.field, *f.mac); err != nil {
			return nil, err
		}
	}
	return p.Bytes()
}

// end checks that the topology has a device.
func (k *compiler) end(e topology.End, pos strictyaml.Pos) {
	if !k.node(e.Node, pos) {
		return
	}
	node := k.topology.Nodes[e.Node]
	if devices := k.topology.Devices(e.Node); !slices.Contains(devices, e.Dev) && len(node.Run) == 0 {
		k.fail(pos, "node %s has no device %s%s", e.Node, e.Dev, strictyaml.Suggest(e.Dev, devices))
	}
}
