package traffic

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// OneCPU keeps the calling goroutine on the first of its CPUs until back is
// called. Frames that it sends into veth devices are forwarded on that CPU too: in the
// order in which they are sent, and with the same of the kernel's per-CPU caches.
func OneCPU() (back func(), err error) {
	runtime.LockOSThread()
	var before, one unix.CPUSet
	err = unix.SchedGetaffinity(0, &before)
	if err == nil {
		for cpu := 0; one.Count() == 0; cpu++ {
			if before.IsSet(cpu) {
				one.Set(cpu)
			}
		}
		err = unix.SchedSetaffinity(0, &one)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("stay on one CPU: %w", err)
	}
	return func() {
		// A thread that does not go back ends with the goroutine.
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}
