package strictyaml

import (
	"encoding"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Decode decodes the document into the struct that v points to. The error is
// of type Errors. What could be decoded is in v even then.
func (d *Doc) Decode(v any) error {
	dec := decoder{doc: d}
	dec.value(d.Root, reflect.ValueOf(v).Elem(), place{at: &At{}})
	if len(dec.errs) == 0 {
		return nil
	}
	return Sort(dec.errs)
}

// Sort puts errors into the order of their places, those of one place
// staying as they were.
func Sort(errs Errors) Errors {
	slices.SortStableFunc(errs, func(a, b *Error) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return errs
}

// place is where in the Go value a part of the file goes.
type place struct {
	// full is the path from the root, for messages.
	full string
	// at is that of the nearest struct around, path the path from it.
	at   *At
	path string
	// rule holds the restrictions of the tag.
	rule rule
}

func (p place) key(name string) place {
	return place{full: Key(p.full, name), at: p.at, path: Key(p.path, name), rule: p.rule}
}

func (p place) item(i int) place {
	return place{full: Item(p.full, i), at: p.at, path: Item(p.path, i), rule: p.rule}
}

type decoder struct {
	doc  *Doc
	errs Errors
}

func (d *decoder) fail(n *yaml.Node, p place, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	if p.full != "" {
		msg = p.full + ": " + msg
	}
	d.errs = append(d.errs, &Error{d.doc.pos(n), p.full, msg})
}

var nodeType = reflect.TypeFor[*yaml.Node]()

// value decodes n into v and says whether it could.
func (d *decoder) value(n *yaml.Node, v reflect.Value, p place) bool {
	if v.Type() == nodeType {
		v.Set(reflect.ValueOf(n))
		return true
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return d.value(n, v.Elem(), p)
	}
	if isText(v.Type()) {
		return d.text(n, v, p)
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.structure(n, v, p)
	case reflect.Map:
		return d.mapping(n, v, p)
	case reflect.Slice, reflect.Array:
		return d.list(n, v, p)
	default:
		return d.scalar(n, v, p)
	}
}

// field is a key of a struct.
type field struct {
	key      string
	required bool
	short    string
	index    int
	rule     rule
}

// fields reads the keys of a struct type from its tags.
func fields(t reflect.Type) []field {
	var fs []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		fs = append(fs, field{name, !strings.Contains(opts, "omitempty"), f.Tag.Get("short"), i, parseRule(f.Tag.Get("jsonschema"))})
	}
	return fs
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, p place) bool {
	fs := fields(v.Type())
	inner := place{full: p.full, at: p.at, path: p.path}
	if l, ok := v.Addr().Interface().(locatable); ok {
		*l.at() = At{pos: d.doc.pos(n)}
		inner = place{full: p.full, at: l.at()}
	}
	short := map[yaml.Kind]string{yaml.SequenceNode: "list", yaml.ScalarNode: "scalar"}[n.Kind]
	null := isNull(n)
	if n.Kind != yaml.MappingNode && !null {
		for _, f := range fs {
			if short != "" && f.short == short {
				q := inner.key(f.key)
				q.rule = f.rule
				inner.at.set(q.path, span{d.doc.pos(n), d.doc.pos(n)})
				return d.value(n, v.Field(f.index), q) && d.required(n, fs, inner, map[string]bool{f.key: true})
			}
		}
		d.fail(n, p, "expected %s, got %s", describe(v.Type()), kindOf(n))
		return false
	}
	ok := true
	given := make(map[string]bool)
	d.pairs(n, inner, func(k, val *yaml.Node) {
		i := slices.IndexFunc(fs, func(f field) bool { return f.key == k.Value })
		if i < 0 {
			d.fail(k, p, "unknown key %q%s", clip(k.Value), Suggest(k.Value, keys(fs)))
			ok = false
			return
		}
		given[k.Value] = true
		q := inner.key(k.Value)
		q.rule = fs[i].rule
		q.at.set(q.path, span{d.doc.pos(k), d.doc.pos(val)})
		ok = d.value(val, v.Field(fs[i].index), q) && ok
	})
	return d.required(n, fs, inner, given) && ok
}

func (d *decoder) required(n *yaml.Node, fs []field, p place, given map[string]bool) bool {
	ok := true
	for _, f := range fs {
		if f.required && !given[f.key] {
			d.fail(n, p, "the key %q is missing", f.key)
			ok = false
		}
	}
	return ok
}

func keys(fs []field) []string {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.key
	}
	return names
}

