package specs

import (
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"seg6lab/lab/headroom"
	"seg6lab/lab/topology"
	"seg6lab/lab/topology/strictyaml"
)

// scriptPrelude are the functions that every script has.
//
//go:embed script.sh
var scriptPrelude string

// UnsayableError says why there is no script of a case.
type UnsayableError struct {
	Case    string
	Reasons []string
}

func (e *UnsayableError) Error() string {
	return fmt.Sprintf("%s: a script with ip, tc, sysctl and ping cannot say:\n%s", e.Case, indent(strings.Join(e.Reasons, "\n")))
}

// WriteScript writes a shell script, in the manner of the kernel's selftests, that
// builds the case's topology, sends its packets and checks what the case expects
// without seg6lab: frames with filters of tc that compare every byte and count,
// reallocations with the function tracer. It ends with 0 where the case holds, 1
// where it does not and 4 where that cannot be told. The error is an
// *UnsayableError where the case has what these tools cannot do.
func WriteScript(w io.Writer, c *Case) error {
	s := &scripter{c: c, injectors: make(map[string]int)}
	s.write()
	if len(s.reasons) > 0 {
		return &UnsayableError{c.Name, s.reasons}
	}
	_, err := io.WriteString(w, s.b.String())
	return err
}

type scripter struct {
	c         *Case
	b         strings.Builder
	injectors map[string]int // by node
	reasons   []string
}

// refuse notes what cannot be said.
func (s *scripter) refuse(pos strictyaml.Pos, format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	if pos.Line > 0 {
		reason = pos.String() + ": " + reason
	}
	if !slices.Contains(s.reasons, reason) {
		s.reasons = append(s.reasons, reason)
	}
}

func (s *scripter) f(format string, args ...any) { fmt.Fprintf(&s.b, format+"\n", args...) }

// comment writes words as comment lines.
func (s *scripter) comment(text string) { s.b.WriteString(wrap(text, "# ", "# ")) }

func (s *scripter) write() {
	file := s.c.File
	s.f("#!/bin/sh")
	s.f("#")
	s.comment(strings.TrimSuffix(s.c.Name+": "+file.About, ": "))
	if file.Reported != nil {
		s.comment(file.Reported.String())
	}
	s.f("#")
	s.comment("Needs root, iproute2, procps and ping of iputils, and a kernel with namespaces, veth and tc's pedit, mirred, gact and bpf. Exit code: 0 pass, 1 fail, 4 skip, where it cannot be told.")
	if slices.Contains(file.Requires, featureGuest) {
		s.comment("It can crash the kernel, or have it write to memory that is not its own: run it in a virtual machine.")
	}
	if file.Fix != "" {
		s.comment("What is expected depends on the fix " + file.Fix + ": that of a kernel that has it, unless the environment says FIX=unfixed or FIX=partly.")
	}
	s.comment("Made by seg6lab report --script.")
	s.f("\nset -eu\n\nFIX=${FIX:-fixed}")
	s.f("title=%s", quote(s.c.Name))
	s.f("step='building the lab'\n")
	s.b.WriteString(scriptPrelude)
	s.f("# ARP, IGMP, neighbour discovery, router and multicast listener messages.")
	s.f("control=%s\n", quote(controlProgram(controlKinds)))
	s.cannot()
	s.topology()
	for i := range s.c.steps {
		s.step(i, &s.c.steps[i])
	}
	s.f("\nresult=pass")
}

// cannot refuses what a case as a whole has that no step shows.
func (s *scripter) cannot() {
	file := s.c.File
	if len(s.c.beside) > 0 {
		s.refuse(file.KeyAt("files"), "files beside the case")
	}
	if file.Cost != nil {
		s.refuse(file.KeyAt("cost"), "instructions, which are counted in a guest")
	}
	for _, r := range []struct{ feature, why string }{
		{"cpu.single", "when the reader of a packet socket looks at a packet"},
		{lwtunnelHooks, "netfilter's hooks in lightweight tunnels, which are a module's switch for good"},
	} {
		if slices.Contains(file.Requires, r.feature) {
			s.refuse(file.KeyAt("requires"), "%s", r.why)
		}
	}
	nodes := make(map[string]bool)
	for _, st := range file.Steps {
		for _, x := range st.SKB {
			nodes[x.Node] = true
		}
	}
	works := 0
	for _, n := range s.c.Topology.Nodes {
		if slices.ContainsFunc(n.Routes, func(r *topology.Route) bool { return r.Encap != nil }) {
			works++
		}
	}
	if len(nodes) > 0 && works > 1 {
		s.refuse(file.ValueAt("steps"), "which of several nodes with seg6 a traced call belongs to")
	}
}

