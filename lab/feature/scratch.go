package feature

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"seg6lab/lab/nsthread"
)

// here speaks to the kernel for the namespace of the calling thread: a handle
// without sockets opens one for each request.
var here = &netlink.Handle{}

// inScratch runs f in a new network namespace with lo up. The namespace ends
// once f has closed what it opened.
func inScratch(f func() error) error {
	return nsthread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			if errors.Is(err, unix.EPERM) {
				return fmt.Errorf("new network namespace: %w: run as root", err)
			}
			return fmt.Errorf("new network namespace: %w", err)
		}
		lo, err := here.LinkByIndex(1)
		if err == nil {
			err = here.LinkSetUp(lo)
		}
		if err != nil {
			return fmt.Errorf("set lo up: %w", err)
		}
		return f()
	})
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
