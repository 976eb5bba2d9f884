package specs

import (
	"fmt"
	"strings"
	"testing"

	"seg6lab/lab/topology"
	"seg6lab/traffic"
)

// frame builds the frame of an expression.
func frame(t *testing.T, expr string) []byte {
	t.Helper()
	p, err := traffic.Parse(expr)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	udp9  = `Ether()/IPv6(dst="2001:db8::2")/UDP(dport=9)/Raw(4)`
	udp10 = `Ether()/IPv6(dst="2001:db8::2")/UDP(dport=10)/Raw(4)`
	other = `Ether()/IPv6(dst="2001:db8::3", hlim=1)/UDP(dport=11)/Raw(4)`

	solicitation = `Ether()/IPv6(hlim=255)/ICMPv6ND_NS(tgt="2001:db8::2")`
)

// TestMatcher gives frames to the expectations of a step.
func TestMatcher(t *testing.T) {
	// Expectations are of b:eth0 unless they say otherwise.
	want := func(packets ...string) string {
		s := "send: {from: a:eth0, packet: 'Ether()'}, expect: ["
		for _, p := range packets {
			s += fmt.Sprintf("{at: b:eth0, packet: '%s'}, ", p)
		}
		return s + "]"
	}
	const (
		nothing = "send: {from: a:eth0, packet: 'Ether()'}, expect: [{at: b:eth0, nothing: true}]"
		twice   = "send: {from: a:eth0, packet: 'Ether()', count: 2}, expect: [{at: b:eth0, packet: '" + udp9 + "'}]"
		once    = "send: {from: a:eth0, packet: 'Ether()', count: 2}, expect: [{at: b:eth0, packet: '" + udp9 + "', count: 1}]"
		never   = "send: {from: a:eth0, packet: 'Ether()'}, expect: [{at: b:eth0, packet: '" + solicitation + "', count: 0}]"
		run     = "run: {node: a, command: 'true'}, expect: [{at: b:eth0, packet: '" + udp9 + "'}]"
	)
	for _, c := range []struct {
		name, step string
		arrive     []string // at b:eth0; after "a:" at a:eth0
		complete   bool
		failure    []string // what it says; none when all was met
	}{
		{"met", want(udp9), []string{udp9}, true, nil},
		{"nothing came", want(udp9), nil, false, []string{"at b:eth0 0 of 1 frame expected arrived", "UDP(dport=9)"}},
		{"other field", want(udp9), []string{udp10}, false, []string{"0 of 1 frame", "the nearest of 1 frame that did arrive there differs", "dport: expected 9, actual 10"}},
		{"nearest", want(udp9), []string{other, udp10, other}, false, []string{"the nearest of 3 frames", "dport: expected 9, actual 10"}},
		{"the general one first", want(`Ether()/IPv6()/UDP()`, udp9), []string{udp9, udp10}, true, nil},
		{"the general one first, in other order", want(`Ether()/IPv6()/UDP()`, udp9), []string{udp10, udp9}, true, nil},
		{"a chain of three", want(`Ether()/IPv6()`, `Ether()/IPv6()/UDP()`, udp9), []string{udp9, udp10, solicitation}, true, nil},
		{"one more of the same", want(udp9), []string{udp9, udp9}, true, []string{"more than the 1 frame expected arrived: 1 more of"}},
		{"another one more", want(udp9), []string{udp9, other}, true, []string{"1 frame arrived that nothing expects", `dst="2001:db8::3"`}},
		{"another one first", want(udp9), []string{other, udp9}, true, []string{"1 frame arrived that nothing expects"}},
		{"at another end", want(udp9), []string{"a:" + udp9}, false, []string{"0 of 1 frame"}},

		{"count follows what is sent", twice, []string{udp9, udp9}, true, nil},
		{"one of two", twice, []string{udp9}, false, []string{"1 of 2 frames expected arrived"}},
		{"count given", once, []string{udp9}, true, nil},
		{"none of a kind that nothing would not see", never, nil, true, nil},
		{"one of it", never, []string{solicitation}, true, []string{"more than the 0 frames expected arrived: 1 more of"}},
		{"more than count", once, []string{udp9, udp9}, true, []string{"more than the 1 frame expected"}},

		{"two expectations", want(udp9, udp10), []string{udp9, udp10}, true, nil},
		{"in any order", want(udp9, udp10), []string{udp10, udp9}, true, nil},
		{"one of them", want(udp9, udp10), []string{udp9}, false, []string{"0 of 1 frame", "UDP(dport=10)"}},
		{"two alike take two frames", want(udp9, udp9), []string{udp9, udp9}, true, nil},
		{"two alike and one frame", want(udp9, udp9), []string{udp9}, false, []string{"0 of 1 frame"}},
		{"one of two twice", want(udp9, udp10), []string{udp9, udp9}, false, []string{"UDP(dport=10)", "dport: expected 10, actual 9"}},

		{"nothing, as expected", nothing, nil, true, nil},
		{"something where nothing is expected", nothing, []string{udp9}, true, []string{"at b:eth0 nothing was expected, but 1 frame arrived", "UDP(dport=9"}},
		{"nothing here, something there", nothing, []string{"a:" + udp9}, true, nil},

		// What hosts and routers say on their own.
		{"neighbour solicitation", nothing, []string{solicitation}, true, nil},
		{"router solicitation", nothing, []string{`Ether()/IPv6(hlim=255)/ICMPv6ND_RS()`}, true, nil},
		{"listener report", nothing, []string{`Ether()/IPv6(hlim=1)/IPv6ExtHdrHopByHop(options=[RouterAlert()])/ICMPv6Unknown(type=143)`}, true, nil},
		{"ARP", nothing, []string{`Ether()/ARP()`}, true, nil},
		{"ARP beside a packet", want(udp9), []string{`Ether()/ARP()`, udp9, solicitation}, true, nil},
		{"echo request is traffic", nothing, []string{`Ether()/IPv6()/ICMPv6EchoRequest()`}, true, []string{"nothing was expected"}},
		{"time exceeded is traffic", nothing, []string{`Ether()/IPv6()/ICMPv6TimeExceeded()`}, true, []string{"nothing was expected"}},
		{"an encapsulated solicitation is traffic", nothing, []string{`Ether()/IPv6()/IPv6(hlim=255)/ICMPv6ND_NS()`}, true, []string{"nothing was expected"}},
		{"control that is expected", want(solicitation), []string{solicitation}, true, nil},
		{"control that is expected twice as often", want(solicitation), []string{solicitation, solicitation}, true, []string{"more than the 1 frame expected"}},
		{"other control than is expected", want(solicitation), []string{`Ether()/ARP()`, solicitation}, true, nil},

		// A command may send what it likes beside.
		{"more from a command", run, []string{other, udp9, udp9}, true, nil},
		{"less from a command", run, []string{other}, false, []string{"0 of 1 frame"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMatcher(loadCases(t, on("steps: [{"+c.step+"}]"))[0].steps[0])
			for _, expr := range c.arrive {
				at := topology.End{Node: "b", Dev: "eth0"}
				if rest, ok := strings.CutPrefix(expr, "a:"); ok {
					expr, at.Node = rest, "a"
				}
				m.add(at, frame(t, expr))
			}
			if got := m.complete(); got != c.complete {
				t.Errorf("complete: %v, want %v", got, c.complete)
			}
			failure := m.failure()
			if (failure == "") != (c.failure == nil) {
				t.Errorf("failure %q, want %q", failure, c.failure)
			}
			for _, text := range c.failure {
				if !strings.Contains(failure, text) {
					t.Errorf("failure without %q:\n%s", text, failure)
				}
			}
		})
	}
}

