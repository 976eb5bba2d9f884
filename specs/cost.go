package specs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"seg6lab/lab/feature"
	"seg6lab/lab/profile"
	"seg6lab/lab/topology"
	"seg6lab/lab/topology/strictyaml"
)

// Cost has the instructions counted that a packet takes, from the sender's device
// to the receiver's, in a guest whose clock is the number of instructions. What they
// mean for the time they take, they do not say: beside them stand the bytes copied and zeroed.
type Cost struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Step whose first frame is sent, over and over, from 1; the first that sends
	// when left out.
	Step int `yaml:"step,omitempty"`
	// Packets is how many are sent in a run, 2000 when left out.
	Packets int `yaml:"packets,omitempty"`
	// Runs is how many times they are sent, 5 when left out.
	Runs int `yaml:"runs,omitempty"`
	// Function of the kernel whose calls are counted, in place of a packet's whole way:
	// the median of a run, of what a call takes with all that it calls. So it can be told
	// what a NIC's packets cost, for which the guest waits.
	Function string `yaml:"function,omitempty"`
	// CPU is QEMU's name for the model, Haswell-v4 when left out, or what --cpu says.
	CPU string `yaml:"cpu,omitempty"`
	// Variants of the network, each laid over the topology as With is. The case's
	// steps are done in each. Without any, the case is its own only variant.
	Variants map[string]map[string]*topology.Node `yaml:"variants,omitempty"`
	// Expect says what must be true of the variants.
	Expect []*CostExpect `yaml:"expect,omitempty"`
	// Profile are functions of the kernel whose share of all samples is told. With
	// any, each variant is sampled in runs of their own: what is done to frames
	// that came in, not what their sender does.
	Profile []string `yaml:"profile,omitempty"`
}

// CostExpect is what must be true of a variant.
type CostExpect struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Of and Over name variants.
	Of   string `yaml:"of"`
	Over string `yaml:"over,omitempty"`
	// Instructions a packet, or a call of Function, those of Over subtracted where it
	// is given.
	Instructions *Quantity `yaml:"instructions,omitempty"`
	// Percent that a packet costs more than with Over, rounded; or that Share has
	// of the samples, rounded up, so that 0 is none.
	Percent *Quantity `yaml:"percent,omitempty"`
	// Share is a function of Profile.
	Share string `yaml:"share,omitempty"`
}

// Defaults of Cost.
const (
	defaultCostPackets = 2000
	defaultCostRuns    = 5
)

// MaxSpread is how far the runs of a variant may be apart, as a share of their
// median: a count that is less exact is none.
const MaxSpread = 0.005

// CostResult is what packets cost.
type CostResult struct {
	CPU      string
	Packets  int    // of a run
	Function string `json:",omitempty"` // whose calls were counted
	Variants []VariantCost
}

// unit of what was counted.
func (c *CostResult) unit() string {
	if c.Function != "" {
		return "instructions a call of " + c.Function
	}
	return "instructions a packet"
}

// VariantCost is what a packet costs in one variant.
type VariantCost struct {
	Name string
	// Runs are instructions a packet, or a call, of each run.
	Runs []float64
	// Measured is what happened to the sk_buffs of the step, in a run apart.
	Measured []Measured `json:",omitempty"`
	// Stacks are samples of runs apart, of what is done to frames that came in
	// (below net_rx_action), and Shares what each function of Profile has
	// of them, from 0 to 1.
	Stacks profile.Stacks     `json:",omitempty"`
	Shares map[string]float64 `json:",omitempty"`
}

// Median of the runs.
func (v *VariantCost) Median() float64 { return median(v.Runs) }

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Spread is how far the runs are apart, as a share of the median.
func (v *VariantCost) Spread() float64 {
	return (slices.Max(v.Runs) - slices.Min(v.Runs)) / v.Median()
}

// Variant finds one by its name.
func (c *CostResult) Variant(name string) *VariantCost {
	for i := range c.Variants {
		if c.Variants[i].Name == name {
			return &c.Variants[i]
		}
	}
	return nil
}

// featureCost is required by cases with costs.
const featureCost = "cost"

// counting tells that this process is in a guest whose clock counts instructions.
var counting atomic.Bool

