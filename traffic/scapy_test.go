package traffic

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// judge reads a JSON list of expressions and prints a line of hexadecimal for
// each: what Scapy builds.
const judge = `
import json, logging, sys
logging.getLogger("scapy").setLevel(logging.CRITICAL)
from scapy.packet import Raw, Padding
from scapy.layers.l2 import Ether, Dot1Q, Dot1AD, Dot3, LLC, ARP, GRE
from scapy.layers.inet import IP, ICMP, UDP, TCP
from scapy.layers.inet6 import *
from scapy.layers.vxlan import VXLAN
SRH = IPv6ExtHdrSegmentRouting
for tlv in "", "IngressNode", "EgressNode", "PadN":
    globals()["TLV" + tlv] = globals()["IPv6ExtHdrSegmentRoutingTLV" + tlv]
for e in json.load(sys.stdin):
    try:
        print(bytes(eval(e)).hex())
    except Exception as x:
        print("error:", repr(x))
`

// Beginnings that leave nothing to the host on which Scapy runs.
const (
	ether = `Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")/`
	ip6   = ether + `IPv6(src="2001:db8::1", dst="2001:db8::2")/`
	ip4   = ether + `IP(src="192.0.2.1", dst="192.0.2.2")/`
)

// scapyTable is what Scapy and this package build into the same bytes.
var scapyTable = []string{
	ether + `Raw(b"")`,
	`Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")`,
	`Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=0x88b5)/Raw(b"a\x00\"\\\n")`,
	ether + `"text"`,
	ether + `IPv6(src="2001:db8::1", dst="2001:db8::2")`,
	ether + `Dot1Q(vlan=100)/IPv6(src="::1", dst="::2", tc=3, fl=0xfffff, hlim=1)/UDP()`,
	ether + `Dot1Q(vlan=4095, prio=7, id=1)/Dot1Q()/IP(src="1.2.3.4", dst="5.6.7.8")`,
	ether + `Dot1AD(vlan=5)/Dot1Q(vlan=6)/ARP(hwsrc="02:00:00:00:00:01", psrc="192.0.2.1", pdst="192.0.2.2")`,
	ether + `Dot1AD(vlan=5)/Dot1AD(vlan=6, type=0x0800)/Raw(b"x")`,
	ether + `ARP(op=2, hwsrc="02:00:00:00:00:01", psrc="192.0.2.1", hwdst="02:00:00:00:00:02", pdst="192.0.2.2")`,
	ether + `ARP(op="is-at", hwsrc="02:00:00:00:00:01", psrc="192.0.2.1", pdst="192.0.2.2")`,
	`Dot3(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")/LLC(dsap=0x42, ssap=0x42, ctrl=3)/Raw(b"stp")`,
	ip6 + `UDP(sport=1000, dport=2000)/Raw(b"odd")`,
	ip6 + `UDP(sport=1000, dport=2000, len=3, chksum=0)/Raw(b"odd")`,
	ip6 + `UDP(sport=1000, dport=2000, len=3)/Raw(b"odd")`,
	ip6 + `UDP(sport=1000, dport=2000)/Raw(b"x"*17)/Padding(b"pad")`,
	ip6 + `UDP(sport=0xd0f4, dport=0x0000)/Raw(b"\x00\x00")`,
	ether + `IPv6(src="::", dst="::", nh=17)/UDP(sport=0, dport=0xffda)/Raw(b"")`, // the checksum is 0, sent as 0xffff
	ether + `IPv6(src="2001:db8::1", dst="2001:db8::2", plen=4, nh=200, version=5)/UDP(sport=1, dport=2)`,
	ip6 + `TCP(sport=1, dport=2, seq=0xffffffff, ack=7, flags="SA", window=1, urgptr=5)/Raw(b"abc")`,
	ip6 + `TCP(sport=1, dport=2, flags="FSRPAUECN", dataofs=15, reserved=7, chksum=1)`,
	ip6 + `TCP(sport=1, dport=2, options=[("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 2)), ("NOP", None), ("WScale", 7)])`,
	ip6 + `TCP(sport=1, dport=2, options=[("NOP", None), ("EOL", None), (254, b"ab")])`,
	ip6 + `ICMPv6EchoRequest(id=1, seq=2, data=b"ping")`,
	ip6 + `ICMPv6EchoReply(id=0xffff, seq=2)/Raw(b"ping")`,
	ip6 + `ICMPv6EchoRequest(cksum=0xdead)`,
	ip6 + `ICMPv6DestUnreach(code=4)/IPv6(src="::1", dst="::2")/UDP(sport=1, dport=2)/Raw(b"q")`,
	ip6 + `ICMPv6PacketTooBig(mtu=1400)/IPv6(src="::1", dst="::2", plen=1000, nh=17)`,
	ip6 + `ICMPv6TimeExceeded()/IPv6(src="::1", dst="::2", hlim=1)/ICMPv6EchoRequest()`,
	ip6 + `ICMPv6ParamProblem(code=1, ptr=40)/IPv6(src="::1", dst="::2")`,
	ether + `IPv6(src="fe80::1")/ICMPv6ND_NS(tgt="fe80::2")/ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:01")`,
	ether + `IPv6(src="fe80::1", dst="ff02::2")/ICMPv6ND_NA(tgt="fe80::2", R=0, S=1, res=3)/ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:01")`,
	ether + `IPv6(src="fe80::1")/ICMPv6ND_RS()/ICMPv6NDOptMTU(mtu=9000)`,
	ether + `IPv6(src="fe80::1")/ICMPv6ND_RA(chlim=64, M=1, O=1, prf=3)/ICMPv6NDOptPrefixInfo(prefix="2001:db8::", A=0)/ICMPv6NDOptMTU()`,
	ether + `IPv6(src="fe80::1", hlim=3)/ICMPv6ND_Redirect(tgt="fe80::2", dst="2001:db8::9")`,
	ip6 + `ICMPv6Unknown(type=200, code=1, msgbody=b"body")`,
	ip6 + `IPv6ExtHdrHopByHop()/UDP(sport=1, dport=2)`,
	ip6 + `IPv6ExtHdrHopByHop(options=[RouterAlert(value=1)])/ICMPv6EchoRequest()`,
	ip6 + `IPv6ExtHdrHopByHop(options=[Pad1(), RouterAlert(value=1), HBHOptUnknown(otype=0x3e, optdata=b"abcd")])/TCP(sport=1, dport=2)`,
	ip6 + `IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\x00\x00"), Jumbo(jumboplen=70000)])`,
	ip6 + `IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\x00"*4)])/UDP(sport=1, dport=2)/Raw(b"x")`,
	ip6 + `IPv6ExtHdrDestOpt(len=5, autopad=0, options=[HBHOptUnknown(otype=0x3e, optlen=9, optdata=b"ab")])/Raw(b"x")`,
	ip6 + `IPv6ExtHdrDestOpt(autopad=0, options=[HBHOptUnknown(otype=0x3e, optdata=b"a")])/Raw(b"x")`,
	ip6 + `IPv6ExtHdrDestOpt(autopad=0, options=[HBHOptUnknown(otype=0x3e, optdata=b"abcdefg")])/Raw(b"x")`,
	ip6 + `IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x3e, optdata=b"abcdefghi"), HAO(hoa="2001:db8::3")])/IPv6ExtHdrDestOpt()/IPv6ExtHdrDestOpt()`,
	ip6 + `IPv6ExtHdrRouting(addresses=["2001:db8::3", "2001:db8::4"])/UDP(sport=1, dport=2)`,
	ip6 + `IPv6ExtHdrRouting(type=2, segleft=0, addresses=["2001:db8::3"])/UDP(sport=1, dport=2)`,
	ip6 + `IPv6ExtHdrFragment(id=7, m=1)/UDP(sport=1, dport=2)/Raw(b"x"*16)`,
	ip6 + `IPv6ExtHdrFragment(id=7, offset=3, nh=17, res1=1, res2=3)/Raw(b"x"*16)`,
	ip6 + `IPv6ExtHdrSegmentRouting(addresses=["2001:db8::3", "2001:db8::2"])/UDP(sport=1, dport=2)/Raw(b"x")`,
	ip6 + `SRH(addresses=["2001:db8::2"])/UDP(sport=1, dport=2)`,
	ip6 + `SRH(addresses=["2001:db8::3", "2001:db8::2"], segleft=0)/ICMPv6EchoRequest()`,
	ip6 + `SRH(addresses=["2001:db8::3"], segleft=1)/TCP(sport=1, dport=2)`,
	ip6 + `SRH(addresses=["2001:db8::3"], segleft=2, lastentry=5, len=9, type=3, tag=0xabcd, oam=1, alert=1, protected=1, hmac=1, unused1=1, unused2=7)/Raw(b"x")`,
	ip6 + `SRH(addresses=[])/Raw(b"x")`,
	ip6 + `SRH(addresses=["2001:db8::2"])/IPv6(src="2001:db8::8", dst="2001:db8::9", hlim=9)/UDP(sport=1, dport=2)`,
	ip6 + `SRH(addresses=["2001:db8::2"])/IP(src="192.0.2.1", dst="192.0.2.2")/UDP(sport=1, dport=2)/Raw(b"x")`,
	ip6 + `SRH(addresses=["2001:db8::2"], nh=143)/` + ip4 + `ICMP()`,
	ip6 + `SRH(addresses=["2001:db8::2"], tlv_objects=[IPv6ExtHdrSegmentRoutingTLV(type=124, len=4, value=b"abcd")])/UDP(sport=1, dport=2)`,
	ip6 + `SRH(addresses=["2001:db8::2"], tlv_objects=[IPv6ExtHdrSegmentRoutingTLV(type=124, len=6, value=b"abcdef"), IPv6ExtHdrSegmentRoutingTLVPadN(padding=b"\x00"*6)])/UDP(sport=1, dport=2)`,
	ip6 + `SRH(addresses=["2001:db8::2"], tlv_objects=[IPv6ExtHdrSegmentRoutingTLVIngressNode(ingress_node="::7"), IPv6ExtHdrSegmentRoutingTLVEgressNode(egress_node="::8", flags=3)])/UDP(sport=1, dport=2)`,
	ip6 + `SRH(addresses=["2001:db8::2"], hmac=1, tlv_objects=[IPv6ExtHdrSegmentRoutingTLV(type=5, len=38, value=b"\x00\x00\x00\x00\x00\x07" + b"h"*32)])/UDP(sport=1, dport=2)`,
	ip6 + `IPv6ExtHdrHopByHop()/IPv6ExtHdrDestOpt()/SRH(addresses=["2001:db8::3", "2001:db8::2"])/IPv6ExtHdrFragment(id=1)/IPv6ExtHdrDestOpt()/UDP(sport=1, dport=2)/Raw(b"abc")`,
	ip6 + `IPv6(src="::1", dst="::2")/IPv6(src="::3", dst="::4")`,
	ip6 + `IP(src="192.0.2.1", dst="192.0.2.2")/TCP(sport=1, dport=2)`,
	ip6 + `GRE()/IPv6(src="::1", dst="::2")/UDP(sport=1, dport=2)`,
	ip4 + `Raw(b"x")`,
	ip4 + `UDP(sport=1, dport=2)/Raw(b"xyz")`,
	ip4 + `TCP(sport=1, dport=2)/Raw(b"xyz")`,
	ip4 + `ICMP()/Raw(b"xyz")`,
	ip4 + `ICMP(type="echo-reply", id=1, seq=2)`,
	ip4 + `ICMP(type=3, code=4, nexthopmtu=1400)/IP(src="1.1.1.1", dst="2.2.2.2")/UDP(sport=1, dport=2)`,
	ip4 + `ICMP(type=11)/IP(src="1.1.1.1", dst="2.2.2.2", ttl=1)`,
	ip4 + `ICMP(type=5, gw="192.0.2.9")/IP(src="1.1.1.1", dst="2.2.2.2")`,
	ip4 + `ICMP(type=12, ptr=9)/IP(src="1.1.1.1", dst="2.2.2.2")`,
	ip4 + `ICMP(type=13, ts_ori=1, ts_rx=2, ts_tx=3)`,
	ip4 + `ICMP(type=4)/IP(src="1.1.1.1", dst="2.2.2.2")`,
	ip4 + `ICMP(type=9)/Raw(b"x")`,
	ip4 + `ICMP(type=17, addr_mask="255.0.0.0")`,
	ip4 + `IPv6(src="::1", dst="::2")/UDP(sport=1, dport=2)`,
	ip4 + `IP(src="1.1.1.1", dst="2.2.2.2")/UDP(sport=1, dport=2)`,
	ether + `IP(src="192.0.2.1", dst="192.0.2.2", tos=0xb8, id=0, flags="DF", ttl=1, proto=99)/Raw(b"x")`,
	ether + `IP(src="192.0.2.1", dst="192.0.2.2", flags="MF+DF", frag=100, len=7, chksum=3, ihl=6)/UDP(sport=1, dport=2)`,
	ether + `IP(src="192.0.2.1", dst="192.0.2.2", options=b"\x94\x04\x00\x00")/UDP(sport=1, dport=2)`,
	ether + `IP(src="192.0.2.1", dst="192.0.2.2", options=b"\x01")/UDP(sport=1, dport=2)`,
	ip4 + `GRE()/IP(src="1.1.1.1", dst="2.2.2.2")/ICMP()`,
	ip4 + `GRE(key_present=1, key=5, seqnum_present=1, sequence_number=9)/` + ip4 + `ICMP()`,
	ip4 + `GRE(proto=0x88be, version=1)/Raw(b"x")`,
	ip4 + `GRE(chksum_present=1)/IPv6(src="::1", dst="::2")`,
	ip4 + `UDP(sport=1)/VXLAN(vni=42)/` + ether + `ARP(hwsrc="02:00:00:00:00:01", psrc="192.0.2.1")`,
	ip4 + `UDP(sport=1, dport=8472)/VXLAN(vni=0xffffff, flags="Instance+G", gpid=7, gpflags=8)/` + ip6 + `UDP()`,
	ip4 + `UDP(sport=1)/VXLAN(flags=8)/` + ether + `Raw(b"x")`,
	ip4 + `UDP(sport=1)/VXLAN()/IP(src="1.1.1.1", dst="2.2.2.2")`,
	ip4 + `UDP(sport=1)/VXLAN(vni=3)/IPv6(src="::1", dst="::2")`,
	ip4 + `UDP(sport=1, dport=4790)/VXLAN(flags=12, NextProtocol=3)/` + ether + `Raw(b"x")`,
}

