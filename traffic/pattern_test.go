package traffic

import (
	"encoding/hex"
	"testing"
)

func TestPattern(t *testing.T) {
	for _, c := range []struct{ expr, value, mask string }{
		{`Ether()`, "", ""},
		{`Ether(src="02:00:00:00:00:01")`, "ffffffffffff020000000001", "000000000000ffffffffffff"},
		// The type says that IPv6 follows, and nothing else is compared.
		{`Ether()/IPv6(hlim=63)`, "ffffffffffff000000000000" + "86dd" + "600000000000" + "3b3f", "000000000000000000000000" + "ffff" + "000000000000" + "00ff"},
		// A field of less than a byte.
		{`Ether()/Dot1Q(prio=5)`, "ffffffffffff000000000000" + "8100" + "a0", "000000000000000000000000" + "ffff" + "e0"},
		{`Ether()/ICMPv6EchoReply()`, "ffffffffffff000000000000" + "9000" + "81", "000000000000000000000000" + "0000" + "ff"},
	} {
		p, err := Parse(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		val, mask, err := p.Pattern(false)
		if err != nil || hex.EncodeToString(val) != c.value || hex.EncodeToString(mask) != c.mask {
			t.Errorf("%s: value %x, mask %x, %v\nwant         %s       %s", c.expr, val, mask, err, c.value, c.mask)
		}
	}
	for expr, want := range map[string]string{
		`Ether()/IPv6()/SRH()/UDP(dport=9)`: "SRH has no addresses: where UDP begins depends on it",
	} {
		p, _ := Parse(expr)
		if _, _, err := p.Pattern(false); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", expr, err, want)
		}
	}
}

// What Diff takes for equal has the pattern's bits, and what it does not has others.
func TestPatternIsDiff(t *testing.T) {
	const sent = `Ether()/IPv6(src="fc00::1", dst="fc00:1::1", hlim=63)/SRH(segleft=1, addresses=["fc00:2::2", "fc00:1::1"])/IPv6(dst="2001:db8:9::1")/UDP(sport=1000, dport=9)/Raw(16)`
	p, err := Parse(sent)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := p.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, expr := range []string{
		sent, `Ether()/IPv6()`, `Ether()/IP()`, `Ether()/IPv6(hlim=63)/SRH()`, `Ether()/IPv6(hlim=62)/SRH()`, `Ether()/IPv6()/UDP()`,
		`Ether()/IPv6()/SRH(addresses=["fc00:2::2", "fc00:1::1"])/IPv6(dst="2001:db8:9::1")/UDP(dport=9)`,
		`Ether()/IPv6()/SRH(addresses=["fc00:2::2", "fc00:1::1"])/IPv6(dst="2001:db8:9::1")/UDP(dport=8)`,
		`Ether()/IPv6()/SRH(segleft=1)`, `Ether()/IPv6()/SRH(segleft=0)`, `Ether()/IPv6()/IPv6ExtHdrRouting()`,
	} {
		e, err := Parse(expr)
		if err != nil {
			t.Fatal(err)
		}
		val, mask, err := e.Pattern(false)
		if err != nil {
			t.Fatal(err)
		}
		meets := len(frame) >= len(val)
		for i := range min(len(val), len(frame)) {
			meets = meets && frame[i]&mask[i] == val[i]&mask[i]
		}
		if equal := e.Diff(frame, false) == nil; meets != equal {
			t.Errorf("%s: the pattern says %v, Diff %v", expr, meets, equal)
		}
	}
}
