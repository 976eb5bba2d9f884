package specs

import "testing"

// The NICs of a case are those of every variant of its network, too.
func TestVariantsAreOnNICs(t *testing.T) {
	cases, err := Find([]string{"napi-gro-frags-call"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cases[0].onNICs()
	if err != nil {
		t.Fatal(err)
	}
	variants := c.variants()
	if len(variants) == 0 || variants[0].variant == "" {
		t.Fatalf("variants: %v", variants)
	}
	for _, v := range append(variants, c) {
		for end := range c.File.NICs {
			if v.Topology.Ports[end] == nil {
				t.Errorf("variant %q: %s is not on a NIC", v.variant, end)
			}
		}
	}
}
