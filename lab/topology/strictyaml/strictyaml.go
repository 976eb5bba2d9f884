// Package strictyaml decodes YAML into Go structs and is strict about it: an
// unknown key, a key given twice, a value of the wrong type or outside its
// range is an error with its place in the file, and all errors of a file are
// reported together. It knows nothing of what the structs mean.
//
// The rules are in the struct tags, from which the JSON schema is generated
// too (package schema):
//
//	yaml:"key"                       the key must be there
//	yaml:"key,omitempty"             the key may be left out
//	jsonschema:"enum=a,enum=b"       the value, or each value of a list, is one of these
//	jsonschema:"minimum=1,maximum=9" the range of a number
//	jsonschema:"minLength=1"         no empty text
//	short:"list", short:"scalar"     a list (or a scalar) in place of the mapping
//	                                 stands for a mapping with this key alone
//
// A struct that embeds At learns where it and its values stand in the file.
// A field of type *yaml.Node keeps its part of the file undecoded.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of a file. They keep a hostile or mistaken file from costing more
// than about a second.
const (
	// MaxSize of a file in bytes.
	MaxSize = 1 << 20
	// MaxDepth of nested lists and mappings.
	MaxDepth = 64
	// MaxExpanded is the number of values that a file may have after its
	// aliases are expanded.
	MaxExpanded = 1 << 19
)

// Pos is a place in a file. Line and Column count from 1, Column in
// characters. Line is 0 for what comes from no file.
type Pos struct {
	File         string
	Line, Column int
}

// IsValid says whether the place is known.
func (p Pos) IsValid() bool { return p.Line > 0 }

// String gives file:line:column, as compilers do, or the part of it that is known.
func (p Pos) String() string {
	if !p.IsValid() {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error is one mistake in a file.
type Error struct {
	Pos
	// Path is where the value stands in the document, such as
	// nodes.pe1.routes[2].via; empty for the document itself.
	Path string
	// Msg says what is wrong and what was expected, beginning with the path.
	Msg string
}

func (e *Error) Error() string {
	if e.Pos == (Pos{}) {
		return e.Msg
	}
	return e.Pos.String() + ": " + e.Msg
}

// Errors are all mistakes of a file, in the order of the file.
type Errors []*Error

// maxShown is the number of mistakes that Errors.Error tells.
const maxShown = 100

// Error gives one mistake a line, the first hundred of them.
func (e Errors) Error() string {
	var lines []string
	for _, err := range e[:min(len(e), maxShown)] {
		lines = append(lines, err.Error())
	}
	if more := len(e) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the mistakes one by one to errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// Doc is a file, or a part of one, that has been parsed but not decoded.
type Doc struct {
	// File is the name of the file in messages.
	File string
	// Root is the value; it holds no aliases. It is shared between documents
	// and never changed.
	Root *yaml.Node
}

// Key is the value of a key of the root, nil where it has none.
func (d *Doc) Key(name string) *yaml.Node {
	if d.Root.Kind == yaml.MappingNode {
		for i := 0; i < len(d.Root.Content); i += 2 {
			if d.Root.Content[i].Value == name {
				return d.Root.Content[i+1]
			}
		}
	}
	return nil
}

// At gives the document of a part of d.
func (d *Doc) At(n *yaml.Node) *Doc { return &Doc{File: d.File, Root: n} }

func (d *Doc) pos(n *yaml.Node) Pos { return Pos{d.File, n.Line, n.Column} }

// ReadFile reads a file of at most MaxSize bytes. A larger one is refused
// before it is read.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if st.IsDir() {
		return nil, Errors{{Pos: Pos{File: path}, Msg: "is a directory: expected a YAML file"}}
	} else if st.Size() > MaxSize {
		return nil, tooLarge(path)
	}
	// A size is not to be trusted: a pipe has none.
	src, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(src) > MaxSize {
		return nil, tooLarge(path)
	}
	return src, nil
}

func tooLarge(file string) error {
	return Errors{{Pos: Pos{File: file}, Msg: fmt.Sprintf("is larger than %d KiB, the most that is read", MaxSize>>10)}}
}

// Parse parses one YAML document. The column of a syntax error is that of the
// first character of its line: the parser tells no column.
func Parse(file string, src []byte) (*Doc, error) {
	if len(src) > MaxSize {
		return nil, tooLarge(file)
	}
	if err := checkText(file, src); err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, Errors{{Pos: Pos{file, 1, 1}, Msg: "is empty: expected a YAML mapping"}}
	case err != nil:
		return nil, Errors{syntaxError(file, src, err)}
	}
	var next yaml.Node
	switch err := dec.Decode(&next); {
	case err == nil:
		return nil, Errors{{Pos: Pos{file, next.Line, next.Column}, Msg: "a second document begins here: expected one document a file"}}
	case !errors.Is(err, io.EOF):
		return nil, Errors{syntaxError(file, src, err)}
	}
	x := expander{file: file, open: map[*yaml.Node]bool{}}
	root, err := x.expand(doc.Content[0], 0)
	if err != nil {
		return nil, Errors{err}
	}
	return &Doc{File: file, Root: root}, nil
}

