package strictyaml

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// rule is what a jsonschema tag asks of a value.
type rule struct {
	enum      []string
	min, max  *float64
	minLength int
}

// parseRule reads the part of a jsonschema tag that a decoder can hold a
// value to. A number that does not parse is a mistake in the program.
func parseRule(tag string) rule {
	var r rule
	for _, part := range strings.Split(tag, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "enum":
			r.enum = append(r.enum, value)
		case "minimum":
			r.min = number(value)
		case "maximum":
			r.max = number(value)
		case "minLength":
			r.minLength = int(*number(value))
		}
	}
	return r
}

func number(s string) *float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic("strictyaml: jsonschema tag: " + err.Error())
	}
	return &f
}

func (r rule) holds(f float64) bool {
	return (r.min == nil || f >= *r.min) && (r.max == nil || f <= *r.max)
}

// checkText says what is wrong with a text, "" when nothing is.
func (r rule) checkText(s string) string {
	if len(s) < r.minLength {
		return "is empty: expected text"
	}
	if len(r.enum) == 0 || slices.Contains(r.enum, s) {
		return ""
	}
	msg := fmt.Sprintf("%q is not known: expected %s", clip(s), OneOf(r.enum))
	if near := Nearest(s, r.enum); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return msg
}

func (r rule) describe(t reflect.Type) string {
	switch {
	case len(r.enum) > 0:
		return OneOf(r.enum)
	case r.min == nil && r.max == nil:
		return describe(t)
	}
	kind := "a whole number"
	var lo, hi string
	if t.Kind() == reflect.Float64 {
		kind = "a number"
	} else {
		lo, hi = intRange(t)
	}
	if r.min != nil {
		lo = format(*r.min)
	}
	if r.max != nil {
		hi = format(*r.max)
	}
	switch {
	case hi == "":
		return fmt.Sprintf("%s of at least %s", kind, lo)
	case lo == "":
		return fmt.Sprintf("%s of at most %s", kind, hi)
	}
	return fmt.Sprintf("%s from %s to %s", kind, lo, hi)
}

func format(f float64) string {
	if f == math.Trunc(f) {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
