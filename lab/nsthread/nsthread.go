// Package nsthread runs functions in network namespaces, which belong to an
// operating system thread and not to a goroutine.
package nsthread

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Do runs f on an operating system thread that nothing else uses and that ends
// with f, so f may leave it in any namespace. It is never the main thread: that
// one cannot end, and /proc/PID/ns/net speaks of it.
//
// Goroutines that f starts run on other threads, hence outside of the namespace
// that f enters. Sockets that f opens stay inside and can be used from anywhere.
func Do(f func() error) error {
	errs := make(chan error, 1)
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine.
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			errs <- f()
			return
		}
		// While this goroutine holds the main thread, no other one gets it.
		errs <- Do(f)
		runtime.UnlockOSThread()
	}()
	return <-errs
}

// In is Do with f in the namespace ns.
func In(ns netns.NsHandle, f func() error) error {
	return Do(func() error {
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}