// checkText refuses what is no text, with the place of the first byte that
// shows it.
func checkText(file string, src []byte) error {
	for i, rest := 0, src; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		binary := r == utf8.RuneError && n == 1
		if binary || r < ' ' && r != '\t' && r != '\n' && r != '\r' {
			line := bytes.Count(src[:i], []byte("\n")) + 1
			column := utf8.RuneCount(src[bytes.LastIndexByte(src[:i], '\n')+1:i]) + 1
			return Errors{{Pos: Pos{file, line, column}, Msg: fmt.Sprintf("is not a text file: byte 0x%02x; expected YAML in UTF-8", src[i])}}
		}
		i, rest = i+n, rest[n:]
	}
	return nil
}

var (
	syntaxLine  = regexp.MustCompile(`^line (\d+): `)
	syntaxHints = []struct {
		line *regexp.Regexp
		hint string
	}{
		{regexp.MustCompile(`^ *\t`), "indent with spaces, not with a tab"},
		{regexp.MustCompile(`[\[{,]\s*::`), "put an address that begins with a colon into quotes"},
		{regexp.MustCompile(`[\[{,]\s*\$\{`), "put ${...} inside [] or {} into quotes"},
		{regexp.MustCompile(`[:\[,-]\s+[@%]`), "put text that begins with @ or % into quotes"},
		{regexp.MustCompile(`^\s*(- )?\S+: .*: `), `put text that holds ": " into quotes`},
	}
)

// syntaxError places an error of the YAML parser. Its line is right for a
// scanner's error, one too low for a parser's, and left out for the first.
func syntaxError(file string, src []byte, err error) *Error {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := syntaxLine.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
		if strings.HasPrefix(msg, "did not find expected") {
			line++
		}
	}
	lines := strings.Split(string(src), "\n")
	line = min(line, len(lines))
	for line > 1 && strings.TrimSpace(lines[line-1]) == "" {
		line--
	}
	text := lines[line-1]
	column := len(text) - len(strings.TrimLeft(text, " ")) + 1
	if name, ok := strings.CutPrefix(msg, "unknown anchor '"); ok {
		name, _, _ = strings.Cut(name, "'")
		msg = fmt.Sprintf("no anchor &%s stands before the alias *%s", name, name)
		if i := bytes.Index(src, []byte("*"+name)); i >= 0 {
			line = bytes.Count(src[:i], []byte("\n")) + 1
			column = utf8.RuneCount(src[bytes.LastIndexByte(src[:i], '\n')+1:i]) + 1
		}
	}
	for _, h := range syntaxHints {
		if h.line.MatchString(text) {
			msg += "; " + h.hint
			break
		}
	}
	return &Error{Pos: Pos{file, line, column}, Msg: "YAML: " + msg}
}

// expander replaces aliases by what they stand for.
type expander struct {
	file  string
	count int
	// open holds the anchored values being expanded: an alias to one of them
	// would never end.
	open map[*yaml.Node]bool
}

func (x *expander) expand(n *yaml.Node, depth int) (*yaml.Node, *Error) {
	fail := func(format string, args ...any) *Error {
		return &Error{Pos: Pos{x.file, n.Line, n.Column}, Msg: fmt.Sprintf(format, args...)}
	}
	if depth > MaxDepth {
		return nil, fail("is nested more than %d deep", MaxDepth)
	}
	if x.count++; x.count > MaxExpanded {
		return nil, fail("the file has more than %d values once its aliases are expanded", MaxExpanded)
	}
	if n.Kind == yaml.AliasNode {
		if x.open[n.Alias] {
			return nil, fail("alias *%s stands inside its own anchor", n.Value)
		}
		return x.expand(n.Alias, depth)
	}
	if len(n.Content) == 0 {
		return n, nil
	}
	x.open[n] = true
	defer delete(x.open, n)
	out := *n
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		var err *Error
		if out.Content[i], err = x.expand(c, depth+1); err != nil {
			return nil, err
		}
	}
	return &out, nil
}
