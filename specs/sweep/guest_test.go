package sweep

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"seg6lab/forwarder/skb"
	"seg6lab/lab/headroom"
	"seg6lab/lab/kernel"
	"seg6lab/lab/vm"
)

// said is what a guest writes: info, then the results of batches.
func said(t *testing.T, info *Info, batches ...[]Result) string {
	t.Helper()
	var b strings.Builder
	out := json.NewEncoder(&b)
	if err := out.Encode(line{Info: info}); err != nil {
		t.Fatal(err)
	}
	for _, r := range batches {
		if err := out.Encode(line{Results: r}); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// A headroom of 79, then those of 80 and 81 alone, which leave too little for
// the MAC header.
func testGuests(t *testing.T) (*guests, *[]Result) {
	t.Helper()
	var all []Result
	return &guests{
		kernel:  &kernel.Kernel{Spec: "test"},
		options: Options{Grid: Grid{Modes: []skb.Mode{skb.Encap}, Segments: Range{1, 1}, MacLens: []int{18}, Headroom: Range{79, 81}, Clones: []headroom.Clone{headroom.NotCloned}}},
		told:    func(Info) error { return nil },
		results: func(r []Result) error { all = append(all, r...); return nil },
	}, &all
}

func result(room int, v Verdict) []Result {
	return []Result{{Point: Point{skb.Encap, 1, 18, room, headroom.NotCloned}, Verdict: v, Got: &State{}, Why: "why"}}
}

func TestGuestDiesOfAPoint(t *testing.T) {
	g, all := testGuests(t)
	if err := g.read(strings.NewReader(said(t, &Info{}, result(79, Agrees))), func() {}); err != nil {
		t.Fatal(err)
	}
	done, err := g.blame(&vm.Report{Kind: "oops", Line: "Oops: general protection fault"})
	if done || err != nil {
		t.Fatalf("done %v, %v; a point is left", done, err)
	}
	last := (*all)[len(*all)-1]
	if last.Headroom != 80 || last.Verdict != Died || last.Why != "oops: Oops: general protection fault" {
		t.Errorf("blamed %+v, want headroom 80 to have died", last)
	}
	if g.options.Skip != 2 || g.options.Profile == nil {
		t.Errorf("the next guest skips %d points with profile %v, want 2 with that of the first", g.options.Skip, g.options.Profile)
	}
	// This is another guest: what went before has not damaged it.
	g.damaged = false
	if err := g.read(strings.NewReader(said(t, &Info{}, result(81, Differs))), func() {}); err != nil {
		t.Fatal(err)
	}
	if last := (*all)[len(*all)-1]; last.Verdict != Differs || len(g.batches) != 0 {
		t.Errorf("%+v, %d batches left; want a difference and the end", last, len(g.batches))
	}
}

// What a damaged kernel does otherwise than the model is no result.
func TestDamagedGuestIsNotTrusted(t *testing.T) {
	g, all := testGuests(t)
	err := g.read(strings.NewReader(said(t, &Info{}, result(79, Agrees), result(80, Agrees), result(81, Differs))), func() {})
	if !errors.Is(err, errAgain) || len(*all) != 2 {
		t.Errorf("error %v, results %+v; want %v after two", err, *all, errAgain)
	}
	if done, err := g.blame(&vm.Report{Kind: "oops"}); done || err != nil || len(*all) != 2 || g.options.Skip != 2 {
		t.Errorf("done %v, %v, %d results; want the point again", done, err, len(*all))
	}
}

func TestGuestOutOfOrder(t *testing.T) {
	g, _ := testGuests(t)
	if err := g.read(strings.NewReader(said(t, &Info{}, result(80, Agrees))), func() {}); err == nil {
		t.Error("a point that was not next was taken")
	}
}

// Damage done by the last points shows later, or never: the results stand. A
// kernel that dies unharmed is another matter.
func TestGuestDiesAfterTheLastPoint(t *testing.T) {
	g, _ := testGuests(t)
	if err := g.read(strings.NewReader(said(t, &Info{}, result(79, Agrees), result(80, Agrees), result(81, Agrees))), func() {}); err != nil {
		t.Fatal(err)
	}
	if done, err := g.blame(errors.New("gone")); !done || err != nil {
		t.Errorf("damaged guest: done %v, %v; want its results to stand", done, err)
	}
	g.damaged = false
	if _, err := g.blame(errors.New("gone")); err == nil {
		t.Error("a sound kernel died without an error")
	}
}

func TestGuestLacksSomething(t *testing.T) {
	g, _ := testGuests(t)
	err := g.read(strings.NewReader(`{"Unsupported":"no tcx"}`), func() {})
	if !errors.Is(err, ErrUnsupported) || err.Error() != "no tcx" || g.failed != err {
		t.Errorf("error %v, kept %v; want what the guest said, as %v", err, g.failed, ErrUnsupported)
	}
}
