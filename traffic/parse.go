package traffic

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// SyntaxError says where an expression is wrong.
type SyntaxError struct {
	Column int // in characters, from 1
	Msg    string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Msg) }

// Parse reads a packet expression. The packet can be built: what does not fit, such as a
// payload longer than its length field can say, is an error too. The error is
// a *SyntaxError.
func Parse(expr string) (*Packet, error) {
	if len(expr) > MaxExpression {
		return nil, &SyntaxError{Column: 1, Msg: fmt.Sprintf("expression of %d bytes: at most %d are read", len(expr), MaxExpression)}
	}
	p := &parser{lexer: lexer{src: expr}}
	pkt, err := p.packet()
	if err == nil {
		if _, err = pkt.Bytes(); err == nil {
			return pkt, nil
		}
	}
	e := &posError{}
	var l *layerError
	if errors.As(err, &l) {
		e = &posError{p.starts[l.layer], l.Error()}
	} else {
		errors.As(err, &e)
	}
	return nil, &SyntaxError{Column: utf8.RuneCountInString(expr[:min(e.pos, len(expr))]) + 1, Msg: e.msg}
}

// posError is an error at a byte offset of the expression.
type posError struct {
	pos int
	msg string
}

func (e *posError) Error() string { return e.msg }

func failf(pos int, format string, args ...any) error {
	return &posError{pos, fmt.Sprintf(format, args...)}
}

type parser struct {
	lexer
	starts []int // where each layer begins
}

// packet = layer { "/" layer }
func (p *parser) packet() (*Packet, error) {
	pkt := &Packet{}
	for {
		start, err := p.peek()
		if err != nil {
			return nil, err
		}
		if len(pkt.layers) == MaxLayers {
			return nil, failf(start.pos, "more than %d layers", MaxLayers)
		}
		if start.kind != tokName && start.kind != tokString {
			return nil, failf(start.pos, "expected a layer such as Ether(), found %s", start)
		}
		n, err := p.literal(0)
		if err != nil {
			return nil, err
		}
		l, err := packetLayer(n)
		if err != nil {
			return nil, err
		}
		if k := len(pkt.layers); k > 0 && pkt.layers[k-1].typ.last {
			return nil, failf(n.pos, "nothing can follow %s", pkt.layers[k-1].typ.name)
		}
		pkt.layers, p.starts = append(pkt.layers, l), append(p.starts, n.pos)
		tok, err := p.next()
		if err != nil {
			return nil, err
		}
		switch {
		case tok.kind == tokEnd:
			return pkt, nil
		case !tok.is('/'):
			return nil, failf(tok.pos, `expected "/" or the end of the expression, found %s`, tok)
		}
	}
}

type nodeKind int

const (
	nodeNumber nodeKind = iota
	nodeString
	nodeList // or a tuple
	nodeCall
	nodeNone
)

// node is one Python literal, or a call such as PadN(optdata=b"") with its arguments.
type node struct {
	kind nodeKind
	pos  int
	num  uint64
	text string // of a string; the name of a call
	list []*node
	args []arg
}

type arg struct {
	name string // "" for a positional argument
	pos  int
	val  *node
}

func (n *node) String() string {
	switch n.kind {
	case nodeNumber:
		return fmt.Sprintf("the number %d", n.num)
	case nodeString:
		return fmt.Sprintf("the text %.40q", n.text)
	case nodeList:
		return "a list"
	case nodeCall:
		return n.text + "()"
	}
	return "None"
}

// literal = number | text | "[" literals "]" | "(" literals ")" | name [ "(" args ")" ]
func (p *parser) literal(depth int) (*node, error) {
	tok, err := p.next()
	if err != nil {
		return nil, err
	}
	n := &node{pos: tok.pos}
	switch {
	case depth > maxDepth:
		return nil, failf(tok.pos, "nested more than %d deep", maxDepth)
	case tok.kind == tokNumber:
		n.kind, n.num = nodeNumber, tok.num
	case tok.kind == tokString:
		n.kind, n.text = nodeString, tok.text
		return n, p.repeat(n)
	case tok.is('['):
		n.kind = nodeList
		n.list, err = p.list(']', depth)
	case tok.is('('):
		n.kind = nodeList
		n.list, err = p.list(')', depth)
	case tok.kind == tokName:
		switch tok.text {
		case "None":
			n.kind = nodeNone
			return n, nil
		case "True":
			n.kind, n.num = nodeNumber, 1
			return n, nil
		case "False":
			n.kind, n.num = nodeNumber, 0
			return n, nil
		}
		n.kind, n.text = nodeCall, tok.text
		n.args, err = p.args(tok, depth)
	default:
		return nil, failf(tok.pos, "expected a value, found %s", tok)
	}
	return n, err
}

