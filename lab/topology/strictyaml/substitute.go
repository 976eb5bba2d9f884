package strictyaml

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// variable matches $${...}, which stands for ${...} itself, and ${name}.
var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}`)

// Text makes a scalar of s that reads as YAML would read it without quotes:
// "5" is a number.
func Text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// Substitute gives the document with its variables replaced. A scalar that is
// ${name} and nothing else becomes the value of name, whatever its kind; in
// any other text, keys included, ${name} is replaced by the text of a scalar.
// $${name} is left as ${name}. A variable without a value is an error.
func (d *Doc) Substitute(vars map[string]*yaml.Node) (*Doc, error) {
	s := substitution{doc: d, vars: vars}
	root := s.node(d.Root)
	if len(s.errs) > 0 {
		return nil, Sort(s.errs)
	}
	return d.At(root), nil
}

type substitution struct {
	doc  *Doc
	vars map[string]*yaml.Node
	errs Errors
}

func (s *substitution) node(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.ScalarNode {
		return s.scalar(n, true)
	}
	out := *n
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Kind == yaml.ScalarNode {
			out.Content[i] = s.scalar(c, false)
		} else {
			out.Content[i] = s.node(c)
		}
	}
	return &out
}

func (s *substitution) scalar(n *yaml.Node, whole bool) *yaml.Node {
	if !strings.Contains(n.Value, "${") {
		return n
	}
	if m := variable.FindString(n.Value); whole && m == n.Value && m[1] == '{' {
		v, ok := s.lookup(n, m[2:len(m)-1])
		if !ok {
			return n
		}
		// The value is told at the place where it is used when it has none of
		// its own.
		out := *v
		if out.Line == 0 {
			out.Line, out.Column = n.Line, n.Column
		}
		return &out
	}
	out := *n
	out.Value = variable.ReplaceAllStringFunc(n.Value, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		v, ok := s.lookup(n, m[2:len(m)-1])
		if ok && v.Kind != yaml.ScalarNode {
			s.fail(n, "${%s} is %s: it can only stand alone, not inside text", m[2:len(m)-1], kindOf(v))
			return m
		}
		if !ok {
			return m
		}
		return v.Value
	})
	if out.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		out.Tag = ""
	}
	return &out
}

func (s *substitution) lookup(n *yaml.Node, name string) (*yaml.Node, bool) {
	v, ok := s.vars[name]
	if !ok {
		s.fail(n, "${%s} has no value%s", name, Suggest(name, slices.Sorted(maps.Keys(s.vars))))
	}
	return v, ok
}

func (s *substitution) fail(n *yaml.Node, format string, args ...any) {
	s.errs = append(s.errs, &Error{Pos: s.doc.pos(n), Msg: fmt.Sprintf(format, args...)})
}
