package forwarder

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// onCPU has the calling thread run on one CPU only. Its goroutine must be locked to
// it.
func onCPU(cpu int) error {
	var on unix.CPUSet
	on.Set(cpu)
	if err := unix.SchedSetaffinity(0, &on); err != nil {
		return fmt.Errorf("forwarder: a thread on CPU %d: %w", cpu, err)
	}
	return nil
}

// checkCPUs tells whether threads may run on each of the CPUs, by trying.
func checkCPUs(cpus []int) error {
	checked := make(chan error)
	go func() {
		runtime.LockOSThread() // The thread ends with the goroutine.
		var errs []error
		for _, cpu := range cpus {
			errs = append(errs, onCPU(cpu))
		}
		checked <- errors.Join(errs...)
	}()
	return <-checked
}

// procs counts the Ps of the Go scheduler that running forwarders want beside
// those of the rest of the process.
var procs struct {
	sync.Mutex
	wanted, added int
}

// maxProcs bounds the Ps that are added, of which each takes memory.
const maxProcs = 64

// wantProcs adds n Ps, one a thread that waits for frames. A system call keeps
// its P only while another one is idle: else a long call loses it to another
// thread and its return waits for one (retake in the runtime), which costs more
// than to forward a packet. A negative n gives them back.
func wantProcs(n int) {
	procs.Lock()
	defer procs.Unlock()
	procs.wanted += n
	added := min(procs.wanted, maxProcs)
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + added - procs.added)
	procs.added = added
}
