package matchers_test

import (
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"seg6lab/forwarder/srh"
	. "seg6lab/specs/matchers"
	"seg6lab/traffic"
)

const outer = `Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")/IPv6(src="fc00::1", dst="fc00:1::1", tc=0xb8, fl=0x12345, hlim=63)`

// l2 is an IPv4 packet in an Ethernet frame after H.Encaps.L2.Red, behind a VLAN
// tag and with TLVs.
var (
	l2 = unhex(`
	020000000002 020000000001 86dd
	60000000 001a 8f 40 fc000000000000000000000000000001 fc000001000000000000000000000001
	020000000004 020000000003 88b5 000102030405060708090a0b`)
	tagged = unhex(`
	020000000002 020000000001 8100 0064 86dd
	60000000 0034 2b 40 fc000000000000000000000000000001 fc000001000000000000000000000001
	04 03 04 00  00 00 0000
	fc000001000000000000000000000001
	7c 06 736567366c61
	45000014 00000000 40 3b 0000 c0000201 c6336401`)
	plain = unhex(`
	020000000002 020000000001 86dd
	60000000 0002 3b 40 20010db8000100000000000000000002 20010db8000a00000000000000000001
	abcd`)
	// The last entry says 9 segments, the header has room for one.
	malformed = unhex(`
	020000000002 020000000001 86dd
	60000000 0018 2b 40 fc000000000000000000000000000001 fc000001000000000000000000000001
	3b 02 04 00  08 00 0000
	fc000001000000000000000000000001`)
)

var rows = []struct {
	name    string
	matcher types.GomegaMatcher
	frame   []byte
	want    string // in the failure message, "" when it matches
}{
	{"packet", MatchPacket(`Ether()/IPv6(dst="fc00:1::1")/SRH(segleft=1)`), encapsulated, ""},
	{"packet, field", MatchPacket(`Ether()/IPv6()/SRH(segleft=0)`), encapsulated, "segleft: expected 0, actual 1"},
	{"packet, layer", MatchPacket(`Ether()/IPv6()/UDP()`), encapsulated, "expected UDP, actual SRH"},
	{"exactly", MatchPacketExactly(outer + `/SRH(segleft=1, lastentry=1, tag=0xbeef, addresses=["fc00:2::2", "fc00:1::1"])/IPv6(src="2001:db8:1::2", dst="2001:db8:a::1", nh=59)/Raw(b"\xab\xcd")`), encapsulated, ""},
	{"exactly, field left out", MatchPacketExactly(outer + `/SRH(segleft=1, lastentry=1, addresses=["fc00:2::2", "fc00:1::1"])/IPv6(src="2001:db8:1::2", dst="2001:db8:a::1", nh=59)/Raw(b"\xab\xcd")`), encapsulated, "tag: expected 0, actual 48879"},
	{"exactly, more follows", MatchPacketExactly(outer + `/SRH(segleft=1, lastentry=1, tag=0xbeef, addresses=["fc00:2::2", "fc00:1::1"])/IPv6(src="2001:db8:1::2", dst="2001:db8:a::1", nh=59, plen=2)`), encapsulated, "the expected packet ends before this layer"},

	{"SRH", HaveSRH(), encapsulated, ""},
	{"SRH, each field", HaveSRH(SegmentsLeft(1), LastEntry(1), Flags(0), Tag(0xbeef), Segments("fc00:2::2", "fc00:1::1"), TLVs(BeEmpty())), encapsulated, ""},
	{"SRH behind a tag", HaveSRH(SegmentsLeft(0)), tagged, ""},
	{"segments left", HaveSRH(SegmentsLeft(2)), encapsulated, "segments left: Expected"},
	{"last entry", HaveSRH(LastEntry(0)), encapsulated, "last entry: Expected"},
	{"flags", HaveSRH(Flags(srh.FlagHMAC)), encapsulated, "flags: Expected"},
	{"tag", HaveSRH(Tag(0xbee0)), encapsulated, "tag: Expected"},
	{"segments in the other order", HaveSRH(Segments("fc00:1::1", "fc00:2::2")), encapsulated, "segments: Expected"},
	{"segments, one missing", HaveSRH(Segments("fc00:2::2")), encapsulated, "segments: Expected"},
	{"segments in another notation", HaveSRH(Segments("FC00:2:0::2", "fc00:0001::1")), encapsulated, ""},
	{"TLVs", HaveSRH(TLVs([]srh.TLV{{Type: 124, Value: []byte("seg6la")}})), tagged, ""},
	{"TLVs, other value", HaveSRH(TLVs([]srh.TLV{{Type: 124, Value: []byte("seg6lb")}})), tagged, "TLVs: Expected"},
	{"sub-matcher", HaveSRH(SegmentsLeft(BeNumerically("<", 2))), encapsulated, ""},
	{"sub-matcher that does not match", HaveSRH(SegmentsLeft(BeNumerically("<", 1))), encapsulated, "segments left: Expected"},
	{"no SRH", HaveSRH(), plain, "there is none"},
	{"malformed SRH", HaveSRH(), malformed, "there is none that can be read"},

	{"outer IPv6", HaveOuterIPv6("fc00::1", "fc00:1::1", HopLimit(63), TrafficClass(0xb8), FlowLabel(0x12345), NextHeader(43)), encapsulated, ""},
	{"outer IPv6 behind a tag", HaveOuterIPv6("fc00::1", ""), tagged, ""},
	{"source", HaveOuterIPv6("2001:db8:1::2", ""), encapsulated, "source: Expected"},
	{"destination", HaveOuterIPv6("", "2001:db8:a::1"), encapsulated, "destination: Expected"},
	{"hop limit", HaveOuterIPv6("", "", HopLimit(64)), encapsulated, "hop limit: Expected"},
	{"traffic class", HaveOuterIPv6("", "", TrafficClass(0)), encapsulated, "traffic class: Expected"},
	{"flow label", HaveOuterIPv6("", "", FlowLabel(0)), encapsulated, "flow label: Expected"},
	{"next header", HaveOuterIPv6("", "", NextHeader(41)), encapsulated, "next header: Expected"},
	{"no IPv6", HaveOuterIPv6("", ""), plain[:14], "there is none"},

	{"inner IPv6", HaveInner(`IPv6(dst="2001:db8:a::1")/Raw(b"\xab\xcd")`), encapsulated, ""},
	{"inner IPv4", HaveInner(`IP(dst="198.51.100.1")`), tagged, ""},
	{"inner Ethernet", HaveInner(`Ether(src="02:00:00:00:00:03", type=0x88b5)`), l2, ""},
	{"inner is not the outer", HaveInner(`IPv6(dst="fc00:1::1")`), encapsulated, `dst: expected "fc00:1::1", actual "2001:db8:a::1"`},
	{"inner of another kind", HaveInner(`IP()`), encapsulated, "expected IP, actual IPv6"},
	{"no inner packet", HaveInner(`IPv6()`), plain, "there is no inner packet"},
}

