package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"seg6lab/lab/port"
	"seg6lab/lab/topology"
)

// Lab is a topology that is up.
type Lab struct {
	// Name of the lab; part of the name of each of its namespaces.
	Name string
	// Nodes by their name in the topology.
	Nodes map[string]*Node
	// Ports are those that Up bound.
	Ports []*port.Facts
}

// Options of Up.
type Options struct {
	// Name of the lab, that of the topology when empty.
	Name string
	// Owned says that the lab is to end with this process: once the process is
	// gone, DownAll and Sweep remove what it left.
	Owned bool
	// Force takes ports that are in use outside of labs, or by another one.
	Force bool
	// Queues is how many queues every bound port uses, as many as it has when 0.
	Queues int
	// PlaceInterrupts gives the interrupt of each queue of bound ports a CPU of
	// its own: one of the port's NUMA node, and isolated where there are such.
	PlaceInterrupts bool
	// LinkTimeout is how long the link of a port is waited for, LinkTimeout of the
	// package when 0.
	LinkTimeout time.Duration
}

// ExistsError says that a lab of the name is up already.
type ExistsError struct{ Lab string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("lab %s is up already: take it down first (seg6lab down %s) or choose another name", e.Lab, e.Lab)
}

// NotFoundError says that no lab, or no node of a lab, has the name.
type NotFoundError struct{ What, Name string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no %s %s", e.What, e.Name) }

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// CheckName tells whether a lab can have the name.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%q cannot name a lab: expected 1 to 32 of a-z, 0-9 and -, not first or last", name)
	}
	return nil
}

// Up builds a topology, which must be valid, and returns once every device can
// send and receive. When it fails, or ctx ends first, nothing is left of it.
func Up(ctx context.Context, t *topology.Topology, opts Options) (_ *Lab, err error) {
	name := opts.Name
	if name == "" {
		name = t.Name
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, ErrNotRoot
	}
	if err := prepareNetnsDir(); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", netnsDir, err)
	}
	if err := port.Check(t.Ports, opts.Force); err != nil {
		return nil, err
	}
	if opts.LinkTimeout == 0 {
		opts.LinkTimeout = LinkTimeout
	}
	self, err := findProcess(os.Getpid())
	if err != nil {
		return nil, err
	}
	var owner process
	if opts.Owned {
		owner = self
	}

	l := &Lab{Name: name, Nodes: make(map[string]*Node, len(t.Nodes))}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Down())
		}
	}()
	outside := t.Outside()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(t.Nodes)), func(n string) bool { return outside[n] })
	nodes := make([]*Node, len(names))
	create := func(i int) (err error) {
		m := mark{lab: name, node: names[i], owner: owner}
		if i == 0 {
			m.owner = self // until the lab is whole: half a lab is to go with its builder
		}
		nodes[i], err = createNetns(m, func() (*Node, error) { return newNode(m) })
		if err != nil {
			return fmt.Errorf("node %s: %w", names[i], err)
		}
		return nil
	}
	// The first node claims the name of the lab; then the rest, side by side.
	err = each(ctx, min(1, len(names)), create)
	if exists := (*ExistsError)(nil); errors.As(err, &exists) {
		return nil, exists
	}
	if err == nil {
		err = each(ctx, len(names)-1, func(i int) error { return create(i + 1) })
	}
	for i, n := range nodes {
		if n != nil {
			l.Nodes[names[i]] = n
		}
	}
	if err != nil {
		return nil, err
	}

	b := &builder{topology: t, lab: l, options: opts, neighbours: t.LinkNeighbours()}
	if err := b.links(ctx); err != nil {
		return nil, err
	}
	err = each(ctx, len(names), func(i int) error {
		err := b.node(ctx, nodes[i], t.Nodes[names[i]])
		if err != nil {
			return fmt.Errorf("node %s: %w", names[i], err)
		}
		return nil
	})
	if err == nil && len(nodes) > 0 {
		err = nodes[0].mark(mark{lab: name, node: names[0], owner: owner})
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// ErrNotRoot is what Up and Down say to users without the privilege.
var ErrNotRoot = errors.New("root is needed to create network namespaces: run it with sudo")

// Down removes the lab: it ends its processes, gives its ports back, and removes
// its namespaces with their devices. It is complete when it returns nil, and may be
// called again.
func (l *Lab) Down() error {
	var inodes []uint64
	for _, n := range l.Nodes {
		if ino, err := inode(int(n.handle)); err == nil {
			inodes = append(inodes, ino)
		}
	}
	err := errors.Join(killProcessesIn(inodes), l.releasePorts())
	for name, n := range l.Nodes {
		n.close()
		err = errors.Join(err, removeNetns(n.Netns))
		delete(l.Nodes, name)
	}
	return err
}

// each calls f for 0 to n-1, some at a time, and returns the first error. It
// stops early when ctx ends, with its cause.
func each(ctx context.Context, n int, f func(i int) error) error {
	g, gctx := errgroup.WithContext(ctx)
	// Kernel locks serialise most of the work: more at once gains nothing.
	g.SetLimit(2 * runtime.GOMAXPROCS(0))
	for i := range n {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error {
			if gctx.Err() != nil {
				return nil
			}
			return f(i)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
