package traffic

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	const frame = ip6 + `SRH(addresses=["2001:db8::3", "2001:db8::2"])/UDP(sport=1, dport=2)/Raw(16)`
	tests := []struct {
		name, want, got string
		exact           bool
		fields          int
		says            []string
	}{
		{name: "the same", want: frame, got: frame},
		{name: "the same, exactly", want: frame, got: frame, exact: true},
		{name: "fields left out", want: `Ether()/IPv6()/SRH()/UDP()`, got: frame},
		{name: "fields left out count when exact", want: `Ether()/IPv6(src="2001:db8::1", dst="2001:db8::2")/SRH(addresses=["2001:db8::3", "2001:db8::2"])/UDP(sport=1, dport=2)/Raw(16)`, got: frame, exact: true,
			fields: 2, says: []string{`dst: expected "ff:ff:ff:ff:ff:ff", actual "02:00:00:00:00:02"`, `src: expected "00:00:00:00:00:00", actual "02:00:00:00:00:01"`}},
		{name: "ends early", want: `Ether()/IPv6(nh=43)`, got: frame},
		{name: "ends early, exactly", want: `Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")/IPv6(src="2001:db8::1", dst="2001:db8::2", nh=43, plen=64)`, got: frame, exact: true,
			fields: 3 * otherLayer, says: []string{"the expected packet ends before this layer", "! actual    SRH("}},
		{name: "one field", want: `Ether()/IPv6(hlim=63)/SRH()`, got: frame, fields: 1, says: []string{
			"  expected  Ether()\n", "! expected  IPv6(hlim=63)\n", `! actual    IPv6(src="2001:db8::1", dst="2001:db8::2")`,
			"hlim: expected 63, actual 64", "0010  00 00 00 28 2b[3f]20 01 0d b8", "0010  00 00 00 40 2b[40]"}},
		{name: "one bit", want: `Ether()/IPv6()/SRH(oam=1)`, got: frame, fields: 1, says: []string{"oam: expected 1, actual 0", "[00]00 00 20 01"}},
		{name: "a list", want: `Ether()/IPv6()/SRH(addresses=["2001:db8::2"])`, got: frame, fields: 1,
			says: []string{`addresses: expected ["2001:db8::2"], actual ["2001:db8::3", "2001:db8::2"]`}},
		{name: "flags together", want: `Ether()/IPv6()/SRH(flags=0)`, got: frame},
		{name: "another layer", want: `Ether()/IPv6()/UDP(sport=1)`, got: frame, fields: otherLayer, says: []string{"layer: expected UDP, actual SRH"}},
		{name: "a layer more", want: frame + `/Padding(4)`, got: frame, fields: otherLayer, says: []string{"the frame ends before this layer"}},
		{name: "payload left out", want: `Ether()/IPv6()/SRH()/UDP()/Raw()`, got: frame},
		{name: "payload differs", want: `Ether()/IPv6()/SRH()/UDP()/Raw(15)`, got: frame, fields: 1, says: []string{"load: expected 15, actual 16"}},
		{name: "padding is not compared", want: frame, got: frame + `/Padding(b"x")`},
		{name: "padding counts when exact", want: frame, got: frame + `/Padding(b"x")`, exact: true, fields: otherLayer},
		{name: "Raw stands for any end", want: `Ether()/IPv6(nh=43)/Raw()`, got: frame},
		{name: "what the frame does not say is read as expected", want: `Ether()/IPv6()/UDP(dport=7)/VXLAN(vni=9)/Ether()/ARP(op=1)`,
			got: ip6 + `UDP(sport=7, dport=7)/VXLAN(vni=9, flags=8)/Ether()/ARP()`},
		{name: "checksum wrong on purpose", want: `Ether()/IPv6()/UDP(chksum=1)`, got: ip6 + `UDP(chksum=1)`},
		{name: "checksum left out", want: `Ether()/IPv6()/UDP()`, got: ip6 + `UDP(chksum=1)`},
		{name: "checksum, exactly", want: ip6 + `UDP()`, got: ip6 + `UDP(chksum=1)`, exact: true, fields: 1, says: []string{"chksum: expected 0x", "actual 0x1\n"}},
		{name: "options with their padding", want: `Ether()/IPv6()/IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x3e)])`,
			got: ip6 + `IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x3e), PadN(optdata=b"\x00\x00")])`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := mustParse(t, tt.want).Diff(mustBytes(t, mustParse(t, tt.got)), tt.exact)
			if d == nil {
				if tt.fields != 0 {
					t.Fatalf("no difference, want %d fields", tt.fields)
				}
				return
			}
			if d.Fields != tt.fields {
				t.Errorf("%d fields differ, want %d", d.Fields, tt.fields)
			}
			for _, s := range tt.says {
				if !strings.Contains(d.String(), s) {
					t.Errorf("%q is not in:\n%s", s, d)
				}
			}
			if t.Failed() {
				t.Log(d)
			}
		})
	}
}

