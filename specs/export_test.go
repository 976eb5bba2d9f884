package specs

import "seg6lab/lab"

// Lacking names the features that this machine lacks for a case.
func Lacking(c *Case) []string {
	if err := lab.Supported(c.Requirements()); err != nil {
		return missing(err)
	}
	return nil
}
