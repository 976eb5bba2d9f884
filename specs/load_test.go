package specs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seg6lab/lab/topology/strictyaml"
)

// write puts a file into a directory of the test's and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// loadCases loads the text of a case file.
func loadCases(t *testing.T, text string) []*Case {
	t.Helper()
	cases, err := LoadFile(write(t, t.TempDir(), "case.yaml", text))
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func names(cases []*Case) []string {
	var list []string
	for _, c := range cases {
		list = append(list, c.Name)
	}
	return list
}

// on is a case of the topology p2p with the rest of the text.
func on(rest string) string { return "case: c\ntopology: p2p\n" + rest }

// mark stands in the rows before the place that a mistake is reported at.
const mark = "▸"

// placeOf is the line and column of the mark, from 1, and the text without it.
func placeOf(t *testing.T, text string) (line, column int, without string) {
	t.Helper()
	before, after, ok := strings.Cut(text, mark)
	if !ok {
		t.Fatal("the row has no mark")
	}
	column = len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
	return strings.Count(before, "\n") + 1, column, before + after
}

// TestMistakes: each is reported where it stands, once, with what was expected.
func TestMistakes(t *testing.T) {
	const send = "steps: [{send: {from: a:eth0, packet: 'Ether()/IPv6()'}, "
	for _, c := range []struct{ name, src, want string }{
		{"unknown key", "case: c\n▸topologie: p2p\ntopology: p2p\nsteps: [{run: {node: a, command: 'true'}}]\n", `did you mean "topology"`},
		{"unknown key in a step", on("steps: [{run: {node: a, ▸comand: 'true', command: 'true'}}]"), `did you mean "command"`},
		{"unknown key in an expectation", on(send + "expect: [{at: b:eth0, ▸paket: x, packet: 'Ether()'}]}]"), `did you mean "packet"`},
		{"key twice", on("steps: [{run: {node: a, command: 'true', ▸command: 'true'}}]"), "stands here twice"},
		{"wrong type", on("steps: ▸yes\n"), "steps"},
		{"no steps", "▸case: c\ntopology: p2p\n", `"steps" is missing`},
		{"no topology", "▸case: c\nsteps: [{run: {node: a, command: 'true'}}]\n", `"topology" is missing`},
		{"empty steps", on("steps: ▸[]"), "at least one step"},
		{"a step that does nothing", on("steps:\n  - ▸about: x"), "either send or run"},
		{"a step that does two things", on("steps: [▸{send: {from: a:eth0, packet: 'Ether()'}, run: {node: a, command: 'true'}}]"), "either send or run"},

		{"no such feature", on("requires: [vrf, ▸vlam]\nsteps: [{run: {node: a, command: 'true'}}]"), `did you mean "vlan"`},
		{"no such topology", "case: c\ntopology: ▸p2q\nsteps: [{run: {node: a, command: 'true'}}]\n", `did you mean "p2p"`},
		{"no such topology file", "case: c\ntopology: ▸./p2p.yaml\nsteps: [{run: {node: a, command: 'true'}}]\n", "no such file"},
		{"overlay of a node that is not there", on("with: {c: ▸{run: ['true']}}\nsteps: [{run: {node: a, command: 'true'}}]"), "no node c"},
		{"overlay that makes no sense", on("with: {a: {routes: [{to: default, dev: ▸eth1}]}}\nsteps: [{run: {node: a, command: 'true'}}]"), "eth1"},

		{"sender's node", on("steps: [{send: {from: ▸x:eth0, packet: 'Ether()'}}]"), "no node x"},
		{"sender's device", on("steps: [{send: {from: ▸a:eth1, packet: 'Ether()'}}]"), "no device eth1"},
		{"end without device", on("steps: [{send: {from: ▸a, packet: 'Ether()'}}]"), "node:dev"},
		{"receiver's node", on(send + "expect: [{at: ▸x:eth0, packet: 'Ether()'}]}]"), "no node x"},
		{"command's node", on("steps: [{run: {node: ▸x, command: 'true'}}]"), "no node x"},
		{"fails and output", on("steps: [{run: {node: a, command: 'true', fails: x, ▸output: y}}]"), "either fails or output"},

		{"expression, unknown field", on("steps: [{send: {from: a:eth0, packet: ▸'Ether()/IPv6(dts=\"::1\")'}}]"), "character 14:"},
		{"expression, unknown layer", on("steps: [{send: {from: a:eth0, packet: ▸'Ether()/IPv7()'}}]"), "character 9:"},
		{"expression, IPv4 address as segment", on("steps: [{send: {from: a:eth0, packet: ▸'Ether()/IPv6()/SRH(addresses=[\"192.0.2.1\"])'}}]"), "192.0.2.1"},
		{"expression without Ether", on("steps: [{send: {from: a:eth0, packet: ▸'IPv6()'}}]"), "Ether as the first layer"},
		{"expected expression", on(send + "expect: [{at: b:eth0, packet: ▸'Ether()/IPv6('}]}]"), "character 14:"},
		{"hex", on("steps: [{send: {from: a:eth0, packet: ▸'hex:0g'}}]"), "hex"},
		{"capture file that is not there", on("steps: [{send: {from: a:eth0, packet: ▸'pcap:none.pcap'}}]"), "none.pcap"},

		{"count of frames", on("steps: [{send: {from: a:eth0, packet: 'Ether()', count: ▸-1}}]"), "count -1"},
		{"too many frames", on("steps: [{send: {from: a:eth0, packet: 'Ether()', count: ▸1000001}}]"), "expected 1 to 1000000"},
		{"expected count", on(send + "expect: [{at: b:eth0, packet: 'Ether()', count: ▸-1}]}]"), "count -1"},
		{"counters without numbers", on(send + "counters: [▸{node: a, sid: 'fc00::9'}]}]"), "expected packets, bytes or errors"},
		{"counters of no segment", on(send + "counters: [{node: a, sid: ▸'fc00::9', errors: 1}]}]"), "no route to fc00::9/128 with encap seg6local"},
		{"counters of no node", on(send + "counters: [{node: ▸x, sid: 'fc00::9', errors: 1}]}]"), "no node x"},
		{"neither packet nor nothing", on(send + "expect: [▸{at: b:eth0}]}]"), "expected packet, or nothing"},
		{"nothing and packet", on(send + "expect: [{at: b:eth0, packet: 'Ether()', ▸nothing: true}]}]"), "nothing stands alone"},
		{"nothing beside a packet", on(send + "expect: [{at: b:eth0, packet: 'Ether()'}, ▸{at: b:eth0, nothing: true}]}]"), "another expectation"},

		{"headroom", on("steps: [{send: {from: a:eth0, packet: 'Ether()', headroom: ▸vet}}]"), "vet"},
		{"headroom too small", on("steps: [{send: {from: a:eth0, packet: 'Ether()', headroom: ▸15}}]"), "15"},
		{"clone", on("steps: [{send: {from: a:eth0, packet: 'Ether()', clone: ▸deep}}]"), "deep"},
		{"pages with headroom", on("steps: [{send: {from: a:eth0, packet: 'Ether()', linear: ▸false, headroom: 206}}]"), "has the headroom veth"},
		{"pages header-cloned", on("steps: [{send: {from: a:eth0, packet: 'Ether()', linear: false, clone: ▸header}}]"), "cannot stay header-cloned"},
		{"accelerated tag of an untagged frame", on("steps: [{send: {from: a:eth0, packet: 'Ether()/IPv6()', accel-vlan: ▸true}}]"), "no 802.1Q tag"},
		{"TAP of a device that is there", on("steps: [{send: {from: ▸a:eth0, packet: 'Ether()', tap: {}}}]"), "a device eth0 already"},
		{"TAP with headroom", on("steps: [{send: {from: a:tap0, packet: 'Ether()', headroom: tap, ▸tap: {}}}]"), "a headroom of its own"},
		{"page with clone data", on("steps: [{send: {from: a:eth0, packet: 'Ether()', headroom: ▸page, clone: data}}]"), "neither with clone data"},
		{"when without fix", on(send + "expect: [{at: b:eth0, packet: 'Ether()', when: ▸fixed}]}]"), "with the key fix"},
		{"variants without fix", on(send + "skb: [▸{node: a, function: pskb_expand_head, per-packet: {unfixed: 2, fixed: 1}}]}]"), "with the key fix"},
		{"a part without fix", on(send + "skb: [▸{node: a, function: pskb_expand_head, per-packet: {partly: 1}}]}]"), "with the key fix"},
		{"complaint without fix", on("▸complaint: KASAN\nsteps: [{run: {node: a, command: 'true'}}]"), "where a fix is missing"},
		{"complaint that is no expression", on("fix: l2-cow\nrequires: [guest]\ncomplaint: ▸'('\nsteps: [{run: {node: a, command: 'true'}}]"), "missing closing"},
		{"model of NIC", on("nics: ▸{a:eth0: e1001, b:eth0: e1000}\nsteps: [{run: {node: a, command: 'true'}}]"), "e1001"},
		{"NIC at no link", on("nics: ▸{a:eth7: e1000}\nsteps: [{run: {node: a, command: 'true'}}]"), "no link with the end a:eth7"},
		{"cable with one end", on("nics: ▸{a:eth0: e1000}\nsteps: [{run: {node: a, command: 'true'}}]"), "a cable has two ends"},
		{"no such fix", on("fix: ▸l2-cwo\nsteps: [{run: {node: a, command: 'true'}}]"), `did you mean "l2-cow"`},
		{"skb of a node that is not there", on(send + "skb: [{node: ▸x, function: pskb_expand_head, per-packet: 1}]}]"), "no node x"},
		{"skb without send", on("steps: [{run: {node: a, command: 'true'}, skb: [▸{node: a, function: pskb_expand_head, per-packet: 1}]}]"), "skb goes with send"},
		{"function without per-packet", on(send + "skb: [▸{node: a, function: pskb_expand_head}]}]"), "go together"},
		{"within without calls", on(send + "skb: [{node: a, ▸within: seg6, packets: 1}]}]"), "narrows down"},
		{"point without state", on(send + "skb: [{node: a, ▸point: transmit, packets: 1}]}]"), "expected state beside it"},

		{"cost of a step that does not send", on("cost: {step: ▸2}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}, {run: {node: a, command: 'true'}}]"), "a step that sends"},
		{"cost of a step that is not there", on("cost: {step: ▸3}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}]"), "a step that sends"},
		{"cost of packets that nobody expects", on("cost: {step: ▸1}\n" + send + "}]"), "expects no packet"},
		{"cost of pages", on("cost: {step: ▸1}\nsteps: [{send: {from: a:eth0, packet: 'Ether()/IPv6()', linear: false}, expect: [{at: b:eth0, packet: 'Ether()'}]}]"), "a system call a frame"},
		{"cost of too many packets", on("cost: {packets: ▸1000001}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}]"), "expected 1 to 1000000"},
		{"cost of too many runs", on("cost: {runs: ▸1001}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}]"), "expected 1 to 1000"},
		{"cost of a variant that is not there", on("cost: {variants: {one: {}, two: {}}, expect: [{of: ▸tow, instructions: 1}]}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}]"), `did you mean "two"`},
		{"cost over a variant that is not there", on("cost: {variants: {one: {}, two: {}}, expect: [{of: two, over: ▸on, instructions: 1}]}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}]"), `did you mean "one"`},
		{"cost of an overlay of no node", on("cost: {variants: {one: {x: ▸{run: ['true']}}}}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}]"), "no node x"},
		{"cost without a number", on("cost: {variants: {one: {}}, expect: [▸{of: one}]}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}]"), "either instructions or percent"},
		{"percent of nothing", on("cost: {variants: {one: {}}, expect: [▸{of: one, percent: 1}]}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}]"), "percent of what"},
		{"share of instructions", on("cost: {profile: [f], variants: {one: {}}, expect: [{of: one, instructions: 1, ▸share: f}]}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}]"), "goes with percent"},
		{"share of what is not sampled", on("cost: {profile: [memset], variants: {one: {}}, expect: [{of: one, percent: 1, share: ▸memst}]}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}]"), `did you mean "memset"`},
		{"cost by a fix that is not named", on("cost: {variants: {one: {}}, expect: [▸{of: one, instructions: {fixed: 1}}]}\n" + send + "expect: [{at: b:eth0, packet: 'Ether()'}]}]"), "with the key fix"},

		{"matrix", on("matrix: ▸[a]\nsteps: [{run: {node: a, command: 'true'}}]"), "expected a mapping of axes"},
		{"matrix axis", on("matrix: {x: ▸{}}\nsteps: [{run: {node: a, command: 'true'}}]"), "matrix axis x: expected a mapping of rows"},
		{"matrix row", on("matrix: {x: {r: ▸1}}\nsteps: [{run: {node: a, command: 'true'}}]"), "matrix row r: expected a mapping of variables"},
		{"variable in two axes", on("matrix: {x: {r: {v: 1}}, y: {s: {▸v: 2}}}\nsteps: [{run: {node: a, command: 'true'}}]"), "two axes, x and y"},
		{"variable without value", on("matrix: {x: {r: {v: 1}}}\nsteps: [{run: {node: a, command: ▸'echo ${w}'}}]"), "w"},
		{"variable without value in one row", on("matrix: {x: {r: {v: 1}, s: {w: 1}}}\nsteps: [{run: {node: a, command: ▸'echo ${v}'}}]"), "v"},
		{"mistake in the value of a variable", on("matrix: {x: {r: {p: Ether()}, s: {p: ▸'Ether('}}}\nsteps: [{send: {from: a:eth0, packet: '${p}'}}]"), "character 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			line, column, src := placeOf(t, c.src)
			path := write(t, t.TempDir(), "case.yaml", src)
			_, err := LoadFile(path)
			var errs strictyaml.Errors
			if !errors.As(err, &errs) {
				t.Fatalf("got %v, want strictyaml.Errors", err)
			}
			if len(errs) != 1 {
				t.Errorf("%d mistakes, want 1:\n%v", len(errs), err)
			}
			if e := errs[0]; e.File != path || e.Line != line || e.Column != column {
				t.Errorf("reported at %s:%d:%d, want %d:%d: %s", e.File, e.Line, e.Column, line, column, e.Msg)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("message without %q: %v", c.want, err)
			}
		})
	}
}

