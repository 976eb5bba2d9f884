package specs

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"seg6lab/lab/topology"
	"seg6lab/lab/topology/strictyaml"
	"seg6lab/specs/dataplane"
	"seg6lab/topologies"
)

//go:embed all:cases
var shipped embed.FS

// source is where files are read from: the machine, or the binary.
type source struct {
	read    func(path string) ([]byte, error)
	shipped bool
}

var (
	machineFiles = source{read: strictyaml.ReadFile}
	shippedFiles = source{read: shipped.ReadFile, shipped: true}
)

// Shipped are the cases in the binary.
func Shipped() ([]*Case, error) {
	cases, _, err := shippedNamed(func(string) bool { return true })
	return cases, err
}

// caseName finds the name in a case file without reading the rest.
var caseName = regexp.MustCompile(`(?m)^case:\s*(\S+)`)

// shippedNamed are the cases in the binary whose file has a name that is wanted,
// and the names of all files.
func shippedNamed(want func(name string) bool) (cases []*Case, names []string, err error) {
	err = fs.WalkDir(shipped, "cases", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(file) != ".yaml" {
			return err
		}
		src, err := shippedFiles.read(file)
		if err != nil {
			return err
		}
		name := caseName.FindSubmatch(src)
		if name == nil {
			return nil // a topology beside its cases
		}
		names = append(names, string(name[1]))
		if !want(string(name[1])) {
			return nil
		}
		loaded, err := loadText(file, src, shippedFiles)
		cases = append(cases, loaded...)
		return err
	})
	return cases, names, err
}

// LoadFile reads the cases of a file.
func LoadFile(name string) ([]*Case, error) { return load(name, machineFiles) }

// Find reads the cases that the arguments name: files, directories with files,
// and names of shipped cases, where NAME stands for every case of its matrix
// and * for anything. Without arguments it gives every shipped case.
func Find(args []string) ([]*Case, error) {
	if len(args) == 0 {
		return Shipped()
	}
	var cases []*Case
	var errs []error
	for _, arg := range args {
		found, err := find(arg)
		cases = append(cases, found...)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return cases, nil
}

func find(arg string) ([]*Case, error) {
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return loadDir(arg)
	case err == nil:
		return LoadFile(arg)
	case isPath(arg):
		return nil, fmt.Errorf("there is no case: %w", err)
	}
	file, _, _ := strings.Cut(arg, "/")
	all, names, err := shippedNamed(func(name string) bool {
		ok, err := path.Match(file, name)
		return err == nil && ok
	})
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(all, func(c *Case) bool { return !matches(c, arg) })
	if len(found) == 0 {
		near := "; seg6lab run --list names the cases"
		if name := strictyaml.Nearest(arg, names); name != "" {
			near = strictyaml.Suggest(arg, names)
		}
		return nil, fmt.Errorf("there is no case or file %s%s", arg, near)
	}
	return found, nil
}

func isPath(arg string) bool {
	ext := filepath.Ext(arg)
	return ext == ".yaml" || ext == ".yml" || strings.HasPrefix(arg, ".") || strings.HasPrefix(arg, "/")
}

func matches(c *Case, pattern string) bool {
	for _, name := range []string{c.File.Case, c.Name} {
		if ok, err := path.Match(pattern, name); err == nil && ok || name == pattern {
			return true
		}
	}
	return false
}

func loadDir(dir string) ([]*Case, error) {
	var cases []*Case
	var errs []error
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".yaml" {
			return err
		}
		loaded, err := LoadFile(name)
		if errors.Is(err, errNoCase) {
			return nil // a topology beside its cases
		}
		cases = append(cases, loaded...)
		errs = append(errs, err)
		return nil
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("%s: there is no case in this directory", dir)
	}
	return cases, nil
}

// errNoCase says that a YAML file is no case at all.
var errNoCase = errors.New("the file is a topology, not a case: seg6lab up builds it")

// errNoTopology says that a YAML file is no topology at all.
var errNoTopology = errors.New("the file is a case, not a topology: seg6lab run runs it")

// isCase tells a case from a topology by the first key that only one of them has.
func isCase(doc *strictyaml.Doc) bool { return doc.Key("case") != nil }

func load(name string, from source) ([]*Case, error) {
	src, err := from.read(name)
	if err != nil {
		return nil, err
	}
	return loadText(name, src, from)
}

// loadText reads the cases of the text of a file.
func loadText(name string, src []byte, from source) ([]*Case, error) {
	doc, err := strictyaml.Parse(name, src)
	if err != nil {
		return nil, err
	}
	if !isCase(doc) && doc.Key("nodes") != nil {
		return nil, fmt.Errorf("%s: %w", name, errNoCase)
	}
	rows, err := matrix(doc)
	if err != nil {
		return nil, err
	}
	var cases []*Case
	var errs strictyaml.Errors
	seen := make(map[strictyaml.Error]bool)
	for _, row := range rows {
		c, err := loadRow(doc, row, from)
		if err == nil {
			cases = append(cases, c)
			continue
		}
		var mistakes strictyaml.Errors
		if !errors.As(err, &mistakes) {
			return nil, err
		}
		for _, m := range mistakes {
			// Most mistakes are in every row: say them once.
			if !seen[*m] {
				seen[*m] = true
				errs = append(errs, m)
			}
		}
	}
	if len(errs) > 0 {
		return nil, strictyaml.Sort(errs)
	}
	return cases, nil
}