// TestExact: what follows and what is left out counts only where it is asked for.
func TestExact(t *testing.T) {
	for _, c := range []struct {
		exact, packet, arrives string
		met                    bool
	}{
		{"false", `Ether()/IPv6()`, udp9, true},
		{"true", `Ether()/IPv6()`, udp9, false},
		{"true", udp9, udp9, true},
		{"true", udp9, `Ether()/IPv6(dst="2001:db8::2", fl=1)/UDP(dport=9)/Raw(4)`, false},
		{"false", udp9, `Ether()/IPv6(dst="2001:db8::2", fl=1)/UDP(dport=9)/Raw(4)`, true},
		{"true", udp9, `Ether()/IPv6(dst="2001:db8::2")/UDP(dport=9)/Raw(5)`, false},
	} {
		text := fmt.Sprintf("steps: [{run: {node: a, command: 'true'}, expect: [{at: b:eth0, exact: %s, packet: '%s'}]}]", c.exact, c.packet)
		s := loadCases(t, on(text))[0].steps[0]
		// The addresses of the link are the packet's.
		f := frame(t, strings.Replace(c.arrives, "Ether()", `Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")`, 1))
		m := newMatcher(s)
		m.add(s.expect[0].End, f)
		if m.complete() != c.met {
			t.Errorf("exact %s: %s meets %s: %v, want %v", c.exact, c.arrives, c.packet, m.complete(), c.met)
		}
	}
}
