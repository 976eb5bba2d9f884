package main

import (
	"slices"
	"testing"

	"seg6lab/specs"
)

// Cases that need kernels built from source, or minutes, are run when their label
// is asked for, and are counted when not.
func TestLeaveApart(t *testing.T) {
	shipped, err := specs.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		asked []string
		left  []string
	}{
		{nil, []string{specs.LabelBuild, specs.LabelCost}},
		{[]string{specs.LabelCost}, []string{specs.LabelBuild}},
		{[]string{"skb"}, []string{specs.LabelBuild, specs.LabelCost}},
		{[]string{specs.LabelBuild, specs.LabelCost}, nil},
	} {
		cases, left := leaveApart(slices.Clone(shipped), test.asked)
		total := len(cases)
		for _, label := range []string{specs.LabelBuild, specs.LabelCost} {
			if want := slices.Contains(test.left, label); (left[label] > 0) != want {
				t.Errorf("asked for %q: %d cases of %s left out", test.asked, left[label], label)
			}
			total += left[label]
		}
		if total != len(shipped) {
			t.Errorf("asked for %q: %d of %d cases accounted for", test.asked, total, len(shipped))
		}
	}
}
