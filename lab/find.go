package lab

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Found is a lab that the kernel has.
type Found struct {
	// Name of the lab.
	Name string
	// Nodes are the names of its nodes.
	Nodes []string
	// Owner is the process that the lab is to end with, 0 for a lab that stays
	// up until it is taken down.
	Owner int
	// Orphaned says that the owner is gone.
	Orphaned bool
}

// Find lists the labs of this machine, from the kernel's own state.
func Find() ([]Found, error) {
	entries, err := os.ReadDir(netnsDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	labs := make(map[string]*Found)
	for _, e := range entries {
		name, node, ok := splitNetnsName(e.Name())
		if !ok {
			continue
		}
		h, m, ours, err := openNetns(e.Name())
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", e.Name(), err)
		}
		if ours {
			h.Close()
		} else if !isStub(e.Name()) {
			continue // a namespace of somebody else's
		} else {
			m = stubMark(e.Name())
		}
		l := labs[name]
		if l == nil {
			l = &Found{Name: name}
			labs[name] = l
		}
		l.Nodes = append(l.Nodes, node)
		if m.owner != (process{}) {
			l.Owner, l.Orphaned = m.owner.pid, !m.owner.alive()
		}
	}
	var found []Found
	for _, name := range slices.Sorted(maps.Keys(labs)) {
		found = append(found, *labs[name])
	}
	return found, nil
}

// isStub tells whether a name in netnsDir is a file that no namespace was
// mounted on yet: what a process leaves that dies between the two.
func isStub(name string) bool {
	var fs unix.Statfs_t
	err := unix.Statfs(filepath.Join(netnsDir, name), &fs)
	return err == nil && fs.Type != unix.NSFS_MAGIC
}

// stubMark says whose a stub is. It is empty where that was not written down yet.
func stubMark(name string) (m mark) {
	b, err := os.ReadFile(filepath.Join(netnsDir, name))
	if err == nil {
		m, _ = parseMark(string(b))
	}
	return m
}

// Open returns a lab that is up.
func Open(name string) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, ErrNotRoot
	}
	entries, err := os.ReadDir(netnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l := &Lab{Name: name, Nodes: make(map[string]*Node)}
	for _, e := range entries {
		labName, node, ok := splitNetnsName(e.Name())
		if !ok || labName != name {
			continue
		}
		h, _, ours, err := openNetns(e.Name())
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("namespace %s: %w", e.Name(), err)
		}
		if ours {
			l.Nodes[node] = &Node{Name: node, Netns: e.Name(), handle: h}
		}
	}
	if len(l.Nodes) == 0 {
		return nil, &NotFoundError{"lab", name}
	}
	return l, nil
}

// Close lets go of a lab and leaves it up.
func (l *Lab) Close() {
	for _, n := range l.Nodes {
		n.close()
	}
}

// Node returns the node of the name.
func (l *Lab) Node(name string) (*Node, error) {
	if n := l.Nodes[name]; n != nil {
		return n, nil
	}
	return nil, &NotFoundError{"node", name + " in lab " + l.Name}
}

// Down removes the lab of the name and whatever a killed process left of it.
func Down(name string) error {
	l, err := Open(name)
	if notFound := (*NotFoundError)(nil); errors.As(err, &notFound) {
		l, err = &Lab{Name: name}, nil
	}
	if err != nil {
		return err
	}
	had := len(l.Nodes)
	err = l.Down()
	for _, r := range records(name) { // of nodes that are gone
		err = errors.Join(err, r.Release())
		had++
	}
	stubs, _ := filepath.Glob(filepath.Join(netnsDir, netnsName(name, "*")))
	for _, path := range stubs {
		if isStub(filepath.Base(path)) {
			err = errors.Join(err, removeNetns(filepath.Base(path)))
			had++
		}
	}
	if err == nil && had == 0 {
		return &NotFoundError{"lab", name}
	}
	return err
}

// Sweep removes the labs whose owning process is gone, and returns their names. It
// gives back the ports of labs that are gone.
func Sweep() ([]string, error) {
	return downWhere(func(f Found) bool { return f.Orphaned })
}

// DownAll removes every lab, except those that a running process owns unless
// force is set, and gives back the ports of labs that are gone. It returns the names of those that it removed.
func DownAll(force bool) ([]string, error) {
	return downWhere(func(f Found) bool { return force || f.Owner == 0 || f.Orphaned })
}

func downWhere(want func(Found) bool) (removed []string, err error) {
	found, err := Find()
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		if !want(f) {
			continue
		}
		if e := Down(f.Name); e != nil {
			err = errors.Join(err, fmt.Errorf("lab %s: %w", f.Name, e))
			if !PortTrouble(e) {
				continue
			}
		}
		removed = append(removed, f.Name)
	}
	return removed, errors.Join(err, releaseStale())
}