func init() {
	feature.Register(feature.Feature{
		Name:  featureCost,
		About: "a guest whose clock counts instructions",
		Probe: func() error {
			if !counting.Load() {
				return feature.Absent(errors.New("this machine's clock counts none"))
			}
			return nil
		},
	})
}

// cost checks the key cost.
func (k *compiler) cost(c *Cost) {
	sends := slices.IndexFunc(k.c.File.Steps, func(s *Step) bool { return s.Send != nil })
	step := sends
	if c.Step != 0 {
		step = c.Step - 1
	}
	switch {
	case step < 0 || step >= len(k.c.File.Steps) || k.c.File.Steps[step].Send == nil:
		k.fail(c.ValueAt("step"), "expected the number of a step that sends")
	case k.c.File.Steps[step].Send.paged():
		k.fail(c.ValueAt("step"), "step %d sends in pages, a system call a frame: what it costs is not counted", step+1)
	case !slices.ContainsFunc(k.c.File.Steps[step].Expect, func(e *Expect) bool { return e.Packet != "" && e.When == "" }):
		k.fail(c.ValueAt("step"), "step %d expects no packet: whether all were forwarded cannot be told", step+1)
	}
	if c.Packets < 0 || c.Packets > maxFrames {
		k.fail(c.ValueAt("packets"), "%d packets: expected 1 to %d", c.Packets, maxFrames)
	}
	if c.Runs < 0 || c.Runs > 1000 {
		k.fail(c.ValueAt("runs"), "%d runs: expected 1 to 1000", c.Runs)
	}
	names := slices.Sorted(maps.Keys(c.Variants))
	for _, e := range c.Expect {
		for key, name := range map[string]string{"of": e.Of, "over": e.Over} {
			if !slices.Contains(names, name) && (key == "of" || name != "") {
				k.fail(e.ValueAt(key), "there is no variant %s%s", name, strictyaml.Suggest(name, names))
			}
		}
		switch {
		case (e.Instructions == nil) == (e.Percent == nil):
			k.fail(e.Pos(), "expected either instructions or percent")
		case e.Share != "" && (e.Percent == nil || e.Over != ""):
			k.fail(e.KeyAt("share"), "share goes with percent, and without over")
		case e.Share != "" && !slices.Contains(c.Profile, e.Share):
			k.fail(e.ValueAt("share"), "%s is not sampled%s", e.Share, strictyaml.Suggest(e.Share, c.Profile))
		case e.Percent != nil && e.Share == "" && e.Over == "":
			k.fail(e.Pos(), "percent of what? expected over, or share")
		case k.c.File.Fix == "" && (e.Instructions.variants() || e.Percent.variants()):
			k.fail(e.Pos(), "unfixed and fixed speak of a fix: expected the case to name it with the key fix")
		}
	}
}

// check compares what variants cost with what the case expects.
func (c *Cost) check(r *CostResult, fix FixState) error {
	var failures []string
	for _, e := range c.Expect {
		k := skbChecker{expected: &SKB{}, fix: fix, driver: func(string) (string, error) { return "", errors.ErrUnsupported }}
		of := r.Variant(e.Of)
		got, over := of.Median(), 0.0
		what := r.unit() + " of " + e.Of
		if e.Over != "" {
			over = r.Variant(e.Over).Median()
			what += " over " + e.Over
		}
		switch {
		case e.Share != "":
			k.quantity(fmt.Sprintf("percent of %s's samples in %s", e.Of, e.Share), e.Percent, int(math.Ceil(100*of.Shares[e.Share])))
		case e.Percent != nil:
			k.quantity("percent more "+what, e.Percent, int(math.Round(100*(got/over-1))))
		default:
			k.quantity(what, e.Instructions, int(math.Round(got-over)))
		}
		for _, f := range k.failures {
			failures = append(failures, strings.TrimPrefix(f, "node : "))
		}
	}
	if len(failures) > 0 {
		return notMet("%s", strings.Join(failures, "\n"))
	}
	return nil
}

