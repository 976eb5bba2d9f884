package specs

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"seg6lab/lab/kernel"
	"seg6lab/traffic"
)

// CompareOptions of Compare.
type CompareOptions struct {
	RunOptions
	// Kernels to compare, as kernel.Resolve has them, or "host". The first is the
	// one that the others are measured against.
	Kernels []string
	// Named is how the cases were named, for Comparison.Cases.
	Named []string
	// Args are sets of arguments for the kernel's command line. Every case runs
	// with each; without any, once with none.
	Args []string
}

// Comparison is what became of cases on several kernels.
type Comparison struct {
	// Cases are how they were named.
	Cases   []string
	Kernels []ComparedKernel
	Machine Machine
	Rows    []ComparedRow
}

// ComparedKernel is a column of a comparison.
type ComparedKernel struct {
	// Spec is how the kernel was named.
	Spec string
	// Release is what uname -r says there, empty where no case ran.
	Release string `json:",omitempty"`
	// Built says where the kernel is from: a package, or source and patches.
	Built string `json:",omitempty"`
}

// ComparedRow is one case with one set of kernel arguments.
type ComparedRow struct {
	Case  string
	About string `json:",omitempty"`
	// Reported says where the case comes from.
	Reported *Reported `json:",omitempty"`
	Args     string    `json:",omitempty"`
	// Results are in the order of the kernels.
	Results []*Result
}

// Check tells whether there is something to compare, and whether it can be had.
func (o CompareOptions) Check() error {
	for _, list := range [][]string{o.Kernels, o.Args} {
		for i, s := range list {
			if slices.Contains(list[:i], s) {
				return fmt.Errorf("%s is named twice", s)
			}
		}
	}
	if len(o.Args) > 0 && slices.Contains(o.Kernels, PlaceHost) {
		return fmt.Errorf("kernel arguments (%s) are for guests: this machine's kernel has booted without", strings.Join(o.Args, ", "))
	}
	return nil
}

// Compare runs every case with every set of arguments on every kernel, and has
// all that happens there observed. The error is that of ctx, or what kept guests
// from running at all.
func Compare(ctx context.Context, cases []*Case, opts CompareOptions) (*Comparison, error) {
	c := &Comparison{Cases: opts.Named}
	args := opts.Args
	if len(args) == 0 {
		args = []string{""}
	}
	for _, a := range args {
		for _, one := range cases {
			c.Rows = append(c.Rows, ComparedRow{Case: one.Name, About: one.File.About, Reported: one.File.Reported, Args: a, Results: make([]*Result, len(opts.Kernels))})
		}
	}
	for _, spec := range opts.Kernels {
		column := ComparedKernel{Spec: spec}
		if spec != PlaceHost {
			found, err := kernel.Resolve(ctx, spec)
			if err != nil {
				return nil, err
			}
			column.Release, column.Built = found.Release, built(found)
		}
		c.Kernels = append(c.Kernels, column)
	}
	for k, spec := range opts.Kernels {
		for a, arg := range args {
			run := opts.RunOptions
			run.Kernel, run.KernelArgs, run.Observe = spec, arg, true
			if run.Frames != "" {
				run.Frames = filepath.Join(run.Frames, fileName(spec+" "+arg))
			}
			results, err := RunAll(ctx, cases, run)
			if err != nil {
				return nil, err
			}
			for i, r := range results {
				c.Rows[a*len(cases)+i].Results[k] = r
				if c.Kernels[k].Release == "" {
					c.Kernels[k].Release = r.Kernel
				}
			}
		}
	}
	c.Machine = thisMachine(ctx)
	return c, nil
}

// built says where a kernel is from.
func built(k *kernel.Kernel) string {
	switch {
	case k.Source != "":
		return "built from " + k.Source
	case k.Package != "":
		return "package " + k.Package + " " + k.Version
	}
	return ""
}

// fileName is a name for a directory of what belongs to a kernel.
func fileName(s string) string {
	return strings.NewReplacer("/", "_", ":", "-", " ", "_").Replace(strings.TrimSpace(s))
}

// Results are all of them.
func (c *Comparison) Results() []*Result {
	var all []*Result
	for _, row := range c.Rows {
		all = append(all, row.Results...)
	}
	return all
}

// WriteJSON writes the comparison for ReadComparison.
func (c *Comparison) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(c)
}

// ReadComparison reads what WriteJSON wrote.
func ReadComparison(r io.Reader) (*Comparison, error) {
	c := new(Comparison)
	if err := json.NewDecoder(r).Decode(c); err != nil {
		return nil, fmt.Errorf("comparison: %w", err)
	}
	if len(c.Kernels) == 0 || len(c.Rows) == 0 {
		return nil, errors.New("comparison: it has no kernels, or no cases: expected the compare.json of seg6lab compare")
	}
	for _, row := range c.Rows {
		if len(row.Results) != len(c.Kernels) || slices.Contains(row.Results, nil) {
			return nil, fmt.Errorf("comparison: case %s: expected a result for each of %d kernels", row.Case, len(c.Kernels))
		}
	}
	return c, nil
}

// FrameDiff is an end where, in a step, other frames arrived on a kernel than on
// the first.
type FrameDiff struct {
	// Kernel and Step count from 0.
	Kernel, Step int
	End          string
	// Frames that arrived on the first kernel and not on this one, and those
	// that arrived on this one alone.
	Missing, Other []ArrivedFrame
}

// FrameDiffs compares the frames of each kernel with those of the first.
func (row *ComparedRow) FrameDiffs() []FrameDiff {
	var diffs []FrameDiff
	for k, r := range row.Results {
		if !r.ran() || !row.Results[0].ran() {
			continue
		}
		for i := range min(len(row.Results[0].Steps), len(r.Steps)) {
			first, other := row.Results[0].Steps[i].Frames, r.Steps[i].Frames
			var ends []string
			for _, f := range slices.Concat(first, other) {
				if !slices.Contains(ends, f.End) {
					ends = append(ends, f.End)
				}
			}
			for _, end := range ends {
				d := FrameDiff{Kernel: k, Step: i, End: end, Missing: less(first, other, end), Other: less(other, first, end)}
				if len(d.Missing)+len(d.Other) > 0 {
					diffs = append(diffs, d)
				}
			}
		}
	}
	return diffs
}

// less are the frames of a at an end that are not in b.
func less(a, b []ArrivedFrame, end string) []ArrivedFrame {
	var left []ArrivedFrame
	for _, f := range a {
		if f.End != end {
			continue
		}
		for _, g := range b {
			if g.End == end && g.Hex == f.Hex {
				f.Count -= g.Count
			}
		}
		if f.Count > 0 {
			left = append(left, f)
		}
	}
	return left
}

// String shows the first frame that is missing beside the first other one, layer
// by layer, or the one there is.
func (d *FrameDiff) String() string {
	read := func(f ArrivedFrame) []byte {
		b, _ := hex.DecodeString(f.Hex) // which the runner encoded
		return b
	}
	switch {
	case len(d.Other) == 0:
		return "missing: " + traffic.Dissect(read(d.Missing[0])).String()
	case len(d.Missing) == 0:
		return "more: " + traffic.Dissect(read(d.Other[0])).String()
	}
	if diff := traffic.Dissect(read(d.Missing[0])).Diff(read(d.Other[0]), true); diff != nil {
		return strings.TrimRight(diff.String(), "\n")
	}
	return "the bytes differ where no field is"
}

// ran tells whether the case did anything.
func (r *Result) ran() bool { return r.Verdict == Held || r.Verdict == Failed }
