package traffic

import (
	"encoding/hex"
	"strings"
	"testing"
)

func mustParse(t testing.TB, expr string) *Packet {
	t.Helper()
	p, err := Parse(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return p
}

func mustBytes(t testing.TB, p *Packet) []byte {
	t.Helper()
	b, err := p.Bytes()
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	return b
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		expr   string
		column int
		want   string
	}{
		{"", 1, "expected a layer such as Ether(), found the end"},
		{"garbage", 8, `expected "(" after garbage`},
		{"\x00\xff", 1, "unexpected character"},
		{"Ethr()", 1, "unknown layer Ethr: did you mean Ether?"},
		{"Ether()/", 9, "expected a layer"},
		{"Ether()//IPv6()", 9, "expected a layer"},
		{"Ether()IPv6()", 8, `expected "/" or the end of the expression, found "IPv6"`},
		{`Ether(sr="02:00:00:00:00:01")`, 7, `Ether has no field "sr": did you mean src?`},
		{`Ether(src="02:00:00:00:00:1")`, 11, "expected a MAC address"},
		{"Ether(src=)", 11, "expected a value, found"},
		{"Ether(", 7, "found the end of the expression"},
		{"Ether(3)", 7, "expected field=value of Ether"},
		{"Ether(type=1, type=2)", 15, "type of Ether is given twice"},
		{"Ether(type=65536)", 12, "expected a number from 0 to 65535"},
		{"Ether(type=18446744073709551616)", 12, "up to 64 bits"},
		{"Ether(type=-1)", 12, "unexpected character '-'"},
		{"Ether()/IPv6(hlim=256)", 19, "hlim of IPv6: expected a number from 0 to 255"},
		{`Ether()/IPv6(dst="192.0.2.1")`, 18, "expected an IPv6 address"},
		{`Ether()/IPv6(dst="fe80::1%eth0")`, 18, "expected an IPv6 address"},
		{`SRH(addresses=["::1", 3])`, 23, "expected an IPv6 address"},
		{`SRH(addresses="::1")`, 15, "expected a list"},
		{`SRH(flags=256)`, 11, "expected a number from 0 to 255"},
		{`SRH(flags=8, hmac=1)`, 14, "hmac of SRH is given twice"},
		{`Raw("abc)`, 5, "text is not closed"},
		{`Raw("\x0")`, 6, "two hexadecimal digits"},
		{`Raw("\q")`, 6, "unknown escape"},
		{`Raw(b"ü")`, 7, "expected ASCII"},
		{`"ü"/Ehter()`, 5, "did you mean Ether?"}, // columns count characters
		{`Raw(b"a"*300000)`, 10, "more than"},
		{`Raw(300000)`, 5, "at most"},
		{"Ether()/IPv6()/Raw(65536)", 9, "IPv6: plen: 65536 does not fit into 16 bits"},
		{"Ether()/IPv6()/UDP()/Raw(65528)", 16, "UDP: len: 65536 does not fit into 16 bits"},
		{`Ether()/SRH(addresses=["::1"` + strings.Repeat(`, "::1"`, 127) + `])`, 9, "SRH: len: 256 does not fit into 8 bits"},
		{`Ether()/IP()/ICMP(gw="192.0.2.1")`, 14, "ICMP: field gw does not go with the other fields"},
		{`IPv6ExtHdrDestOpt(options=[PdN()])`, 28, "unknown option PdN: did you mean PadN?"},
		{`IPv6ExtHdrDestOpt(options=[SRH()])`, 28, "unknown option SRH"},
		{`IPv6ExtHdrDestOpt(options=3)`, 27, "expected one option such as Pad1()"},
		{`SRH(tlv_objects=[TLVHMAC(keyid=1)])`, 26, `TLVHMAC has no field "keyid": did you mean hmackeyid?`},
		{`TCP(flags="SX")`, 11, `unknown flag "X": expected some of F, S`},
		{`TCP(options=[("MSS", 65536)])`, 22, "expected a number of 2 bytes"},
		{`TCP(options=[("MMS", 1)])`, 15, "did you mean MSS?"},
		{`IPv6(nh="UPD")`, 9, "did you mean UDP?"},
		{"Padding(4)/Raw(4)", 12, "nothing can follow Padding"},
		{strings.Repeat("Ether()/", 200) + "Raw(1)", 513, "more than 64 layers"},
		{"SRH(addresses=" + strings.Repeat("[", 200), 23, "nested more than 8 deep"},
		{strings.Repeat(" ", MaxExpression+1), 1, "at most"},
	}
	for _, tt := range tests {
		_, err := Parse(tt.expr)
		e, ok := err.(*SyntaxError)
		if !ok {
			t.Errorf("%.60s: error %v, want a SyntaxError", tt.expr, err)
			continue
		}
		if e.Column != tt.column || !strings.Contains(e.Msg, tt.want) {
			t.Errorf("%.60s: %v, want column %d: ...%s", tt.expr, err, tt.column, tt.want)
		}
	}
}

// Written by hand from RFC 8200, RFC 8754 and RFC 768.
func TestBytes(t *testing.T) {
	expr := `Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")/Dot1Q(vlan=100, prio=3)` +
		`/IPv6(src="fc00::1", dst="fc00:2::d2", fl=0x12345, hlim=63)/SRH(addresses=["fc00:2::d2"], tag=7, flags=8)` +
		`/IPv6(src="2001:db8::1", dst="2001:db8::2")/UDP(sport=1, dport=9, chksum=0xbeef)/Raw(b"hi")`
	want := unhex(t, "020000000002 020000000001 8100 6064 86dd"+
		"60012345 004a 2b 3f fc000000000000000000000000000001 fc0000020000000000000000000000d2"+
		"29 02 04 00 00 08 0007 fc0000020000000000000000000000d2"+
		"60000000 000a 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002"+
		"0001 0009 000a beef 6869")
	p := mustParse(t, expr)
	if got := mustBytes(t, p); hex.EncodeToString(got) != hex.EncodeToString(want) {
		t.Fatalf("built\n%x, want\n%x", got, want)
	}
	back := Dissect(want)
	if got := mustBytes(t, mustParse(t, back.String())); hex.EncodeToString(got) != hex.EncodeToString(want) {
		t.Fatalf("%s built\n%x, want\n%x", back, got, want)
	}
	if d := p.Diff(want, true); d != nil {
		t.Fatalf("differs from its own bytes:\n%s", d)
	}
}
