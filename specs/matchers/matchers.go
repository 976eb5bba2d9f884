// Package matchers has Gomega matchers over frames, for Go code that builds a
// lab and asserts what comes out of it:
//
//	Expect(frame).To(MatchPacket(`Ether()/IPv6(dst="fc00:1::1")/SRH(segleft=1)`))
//	Expect(frame).To(HaveSRH(SegmentsLeft(1), Segments("fc00:2::2", "fc00:1::1")))
//
// A frame is a []byte, a traffic.Frame or a gopacket.Packet, from its Ethernet
// header on. Matchers used wrongly, with a packet expression that does not parse
// or with something that is not a frame, fail with an error and never hold, not
// even under Not.
//
// The package only looks at frames: it may not import the lab or the runner of
// cases.
package matchers

import (
	"fmt"
	"strings"

	"github.com/google/gopacket"
	"github.com/onsi/gomega/format"
	"github.com/onsi/gomega/types"

	"seg6lab/traffic"
)

// frameMatcher is a matcher over frames.
type frameMatcher struct {
	// what follows "to" and "not to" in a failure message.
	what string
	// check says how a frame does not match, "" when it does. The error is a
	// wrong use of the matcher.
	check func(frame []byte) (mismatch string, err error)

	mismatch string // of the last frame
}

// Match implements types.GomegaMatcher.
func (m *frameMatcher) Match(actual any) (bool, error) {
	frame, err := frameOf(actual)
	if err != nil {
		return false, err
	}
	m.mismatch, err = m.check(frame)
	return err == nil && m.mismatch == "", err
}

// FailureMessage implements types.GomegaMatcher.
func (m *frameMatcher) FailureMessage(actual any) string {
	return describe(actual) + "to " + m.what + ":\n" + strings.TrimRight(m.mismatch, "\n")
}

// NegatedFailureMessage implements types.GomegaMatcher.
func (m *frameMatcher) NegatedFailureMessage(actual any) string {
	return describe(actual) + "not to " + m.what
}

// describe writes the frame as a packet expression.
func describe(actual any) string {
	frame, err := frameOf(actual)
	if err != nil {
		return format.Message(actual, "")
	}
	return "Expected\n" + format.Indent + traffic.Dissect(frame).String() + "\n"
}

// frameOf takes the bytes from what users have frames in.
func frameOf(actual any) ([]byte, error) {
	switch f := actual.(type) {
	case []byte:
		return f, nil
	case traffic.Frame:
		return f.Data, nil
	case gopacket.Packet:
		if f != nil {
			return f.Data(), nil
		}
	}
	return nil, fmt.Errorf("expected a frame, a []byte, traffic.Frame or gopacket.Packet, got %T", actual)
}

// MatchPacket matches a frame that has the layers of a packet expression, in
// their order, and every field that the expression gives. What follows its
// last layer is not looked at. A failure shows both packets layer by layer with
// the fields and bytes that differ.
func MatchPacket(expr string) types.GomegaMatcher { return matchPacket(expr, false) }

// MatchPacketExactly matches a frame that is the packet of the expression byte
// for byte; what the expression leaves out has the value with which it would be
// sent. The Ethernet addresses must be given where they are not broadcast and
// zero.
func MatchPacketExactly(expr string) types.GomegaMatcher { return matchPacket(expr, true) }

func matchPacket(expr string, exact bool) types.GomegaMatcher {
	what := "match "
	if exact {
		what = "match exactly "
	}
	packet, err := parse(expr)
	return &frameMatcher{what: what + expr, check: func(frame []byte) (string, error) {
		if err != nil {
			return "", err
		}
		return diff(packet, frame, exact), nil
	}}
}

func parse(expr string) (*traffic.Packet, error) {
	packet, err := traffic.Parse(expr)
	if err != nil {
		return nil, fmt.Errorf("packet expression %s: %w", expr, err)
	}
	return packet, nil
}

func diff(packet *traffic.Packet, frame []byte, exact bool) string {
	if d := packet.Diff(frame, exact); d != nil {
		return d.String()
	}
	return ""
}
