package traffic

import "testing"

const benchExpr = ip6 + `SRH(addresses=["2001:db8::3", "2001:db8::2"])/` + ip6 + `UDP(sport=1, dport=2)/Raw(1000)`

func BenchmarkDiffEqual(b *testing.B) {
	p := mustParse(b, benchExpr)
	frame := mustBytes(b, p)
	b.ReportAllocs()
	for b.Loop() {
		if d := p.Diff(frame, false); d != nil {
			b.Fatal(d)
		}
	}
}

func BenchmarkDissect(b *testing.B) {
	frame := mustBytes(b, mustParse(b, benchExpr))
	b.ReportAllocs()
	for b.Loop() {
		Dissect(frame)
	}
}