// repeat reads what may follow a text: *n and + text, as in b"x"*4 + b"y".
func (p *parser) repeat(n *node) error {
	sum := ""
	for {
		op, err := p.peek()
		if err != nil {
			return err
		}
		switch {
		case op.is('*'):
			p.next()
			tok, err := p.next()
			if err != nil {
				return err
			}
			if tok.kind != tokNumber {
				return failf(tok.pos, `expected a number after "*", found %s`, tok)
			}
			if tok.num > MaxFrame || uint64(len(n.text))*tok.num > MaxFrame {
				return failf(tok.pos, "text of more than %d bytes", MaxFrame)
			}
			n.text = strings.Repeat(n.text, int(tok.num))
		case op.is('+'):
			p.next()
			tok, err := p.next()
			if err != nil {
				return err
			}
			if tok.kind != tokString {
				return failf(tok.pos, `expected a text after "+", found %s`, tok)
			}
			if sum += n.text; len(sum) > MaxFrame {
				return failf(tok.pos, "text of more than %d bytes", MaxFrame)
			}
			n.text = tok.text
		default:
			n.text = sum + n.text
			return nil
		}
	}
}

func (p *parser) list(closing byte, depth int) (list []*node, err error) {
	for {
		tok, err := p.peek()
		if err != nil {
			return nil, err
		}
		if tok.is(closing) {
			p.next()
			return list, nil
		}
		n, err := p.literal(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
		if done, err := p.comma(closing); done || err != nil {
			return list, err
		}
	}
}

func (p *parser) args(name token, depth int) (args []arg, err error) {
	tok, err := p.next()
	if err != nil {
		return nil, err
	}
	if !tok.is('(') {
		return nil, failf(tok.pos, `expected "(" after %s, found %s`, name.text, tok)
	}
	for {
		tok, err := p.peek()
		if err != nil {
			return nil, err
		}
		if tok.is(')') {
			p.next()
			return args, nil
		}
		a := arg{pos: tok.pos}
		if tok.kind == tokName {
			after := p.lexer
			p.next()
			if eq, err := p.peek(); err != nil {
				return nil, err
			} else if eq.is('=') {
				p.next()
				a.name = tok.text
			} else {
				p.lexer = after
			}
		}
		if a.val, err = p.literal(depth + 1); err != nil {
			return nil, err
		}
		args = append(args, a)
		if done, err := p.comma(')'); done || err != nil {
			return args, err
		}
	}
}

// comma reads what follows an element: a comma, or the closing bracket.
func (p *parser) comma(closing byte) (done bool, err error) {
	tok, err := p.next()
	switch {
	case err != nil:
		return false, err
	case tok.is(closing):
		return true, nil
	case !tok.is(','):
		return false, failf(tok.pos, `expected "," or "%c", found %s`, closing, tok)
	}
	return false, nil
}

// packetLayer makes a layer of a packet from a call, or from a text, which
// Scapy takes for Raw.
func packetLayer(n *node) (*Layer, error) {
	if n.kind == nodeString {
		n = &node{kind: nodeCall, pos: n.pos, text: "Raw", args: []arg{{pos: n.pos, val: n}}}
	}
	return makeLayer(n, "", "layer")
}

// makeLayer makes a layer of one group of the table from a call.
func makeLayer(n *node, group, what string) (*Layer, error) {
	if n.kind != nodeCall {
		return nil, failf(n.pos, "expected one %s such as %s(), found %s", what, namesOf(group)[0], n)
	}
	t := layersByName[n.text]
	if t == nil || t.group != group {
		return nil, failf(n.pos, "unknown %s %s%s", what, n.text, didYouMean(n.text, namesOf(group)))
	}
	l := newLayer(t)
	for _, a := range n.args {
		if err := l.set(a); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// set takes one argument of a layer.
func (l *Layer) set(a arg) error {
	name := a.name
	if name == "" {
		if !l.typ.positional {
			return failf(a.pos, "expected field=value of %s, found %s", l.typ.name, a.val)
		}
		name = l.typ.fields[0].name
	}
	if bits, ok := l.typ.groups[name]; ok {
		return l.setBits(a, bits)
	}
	i, err := l.typ.find(name)
	if err != nil {
		return &posError{a.pos, err.Error()}
	}
	if l.given[i] != nil {
		return failf(a.pos, "%s of %s is given twice", name, l.typ.name)
	}
	if a.val.kind == nodeNone {
		return nil // as in Scapy: None asks for the field to be filled in
	}
	f := &l.typ.fields[i]
	v, err := f.kind.parse(f, a.val)
	if e, ok := err.(*posError); ok {
		return e
	}
	if err != nil {
		return failf(a.val.pos, "%s of %s: %v", name, l.typ.name, err)
	}
	l.given[i] = v
	return nil
}

// setBits takes one number for several one-bit fields, flags=0x08 of an SRH.
func (l *Layer) setBits(a arg, fields []string) error {
	total := 0
	for _, name := range fields {
		total += l.typ.fields[l.typ.index[name]].bits
	}
	if a.val.kind != nodeNumber || a.val.num >= 1<<total {
		return failf(a.val.pos, "%s of %s: expected a number from 0 to %d, found %s", a.name, l.typ.name, 1<<total-1, a.val)
	}
	v := a.val.num
	for _, name := range fields {
		i := l.typ.index[name]
		if l.given[i] != nil {
			return failf(a.pos, "%s of %s is given twice, by %s too", name, l.typ.name, a.name)
		}
		total -= l.typ.fields[i].bits
		l.given[i] = v >> total & (1<<l.typ.fields[i].bits - 1)
	}
	return nil
}
