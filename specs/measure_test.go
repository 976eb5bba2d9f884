package specs

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"seg6lab/lab/probe"
)

// A trace of two packets that seg6 works on, one of them reallocated twice, and
// of one that it does not see.
func TestMeasure(t *testing.T) {
	enter := probe.Event{Kind: probe.Enter, Function: "seg6_do_srh"}
	expand := func(by probe.Attribution, copied, zeroed int) probe.Event {
		return probe.Event{Kind: probe.Expand, Function: "pskb_expand_head", Expansion: &probe.Expansion{Attribution: by, Copied: copied, Zeroed: zeroed}}
	}
	trace := &probe.Trace{Backend: probe.Fentry, Packets: []*probe.Packet{
		{Node: "r", Events: []probe.Event{enter, expand(probe.DirectL2, 400, 640), expand(probe.CowHeader, 420, 704)}},
		{Node: "dst", Events: []probe.Event{expand(probe.Outside, 1, 1)}},
		{Node: "r", Events: []probe.Event{enter, {Kind: probe.Pull, Function: pullTail}, expand(probe.CowHeader, 420, 704)}},
	}}
	want := []Measured{{Node: "r", Packets: 2, Pulls: 1, Reallocations: map[probe.Attribution]Reallocations{
		probe.DirectL2:  {1, 400, 640},
		probe.CowHeader: {2, 840, 1408},
	}}}
	got := measure(trace)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("measured (-want +got):\n%s", d)
	}
	if r := got[0].Within(probe.Seg6); r != (Reallocations{3, 1240, 2048}) {
		t.Errorf("within seg6: %+v", r)
	}
	trace.Backend = probe.Tracepoint
	trace.Packets[0].Events[1].Expansion.Zeroed = probe.Unknown
	got = measure(trace)
	if r := got[0].Within(probe.Seg6); r != (Reallocations{3, 1240, probe.Unknown}) || got[0].Pulls != probe.Unknown {
		t.Errorf("where not all can be seen: %+v, %d pulls", r, got[0].Pulls)
	}
}