// ownReading are beginnings of layers in which a printed expression means
// something else to Scapy, as the table of layers says.
var ownReading = []string{
	"TLV(type=124, value", "TLVHMAC(", // Scapy does not fill in their lengths so
	`SRH(addresses=["2001:db8::2"])/Ether(`, // next header 143
	`IPv6(dst="::")`,                        // a source that is left out
}

func TestScapyBuildsTheSame(t *testing.T) {
	const python = "/usr/bin/python3" // Debian's: python3-scapy is for no other
	if out, err := exec.Command(python, "-c", "import scapy").CombinedOutput(); err != nil {
		t.Skipf("needs Debian's package python3-scapy: %v: %s", err, out)
	}
	exprs := slices.Clone(scapyTable)
	for _, expr := range scapyTable { // what is printed of a frame is for Scapy too
		printed := Dissect(mustBytes(t, mustParse(t, expr))).String()
		if !slices.ContainsFunc(ownReading, func(s string) bool { return strings.Contains(printed, s) }) {
			exprs = append(exprs, printed)
		}
	}
	in, err := json.Marshal(exprs)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", judge)
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(exprs) {
		t.Fatalf("%d answers to %d expressions", len(lines), len(exprs))
	}
	for i, expr := range exprs {
		p, err := Parse(expr)
		if err != nil {
			t.Errorf("%s\n%v\nScapy: %s", expr, err, lines[i])
			continue
		}
		if got := hex.EncodeToString(mustBytes(t, p)); got != lines[i] {
			t.Errorf("%s\n built %s\nScapy: %s", expr, got, lines[i])
		}
	}
}

// What is printed builds the same bytes, from the expression as from the frame.
func TestRoundTrip(t *testing.T) {
	for _, expr := range scapyTable {
		p, err := Parse(expr)
		if err != nil {
			continue // TestScapyBuildsTheSame says so
		}
		roundTrip(t, p, mustBytes(t, p))
	}
}

func roundTrip(t testing.TB, p *Packet, frame []byte) {
	t.Helper()
	printed, err := Parse(p.String())
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	if got := mustBytes(t, printed); !bytes.Equal(got, frame) {
		t.Errorf("%s built\n%x, want\n%x", p, got, frame)
	}
	back := Dissect(frame)
	if got := mustBytes(t, back); !bytes.Equal(got, frame) {
		t.Errorf("dissected %s\n%x, want\n%x", back, got, frame)
	}
	again, err := Parse(back.String())
	if err != nil {
		t.Fatalf("%s: %v", back, err)
	}
	if got := mustBytes(t, again); !bytes.Equal(got, frame) {
		t.Errorf("%s built\n%x, want\n%x", back, got, frame)
	}
	if d := back.Diff(frame, true); d != nil {
		t.Errorf("%s differs from its own frame:\n%s", back, d)
	}
}
