package specs

import (
	"math"
	"strings"
	"testing"

	"seg6lab/lab/profile"
)

func TestCostFigures(t *testing.T) {
	for _, c := range []struct {
		runs           []float64
		median, spread float64
	}{
		{[]float64{100}, 100, 0},
		{[]float64{104, 100, 101}, 101, 4. / 101},
		{[]float64{103, 100, 101, 102}, 101.5, 3 / 101.5},
	} {
		v := VariantCost{Runs: c.runs}
		if v.Median() != c.median || math.Abs(v.Spread()-c.spread) > 1e-9 {
			t.Errorf("%v: median %v, spread %v, want %v and %v", c.runs, v.Median(), v.Spread(), c.median, c.spread)
		}
	}
}

// TestCostSeries: runs that do not agree are repeated, and are no figure in the end.
func TestCostSeries(t *testing.T) {
	series := func(runs ...float64) (*VariantCost, error) {
		v := &VariantCost{}
		i := -1
		return v, v.series(func() (float64, error) { i++; return runs[i%len(runs)], nil }, 2)
	}
	if v, err := series(1000, 1004); err != nil || len(v.Runs) != 2 {
		t.Error(v, err)
	}
	if v, err := series(1000, 1010, 1001, 1002); err != nil || v.Median() != 1001.5 {
		t.Error(v, err)
	}
	if _, err := series(1000, 1010); err == nil || !strings.Contains(err.Error(), "1.0 % apart") {
		t.Error(err)
	}
}

// TestCostShares: of samples that tell nothing, no share is told.
func TestCostShares(t *testing.T) {
	var v VariantCost
	if err := v.share(profile.Stacks{"main;net_rx_action;f;g": 3, "net_rx_action;f": 1, "sendmmsg;g": 9}, []string{"f", "g", "h"}); err != nil {
		t.Fatal(err)
	}
	if v.Shares["f"] != 1 || v.Shares["g"] != 0.75 || v.Shares["h"] != 0 {
		t.Errorf("shares %v", v.Shares)
	}
	if err := v.share(profile.Stacks{"sendmmsg;g": 9}, []string{"g"}); err == nil {
		t.Errorf("shares %v of what the sender does", v.Shares)
	}
}

// TestCostCheck: differences, percentages and shares are compared as the case says.
func TestCostCheck(t *testing.T) {
	r := &CostResult{Variants: []VariantCost{
		{Name: "encap", Runs: []float64{2000}},
		{Name: "l2encap", Runs: []float64{2500.4}, Shares: map[string]float64{"memset": 0.001, "kfree": 0}},
	}}
	number := func(n int) *Quantity { return &Quantity{Exactly: &n} }
	for _, c := range []struct {
		name string
		e    CostExpect
		want string // in the failure
	}{
		{"instructions", CostExpect{Of: "l2encap", Instructions: number(2500)}, ""},
		{"instructions over", CostExpect{Of: "l2encap", Over: "encap", Instructions: number(500)}, ""},
		{"instructions over, wrong", CostExpect{Of: "l2encap", Over: "encap", Instructions: number(501)}, "instructions a packet of l2encap over encap: 500, expected 501"},
		{"percent", CostExpect{Of: "l2encap", Over: "encap", Percent: number(25)}, ""},
		{"share rounded up", CostExpect{Of: "l2encap", Share: "memset", Percent: number(1)}, ""},
		{"share of none", CostExpect{Of: "l2encap", Share: "kfree", Percent: number(0)}, ""},
		{"share of some", CostExpect{Of: "l2encap", Share: "memset", Percent: number(0)}, "in memset: 1, expected 0"},
		{"fixed", CostExpect{Of: "encap", Instructions: &Quantity{Unfixed: number(1), Fixed: number(2000)}}, ""},
		{"fixed, wrong", CostExpect{Of: "encap", Instructions: &Quantity{Unfixed: number(2000), Fixed: number(1)}}, "2000, expected 1 on a kernel that is fixed"},
	} {
		err := (&Cost{Expect: []*CostExpect{&c.e}}).check(r, Fixed)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
