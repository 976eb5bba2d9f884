package topology

import (
	"maps"
	"slices"

	"seg6lab/lab/topology/strictyaml"
)

// Error is a mistake in a topology file, with its place.
type Error = strictyaml.Error

// Errors are all mistakes found in a topology file.
type Errors = strictyaml.Errors

// Decode decodes and validates the text of a topology file. The error is of
// type Errors and names name as the file.
func Decode(name string, src []byte) (*Topology, error) {
	doc, err := strictyaml.Parse(name, src)
	if err != nil {
		return nil, err
	}
	t := new(Topology)
	var v validator
	if err := doc.Decode(t); err != nil {
		v.errs = err.(Errors)
		for _, e := range v.errs {
			v.broken = append(v.broken, e.Path)
		}
	}
	v.topology(t)
	if len(v.errs) > 0 {
		return nil, strictyaml.Sort(v.errs)
	}
	return t, nil
}

// DecodeFile reads a topology file and decodes it.
func DecodeFile(path string) (*Topology, error) {
	src, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Decode(path, src)
}

// Merge lays an overlay over the nodes of t: lists are appended, mappings
// merged key by key, and of other values that of the overlay wins. The result
// is to be validated again; its errors name the place in the overlay's file.
// An overlay can name only nodes that t has.
func (t *Topology) Merge(overlay map[string]*Node) error {
	var errs Errors
	for _, name := range slices.Sorted(maps.Keys(overlay)) {
		node, extra := t.Nodes[name], overlay[name]
		if node == nil {
			errs = append(errs, &Error{Pos: extra.Pos(), Msg: "topology " + t.Name + " has no node " + name +
				strictyaml.Suggest(name, slices.Sorted(maps.Keys(t.Nodes)))})
			continue
		}
		merged := *node
		strictyaml.Merge(&merged, extra)
		t.Nodes[name] = &merged
	}
	if len(errs) > 0 {
		return strictyaml.Sort(errs)
	}
	return nil
}
