package dataplane

import (
	"slices"
	"testing"

	"seg6lab/forwarder"
	"seg6lab/lab/topology"
)

// TestQuirks: topologies have a word for each quirk of the forwarder, and no
// other.
func TestQuirks(t *testing.T) {
	if have := forwarder.QuirkNames(); !slices.Equal(have, topology.QuirkNames) {
		t.Errorf("the forwarder has the quirks %q, topologies %q", have, topology.QuirkNames)
	}
	for _, row := range []struct {
		of           map[string]bool
		icmp, kept   bool
		everyOtherIs bool
	}{
		{nil, true, true, true},
		{map[string]bool{"no-icmp": false}, false, true, true},
		{map[string]bool{"all": false}, false, false, false},
		{map[string]bool{"all": false, "no-icmp": true}, true, false, false},
	} {
		q := quirks(row.of)
		if q.NoICMP != row.icmp || q.InnerHopLimitKept != row.kept || q.DX2DropsLLC != row.everyOtherIs {
			t.Errorf("quirks %v: %+v", row.of, *q)
		}
	}
}
