package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"seg6lab/lab/port"
	"seg6lab/lab/topology"
)

// LinkTimeout is how long Up waits for the link of a port where Options say
// nothing: negotiation on copper takes some seconds, and a switch may take more.
const LinkTimeout = 30 * time.Second

// bind binds the ends of a link that are bound.
func (b *builder) bind(l *topology.Link, index int) error {
	for i, end := range l.Ends {
		p := b.topology.Port(end)
		if p == nil {
			continue
		}
		mac := l.MAC(index, i)
		var to *topology.End
		if b.topology.Port(l.Ends[1-i]) != nil {
			to = &l.Ends[1-i]
		}
		node := b.lab.Nodes[end.Node]
		bound, err := port.Bind(port.Binding{
			Port: p, Lab: b.lab.Name, End: end, To: to, Netns: node.Netns, Handle: node.handle,
			MAC: &mac, MTU: cmp.Or(l.MTU, port.MTU), TxQueueLen: l.TxQueueLen, Force: b.options.Force,
			Queues: b.options.Queues, PlaceInterrupts: b.options.PlaceInterrupts,
		})
		if err != nil {
			return err
		}
		b.mu.Lock()
		b.lab.Ports = append(b.lab.Ports, bound)
		b.mu.Unlock()
	}
	return nil
}

// BindPort binds a port to a new device of a node. Nothing is configured on it, and
// its link is not waited for.
func (l *Lab) BindPort(end topology.End, p *topology.Port, force bool) (*port.Facts, error) {
	node, err := l.Node(end.Node)
	if err != nil {
		return nil, err
	}
	return port.Bind(port.Binding{
		Port: p, Lab: l.Name, End: end, Netns: node.Netns, Handle: node.handle, MTU: port.MTU, Force: force,
	})
}

// linked waits until every bound port has a link.
func (b *builder) linked(ctx context.Context) error {
	slices.SortFunc(b.lab.Ports, func(a, c *port.Facts) int { return cmp.Compare(a.End, c.End) })
	return each(ctx, len(b.lab.Ports), func(i int) error {
		p := b.lab.Ports[i]
		var end topology.End
		if err := end.UnmarshalText([]byte(p.End)); err != nil {
			return err
		}
		timeout := b.options.LinkTimeout
		err := b.lab.Nodes[end.Node].Do(func() error {
			return await(ctx, timeout, func() (string, error) {
				l, err := here.LinkByName(end.Dev)
				if err != nil {
					return "", err
				}
				if s := l.Attrs().OperState; s == netlink.OperUp || s == netlink.OperUnknown {
					return "", nil
				}
				return end.String(), nil
			})
		})
		var late *lateError
		if errors.As(err, &late) {
			return fmt.Errorf("port %s as %s has no link after %s: plug in its cable, set up what is at the other end, or wait longer with --link-timeout", p, end, timeout)
		}
		if err != nil {
			return fmt.Errorf("port %s as %s: %w", p, end, err)
		}
		return nil
	})
}

// cableTimeout is how long Up waits for the frames that check cables.
const cableTimeout = 3 * time.Second

// cabled checks the cables between ports of this machine, where there are any.
func (b *builder) cabled(ctx context.Context) error {
	if !slices.ContainsFunc(records(b.lab.Name), func(r *port.Record) bool { return r.To != nil }) {
		return nil
	}
	cables, err := b.lab.CheckCables(ctx, cableTimeout)
	if err == nil && slices.ContainsFunc(cables, func(c *port.Cable) bool { return c.Wrong() != "" }) {
		err = &port.CableError{Cables: cables}
	}
	return err
}

// CheckCables sends marked frames out of the bound ends of the lab and returns where
// they arrive, waiting at most for timeout.
func (l *Lab) CheckCables(ctx context.Context, timeout time.Duration) ([]*port.Cable, error) {
	return port.CheckCables(ctx, records(l.Name), func(r *port.Record) (netns.NsHandle, error) {
		n, err := l.Node(r.Node)
		if err != nil {
			return -1, err
		}
		return n.handle, nil
	}, timeout)
}

// records are those of the ports of a lab.
func records(lab string) []*port.Record {
	var own []*port.Record
	all, _ := port.Records() // of which lab a damaged one is nobody can tell
	for _, r := range all {
		if r.Lab == lab && r.Here() {
			own = append(own, r)
		}
	}
	return own
}

// releasePorts gives the ports of the lab's nodes back: only those, as another lab
// may have the name.
func (l *Lab) releasePorts() error {
	var errs []error
	for _, r := range records(l.Name) {
		if l.Nodes[r.Node] != nil {
			errs = append(errs, r.Release())
		}
	}
	return errors.Join(errs...)
}

// releaseStale gives the ports back whose labs are gone.
func releaseStale() error {
	all, err := port.Records()
	errs := []error{err}
	for _, r := range all {
		_, err := os.Lstat(filepath.Join(netnsDir, r.Netns))
		if r.Outdated() || r.Here() && errors.Is(err, os.ErrNotExist) {
			errs = append(errs, r.Release())
		}
	}
	return errors.Join(errs...)
}

// OwnerOf is the running process that a lab is to end with, 0 when there is none.
func OwnerOf(lab string) int {
	found, _ := Find()
	for _, f := range found {
		if f.Name == lab && !f.Orphaned {
			return f.Owner
		}
	}
	return 0
}

// PortTrouble says whether an error tells of nothing but ports that did not come
// back as they were, whose records are kept: nothing else is the worse for it.
func PortTrouble(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !PortTrouble(e) {
				return false
			}
		}
		return true
	}
	var (
		missing *port.MissingError
		restore *port.RestoreError
		damaged *port.DamagedError
	)
	return errors.As(err, &missing) || errors.As(err, &restore) || errors.As(err, &damaged)
}