func loadRow(doc *strictyaml.Doc, row row, from source) (*Case, error) {
	doc, err := doc.At(without(doc.Root, "matrix")).Substitute(row.vars)
	if err != nil {
		return nil, err
	}
	f := new(File)
	if err := doc.Decode(f); err != nil {
		return nil, err
	}
	t, files, err := loadTopology(f.Topology, doc.File, from)
	if err != nil {
		var inner strictyaml.Errors
		if errors.As(err, &inner) {
			return nil, err
		}
		return nil, strictyaml.Errors{{Pos: f.ValueAt("topology"), Msg: err.Error()}}
	}
	if err := t.Merge(f.With); err != nil {
		return nil, err
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	c := &Case{Name: f.Case, File: f, Topology: t, path: doc.File, shipped: from.shipped}
	if !from.shipped {
		c.files = append(files, doc.File)
	}
	if row.name != "" {
		c.Name += "/" + row.name
	}
	if err := c.readFiles(from); err != nil {
		return nil, err
	}
	if err := c.compile(); err != nil {
		return nil, err
	}
	return c, c.vary(from)
}

// vary makes the variants of the case's costs.
func (c *Case) vary(from source) error {
	if c.File.Cost == nil {
		return nil
	}
	c.varied = make(map[string]*Case)
	for name, overlay := range c.File.Cost.Variants {
		t, _, err := loadTopology(c.File.Topology, c.path, from)
		if err != nil {
			return err
		}
		for _, o := range []map[string]*topology.Node{c.File.With, overlay} {
			if err := t.Merge(o); err != nil {
				return err
			}
		}
		if err := t.Validate(); err != nil {
			return err
		}
		v := *c
		v.Topology, v.variant, v.varied, v.steps = t, name, nil, nil
		if err := v.compile(); err != nil {
			return err
		}
		c.varied[name] = &v
	}
	return nil
}

// Validate checks a case or topology file.
func Validate(name string) error {
	_, err := LoadFile(name)
	if errors.Is(err, errNoCase) {
		var t *topology.Topology
		if t, err = topology.DecodeFile(name); err == nil {
			err = dataplane.Check(t)
		}
	}
	return err
}

// LoadTopology reads a topology by the name of a shipped one or by its path.
func LoadTopology(ref string) (*topology.Topology, error) {
	t, _, err := loadTopology(ref, "", machineFiles)
	if err != nil && !isPath(ref) {
		if _, serr := os.Stat(ref + ".yaml"); serr == nil {
			err = fmt.Errorf("there is no topology %q; did you mean the file %s.yaml?", ref, ref)
		}
	}
	if err != nil {
		return nil, err
	}
	return t, dataplane.Check(t)
}

// loadTopology is LoadTopology for a reference in a file. It tells the file that
// it read, if any.
func loadTopology(ref, in string, from source) (t *topology.Topology, files []string, err error) {
	if !isPath(ref) && !strings.Contains(ref, "/") {
		t, err = topologies.Load(ref)
		return t, nil, err
	}
	name := ref
	if !filepath.IsAbs(ref) && in != "" {
		name = filepath.Join(filepath.Dir(in), ref)
	}
	src, err := from.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("there is no topology: %w", err)
	}
	if err != nil {
		return nil, nil, err
	}
	if doc, err := strictyaml.Parse(name, src); err == nil && isCase(doc) {
		return nil, nil, fmt.Errorf("%s: %w", name, errNoTopology)
	}
	t, err = topology.Decode(name, src)
	return t, []string{name}, err
}

// row is one combination of a matrix.
type row struct {
	name string // "v6,2seg"
	vars map[string]*yaml.Node
}

// maxRows bounds the cases of one file.
const maxRows = 10_000

// matrix lists the combinations of the file's matrix, one without variables
// where it has none.
func matrix(doc *strictyaml.Doc) ([]row, error) {
	rows := []row{{}}
	node := doc.Key("matrix")
	if node == nil {
		return rows, nil
	}
	fail := func(n *yaml.Node, format string, args ...any) ([]row, error) {
		return nil, strictyaml.Errors{{
			Pos: strictyaml.Pos{File: doc.File, Line: n.Line, Column: n.Column},
			Msg: fmt.Sprintf(format, args...),
		}}
	}
	if node.Kind != yaml.MappingNode || len(node.Content) == 0 {
		return fail(node, "matrix: expected a mapping of axes, each a mapping of rows")
	}
	owner := make(map[string]string) // the axis of each variable
	for i := 0; i < len(node.Content); i += 2 {
		axis, values := node.Content[i], node.Content[i+1]
		if values.Kind != yaml.MappingNode || len(values.Content) == 0 {
			return fail(values, "matrix axis %s: expected a mapping of rows, each a mapping of variables", axis.Value)
		}
		var next []row
		for _, before := range rows {
			for j := 0; j < len(values.Content); j += 2 {
				id, vars := values.Content[j], values.Content[j+1]
				if vars.Kind != yaml.MappingNode {
					return fail(vars, "matrix row %s: expected a mapping of variables", id.Value)
				}
				r := row{name: id.Value, vars: maps.Clone(before.vars)}
				if before.name != "" {
					r.name = before.name + "," + id.Value
				}
				if r.vars == nil {
					r.vars = make(map[string]*yaml.Node)
				}
				for k := 0; k < len(vars.Content); k += 2 {
					name := vars.Content[k]
					if other, ok := owner[name.Value]; ok && other != axis.Value {
						return fail(name, "variable %s has values in two axes, %s and %s", name.Value, other, axis.Value)
					}
					owner[name.Value] = axis.Value
					r.vars[name.Value] = vars.Content[k+1]
				}
				next = append(next, r)
			}
			if len(next) > maxRows {
				return fail(node, "matrix: more than %d combinations", maxRows)
			}
		}
		rows = next
	}
	return rows, nil
}

// without is a copy of a mapping that lacks a key.
func without(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return n
	}
	out := *n
	out.Content = nil
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value != key {
			out.Content = append(out.Content, n.Content[i], n.Content[i+1])
		}
	}
	return &out
}
