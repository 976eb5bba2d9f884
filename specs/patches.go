package specs

import "seg6lab/lab/kernel"

// The patches beside the cases of reports are known to recipes of kernels by
// their names: debian:6.12+l2-cow.
func init() { kernel.RegisterPatches(shipped) }