// TestAllMistakes: those of a file are reported together, in its order.
func TestAllMistakes(t *testing.T) {
	path := write(t, t.TempDir(), "case.yaml", on(`steps:
  - send: {from: x:eth0, packet: 'Ether()'}
    expect: [{at: b:eth7, packet: 'Eth()'}]
  - run: {node: y, command: 'true'}
`))
	_, err := LoadFile(path)
	var errs strictyaml.Errors
	if !errors.As(err, &errs) {
		t.Fatal(err)
	}
	var at [][2]int
	for _, e := range errs {
		at = append(at, [2]int{e.Line, e.Column})
	}
	want := [][2]int{{4, 18}, {5, 19}, {5, 35}, {6, 17}}
	if !slices.Equal(at, want) {
		t.Errorf("reported at %v, want %v:\n%v", at, want, err)
	}
}

// TestTopologyFile: a path is taken from the case file, and a mistake in the
// topology is reported in its file.
func TestTopologyFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "cases"), 0o755); err != nil {
		t.Fatal(err)
	}
	top := write(t, dir, "two.yaml", "name: two\nnodes: {a: {}, b: {}}\nlinks: [[a:eth0, b:eth0]]\n")
	path := write(t, dir, "cases/c.yaml", "case: c\ntopology: ../two.yaml\nsteps: [{run: {node: a, command: 'true'}}]\n")
	cases, err := LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := cases[0].Topology.Name; got != "two" {
		t.Errorf("topology %s, want two", got)
	}

	write(t, dir, "two.yaml", "name: two\nnodes: {a: {}, b: {}}\nlinks: [[a:eth0, c:eth0]]\n")
	_, err = LoadFile(path)
	var errs strictyaml.Errors
	if !errors.As(err, &errs) || len(errs) != 1 {
		t.Fatalf("got %v, want one mistake", err)
	}
	if e := errs[0]; filepath.Clean(e.File) != top || e.Line != 3 || e.Column != 18 {
		t.Errorf("reported at %s:%d:%d, want %s:3:18", e.File, e.Line, e.Column, top)
	}
}

