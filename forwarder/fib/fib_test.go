package fib_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"seg6lab/forwarder/fib"
)

func addr(s string) netip.Addr  { return netip.MustParseAddr(s) }
func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func TestLongestPrefixWins(t *testing.T) {
	var table fib.Table[string]
	for _, p := range []string{"::/0", "2001:db8::/32", "2001:db8:1::/48", "2001:db8:1::5/128", "10.0.0.0/8", "10.1.0.0/16"} {
		table.Insert(pfx(p), p)
	}
	table.Insert(pfx("2001:db8:dead::/48"), "")
	for dst, want := range map[string]string{
		"2001:db8:1::5": "2001:db8:1::5/128", "2001:db8:1::6": "2001:db8:1::/48", "2001:db8:2::": "2001:db8::/32",
		"fc00::1": "::/0", "10.1.2.3": "10.1.0.0/16", "10.2.2.3": "10.0.0.0/8", "11.0.0.1": "", "2001:db8:dead::1": "",
	} {
		got, ok := table.Lookup(addr(dst))
		if got != want || ok != (want != "") {
			t.Errorf("%s: %q %v, want %q", dst, got, ok, want)
		}
		bits, got, ok := table.LookupPrefix(addr(dst))
		if ok != (want != "") || ok && (got != want || bits != pfx(want).Bits()) {
			t.Errorf("%s: %q/%d %v, want %q", dst, got, bits, ok, want)
		}
	}
}

// Rules are asked by priority; one without a matching route, or one that ends
// in a throw, passes the lookup on.
func TestRules(t *testing.T) {
	f := fib.New[string]()
	f.Table(254).Insert(pfx("::/0"), "main")
	f.Table(100).Insert(pfx("2001:db8::/32"), "vrf")
	f.Table(7).Insert(pfx("2001:db8:7::/48"), "seven")
	f.Table(7).Insert(pfx("2001:db8:7:7::/64"), "")
	f.Table(8).Insert(pfx("::/0"), "eight")
	f.Table(9).Insert(pfx("::/0"), "nine")
	f.AddRule(fib.Rule{Priority: 32766, Table: 254})
	f.AddRule(fib.Rule{Priority: 1000, L3Domain: true})
	f.AddRule(fib.Rule{Priority: 10, Table: 7})
	f.AddRule(fib.Rule{Priority: 20, Table: 8, From: pfx("fc00:8::/32"), IIF: 3})
	f.AddRule(fib.Rule{Priority: 20, Table: 9, To: pfx("fc00:9::/32")})
	for _, row := range []struct {
		dst, src string
		iif      int
		domain   *fib.Table[string]
		want     string
	}{
		{"2001:db8:7::1", "::1", 1, nil, "seven"},
		{"2001:db8:7:7::1", "::1", 1, nil, "main"},
		{"2001:db8:8::1", "::1", 1, nil, "main"},
		{"2001:db8:8::1", "::1", 1, f.Table(100), "vrf"},
		{"2001:db9::1", "::1", 1, f.Table(100), "main"},
		{"2001:db9::1", "fc00:8::1", 3, f.Table(100), "eight"},
		{"2001:db9::1", "fc00:8::1", 2, nil, "main"},
		{"fc00:9::1", "fc00:8::1", 2, nil, "nine"},
		{"fc00:9::1", "fc00:8::1", 3, nil, "eight"},
	} {
		k := fib.Key[string]{Dst: addr(row.dst), Src: addr(row.src), IIF: row.iif, L3Domain: row.domain}
		if got, ok := f.Lookup(&k); got != row.want || !ok {
			t.Errorf("%+v: %q %v", row, got, ok)
		}
		if _, got, ok := f.LookupPrefix(&k); got != row.want || !ok {
			t.Errorf("%+v: %q %v", row, got, ok)
		}
	}
	if _, ok := fib.New[string]().Lookup(&fib.Key[string]{Dst: addr("::1")}); ok {
		t.Error("an empty FIB found a route")
	}
}

func BenchmarkLookup(b *testing.B) {
	for name, n := range map[string]int{"10": 10, "1M": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			var table fib.Table[*int]
			addrs := make([]netip.Addr, 1024)
			for i := range n {
				var a [16]byte
				a[0] = 0x20
				binary.BigEndian.PutUint64(a[1:], rng.Uint64())
				p, _ := netip.AddrFrom16(a).Prefix(32 + rng.IntN(33))
				table.Insert(p, new(int))
				addrs[i%len(addrs)] = p.Addr()
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, ok := table.Lookup(addrs[i%min(n, len(addrs))]); !ok {
					b.Fatal("not found")
				}
				i++
			}
		})
	}
}
