package feature

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// here speaks to the kernel for the namespace of the calling thread: a handle
// without sockets opens one for each request.
var here = &netlink.Handle{}

// inScratch runs f in a new network namespace with lo up. The namespace ends
// when the thread has left it and f has closed what it opened.
func inScratch(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := scratch(f)
		var stuck stuckError
		if !errors.As(err, &stuck) {
			runtime.UnlockOSThread()
		}
		// A thread that is still locked dies with this goroutine.
		done <- err
	}()
	return <-done
}

// stuckError means that the thread could not leave the scratch namespace.
type stuckError struct{ error }

func scratch(f func() error) (err error) {
	back, err := netns.Get()
	if err != nil {
		return fmt.Errorf("open the network namespace: %w", err)
	}
	defer back.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		if errors.Is(err, unix.EPERM) {
			return fmt.Errorf("new network namespace: %w: run as root", err)
		}
		return fmt.Errorf("new network namespace: %w", err)
	}
	defer func() {
		if e := netns.Set(back); e != nil {
			err = stuckError{fmt.Errorf("leave the scratch namespace: %w", errors.Join(e, err))}
		}
	}()
	lo, err := here.LinkByIndex(1)
	if err == nil {
		err = here.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return f()
}

// absentIf marks err as absent when it is one of the given errnos.
func absentIf(err error, errnos ...unix.Errno) error {
	for _, errno := range errnos {
		if errors.Is(err, errno) {
			return Absent(err)
		}
	}
	return err
}
