package specs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"seg6lab/lab/topology/strictyaml"
)

// FixState is what a kernel has of a fix.
type FixState string

// States of a fix.
const (
	Unfixed FixState = "unfixed"
	Partly  FixState = "partly" // an earlier version of the fix, which does part of it
	Fixed   FixState = "fixed"
)

// FixStates lists them all.
func FixStates() []FixState { return []FixState{Unfixed, Partly, Fixed} }

// fix is a repair of the kernel's seg6 that cases speak of, called as the patch
// that makes it. Whether a kernel has it is found out by what the kernel does:
// distributions backport.
type fix struct {
	name, about string
	// probe is a case that holds on a kernel with the fix, and whose last step
	// fails on one without.
	probe string
	// partly is a case that holds on a kernel with part of the fix, too, and whose
	// last step fails on one with nothing of it. It is empty where there are no
	// parts.
	partly string
}

// fixes by name. The text of a probe is a case file.
var fixes = []fix{
	{name: "l2-cow", about: "the L2 encapsulation modes ask once for the room of the whole encapsulation", probe: `
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
`, partly: `
case: has-l2-cow-maclen-only
topology: headend
with:
  r: {routes: [{to: "2001:db8:9::/64", dev: out, encap: {seg6: {mode: l2encap, segs: ["fc00:1::1"]}}}]}
steps:
  # 16 bytes of headroom are enough for the inner MAC header.
  - send: &send {from: src:eth0, packet: 'Ether()/IPv6(src="2001:db8:1::2", dst="2001:db8:9::1")/UDP(sport=1000, dport=9)/Raw(16)', headroom: veth, clone: none}
    expect: &expect [{at: dst:eth0, packet: 'Ether()/IPv6(dst="fc00:1::1")/SRH()'}]
  - send: *send
    expect: *expect
    skb: [{node: r, function: pskb_expand_head, within: direct-l2, per-packet: 0}]
`},
	{name: "end-uncow", about: "End and NEXT-CSID write to a copy of data that another sk_buff shares", probe: `
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
	{name: "mac-header-room", about: "the modes reserve room for a MAC header longer than the outgoing device's", probe: `
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

// CheckFix tells whether cases speak of a fix by that name.
func CheckFix(name string) error {
	_, err := findFix(name)
	return err
}

var (
	fixStatesMu sync.Mutex
	fixStates   = make(map[string]FixState) // answers of fixState
)

// fixState tells what the running kernel has of a fix, by its probes. The answer
// is kept for the life of the process.
func fixState(ctx context.Context, name string) (FixState, error) {
	f, err := findFix(name)
	if err != nil {
		return "", err
	}
	fixStatesMu.Lock()
	defer fixStatesMu.Unlock()
	if state, ok := fixStates[name]; ok {
		return state, nil
	}
	state := Unfixed
	for _, try := range []struct {
		probe string
		state FixState
	}{{f.probe, Fixed}, {f.partly, Partly}} {
		if try.probe == "" {
			continue
		}
		holds, err := f.holds(ctx, try.probe)
		if err != nil {
			return "", fmt.Errorf("find out whether the kernel has the fix %s: %w", name, err)
		}
		if holds {
			state = try.state
			break
		}
	}
	fixStates[name] = state
	return state, nil
}

// holds runs a probe of a fix.
func (f *fix) holds(ctx context.Context, probe string) (bool, error) {
	cases, err := loadText("fix "+f.name, []byte(probe), shippedFiles)
	if err != nil {
		return false, err
	}
	r := Run(ctx, cases[0], Options{discard: true})
	switch {
	case r.Verdict == Held:
		return true, nil
	case r.Verdict == Failed && len(r.Steps) == len(cases[0].steps):
		return false, nil
	}
	// A probe that fails anywhere but in its last step says nothing.
	return false, errors.New(r.Failure)
}

// variants tells whether an expectation speaks of a fix.
func (x *SKB) variants() bool {
	quantities := []*Quantity{x.Packets, x.PerPacket, x.Copied, x.Zeroed}
	if s := x.State; s != nil {
		quantities = append(quantities, s.Headroom, s.Tailroom, s.Linear, s.Frags, s.DataRef, s.MacLen, s.MacHeader, s.NetworkHeader, s.MacToNetwork)
	}
	return slices.ContainsFunc(quantities, func(q *Quantity) bool { return q != nil && q.variants() })
}

// variants tells whether the number depends on a fix.
func (q *Quantity) variants() bool {
	return q != nil && (q.Unfixed != nil || q.Partly != nil || q.Fixed != nil)
}

// on is what the number must be on a kernel with so much of the case's fix; nil
// where nothing is expected of it.
func (q *Quantity) on(state FixState) *Quantity {
	if q == nil || !q.variants() {
		return q
	}
	return map[FixState]*Quantity{Unfixed: q.Unfixed, Partly: q.Partly, Fixed: q.Fixed}[state]
}