func TestMatch(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			ok, err := row.matcher.Match(row.frame)
			switch {
			case err != nil:
				t.Fatal(err)
			case ok != (row.want == ""):
				t.Errorf("matches: %v, want %v", ok, row.want == "")
			case !ok && !strings.Contains(row.matcher.FailureMessage(row.frame), row.want):
				t.Errorf("message without %q:\n%s", row.want, row.matcher.FailureMessage(row.frame))
			case ok && !strings.Contains(row.matcher.NegatedFailureMessage(row.frame), "not to "):
				t.Errorf("negated message:\n%s", row.matcher.NegatedFailureMessage(row.frame))
			}
		})
	}
}

func TestFrameTypes(t *testing.T) {
	g := NewWithT(t)
	m := MatchPacket(`Ether()/IPv6()/SRH()`)
	g.Expect(encapsulated).To(m)
	g.Expect(traffic.Frame{Data: encapsulated}).To(m)
	g.Expect(gopacket.NewPacket(encapsulated, layers.LayerTypeEthernet, gopacket.Default)).To(m)
	g.Expect([][]byte{plain, encapsulated}).To(ContainElement(m))
}

// Wrong use is an error that neither To nor NotTo takes for an answer.
func TestWrongUse(t *testing.T) {
	for _, row := range []struct {
		name    string
		matcher types.GomegaMatcher
		actual  any
		want    string
	}{
		{"expression", MatchPacket(`Ether()/IPv6(dts="fc00::1")`), encapsulated, "dts"},
		{"empty expression", MatchPacketExactly(""), encapsulated, "packet expression"},
		{"inner expression", HaveInner(`IPv7()`), encapsulated, "IPv7"},
		{"inner expression, empty", HaveInner(""), encapsulated, "packet expression"},
		{"IPv4 address as segment", HaveSRH(Segments("192.0.2.1")), encapsulated, "segments: 192.0.2.1 is no IPv6 address"},
		{"text as segment", HaveSRH(Segments("fc00:1::g")), encapsulated, "segments: "},
		{"address", HaveOuterIPv6("fc00::1", "host"), encapsulated, "destination: "},
		{"text as number", HaveSRH(SegmentsLeft("1")), encapsulated, "segments left: expected a number or a matcher, got string"},
		{"nil as number", HaveSRH(Tag(nil)), encapsulated, "tag: expected a number or a matcher"},
		{"sub-matcher of another type", HaveSRH(Tag(HaveLen(1))), encapsulated, "tag: "},
		{"not a frame", HaveSRH(), "frame", "got string"},
		{"nil", MatchPacket(`Ether()`), nil, "got <nil>"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, m := range []types.GomegaMatcher{row.matcher, Not(row.matcher)} {
				if ok, err := m.Match(row.actual); ok || err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("got %v, %v; want an error with %q", ok, err, row.want)
				}
			}
		})
	}
}
