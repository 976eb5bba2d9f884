package sweep

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"seg6lab/forwarder/skb"
	"seg6lab/lab/headroom"
)

// testReport has a point of each kind in a row of headrooms.
func testReport() *Report {
	at := func(macLen, room int) Point { return Point{skb.L2Encap, 1, macLen, room, headroom.NotCloned} }
	two := State{Calls: []Call{{skb.SiteL2, 14, 128}, {skb.SiteHeader, 64, 142}}, Mac: 16, Network: 30}
	outside := State{Mac: 65534, Network: 16}
	return &Report{
		Info: Info{Place: "host", Kernel: "6.1", Backend: "fentry", Tried: true, Withheld: map[int]string{22: "no VLAN"}},
		Grid: Grid{Modes: []skb.Mode{skb.L2Encap}, Segments: Range{1, 1}, MacLens: []int{14, 18, 22}, Headroom: Range{32, 34}, Clones: []headroom.Clone{headroom.NotCloned}},
		Took: 1500 * time.Millisecond,
		Results: []Result{
			{Point: at(14, 32), Verdict: Agrees, Want: two, Got: &two},
			{Point: at(14, 33), Verdict: Agrees, Want: two, Got: &two},
			{Point: at(14, 34), Verdict: Differs, Want: two, Got: &State{Mac: -1, Network: -1}, Why: `other, "than" the model`},
			{Point: at(18, 32), Verdict: Agrees, Want: outside, Got: &outside},
			{Point: at(18, 33), Verdict: Died, Want: outside, Why: "oops"},
			{Point: at(22, 32), Verdict: Unsupported, Want: two, Why: "no VLAN"},
		},
	}
}

func TestWriteCSV(t *testing.T) {
	var b strings.Builder
	if err := testReport().WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, want := range map[int]string{
		0: "mode,segments,mac_len,headroom,clone,verdict,calls,by,nhead,copied,mac_offset,network_offset,model_calls,model_by,model_nhead,model_copied,model_mac_offset,model_network_offset,why",
		1: "l2encap,1,14,32,none,agrees,2,l2 header,14 64,128 142,16,30,2,l2 header,14 64,128 142,16,30,",
		3: `l2encap,1,14,34,none,differs,0,,,,,,2,l2 header,14 64,128 142,16,30,"other, ""than"" the model"`,
		5: "l2encap,1,18,33,none,died,,,,,,,0,,,,65534,16,oops",
	} {
		if i >= len(lines) || lines[i] != want {
			t.Errorf("line %d of\n%s\nwant\n%s", i, b.String(), want)
		}
	}
	if len(lines) != 7 {
		t.Errorf("%d lines, want a heading and 6 points", len(lines))
	}
}

func TestWriteSummary(t *testing.T) {
	var b strings.Builder
	if err := testReport().WriteSummary(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"host: kernel 6.1, probe fentry, fixes: none (found by trying)\n",
		"5 points measured in 1.5 s: 3 agree with the model, 2 do not\n",
		"differs: 1\n", "died: 1\n",
		"MAC header moved to outside of the buffer: 1 points with mac_len 18\n",
		"not measured: 1 points with mac_len 22: no VLAN\n",
		"died: l2encap, segments 1, mac_len 18, headroom 33, clone none: oops\n",
		"differs: l2encap, segments 1, mac_len 14, headroom 34, clone none: other,",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, b.String())
		}
	}
}

// The first row has two points of two calls, drawn as one, and one off the model.
func TestWriteSVG(t *testing.T) {
	var b strings.Builder
	if err := testReport().WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		`<rect x="100" y="30" width="4" height="9" fill="#1f5f99"/>`,
		`<rect x="104" y="30" width="2" height="9" fill="#d01f2e"/>`,
		`<rect x="100" y="45" width="2" height="9" fill="#f2b705"/>`,
		`<rect x="102" y="45" width="2" height="9" fill="#d01f2e"/>`,
		`<rect x="100" y="60" width="2" height="9" fill="#bdbdbd"/>`,
		"l2encap, clone: none", "headroom at seg6, bytes", "segments", "mac_len 18",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the map lacks %s:\n%s", want, b.String())
		}
	}
}
