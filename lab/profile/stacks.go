package profile

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

const separator = ";"

func join(names []string) string { return strings.Join(names, separator) }

func split(stack string) []string { return strings.Split(stack, separator) }

// Total is the number of samples.
func (s Stacks) Total() int {
	total := 0
	for _, n := range s {
		total += n
	}
	return total
}

// Inclusive is the number of samples with the function anywhere on the stack.
// Clones that the compiler made of it, NAME.suffix, are the function too, and so are
// x86's alternatives of memset and memcpy, NAME_orig and NAME_erms.
func (s Stacks) Inclusive(function string) int {
	total := 0
	for stack, n := range s {
		if slices.ContainsFunc(split(stack), func(name string) bool { return is(name, function) }) {
			total += n
		}
	}
	return total
}

// is tells whether a symbol is a function, a part or an alternative of it.
func is(symbol, function string) bool {
	rest, ok := strings.CutPrefix(symbol, function)
	return ok && (rest == "" || rest[0] == '.' || rest == "_orig" || rest == "_erms")
}

// Below keeps the part of the stacks under the outermost of some functions; those
// without any are left out.
func (s Stacks) Below(functions ...string) Stacks {
	below := make(Stacks)
	for stack, n := range s {
		names := split(stack)
		if i := slices.IndexFunc(names, func(name string) bool {
			return slices.ContainsFunc(functions, func(f string) bool { return is(name, f) })
		}); i >= 0 {
			below[join(names[i:])] += n
		}
	}
	return below
}

// WriteFolded writes a stack a line with its number of samples, sorted.
func (s Stacks) WriteFolded(w io.Writer) error {
	for _, stack := range slices.Sorted(maps.Keys(s)) {
		if _, err := fmt.Fprintf(w, "%s %d\n", stack, s[stack]); err != nil {
			return err
		}
	}
	return nil
}

// WritePprof writes the stacks for go tool pprof. period is the nanoseconds
// between samples.
func (s Stacks) WritePprof(w io.Writer, period int64) error {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     period,
	}
	locations := make(map[string]*profile.Location)
	for _, stack := range slices.Sorted(maps.Keys(s)) {
		sample := &profile.Sample{Value: []int64{int64(s[stack]), int64(s[stack]) * period}}
		names := split(stack)
		slices.Reverse(names)
		for _, name := range names {
			if locations[name] == nil {
				f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
				p.Function = append(p.Function, f)
				l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
				p.Location = append(p.Location, l)
				locations[name] = l
			}
			sample.Location = append(sample.Location, locations[name])
		}
		p.Sample = append(p.Sample, sample)
	}
	return p.Write(w)
}