// TestMatrix: a case for each combination, the last axis running fastest, each
// with its values.
func TestMatrix(t *testing.T) {
	cases := loadCases(t, `case: ping
topology: p2p
matrix:
  size: {small: {n: 16}, large: {n: 1000}}
  from: {a: {node: a, to: b}, b: {node: b, to: a}}
with: {"${to}": {run: ["true ${n}"]}}
steps:
  - send: {from: "${node}:eth0", packet: 'Ether()/Raw(${n})', count: "${n}"}
  - run: {node: "${to}", command: 'echo ${n} $${n}'}
`)
	want := []string{"ping/small,a", "ping/small,b", "ping/large,a", "ping/large,b"}
	if got := names(cases); !slices.Equal(got, want) {
		t.Fatalf("cases %v, want %v", got, want)
	}
	c := cases[3]
	for _, row := range []struct{ what, got, want string }{
		{"from", c.steps[0].Send.From.String(), "b:eth0"},
		{"packet", c.steps[0].Send.Packet, "Ether()/Raw(1000)"},
		{"node", c.steps[1].Run.Node, "a"},
		{"command", c.steps[1].Run.Command, "echo 1000 ${n}"},
		{"overlay", strings.Join(c.Topology.Nodes["a"].Run, ";"), "true 1000"},
		{"other node", strings.Join(c.Topology.Nodes["b"].Run, ";"), ""},
	} {
		if row.got != row.want {
			t.Errorf("%s: %q, want %q", row.what, row.got, row.want)
		}
	}
	if n := len(c.steps[0].frames); n != 1000 {
		t.Errorf("%d frames, want 1000", n)
	}
}

