package sweep

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"seg6lab/forwarder/skb"
)

// A Report is a whole sweep.
type Report struct {
	Info    Info
	Grid    Grid
	Took    time.Duration
	Results []Result
}

// Count is the number of points with a verdict.
func (r *Report) Count(v Verdict) int {
	n := 0
	for i := range r.Results {
		if r.Results[i].Verdict == v {
			n++
		}
	}
	return n
}

// OffModel are the results of points that are not as the model says, or were not
// seen.
func (r *Report) OffModel() []Result {
	return slices.DeleteFunc(slices.Clone(r.Results), func(x Result) bool {
		return x.Verdict == Agrees || x.Verdict == Unsupported
	})
}

// maxListed bounds the points off the model that a summary lists.
const maxListed = 50

// WriteSummary writes what came of a sweep, for people.
func (r *Report) WriteSummary(out io.Writer) error {
	var b strings.Builder
	how := "as told"
	if r.Info.Tried {
		how = "found by trying"
	}
	fmt.Fprintf(&b, "%s: kernel %s, probe %s, fixes: %s (%s)\n", r.Info.Place, r.Info.Kernel, r.Info.Backend, fixes(r.Info.Profile), how)
	measured := len(r.Results) - r.Count(Unsupported)
	fmt.Fprintf(&b, "%d points measured in %.1f s: %d agree with the model, %d do not\n", measured, r.Took.Seconds(), r.Count(Agrees), len(r.OffModel()))
	for _, v := range []Verdict{Differs, Died, Unreached} {
		if n := r.Count(v); n > 0 {
			fmt.Fprintf(&b, "  %s: %d\n", v, n)
		}
	}
	r.summariseCalls(&b)
	r.summariseOutside(&b)
	for _, macLen := range r.Grid.MacLens {
		if why, ok := r.Info.Withheld[macLen]; ok {
			fmt.Fprintf(&b, "not measured: %d points with mac_len %d: %s\n", r.count(func(x *Result) bool { return x.MacLen == macLen }), macLen, why)
		}
	}
	off := r.OffModel()
	for i, x := range off {
		if i == maxListed {
			fmt.Fprintf(&b, "and %d more\n", len(off)-i)
			break
		}
		fmt.Fprintf(&b, "%s: %s: %s\n", x.Verdict, x.Point, x.Why)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *Report) count(which func(*Result) bool) int {
	n := 0
	for i := range r.Results {
		if which(&r.Results[i]) {
			n++
		}
	}
	return n
}

// summariseCalls tables the points by their number of reallocations.
func (r *Report) summariseCalls(out io.Writer) {
	calls := map[skb.Mode][]int{}
	most := 0
	for _, x := range r.Results {
		if x.Got == nil {
			continue
		}
		n := len(x.Got.Calls)
		most = max(most, n)
		for len(calls[x.Mode]) <= n {
			calls[x.Mode] = append(calls[x.Mode], 0)
		}
		calls[x.Mode][n]++
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "points by calls of pskb_expand_head\t")
	for n := range most + 1 {
		fmt.Fprintf(w, "%d\t", n)
	}
	fmt.Fprintln(w)
	for _, mode := range r.Grid.Modes {
		fmt.Fprintf(w, "%s\t", mode)
		for n := range most + 1 {
			if n < len(calls[mode]) {
				fmt.Fprintf(w, "%d\t", calls[mode][n])
			} else {
				fmt.Fprint(w, "0\t")
			}
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

// summariseOutside counts where the MAC header ended up outside of the buffer.
func (r *Report) summariseOutside(out io.Writer) {
	for _, macLen := range r.Grid.MacLens {
		n := r.count(func(x *Result) bool { return x.MacLen == macLen && x.Got != nil && x.Got.Outside() })
		if n > 0 {
			fmt.Fprintf(out, "MAC header moved to outside of the buffer: %d points with mac_len %d\n", n, macLen)
		}
	}
}

// fixes names those of a kernel.
func fixes(p skb.Profile) string {
	if len(p) == 0 {
		return "none"
	}
	var names []string
	for _, f := range p {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}