// step writes a step of the case.
func (s *scripter) step(i int, st *step) {
	s.f("")
	title := fmt.Sprintf("step %d", i+1)
	if st.About != "" {
		title += ": " + st.About
	}
	s.comment(title)
	s.f("step=%s", quote(fmt.Sprintf("step %d", i+1)))
	wait, quiet := s.times(st)
	ends := s.watch(st)
	traced := slices.ContainsFunc(st.SKB, func(x *SKB) bool { return x.Function != "" })
	if traced {
		s.f("trace_on")
	}
	if st.Run != nil {
		s.command(st.Run)
	} else {
		s.send(st)
	}
	for j, e := range st.expect {
		if !e.Nothing && e.count > 0 {
			s.f("%sawait %d %s %s %d %d", when(e.When), wait, e.End.Node, e.End.Dev, 10+j, e.count)
		}
	}
	if len(ends) > 0 && quiet > 0 {
		s.f("sleep 0.%d", quiet)
	}
	for j, e := range st.expect {
		if !e.Nothing {
			s.f("%scheck %s %s %d %d %s", when(e.When), e.End.Node, e.End.Dev, 10+j, e.count, quote(e.Packet))
		}
	}
	for _, end := range ends {
		nothing := slices.ContainsFunc(st.expect, func(e expect) bool { return e.End == end && e.Nothing })
		if st.Run == nil || nothing { // a command may send what it likes
			s.f("check %s %s 60000 0 'that nothing expects'", end.Node, end.Dev)
		}
	}
	for _, x := range st.SKB {
		s.skb(x, len(st.frames))
	}
	for _, c := range st.Counters {
		s.counters(c)
	}
}

// times are how long to wait for what is expected, and for more, in tenths of a
// second. A guest may be slow.
func (s *scripter) times(st *step) (wait, quiet int) {
	const tenth = 100 * time.Millisecond
	within := time.Duration(st.Within)
	wait = int(defaultWithin * guestPatience / tenth)
	quiet = 1
	if slices.ContainsFunc(st.expect, func(e expect) bool { return e.Nothing || e.count == 0 }) {
		quiet = int(2 * defaultNothing / tenth)
		if within != 0 {
			quiet = int((within + tenth - 1) / tenth)
		}
	}
	if within != 0 {
		wait = int((within + tenth - 1) / tenth)
	}
	return wait, min(quiet, 9)
}

func when(state string) string {
	if state == "" {
		return ""
	}
	return "when " + state + " "
}

// watch writes the filters at the ends where the step expects something, and
// those that make the clones that it asks for.
func (s *scripter) watch(st *step) (ends []topology.End) {
	for _, e := range st.expect {
		if !slices.Contains(ends, e.End) {
			ends = append(ends, e.End)
		}
	}
	clone, at := "", st.to
	if st.shape != nil {
		s.shape(st)
		if st.shape.Clone != headroom.NotCloned {
			clone = string(st.shape.Clone)
		}
	}
	if clone != "" && !slices.Contains(ends, at) {
		s.f("watch %s %s", at.Node, at.Dev)
		s.f("clone %s", clone)
	}
	for _, end := range ends {
		s.f("watch %s %s", end.Node, end.Dev)
		switch {
		case clone != "" && end == at:
			s.f("clone %s", clone)
		case s.observed(end.Node):
			s.f("clone header # as a packet socket would")
		}
		kinds := slices.Clone(controlKinds)
		for j, e := range st.expect {
			if e.End != end || e.packet == nil {
				continue
			}
			val := s.expect(j, st)
			kinds = slices.DeleteFunc(kinds, func(k uint32) bool { return k == controlKind(val) })
		}
		control := `"$control"`
		if len(kinds) < len(controlKinds) {
			control = quote(controlProgram(kinds))
		}
		s.f("others %s", control)
	}
	return ends
}

// observed tells whether the case looks at sk_buffs of a node.
func (s *scripter) observed(node string) bool {
	return slices.ContainsFunc(s.c.File.Steps, func(st *Step) bool {
		return slices.ContainsFunc(st.SKB, func(x *SKB) bool { return x.Node == node })
	})
}

// expect writes the filter of an expectation, and gives the frame.
func (s *scripter) expect(j int, st *step) []byte {
	e := st.expect[j]
	frame, err := e.packet.Bytes()
	if err != nil {
		s.refuse(e.ValueAt("packet"), "%v", err)
		return nil
	}
	if tagged(frame) {
		s.refuse(e.ValueAt("packet"), "a VLAN tag in front, which the kernel keeps beside the frame, where no byte of it is compared")
	}
	val, mask, err := e.packet.Pattern(e.Exact)
	if err != nil {
		s.refuse(e.ValueAt("packet"), "%v", err)
		return frame
	}
	for k, other := range st.expect[:j] {
		if other.End == e.End && other.packet != nil && (other.When == "" || e.When == "" || other.When == e.When) && overlap(e, other) {
			s.refuse(e.Pos(), "which of two expectations a frame meets that meets both: this one and number %d of the step", k+1)
		}
	}
	if e.Exact {
		s.f("%sexpect %d %s", when(e.When), 10+j, hexLines(val))
	} else {
		s.f("%sexpect_like %d %s %s", when(e.When), 10+j, hexLines(val), hexLines(mask))
	}
	return frame
}