func TestDiffOfAnythingShort(t *testing.T) {
	want := mustParse(t, `Ether()/IPv6()/SRH()`)
	frame := mustBytes(t, mustParse(t, ip6+`SRH()/UDP()`))
	for n := range 14 + 40 + 24 {
		if d := want.Diff(frame[:n], false); d == nil {
			t.Errorf("the first %d bytes match", n)
		}
	}
}

func TestDefault(t *testing.T) {
	p := mustParse(t, `Ether(src="02:00:00:00:00:01")/IPv6()/UDP()`)
	mac, _ := net.ParseMAC("02:00:00:00:00:09")
	for _, d := range []struct {
		layer int
		field string
		v     any
	}{
		{0, "src", mac}, {0, "dst", "02:00:00:00:00:0a"}, {1, "src", netip.MustParseAddr("fc00::1")}, {1, "hlim", 7},
	} {
		if err := p.Default(d.layer, d.field, d.v); err != nil {
			t.Fatal(err)
		}
	}
	const want = `Ether(dst="02:00:00:00:00:0a", src="02:00:00:00:00:01")/IPv6(hlim=7, src="fc00::1")/UDP()`
	if p.String() != want {
		t.Errorf("%s, want %s", p, want)
	}
	if back := Dissect(mustBytes(t, p)).String(); back != want {
		t.Errorf("dissected %s, want %s", back, want)
	}
	// What Default set is not compared, what the expression gives is.
	other := mustBytes(t, mustParse(t, `Ether(src="02:00:00:00:00:01")/IPv6()/UDP()`))
	if d := p.Diff(other, false); d != nil {
		t.Errorf("defaults were compared:\n%s", d)
	}
	if p.Layers()[0].Has("dst") || !p.Layers()[0].Has("src") || p.Layers()[1].Name() != "IPv6" {
		t.Error("Has or Name is wrong")
	}
	for _, err := range []error{
		p.Default(3, "src", mac), p.Default(0, "scr", mac), p.Default(0, "src", "x"), p.Default(1, "hlim", 256), p.Default(1, "hlim", -1), p.Default(1, "hlim", 1.5),
	} {
		if err == nil {
			t.Error("a wrong default was taken")
		}
	}
}

func TestChecksums(t *testing.T) {
	tests := []struct{ expr, want string }{
		{ip6 + `SRH(addresses=["2001:db8::3", "2001:db8::2"])/UDP()/Raw(5)`, ""},
		{ip6 + `SRH(addresses=["2001:db8::3", "2001:db8::2"])/UDP(chksum=1)/Raw(5)`, "chksum of UDP (layer 3) is 0x1"},
		{ip6 + `IP(src="192.0.2.1", dst="192.0.2.2", chksum=2)/TCP(chksum=3)`, "chksum of IP (layer 2) is 0x2"},
		{ip6 + `IP(src="192.0.2.1", dst="192.0.2.2", chksum=2)/TCP(chksum=3)`, "chksum of TCP (layer 3) is 0x3"},
		{ip6 + `UDP(chksum=0)`, "chksum of UDP (layer 2) is 0x0"},
		{ip4 + `UDP(chksum=0)`, ""},
		{ip4 + `ICMP(chksum=9)`, "chksum of ICMP"},
		{ip6 + `ICMPv6EchoRequest(cksum=9)`, "cksum of ICMPv6EchoRequest"},
		{ip6 + `ICMPv6TimeExceeded()/IPv6()/UDP(chksum=1)`, ""},
		{ip6 + `ICMPv6TimeExceeded(cksum=1)/IPv6()/UDP(chksum=1)`, "cksum of ICMPv6TimeExceeded"},
		{ip6 + `IPv6ExtHdrFragment(m=1)/UDP(chksum=1)`, ""},
		{ether + `IP(src="192.0.2.1", dst="192.0.2.2", flags="MF")/UDP(chksum=1)`, ""},
		{ether + `IP(src="192.0.2.1", dst="192.0.2.2", len=200)/UDP(chksum=1)`, ""},
		{ether + `IPv6(plen=200)/UDP(chksum=1)`, ""},
		{ip6 + `UDP(len=100, chksum=1)`, ""},
		{ip6 + `UDP()/Padding(b"xyz")`, ""},
	}
	for _, tt := range tests {
		err := Checksums(mustBytes(t, mustParse(t, tt.expr)))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.expr, err, tt.want)
		}
	}
}

// Every layer of the table can be built from its name alone, and its
// name is suggested for a slip.
func TestEveryLayer(t *testing.T) {
	for i := range table {
		l := &table[i]
		if l.group != "" {
			continue
		}
		p := mustParse(t, l.name+"()")
		roundTrip(t, mustParse(t, `Ether()/`+p.String()), mustBytes(t, mustParse(t, `Ether()/`+p.String())))
		if _, err := Parse(l.name + "_()"); err == nil || !strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%s_: %v", l.name, err)
		}
		if !slices.Contains(namesOf(""), l.name) {
			t.Errorf("%s is not listed", l.name)
		}
	}
}
