package strictyaml

import (
	"reflect"
	"slices"
	"strings"
)

// Check holds the struct that v points to, made by Go code, to the rules of
// its tags, as Decode does with one from a file. A zero value counts as left
// out; a required one must not be zero, numbers with a minimum of 0 excepted.
func Check(v any) Errors {
	var c checker
	c.value(reflect.ValueOf(v).Elem(), place{at: &At{}}, false)
	return c.errs
}

type checker struct{ errs Errors }

func (c *checker) fail(p place, msg string) {
	if p.full != "" {
		msg = p.full + ": " + msg
	}
	c.errs = append(c.errs, &Error{p.at.ValueAt(p.path), p.full, msg})
}

func (c *checker) value(v reflect.Value, p place, required bool) {
	if v.Type() == nodeType {
		return
	}
	if v.Kind() == reflect.Pointer {
		if !v.IsNil() {
			c.value(v.Elem(), p, false)
		} else if required {
			c.fail(p, "is missing: expected "+describe(v.Type()))
		}
		return
	}
	if isText(v.Type()) {
		if required && v.IsZero() {
			c.fail(p, "is missing: expected "+describe(v.Type()))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if l, ok := v.Addr().Interface().(locatable); ok {
			p = place{full: p.full, at: l.at()}
		}
		for _, f := range fields(v.Type()) {
			q := p.key(f.key)
			q.rule = f.rule
			c.value(v.Field(f.index), q, f.required)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(k))
			c.value(elem, p.key(k.String()), elem.Kind() == reflect.Pointer)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			c.value(v.Index(i), p.item(i), true)
		}
	case reflect.String:
		if v.Len() > 0 || required && (len(p.rule.enum) > 0 || p.rule.minLength > 0) {
			if msg := p.rule.checkText(v.String()); msg != "" {
				c.fail(p, msg)
			}
		}
	default:
		if f, ok := float(v); ok && (f != 0 || required) && !p.rule.holds(f) {
			c.fail(p, format(f)+" is out of range: expected "+p.rule.describe(v.Type()))
		}
	}
}

func float(v reflect.Value) (float64, bool) {
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}
