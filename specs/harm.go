package specs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"

	"seg6lab/lab/feature"
)

// inGuest tells that this process is a guest's.
var inGuest atomic.Bool

// featureGuest is required by cases that may harm the kernel that they run on.
const featureGuest = "guest"

func init() {
	feature.Register(feature.Feature{
		Name:  featureGuest,
		About: "a guest, to which a case may do harm",
		Probe: func() error {
			if !inGuest.Load() {
				return feature.Absent(errors.New("this is no guest"))
			}
			return nil
		},
	})
}

func init() {
	feature.Register(feature.Feature{
		Name:  "cpu.single",
		About: "a single CPU, on which who reads a packet socket comes after the kernel's work",
		Probe: func() error {
			if n := runtime.NumCPU(); n > 1 {
				return feature.Absent(fmt.Errorf("there are %d", n))
			}
			return nil
		},
	})
}

func init() {
	feature.Register(feature.Feature{
		Name:   "kasan",
		About:  "the kernel reports what it reads and writes outside of objects",
		Config: "CONFIG_KASAN",
		Probe: func() error {
			symbols, err := os.ReadFile("/proc/kallsyms")
			if err != nil {
				return err
			}
			if !bytes.Contains(symbols, []byte(" kasan_report\n")) {
				return feature.Absent(errors.New("no symbol kasan_report"))
			}
			return nil
		},
	})
}

// harmful tells whether the case may harm the kernel that it runs on.
func (c *Case) harmful() bool { return slices.Contains(c.File.Requires, featureGuest) }

// lonely tells whether the case may leave the kernel other than it was for those
// that come after it: it gets a guest of its own.
func (c *Case) lonely() bool {
	return slices.Contains(c.File.Requires, lwtunnelHooks) || c.File.Cost != nil || c.harmful() || len(c.File.NICs) > 0
}