// pairs calls f for every key of a mapping that is text and stands there for
// the first time.
func (d *decoder) pairs(n *yaml.Node, p place, f func(key, value *yaml.Node)) {
	seen := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || isNull(k) {
			d.fail(k, p, "expected a word as key, got %s", kindOf(k))
			continue
		}
		if first := seen[k.Value]; first != nil {
			d.fail(k, p, "the key %q stands here twice, first on line %d", clip(k.Value), first.Line)
			continue
		}
		seen[k.Value] = k
		f(k, val)
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, p place) bool {
	if n.Kind != yaml.MappingNode {
		d.fail(n, p, "expected %s, got %s", describe(v.Type()), kindOf(n))
		return false
	}
	ok := true
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, p, func(k, val *yaml.Node) {
		q := p.key(k.Value)
		q.at.set(q.path, span{d.doc.pos(k), d.doc.pos(val)})
		elem := reflect.New(v.Type().Elem()).Elem()
		ok = d.value(val, elem, q) && ok
		v.SetMapIndex(reflect.ValueOf(k.Value).Convert(v.Type().Key()), elem)
	})
	return ok
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, p place) bool {
	if n.Kind != yaml.SequenceNode {
		hint := ""
		if n.Kind == yaml.ScalarNode && !isNull(n) && v.Kind() == reflect.Slice {
			hint = fmt.Sprintf("; did you mean [%s]?", clip(n.Value))
		}
		d.fail(n, p, "expected %s, got %s%s", describe(v.Type()), kindOf(n), hint)
		return false
	}
	if v.Kind() == reflect.Array && len(n.Content) != v.Len() {
		d.fail(n, p, "expected a list of %d, got one of %d", v.Len(), len(n.Content))
		return false
	}
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	}
	ok := true
	for i, c := range n.Content {
		q := p.item(i)
		q.at.set(q.path, span{d.doc.pos(c), d.doc.pos(c)})
		ok = d.value(c, v.Index(i), q) && ok
	}
	return ok
}

// text decodes a scalar whose type reads itself from text.
func (d *decoder) text(n *yaml.Node, v reflect.Value, p place) bool {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		hint := ""
		// An address that ends in a colon is a mapping inside [] and {}.
		if n.Kind == yaml.MappingNode && len(n.Content) == 2 && isNull(n.Content[1]) {
			hint = fmt.Sprintf("; put it into quotes: %q", clip(n.Content[0].Value)+":")
		}
		d.fail(n, p, "expected %s, got %s%s", describe(v.Type()), kindOf(n), hint)
		return false
	}
	if err := unmarshalText(n.Value, v); err != nil {
		d.fail(n, p, "%s", err)
		return false
	}
	return true
}

