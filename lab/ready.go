package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// readyTimeout bounds how long the kernel may take to bring a device up.
const readyTimeout = 10 * time.Second

// dumpLinks lists devices. The kernel breaks a dump off when something changes
// meanwhile; it is asked again then.
func dumpLinks() ([]netlink.Link, error) {
	for {
		links, err := here.LinkList()
		if errors.Is(err, netlink.ErrDumpInterrupted) {
			continue
		}
		return links, err
	}
}

// ready waits until every device can send and receive, and every IPv6 address can
// be delivered to. A device that is set up gets its queue only when the kernel
// has seen the carrier; the local route of an IPv6 address, without duplicate
// address detection too, is added by a work queue (addrconf_dad_work).
func (c *configurator) ready(ctx context.Context, timeout time.Duration) error {
	return await(ctx, timeout, c.notReady)
}

// lateError says what is not up in time.
type lateError struct {
	what string
	time time.Duration
}

func (e *lateError) Error() string { return fmt.Sprintf("%s is not up after %s", e.what, e.time) }

// await waits until nothing is waited for any more, in the namespace of the calling
// thread. It looks again whenever a device or a route changes. The error is a
// *lateError when that takes too long, or the cause of ctx's end.
func await(ctx context.Context, timeout time.Duration, waiting func() (string, error)) error {
	what, err := waiting()
	if err != nil || what == "" {
		return err
	}
	events, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return fmt.Errorf("device and route events: %w", err)
	}
	defer events.Close()
	deadline := time.Now().Add(timeout)
	for {
		// Look after subscribing: what happens now is an event.
		if what, err = waiting(); err != nil || what == "" {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return &lateError{what, timeout}
		}
		// Not longer at once, for the sake of ctx.
		left = min(max(left, time.Millisecond), 200*time.Millisecond)
		tv := unix.NsecToTimeval(left.Nanoseconds())
		if err := events.SetReceiveTimeout(&tv); err != nil {
			return err
		}
		_, _, err := events.Receive()
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("device and route events: %w", err)
		}
	}
}

// notReady names a device or an address that is not up yet.
func (c *configurator) notReady() (string, error) {
	links, err := dumpLinks()
	if err != nil {
		return "", err
	}
	for _, l := range links {
		attrs := l.Attrs()
		if attrs.Flags&net.FlagUp == 0 {
			continue // sit0 and the like, which some kernels put into every namespace
		}
		switch attrs.OperState {
		case netlink.OperUp, netlink.OperUnknown:
		default:
			// A bridge without ports has no carrier and never will.
			if _, ok := l.(*netlink.Bridge); ok && !hasPort(links, attrs.Index) {
				continue
			}
			return "device " + attrs.Name, nil
		}
	}
	if c.topology.Forwards() {
		return "", nil // the addresses are the forwarder's
	}
	for dev, addrs := range c.topology.Addresses {
		for _, a := range addrs {
			if a.Addr().Is4() {
				continue
			}
			// The device chooses the table, of a VRF too.
			routes, err := here.RouteGetWithOptions(a.Addr().AsSlice(), &netlink.RouteGetOptions{OifIndex: c.index[dev]})
			if err != nil && !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH) {
				return "", fmt.Errorf("route of address %s: %w", a.Addr(), err)
			}
			if len(routes) == 0 || routes[0].Type != unix.RTN_LOCAL {
				return fmt.Sprintf("address %s of device %s", a.Addr(), dev), nil
			}
		}
	}
	return "", nil
}

func hasPort(links []netlink.Link, master int) bool {
	for _, l := range links {
		if l.Attrs().MasterIndex == master {
			return true
		}
	}
	return false
}