// WriteText writes a table of the variants.
func (c *CostResult) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "variant\t%s\tspread\treallocations\tcopied\tzeroed\t", c.unit())
	functions := c.functions()
	for _, f := range functions {
		fmt.Fprintf(t, "%s\t", f)
	}
	fmt.Fprintln(t)
	for i := range c.Variants {
		v := &c.Variants[i]
		fmt.Fprintf(t, "%s\t%.0f\t%.2f %%\t", v.Name, v.Median(), 100*v.Spread())
		calls, copied, zeroed := v.perPacket()
		fmt.Fprintf(t, "%s\t%s\t%s\t", calls, copied, zeroed)
		for _, f := range functions {
			fmt.Fprintf(t, "%.1f %%\t", 100*v.Shares[f])
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// functions are those that the variants' shares speak of.
func (c *CostResult) functions() []string {
	all := make(map[string]bool)
	for _, v := range c.Variants {
		for f := range v.Shares {
			all[f] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// perPacket tells reallocations and bytes for each packet, of all nodes.
func (v *VariantCost) perPacket() (calls, copied, zeroed string) {
	m := make([]*Measured, len(v.Measured))
	for i := range v.Measured {
		m[i] = &v.Measured[i]
	}
	if len(m) != 1 {
		return "-", "-", "-"
	}
	cell := func(of func(Reallocations) int) string {
		return perPacket("", m, func(m *Measured) int { return of(m.Within("")) }).cells[0]
	}
	return cell(func(r Reallocations) int { return r.Calls }), cell(func(r Reallocations) int { return r.Copied }), cell(func(r Reallocations) int { return r.Zeroed })
}

// WriteProfiles puts the samples of each variant into a directory: folded stacks,
// a flame graph, and what go tool pprof reads.
func (c *CostResult) WriteProfiles(dir, name string) error {
	for _, v := range c.Variants {
		if len(v.Stacks) == 0 {
			continue
		}
		base := filepath.Join(dir, fileName(strings.Trim(name+"_"+v.Name, "_")))
		err := errors.Join(
			writeFile(base+".folded", v.Stacks.WriteFolded),
			writeFile(base+".svg", func(w io.Writer) error { return v.Stacks.WriteSVG(w, name+" "+v.Name, c.functions()) }),
			writeFile(base+".pb.gz", func(w io.Writer) error { return v.Stacks.WritePprof(w, samplePeriod) }))
		if err != nil {
			return err
		}
	}
	return nil
}

// costLines compare what packets cost on kernels.
func (row *ComparedRow) costLines() []line {
	var names []string
	unit := "instructions"
	for _, r := range row.Results {
		if r.Cost != nil && names == nil {
			if r.Cost.Function != "" {
				unit += " a call"
			}
			for _, v := range r.Cost.Variants {
				names = append(names, v.Name)
			}
		}
	}
	var lines []line
	for _, name := range names {
		instructions, spread := line{label: "  " + unit + ", " + name}, line{label: "    spread"}
		shares := make(map[string]*line)
		var order []string
		for _, r := range row.Results {
			var v *VariantCost
			if r.Cost != nil {
				v = r.Cost.Variant(name)
			}
			if v == nil {
				instructions.cells, instructions.values = append(instructions.cells, "-"), append(instructions.values, -1)
				spread.cells = append(spread.cells, "-")
				continue
			}
			instructions.cells = append(instructions.cells, fmt.Sprintf("%.0f", v.Median()))
			instructions.values = append(instructions.values, v.Median())
			spread.cells = append(spread.cells, fmt.Sprintf("%.2f %%", 100*v.Spread()))
			for _, f := range slices.Sorted(maps.Keys(v.Shares)) {
				if shares[f] == nil {
					shares[f] = &line{label: "    in " + f, cells: slices.Repeat([]string{"-"}, len(spread.cells)-1)}
					order = append(order, f)
				}
				shares[f].cells = append(shares[f].cells, fmt.Sprintf("%.1f %%", 100*v.Shares[f]))
			}
		}
		lines = append(lines, instructions, spread)
		for _, f := range order {
			shares[f].cells = append(shares[f].cells, slices.Repeat([]string{"-"}, len(row.Results)-len(shares[f].cells))...)
			lines = append(lines, *shares[f])
		}
	}
	return lines
}
