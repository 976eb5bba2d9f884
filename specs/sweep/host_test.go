package sweep

import (
	"os"
	"testing"

	"seg6lab/forwarder/skb"
	"seg6lab/lab/headroom"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// A grid around the edges of the L2 modes. This machine's kernel agrees with the
// model of one kernel at every point, and with those of the others it does not.
func TestHost(t *testing.T) {
	needRoot(t)
	g := Grid{
		Modes: skb.Modes(), Segments: Range{1, 3}, MacLens: []int{14, 18},
		Headroom: Range{76, 96}, Clones: FullGrid().Clones,
	}
	found := measure(t, Options{Grid: g})
	if n := found.Count(Agrees); n != 21*5*3*3 || len(found.OffModel()) > 0 {
		t.Errorf("%d points agree, want %d; off the model: %+v", n, 21*5*3*3, found.OffModel())
	}
	if n := found.Count(Unsupported); n != 21*5*3*3 || found.Info.Withheld[18] == "" {
		t.Errorf("%d points with mac_len 18 are named as not measured, want %d", n, 21*5*3*3)
	}
	g.MacLens, g.Clones, g.Modes = []int{14}, []headroom.Clone{headroom.NotCloned, headroom.HeaderCloned}, []skb.Mode{skb.L2Encap}
	for _, p := range []skb.Profile{{}, {skb.L2Cow}, {skb.L2CowMacLenOnly}} {
		same := fixes(found.Info.Profile) == fixes(p)
		r := measure(t, Options{Grid: g, Profile: &p})
		if agrees := len(r.OffModel()) == 0; agrees != same {
			t.Errorf("the kernel was found to have %s; told %s: %d points off the model", fixes(found.Info.Profile), fixes(r.Info.Profile), len(r.OffModel()))
		}
	}
}

func measure(t *testing.T, o Options) *Report {
	t.Helper()
	r := &Report{Grid: o.Grid}
	err := Run(t.Context(), o,
		func(i Info) error { r.Info = i; return nil },
		func(rs []Result) error { r.Results = append(r.Results, rs...); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return r
}
