package specs

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"seg6lab/lab/topology/strictyaml"
)

// fix is a repair of the kernel's seg6 that cases speak of. Whether a kernel
// has it is found out by what the kernel does: distributions backport.
type fix struct {
	name, about string
	// probe is a case that holds on a kernel with the fix, and whose last step
	// fails on one without.
	probe string
}

// fixes by name. The text of a probe is a case file.
var fixes = []fix{
	{"l2-cow", "the L2 encapsulation modes ask once for the room of the whole encapsulation", `
case: has-l2-cow
topology: headend
with:
  r: {routes: [{to: "2001:db8:9::/64", dev: out, encap: {seg6: {mode: l2encap, segs: ["fc00:1::1"]}}}]}
steps:
  # The first packet fills the route's cache.
  - send: &send {from: src:eth0, packet: 'Ether()/IPv6(src="2001:db8:1::2", dst="2001:db8:9::1")/UDP(sport=1000, dport=9)/Raw(16)'}
    expect: &expect
      # The packet socket at r:in makes the skb header-cloned.
      - {at: r:in, packet: 'Ether()/IPv6(dst="2001:db8:9::1")'}
      - {at: dst:eth0, packet: 'Ether()/IPv6(dst="fc00:1::1")/SRH()'}
  - send: *send
    expect: *expect
    skb: [{node: r, function: pskb_expand_head, within: seg6, per-packet: 1}]
`},
	{"end-uncow", "End and NEXT-CSID write to a copy of data that another sk_buff shares", `
case: has-end-uncow
topology: headend
requires: [cpu.single]
with:
  r: {routes: [{to: "fc00:e::1/128", dev: out, encap: {seg6local: {action: End}}}]}
steps:
  - send: {from: src:eth0, packet: 'Ether()/IPv6(src="2001:db8:1::2", dst="fc00:e::1")/SRH(segleft=1, addresses=["fc00:2::2", "fc00:e::1"])/UDP(sport=1000, dport=9)/Raw(16)'}
    expect:
      - {at: dst:eth0, packet: 'Ether()/IPv6(dst="fc00:2::2")/SRH(segleft=0)'}
      - {at: r:in, packet: 'Ether()/IPv6(dst="fc00:e::1")/SRH(segleft=1)'}
`},
	{"mac-header-room", "the modes reserve room for a MAC header longer than the outgoing device's", `
case: has-mac-header-room
topology: vlan
requires: [guest]
with:
  r: {routes: [{to: "2001:db8:9::/64", dev: out, encap: {seg6: {mode: encap, segs: ["fc00:1::1", "fc00:2::2"]}}}]}
steps:
  - send: &send {from: src:eth0, packet: 'Ether()/Dot1Q(vlan=200)/IPv6(src="2001:db8:200::2", dst="2001:db8:9::1")/UDP(sport=1000, dport=9)/Raw(16)', headroom: 32}
    expect: &expect [{at: dst:eth0, packet: 'Ether()/IPv6(dst="fc00:1::1")/SRH()'}]
  - send: *send
    expect: *expect
    skb: [{node: r, point: ip6_forward, state: {mac_to_network: 18}}]
`},
}

func findFix(name string) (*fix, error) {
	var names []string
	for i := range fixes {
		if fixes[i].name == name {
			return &fixes[i], nil
		}
		names = append(names, fixes[i].name)
	}
	return nil, fmt.Errorf("no fix is called %q%s", name, strictyaml.Suggest(name, names))
}

var (
	fixedMu sync.Mutex
	fixed   = make(map[string]bool) // answers of hasFix
)

// hasFix tells whether the running kernel has a fix, by its probe. The answer is
// kept for the life of the process.
func hasFix(ctx context.Context, name string) (bool, error) {
	f, err := findFix(name)
	if err != nil {
		return false, err
	}
	fixedMu.Lock()
	defer fixedMu.Unlock()
	if has, ok := fixed[name]; ok {
		return has, nil
	}
	cases, err := loadText("fix "+name, []byte(f.probe), shippedFiles)
	if err != nil {
		return false, err
	}
	r := Run(ctx, cases[0], Options{discard: true})
	switch r.Verdict {
	case Held, Failed:
	default:
		return false, fmt.Errorf("find out whether the kernel has the fix %s: %s", name, r.Failure)
	}
	// A probe that fails anywhere but in its last step says nothing.
	if r.Verdict == Failed && len(r.Steps) < len(cases[0].steps) {
		return false, fmt.Errorf("find out whether the kernel has the fix %s: %s", name, r.Failure)
	}
	fixed[name] = r.Verdict == Held
	return fixed[name], nil
}

// variants tells whether an expectation speaks of a fix.
func (x *SKB) variants() bool {
	quantities := []*Quantity{x.Packets, x.PerPacket, x.Copied, x.Zeroed}
	if s := x.State; s != nil {
		quantities = append(quantities, s.Headroom, s.Tailroom, s.Linear, s.Frags, s.DataRef, s.MacLen, s.MacHeader, s.NetworkHeader, s.MacToNetwork)
	}
	return slices.ContainsFunc(quantities, func(q *Quantity) bool { return q != nil && (q.Fixed != nil || q.Unfixed != nil) })
}
