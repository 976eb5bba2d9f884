package specs

import "slices"

// Labels of cases that are run only when they are asked for.
const (
	LabelBuild = "build" // what it shows needs a kernel built from source
	LabelCost  = "cost"  // counts instructions, which takes minutes
)

// Apart is the label for which a case is left out of a run of all cases, empty
// where it is not.
func Apart(c *Case) string {
	for _, label := range []string{LabelBuild, LabelCost} {
		if slices.Contains(c.Labels(), label) {
			return label
		}
	}
	return ""
}