// TestMatrixBound: combinations are counted before they are made.
func TestMatrixBound(t *testing.T) {
	var b strings.Builder
	for i := range 20 {
		b.WriteString("  x" + string(rune('a'+i)) + ": {r: {}, s: {}}\n")
	}
	_, err := LoadFile(write(t, t.TempDir(), "case.yaml", on("matrix:\n"+b.String()+"steps: [{run: {node: a, command: 'true'}}]\n")))
	if err == nil || !strings.Contains(err.Error(), "more than 10000 combinations") {
		t.Errorf("got %v", err)
	}
}

// TestFrames: addresses of the link fill in what Ether leaves out; bytes and
// capture files are sent as they are.
func TestFrames(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "frames.hex", "020000000002 020000000001 88b5 01\n# a comment\n020000000002 020000000001 88b5 02\n")
	cases, err := LoadFile(write(t, dir, "case.yaml", on(`steps:
  - send: {from: a:eth0, packet: 'Ether(type=0x88b5)/Raw(b"\x2a")'}
  - send: {from: b:eth0, packet: 'Ether(dst="ff:ff:ff:ff:ff:ff", type=0x88b5)/Raw(b"\x2a")'}
  - send: {from: a:eth0, packet: 'hex:ffffffffffff 0a0000000000 88b5'}
  - send: {from: a:eth0, packet: 'hex:@frames.hex', count: 2}
`)))
	if err != nil {
		t.Fatal(err)
	}
	// The addresses of links: 02:00:00:00:LINK:END, of the first link's ends 1 and 2.
	const one, two = "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5\x01", "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5\x02"
	want := [][]string{
		{"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5\x2a"},
		{"\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x02\x88\xb5\x2a"},
		{"\xff\xff\xff\xff\xff\xff\x0a\x00\x00\x00\x00\x00\x88\xb5"},
		{one, two, one, two},
	}
	for i, s := range cases[0].steps {
		var got []string
		for _, f := range s.frames {
			got = append(got, string(f))
		}
		if !slices.Equal(got, want[i]) {
			t.Errorf("step %d sends %x, want %x", i+1, got, want[i])
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	const step = "steps: [{run: {node: a, command: 'true'}}]\n"
	file := write(t, dir, "one.yaml", "case: one\ntopology: p2p\n"+step)
	write(t, dir, "two.yaml", "case: two\ntopology: ./top.yaml\n"+step)
	write(t, dir, "top.yaml", "name: top\nnodes: {a: {}}\n")
	write(t, dir, "notes.txt", "no case")
	empty := t.TempDir()

	for _, c := range []struct {
		arg  string
		want []string
		err  string
	}{
		{arg: file, want: []string{"one"}},
		{arg: dir, want: []string{"one", "two"}}, // the topology is none
		{arg: "demo", want: []string{"demo"}},
		{arg: "end-x", want: []string{"end-x/*"}},
		{arg: "encap-ipv6/encap-1,*", want: []string{"encap-ipv6/encap-1,*"}},
		{arg: "dmo", err: `there is no case or file dmo; did you mean "demo"?`},
		{arg: "./none.yaml", err: "no such file"},
		{arg: filepath.Join(dir, "top.yaml"), err: "a topology, not a case"},
		{arg: empty, err: "there is no case in this directory"},
	} {
		found, err := Find([]string{c.arg})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, want an error with %q", c.arg, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.arg, err)
			continue
		}
		got := names(found)
		if prefix, pattern := strings.CutSuffix(c.want[0], "*"); pattern {
			if len(got) < 2 || slices.ContainsFunc(got, func(name string) bool { return !strings.HasPrefix(name, prefix) }) {
				t.Errorf("%s: got %v, want some with %s", c.arg, got, c.want[0])
			}
		} else if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.arg, got, c.want)
		}
	}
}

// TestShipped: a case says what it shows, under a name of its own, and asserts
// something.
func TestShipped(t *testing.T) {
	cases, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, c := range cases {
		if seen[c.Name] {
			t.Errorf("two cases are called %s", c.Name)
		}
		seen[c.Name] = true
		if c.File.About == "" {
			t.Errorf("%s does not say what it is about", c.Name)
		}
		if len(c.Labels()) == 0 {
			t.Errorf("%s has no label", c.Name)
		}
		asserts := slices.ContainsFunc(c.steps, func(s step) bool {
			return len(s.expect) > 0 || len(s.SKB) > 0 || s.Run != nil && (s.Run.Fails != "" || s.Run.Output != "")
		})
		if !asserts {
			t.Errorf("%s asserts nothing", c.Name)
		}
	}
}