func unmarshalText(s string, v reflect.Value) error {
	switch t := v.Addr().Interface().(type) {
	case *netip.Addr:
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return fmt.Errorf("%q is not an address: expected %s", clip(s), describe(v.Type()))
		}
		*t = a
	case *netip.Prefix:
		pfx, err := netip.ParsePrefix(s)
		if a, aerr := netip.ParseAddr(s); err != nil && aerr == nil && a.Zone() == "" {
			return fmt.Errorf("%s has no prefix length: did you mean %s/%d?", a, a, a.BitLen())
		}
		if err != nil {
			return fmt.Errorf("%q is not an address with a prefix length: expected %s", clip(s), describe(v.Type()))
		}
		*t = pfx
	default:
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
	}
	return nil
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, p place) bool {
	wrong := func() bool {
		d.fail(n, p, "expected %s, got %s", p.rule.describe(v.Type()), kindOf(n))
		return false
	}
	if n.Kind != yaml.ScalarNode || isNull(n) {
		return wrong()
	}
	plain := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	switch v.Kind() {
	case reflect.String:
		if err := p.rule.checkText(n.Value); err != "" {
			d.fail(n, p, "%s", err)
			return false
		}
		v.SetString(n.Value)
		return true
	case reflect.Bool:
		switch {
		case plain && slices.Contains([]string{"true", "on", "yes"}, n.Value):
			v.SetBool(true)
		case plain && slices.Contains([]string{"false", "off", "no"}, n.Value):
			v.SetBool(false)
		default:
			return wrong()
		}
		return true
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || !plain || math.IsNaN(f) || math.IsInf(f, 0) {
			return wrong()
		}
		if !p.rule.holds(f) {
			d.fail(n, p, "%s is out of range: expected %s", n.Value, p.rule.describe(v.Type()))
			return false
		}
		v.SetFloat(f)
		return true
	}
	return d.integer(n, v, p, plain, wrong)
}

func (d *decoder) integer(n *yaml.Node, v reflect.Value, p place, plain bool, wrong func() bool) bool {
	digits := strings.TrimPrefix(n.Value, "-")
	base := 10
	if hex, ok := strings.CutPrefix(digits, "0x"); ok {
		digits, base = hex, 16
	} else if len(digits) > 1 && digits[0] == '0' {
		return wrong() // octal to some readers, decimal to others
	}
	u, err := strconv.ParseUint(digits, base, 64)
	if numErr, ok := err.(*strconv.NumError); !plain || ok && numErr.Err == strconv.ErrSyntax {
		return wrong()
	}
	negative := strings.HasPrefix(n.Value, "-")
	out := func() bool {
		d.fail(n, p, "%s is out of range: expected %s", clip(n.Value), p.rule.describe(v.Type()))
		return false
	}
	f := float64(u)
	if negative {
		f = -f
	}
	switch {
	case err != nil || !p.rule.holds(f):
		return out()
	case v.CanUint():
		if negative && u != 0 || v.OverflowUint(u) {
			return out()
		}
		v.SetUint(u)
	case v.CanInt():
		i := int64(u)
		if negative {
			i = -i
		}
		if u > math.MaxInt64 || v.OverflowInt(i) {
			return out()
		}
		v.SetInt(i)
	default:
		panic("strictyaml: no decoding into " + v.Type().String())
	}
	return true
}

func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// describe names what a type wants in a file.
func describe(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[netip.Addr]():
		return "an address such as 2001:db8::1"
	case reflect.TypeFor[netip.Prefix]():
		return "an address with its length such as 2001:db8::1/64"
	}
	if isText(t) {
		return "one word"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return describe(t.Elem())
	case reflect.Struct:
		fs := fields(t)
		want := "a mapping"
		for _, f := range fs {
			if f.short != "" {
				want = fmt.Sprintf("%s for %q or a mapping", map[string]string{"list": "a list", "scalar": "one value"}[f.short], f.key)
			}
		}
		return want + " with the keys " + strings.Join(keys(fs), ", ")
	case reflect.Map:
		return "a mapping"
	case reflect.Slice:
		return "a list"
	case reflect.Array:
		return fmt.Sprintf("a list of %d", t.Len())
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64, reflect.Float32:
		return "a number"
	default:
		lo, hi := intRange(t)
		return fmt.Sprintf("a whole number from %s to %s", lo, hi)
	}
}

func intRange(t reflect.Type) (lo, hi string) {
	bits := t.Bits()
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
		return "0", strconv.FormatUint(math.MaxUint64>>(64-bits), 10)
	}
	return strconv.FormatInt(math.MinInt64>>(64-bits), 10), strconv.FormatInt(math.MaxInt64>>(64-bits), 10)
}

// kindOf names what stands in the file.
func kindOf(n *yaml.Node) string {
	switch {
	case isNull(n):
		return "nothing"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float", "!!bool":
		return n.Value
	}
	return fmt.Sprintf("the text %q", clip(n.Value))
}

// clip shortens what is shown of a file to one readable line.
func clip(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "..."
}
