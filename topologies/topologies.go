// Package topologies holds ready topologies: files that are embedded in the
// program, each drawn in its first comment, and generated ones whose size is
// part of the name. It builds nothing.
package topologies

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"seg6lab/lab/topology"
	"seg6lab/lab/topology/strictyaml"
)

//go:embed *.yaml
var files embed.FS

// generators make the topologies whose names are written NAME:N.
var generators = map[string]struct {
	about    string
	min, max int
	make     func(n int) *topology.Topology
}{
	"chain": {"N nodes in a row, the first and the last a host", MinChain, MaxChain, Chain},
	"mesh":  {"N routers, each linked to every other", MinMesh, MaxMesh, Mesh},
}

// Entry is a topology that can be loaded.
type Entry struct {
	// Name is what Load takes; a generated topology has N in place of its size.
	Name string
	// About says in one sentence what the topology is for.
	About string
}

// List gives all topologies, sorted by name.
func List() []Entry {
	var all []Entry
	for _, name := range embedded() {
		t, err := Load(name)
		if err != nil {
			panic(err) // the package's own file; its test loads every one
		}
		all = append(all, Entry{name, t.About})
	}
	for name, g := range generators {
		all = append(all, Entry{name + ":N", fmt.Sprintf("%s (N from %d to %d)", g.about, g.min, g.max)})
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Names gives the names of List.
func Names() []string {
	var names []string
	for _, e := range List() {
		names = append(names, e.Name)
	}
	return names
}

func embedded() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // an embed.FS has its root
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
	}
	return names
}

// Load gives a topology of its own to every caller: an embedded one by its
// name, or a generated one such as chain:16.
func Load(name string) (*topology.Topology, error) {
	if kind, size, ok := strings.Cut(name, ":"); ok {
		return generate(name, kind, size)
	}
	src, err := Source(name)
	if err != nil {
		return nil, err
	}
	return topology.Decode(name+".yaml", src)
}

// Source gives the text of an embedded topology.
func Source(name string) ([]byte, error) {
	src, err := files.ReadFile(name + ".yaml")
	if err != nil {
		names := embedded()
		for kind := range generators {
			names = append(names, kind+":N")
		}
		slices.Sort(names)
		return nil, fmt.Errorf("there is no topology %q%s", name, strictyaml.Suggest(name, names))
	}
	return src, nil
}

func generate(name, kind, size string) (*topology.Topology, error) {
	g, ok := generators[kind]
	if !ok {
		return nil, fmt.Errorf("there is no topology %q: expected chain:N or mesh:N before the colon", name)
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < g.min || n > g.max {
		return nil, fmt.Errorf("topology %s: expected a number of nodes from %d to %d after %s:", name, g.min, g.max, kind)
	}
	t := g.make(n)
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("topology %s: %w", name, err)
	}
	return t, nil
}