// overlap tells whether a frame can meet two expectations.
func overlap(a, b expect) bool {
	av, am, err1 := a.packet.Pattern(a.Exact)
	bv, bm, err2 := b.packet.Pattern(b.Exact)
	if err1 != nil || err2 != nil || a.Exact && b.Exact && len(av) != len(bv) {
		return false
	}
	for i := range min(len(av), len(bv)) {
		if (av[i]^bv[i])&am[i]&bm[i] != 0 {
			return false
		}
	}
	return true
}

// shape refuses what no filter does to a frame. A filter pops 4 bytes of a VLAN
// tag, and 14 of an Ethernet header, to make headroom.
func (s *scripter) shape(st *step) {
	h := st.shape.Headroom.Bytes()
	if h%2 != 0 || h < 30 && h%4 != 0 {
		s.refuse(st.Send.ValueAt("headroom"), "a headroom of %d bytes: what tc pops leaves 16, 20, 24, 28, and each even number from there on", h)
	}
	if h > headroom.Veth.Bytes() && slices.ContainsFunc(st.frames, tagged) {
		s.refuse(st.Send.ValueAt("headroom"), "headroom in front of a frame with a VLAN tag: tc pops that, too")
	}
	if st.Send.Linear != nil {
		s.refuse(st.Send.ValueAt("linear"), "a frame in pages")
	}
	if st.Send.AccelVLAN != nil {
		s.refuse(st.Send.ValueAt("accel-vlan"), "a VLAN tag beside the frame")
	}
}

// minFrame is the length of a ping without payload.
const minFrame = 42

// send writes what Send injects, alike frames at once.
func (s *scripter) send(st *step) {
	from := st.Send.From
	if st.Send.TAP != nil {
		s.refuse(st.Send.KeyAt("tap"), "a frame from a TAP device")
		return
	}
	for i := 0; i < len(st.frames); {
		n := 1
		for i+n < len(st.frames) && string(st.frames[i+n]) == string(st.frames[i]) {
			n++
		}
		frame := st.frames[i]
		if len(frame) < minFrame {
			s.refuse(st.Send.ValueAt("packet"), "a frame of %d bytes: a ping has at least %d", len(frame), minFrame)
			return
		}
		if i == 0 {
			s.comment(st.Send.Packet)
		}
		room := headroom.Veth
		if st.shape != nil {
			room = st.shape.Headroom
		}
		s.f("inject %d %s %s %d %d %s", s.injectors[from.Node], from.Node, from.Dev, n, room.Bytes(), hexLines(frame))
		i += n
	}
}

// hexLines quotes bytes: the Ethernet header, and the rest 32 bytes a line.
func hexLines(b []byte) string {
	text := "'"
	for at, n := 0, 14; at < len(b); at, n = at+n, 32 {
		text += "\n\t" + hex.EncodeToString(b[at:min(at+n, len(b))])
	}
	return text + "'"
}

func (s *scripter) command(r *Command) {
	line := "on " + r.Node + " sh -c " + quote(r.Command)
	switch {
	case r.Fails != "":
		line = "fails " + quote(r.Fails) + " " + line
	default:
		line = "says " + quote(r.Output) + " " + line
	}
	s.f("%s", line)
}

// skb writes what the function tracer can tell.
func (s *scripter) skb(x *SKB, packets int) {
	for _, no := range []struct {
		key  string
		said bool
	}{
		{"packets", x.Packets != nil}, {"copied", x.Copied != nil}, {"zeroed", x.Zeroed != nil},
		{"state", x.State != nil}, {"dropped", x.Dropped != ""},
	} {
		if no.said {
			s.refuse(x.KeyAt(no.key), "%s of sk_buffs: the function tracer sees calls, not what they are given", no.key)
		}
	}
	switch {
	case x.Function == "":
		return
	case x.Function != "pskb_expand_head":
		s.refuse(x.ValueAt("function"), "which node and packet a call of %s is for", x.Function)
		return
	case x.Within == "" || x.Within == "outside":
		s.refuse(x.Pos(), "which node a call of %s outside of seg6 is for", x.Function)
		return
	}
	for _, v := range []struct {
		state string
		q     *Quantity
	}{{"", x.PerPacket}, {"unfixed", x.PerPacket.Unfixed}, {"partly", x.PerPacket.Partly}, {"fixed", x.PerPacket.Fixed}} {
		if v.q == nil {
			continue
		}
		for _, b := range []struct {
			how string
			n   *int
		}{{"exactly", v.q.Exactly}, {"at-least", v.q.AtLeast}, {"at-most", v.q.AtMost}} {
			if b.n != nil {
				s.f("%scalls %s %s %d # %d for each packet", when(v.state), x.Within, b.how, *b.n*packets, *b.n)
			}
		}
	}
}

// sortedKeys of a map.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
