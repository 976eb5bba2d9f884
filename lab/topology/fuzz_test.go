package topology_test

import (
	"strings"
	"testing"

	"seg6lab/lab/topology"
	"seg6lab/topologies"
)

// FuzzDecode: whatever the text, decoding ends, and either every mistake has a
// place or the topology is one that validates again.
func FuzzDecode(f *testing.F) {
	for _, name := range topologies.Names() {
		if !strings.HasSuffix(name, ":N") {
			src, err := topologies.Source(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Add([]byte(small))
	f.Add([]byte("nodes: {a: &a {b: *a}}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		topo, err := topology.Decode("f", src)
		if err == nil {
			if err := topo.Validate(); err != nil {
				t.Errorf("valid when decoded, not afterwards: %v", err)
			}
			return
		}
		for _, e := range err.(topology.Errors) {
			if !e.IsValid() && !strings.Contains(e.Msg, "larger than") {
				t.Errorf("no place: %v", e)
			}
		}
	})
}
