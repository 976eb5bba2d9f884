package traffic

import "strings"

// String writes the packet as an expression: the fields that were given, and
// of those that Default set.
func (p *Packet) String() string {
	words := make([]string, len(p.layers))
	for i, l := range p.layers {
		words[i] = l.String()
	}
	return strings.Join(words, "/")
}

// String writes the layer as it stands in an expression.
func (l *Layer) String() string {
	var args []string
	for j := range l.typ.fields {
		f := &l.typ.fields[j]
		v := l.given[j]
		if v == nil {
			v = l.dflt[j]
		}
		switch {
		case v == nil:
		case j == 0 && l.typ.positional:
			args = append(args, f.kind.print(f, v))
		default:
			args = append(args, f.name+"="+f.kind.print(f, v))
		}
	}
	return l.typ.name + "(" + strings.Join(args, ", ") + ")"
}
