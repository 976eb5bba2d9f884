package sweep

import (
	"testing"

	"seg6lab/forwarder/skb"
	"seg6lab/lab/headroom"
	"seg6lab/lab/probe"
)

func calls(by ...skb.Site) State {
	s := State{Mac: probe.Unknown, Network: probe.Unknown}
	for _, site := range by {
		s.Calls = append(s.Calls, Call{site, probe.Unknown, probe.Unknown})
	}
	return s
}

// What three kernels built from Debian's 6.12 source did, counted with fentry:
// as it is, with skb_cow_head for mac_len alone, and for the whole encapsulation.
func TestRecognise(t *testing.T) {
	spare, cloned, tagged := trials[0], trials[1], trials[2]
	outside := State{Calls: nil, Mac: 65534, Network: 16}
	inside := State{Calls: []Call{{skb.SiteHeader, 64, probe.Unknown}}, Mac: 62, Network: 80}
	for _, row := range []struct {
		name string
		seen map[Point]State
		want string
	}{
		{"as it is", map[Point]State{spare: calls(skb.SiteL2), cloned: calls(skb.SiteL2, skb.SiteHeader)}, "none"},
		{"mac_len alone", map[Point]State{spare: calls(), cloned: calls(skb.SiteL2, skb.SiteHeader)}, "l2-cow-maclen-only"},
		{"whole", map[Point]State{spare: calls(), cloned: calls(skb.SiteL2)}, "l2-cow"},
		{"as it is, tagged", map[Point]State{spare: calls(skb.SiteL2), cloned: calls(skb.SiteL2, skb.SiteHeader), tagged: outside}, "none"},
		{"whole, with room for the MAC header", map[Point]State{spare: calls(), cloned: calls(skb.SiteL2), tagged: inside}, "l2-cow, mac-header-room"},
	} {
		p, err := recognise(row.seen)
		if err != nil {
			t.Fatal(err)
		}
		if got := fixes(p); got != row.want {
			t.Errorf("%s: recognised as %s, want %s", row.name, got, row.want)
		}
	}
}

func TestDifferences(t *testing.T) {
	want := State{Calls: []Call{{skb.SiteL2, 14, 128}}, Mac: 2, Network: 16}
	for _, row := range []struct {
		name string
		got  State
		same bool
	}{
		{"the same", want, true},
		{"nothing but the call was seen", calls(skb.SiteL2), true},
		{"no call", State{Mac: 2, Network: 16}, false},
		{"another caller", calls(skb.SiteHeader), false},
		{"another nhead", State{Calls: []Call{{skb.SiteL2, 64, 128}}, Mac: 2, Network: 16}, false},
		{"more copied", State{Calls: []Call{{skb.SiteL2, 14, 129}}, Mac: 2, Network: 16}, false},
		{"MAC header elsewhere", State{Calls: want.Calls, Mac: 65534, Network: 16}, false},
		{"network header elsewhere", State{Calls: want.Calls, Mac: 2, Network: 80}, false},
	} {
		if why := differences(want, row.got); (why == "") != row.same {
			t.Errorf("%s: %q", row.name, why)
		}
	}
}

// One segment takes 40 + 24 bytes, so that a headroom of 80 or 81 leaves 16 or 17
// for a MAC header of 18, which no allocation makes good. Two segments take 80 and
// 16 more are asked for: the head grows by 64, and there is room.
func TestPlan(t *testing.T) {
	g := Grid{Modes: []skb.Mode{skb.Encap}, Segments: Range{1, 2}, MacLens: []int{18}, Headroom: Range{79, 82}, Clones: []headroom.Clone{headroom.NotCloned}}
	batches, err := plan(g.Points(), skb.Profile{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(room, segments int) Point { return Point{skb.Encap, segments, 18, room, headroom.NotCloned} }
	want := [][]Point{
		{at(79, 1), at(79, 2)}, {at(80, 2)}, {at(81, 2)}, {at(82, 1), at(82, 2)},
		{at(80, 1)}, {at(81, 1)},
	}
	if len(batches) != len(want) {
		t.Fatalf("plan %v, want %v", batches, want)
	}
	for i := range want {
		if len(batches[i]) != len(want[i]) {
			t.Fatalf("batch %d: %v, want %v", i, batches[i], want[i])
		}
		for j := range want[i] {
			if batches[i][j] != want[i][j] {
				t.Errorf("batch %d: %v, want %v", i, batches[i], want[i])
			}
		}
	}
	batches, err = plan(g.Points(), skb.Profile{skb.MacHeaderRoom})
	if err != nil || len(batches) != 4 {
		t.Errorf("with room for the MAC header: %v, %v; want a batch for each headroom", batches, err)
	}
}

// 257 headrooms, 5 modes, 8 segments and 3 clone states; two headrooms are too
// few for 18 bytes, six for 22.
func TestFullGrid(t *testing.T) {
	g := FullGrid()
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	if n := len(g.Points()); n != (257+255+251)*5*8*3 {
		t.Errorf("%d points, want %d", n, (257+255+251)*5*8*3)
	}
	for name, spoil := range map[string]func(*Grid){
		"mode":     func(g *Grid) { g.Modes = []skb.Mode{"encap.blue"} },
		"mac_len":  func(g *Grid) { g.MacLens = []int{15} },
		"clone":    func(g *Grid) { g.Clones = []headroom.Clone{"twice"} },
		"segments": func(g *Grid) { g.Segments = Range{0, 8} },
		"headroom": func(g *Grid) { g.Headroom = Range{16, 273} },
		"reversed": func(g *Grid) { g.Headroom = Range{90, 80} },
		"empty":    func(g *Grid) { g.MacLens, g.Headroom = []int{22}, Range{16, 21} },
	} {
		g := FullGrid()
		spoil(&g)
		if g.Check() == nil {
			t.Errorf("%s: a grid that cannot be measured was taken: %+v", name, g)
		}
	}
}
